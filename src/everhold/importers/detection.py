"""Recognise the system or the format of an input by its content."""

import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from everhold.errors import InvalidInput, UnreadableFile
from everhold.importers.files import ForeignFiles
from everhold.importers.json_outline import parse_outline
from everhold.importers.source import ImportSource, Sample
from everhold.importers.sources import SOURCES
from everhold.importers.sources.exports import is_conversations_file
from everhold.model.validation import suggest_name

_LINES = 5
_SURE = 0.5


def find_source(files: ForeignFiles, name: str | None = None) -> ImportSource | None:
    """Return the source with this name, or without a name the source that recognises the input best.

    None if no source recognises the input; InvalidInput if there is no source with this name.
    """
    if name is not None:
        by_name = {source.name: source for source in SOURCES}
        if name not in by_name:
            raise InvalidInput(f"no source {name!r}", value=name, remedy=suggest_name(name, by_name))
        # The content of a JSON file may be ambiguous, but the names of tables or files are not.
        has_names = files.is_folder or files.is_archive or files.is_database()
        if has_names and not by_name[name].detect(take_sample(files)):
            raise InvalidInput(
                f"{files.path.name} is not {by_name[name].description}",
                value=name,
                remedy="import it without naming a source, which is then recognised by the content",
            )
        return by_name[name]
    sample = take_sample(files)
    # `max` returns the first of equals, so the order of SOURCES decides.
    confidence, source = max(((source.detect(sample), source) for source in SOURCES), key=lambda pair: pair[0])
    return source if confidence >= _SURE else None


def take_sample(files: ForeignFiles) -> Sample:
    """Return the beginning of an input."""
    name = files.path.name
    if files.is_folder or files.is_archive:
        members = files.members
        tables: dict[str, Sequence[str]] = {}
        for member in members if files.is_folder else ():
            if Path(member).suffix in (".db", ".sqlite", ".sqlite3") and files.is_database(member):
                tables |= _read_columns(files, member)
        conversations = next(filter(is_conversations_file, members), None)
        head = _decode(files.read_head(conversations)) if conversations else None
        texts = [member for member in members if Path(member).suffix == ".txt"]
        text = _decode(files.read_head(texts[0])) if len(texts) == 1 and not conversations else None
        return Sample(name, text, parse_outline(head) if head else None, members=members, tables=tables)
    if files.is_database():
        return Sample(name, tables=_read_columns(files, ""))
    head = _decode(files.read_head())
    if head is None:
        return Sample(name)
    return Sample(name, head, parse_outline(head) if head.lstrip()[:1] in ("{", "[") else None, _parse_lines(head))


def _read_columns(files: ForeignFiles, member: str) -> dict[str, Sequence[str]]:
    try:
        with files.open_database(member) as tables:
            return dict(tables.columns)
    except UnreadableFile:
        if member:
            return {}
        raise


def _decode(head: bytes) -> str | None:
    """Return the text of a file's first bytes; None if it is not UTF-8. The last character may be incomplete."""
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        return None


def _parse_lines(head: str) -> list[Any]:
    lines = [line for line in head.split("\n") if line.strip()][:_LINES]
    if not lines or lines[0].lstrip()[:1] != "{":
        return []
    return [parse_outline(line) for line in lines]
