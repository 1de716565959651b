"""Find the sources of an input: they recognise the system, or the format, by its content."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from everhold.errors import InvalidInput
from everhold.importers.files import ForeignFiles
from everhold.importers.samples import DATABASES, take_sample
from everhold.importers.source import ImportSource, LeftOut, Sample
from everhold.importers.sources import SOURCES
from everhold.model.validation import suggest_name

_MIN_CONFIDENCE = 0.5
# The files of a folder that sources are asked about. Others, such as pictures, belong to no system.
_SUFFIXES = (*DATABASES, ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".sql", ".af")
_MAX_NAMED = 20


class FoundParts(NamedTuple):
    """The files of an input by the sources that know them, and the files that none knows."""

    parts: Sequence[tuple[ImportSource, ForeignFiles]]
    unknown: Sequence[LeftOut] = ()


def find_parts(files: ForeignFiles, name: str | None = None) -> FoundParts:
    """Return what the sources know of an input: one part for a file, and any number for a folder or archive.

    With a name, only that source is used. Raise InvalidInput if there is none of that name, or if it knows nothing of a
    folder, an archive or a database.
    """
    sources = SOURCES if name is None else (_get_source(name),)
    if not files.is_folder and not files.is_archive:
        # The content of a single file may be ambiguous, so the caller decides. Tables of a database are not ambiguous.
        if name is not None and not files.is_database():
            return FoundParts([(sources[0], files)])
        source = _choose_source(sources, take_sample(files))
        parts = FoundParts([] if source is None else [(source, files)])
    else:
        parts = _find_members(files, sources)
    if name is not None and not parts.parts:
        raise InvalidInput(
            f"{files.path.name} is not {sources[0].description}",
            value=name,
            remedy="import it without naming a source; it is detected from its content",
        )
    return parts


def _get_source(name: str) -> ImportSource:
    by_name = {source.name: source for source in SOURCES}
    if name not in by_name:
        raise InvalidInput(f"no source {name!r}", value=name, remedy=suggest_name(name, by_name))
    return by_name[name]


def _choose_source(sources: Sequence[ImportSource], sample: Sample) -> ImportSource | None:
    """Return the source that knows an input best; None if none knows it."""
    # `max` returns the first of equals, so the order of SOURCES decides.
    scores = [(source.detect(sample), source) for source in sources]
    confidence, source = max(scores, key=lambda pair: pair[0], default=(0.0, None))
    return source if confidence >= _MIN_CONFIDENCE else None


def _find_members(files: ForeignFiles, sources: Sequence[ImportSource]) -> FoundParts:
    """Return the source that reads the files of a folder together, and then the sources of the other files."""
    sample = take_sample(files)
    group_source = _choose_source([source for source in sources if source.find_members is not None], sample)
    claimed: set[str] = set()
    parts: list[tuple[ImportSource, ForeignFiles]] = []
    if group_source is not None and group_source.find_members is not None:
        parts.append((group_source, files))
        claimed.update(group_source.find_members(sample))
    unknown = []
    for member in files.members:
        if member in claimed or _is_beside_data(member):
            continue
        member_files = files.narrow(member)
        may_be_data = PurePath(member).suffix.lower() in _SUFFIXES or files.has_database_mark(member)
        source = _choose_source(sources, take_sample(member_files)) if may_be_data else None
        if source is None:
            unknown.append(member)
        else:
            parts.append((source, member_files))
    # SOURCES are in an order in which sessions are read before the rows that name them.
    parts.sort(key=lambda part: SOURCES.index(part[0]))
    return FoundParts(parts, list(_report_unknown(files, unknown)))


def _is_beside_data(member: str) -> bool:
    """Return whether a file belongs to the operating system, to an earlier import, or to a database beside it."""
    path = PurePath(member)
    is_hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.parts)
    return is_hidden or path.name.endswith(("-wal", "-shm", "-journal", ".quarantine.jsonl"))


def _report_unknown(files: ForeignFiles, members: Sequence[str]) -> Iterator[LeftOut]:
    suffixes = Counter(PurePath(member).suffix.lower() for member in members)
    for member in members:
        suffix = PurePath(member).suffix.lower()
        if files.is_archive and files.has_database_mark(member):
            yield LeftOut("files", f"{member} is a database in an archive; unpack it, and import the folder")
        elif suffixes[suffix] <= _MAX_NAMED:
            yield LeftOut("files", f"{member} is not a file of a known system")
        else:
            yield LeftOut("files", f"files named *{suffix} are not those of a known system")
