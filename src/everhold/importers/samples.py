"""Take samples of inputs: their beginnings, by which their sources are recognised."""

import codecs
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from everhold.errors import UnreadableFile
from everhold.importers.files import ForeignFiles
from everhold.importers.json_outline import parse_outline
from everhold.importers.source import Sample
from everhold.json_streams import parse_line

DATABASES = (".db", ".sqlite", ".sqlite3")
_MAX_LINES = 5
_CONVERSATIONS = "conversations"


def is_conversations_file(member: str) -> bool:
    """Return whether a file has the name of an export's conversations; large exports have several, with numbers."""
    path = PurePath(member)
    return path.suffix == ".json" and path.stem.split("-")[0] == _CONVERSATIONS


def take_sample(files: ForeignFiles) -> Sample:
    """Return the beginning of an input."""
    name = files.path.name
    if files.is_folder or files.is_archive:
        return _take_folder_sample(files)
    if files.is_database():
        return Sample(name, tables=_read_columns(files, ""))
    head = _decode(files.read_head())
    if head is None:
        return Sample(name)
    return Sample(name, head, parse_outline(head) if head.lstrip()[:1] in ("{", "[") else None, _parse_lines(head))


def _take_folder_sample(files: ForeignFiles) -> Sample:
    members = files.members
    databases: dict[str, dict[str, Sequence[str]]] = {}
    for member in members if files.is_folder else ():
        if PurePath(member).suffix in DATABASES and files.is_database(member):
            databases[member] = _read_columns(files, member)
    tables = {name: columns for database in databases.values() for name, columns in database.items()}
    conversations = next(filter(is_conversations_file, members), None)
    head = _decode(files.read_head(conversations)) if conversations else None
    texts = [member for member in members if PurePath(member).suffix == ".txt"]
    text = _decode(files.read_head(texts[0])) if len(texts) == 1 and not conversations else None
    outline = parse_outline(head) if head else None
    return Sample(files.path.name, text, outline, members=members, tables=tables, databases=databases)


def _read_columns(files: ForeignFiles, member: str) -> dict[str, Sequence[str]]:
    try:
        with files.open_database(member) as tables:
            return dict(tables.columns)
    except UnreadableFile:
        if member:
            return {}
        raise


def _decode(head: bytes) -> str | None:
    """Return the text of a head; None if it is not UTF-8. The last character may be cut off."""
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        return None


def _parse_lines(head: str) -> list[Any]:
    lines = [line for line in head.split("\n") if line.strip()][:_MAX_LINES]
    if not lines or lines[0].lstrip()[:1] != "{":
        return []
    # A line that is not a whole object is a part of one that spans several lines, unless the head ends inside it.
    outlines = [parse_outline(line) for line in lines if _is_object(line) or line == head]
    return [outline for outline in outlines if outline is not None]


def _is_object(line: str) -> bool:
    try:
        return isinstance(parse_line(line), dict)
    except ValueError:
        return False
