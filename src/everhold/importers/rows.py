"""Read the rows of files that contain one table: JSON, JSON lines, CSV, or a SQLite database."""

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple, TextIO

from everhold.errors import InvalidInput
from everhold.importers.files import ForeignFiles
from everhold.importers.postgres_dumps import open_dump
from everhold.importers.source import Sample
from everhold.json_streams import JsonStream, open_text, parse_line
from everhold.ports.foreign_tables import ForeignTables

_TABLE_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
_DELIMITERS = ",;\t|"
# The default limit of the csv module is 128 KB, and texts may be longer. The limit also stops at an unclosed quotation
# mark.
_MAX_CELL = 4_000_000
_MAX_MEMBERS = 10_000


class FileRow(NamedTuple):
    """One row of a file. If it is not an object, `fields` is None and `reason` says why."""

    place: str
    fields: dict[str, Any] | None
    reason: str = ""
    value: Any = None
    table: str = ""


def iterate_rows(files: ForeignFiles, fields: Collection[str] = (), member: str = "") -> Iterator[FileRow]:
    """Yield the rows of a file: JSON, JSON lines, CSV or SQLite.

    JSON may be a list, a single object, an object of objects or of lists, or several of these one after the other. An
    object whose members have names of `fields` is a row.
    """
    if files.is_database(member):
        yield from _iterate_database(files, member)
        return
    first_byte = files.read_head(member).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if first_byte == b"[" or (first_byte == b"{" and not has_json_lines(files, member)):
        yield from _iterate_json(files, fields, member)
    elif first_byte == b"{":
        yield from iterate_json_lines(files, member)
    else:
        yield from iterate_csv(files, member)


def list_sample_rows(sample: Sample) -> list[Mapping[str, Any]]:
    """Return the first rows of a file that are complete in the sample."""
    outline = sample.outline
    if len(sample.lines) > 1 or (sample.lines and not isinstance(outline, dict)):
        return [line for line in sample.lines if isinstance(line, dict)]
    if isinstance(outline, list):
        return [item for item in outline[:5] if isinstance(item, dict)]
    if isinstance(outline, dict):
        nested_objects = [value for value in outline.values() if isinstance(value, dict)][:5]
        lists = [value[:2] for value in outline.values() if isinstance(value, list)][:10]
        return [outline, *nested_objects, *(item for items in lists for item in items if isinstance(item, dict))]
    if sample.tables:
        return [dict.fromkeys(columns) for columns in sample.tables.values()]
    header = (sample.head or "").split("\n", 1)[0]
    return [dict.fromkeys(_split_header(header))] if header.strip() else []


def _split_header(line: str) -> list[str]:
    return next(csv.reader([line.strip()], delimiter=_find_delimiter(line)), [])


def _find_delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


def has_json_lines(files: ForeignFiles, member: str = "") -> bool:
    """Return whether the first line is a whole object and something follows it."""
    lines = files.read_head(member).split(b"\n", 1)
    try:
        return isinstance(parse_line(lines[0].decode("utf-8-sig")), dict) and (
            (len(lines) > 1 and bool(lines[1].strip())) or (member or files.path.name).endswith((".jsonl", ".ndjson"))
        )
    except ValueError:
        return False


def _iterate_json(files: ForeignFiles, fields: Collection[str], member: str) -> Iterator[FileRow]:
    with files.open_json(member) as stream:
        while stream.peek():
            if stream.peek() == "[":
                yield from _iterate_list(stream)
            else:
                yield from _iterate_object(stream, fields)


def _iterate_list(stream: JsonStream, name: str = "") -> Iterator[FileRow]:
    for index in stream.iterate_items():
        yield _make_row(f"{name}[{index}]", stream.read_value(), name)


def _iterate_object(stream: JsonStream, fields: Collection[str]) -> Iterator[FileRow]:
    """Yield an object that is a row, or the rows that it holds by their ids or in lists. Its first member decides
    which."""
    row_fields: dict[str, Any] = {}
    for name in stream.iterate_members():
        if row_fields or name in fields or stream.peek() not in ("{", "["):
            row_fields[name] = stream.read_value()
            if len(row_fields) > _MAX_MEMBERS:
                raise InvalidInput("the object has too many members", remedy="write a list of objects")
        elif stream.peek() == "[":
            yield from _iterate_list(stream, name)
        else:
            yield _make_row(f"{name!r:.80}", {"_key": name, **stream.read_value()})
    if row_fields:
        yield _make_row("the object", row_fields)


def iterate_json_lines(files: ForeignFiles, member: str = "") -> Iterator[FileRow]:
    """Yield the objects of JSON lines."""
    for number, line in files.read_lines(member):
        try:
            yield _make_row(f"line {number}", parse_line(line))
        except ValueError as error:
            yield FileRow(f"line {number}", None, str(error), line[:1000])


def iterate_csv(files: ForeignFiles, member: str = "") -> Iterator[FileRow]:
    """Yield the rows of a CSV file by the names in its first line."""
    csv.field_size_limit(_MAX_CELL)
    with files.open(member) as file, open_text(file) as text:
        try:
            header_line = text.readline(_MAX_CELL)
            names = [name.strip() for name in _split_header(header_line)]
            lines = _iterate_lines(text, files.path.name)
            reader = csv.reader(lines, delimiter=_find_delimiter(header_line), strict=True)
            for number, cells in enumerate(reader, 2):
                if not cells:
                    continue
                if len(cells) != len(names):
                    reason = f"the row has {len(cells)} cells, and the header {len(names)}"
                    yield FileRow(f"row {number}", None, reason, cells)
                else:
                    fields = {name: cell for name, cell in zip(names, cells, strict=True) if cell != ""}
                    yield FileRow(f"row {number}", fields)
        except UnicodeDecodeError as error:
            name = files.path.name
            raise InvalidInput(f"{name} is not UTF-8: {error.reason}", remedy="convert the file to UTF-8") from None
        except csv.Error as error:
            raise InvalidInput(f"{files.path.name} is not CSV: {error}", remedy="correct the file") from None


def _iterate_lines(text: TextIO, name: str) -> Iterator[str]:
    """Yield the lines of a file. A line that is too long raises an error before it is read completely."""
    while line := text.readline(_MAX_CELL + 1):
        if len(line) > _MAX_CELL:
            raise InvalidInput(f"a line of {name} has more than {_MAX_CELL:,} characters", remedy="split the file")
        yield line


def _iterate_database(files: ForeignFiles, member: str) -> Iterator[FileRow]:
    with files.open_database(member) as tables:
        for table in tables.columns:
            for number, row in enumerate(tables.read_rows(table), 1):
                yield FileRow(f"{table} row {number}", dict(row), table=table)


def _make_row(place: str, value: Any, table: str = "") -> FileRow:
    if isinstance(value, dict):
        return FileRow(place, value, table=table)
    return FileRow(place, None, "the row is not an object", value)


@dataclass(frozen=True)
class JsonTables:
    """A JSON object of lists of objects, used like a database. Rows come in the order of the file."""

    files: ForeignFiles
    columns: Mapping[str, Sequence[str]]

    def read_rows(self, table: str, order: Sequence[str] = ()) -> Iterator[Mapping[str, Any]]:
        with self.files.open_json() as stream:
            for name in stream.iterate_members():
                if name != table or stream.peek() != "[":
                    stream.skip_value()
                    continue
                for _ in stream.iterate_items():
                    value = stream.read_value()
                    yield value if isinstance(value, dict) else {"": value}

    def count_rows(self, table: str) -> int:
        return sum(1 for _ in self.read_rows(table))


@dataclass(frozen=True)
class FileTables:
    """Files of one table each, used like a database. Rows come in the order of their file."""

    files: ForeignFiles
    members: Mapping[str, str]
    """The file of each table; "" for the input itself."""

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        return dict.fromkeys(self.members, ())

    def read_rows(self, table: str, order: Sequence[str] = ()) -> Iterator[Mapping[str, Any]]:
        for row in iterate_rows(self.files, member=self.members[table]):
            yield {"": row.value} if row.fields is None else row.fields

    def count_rows(self, table: str) -> int:
        return sum(1 for _ in self.read_rows(table))


def list_table_files(members: Sequence[str]) -> dict[str, str]:
    """Return the files of a folder or archive that may hold a table, by the names of their tables."""
    paths = [PurePath(member) for member in members]
    return {
        path.stem.removeprefix("public."): member
        for path, member in zip(paths, members, strict=True)
        if path.suffix.lower() in _TABLE_SUFFIXES
    }


@contextmanager
def open_tables(files: ForeignFiles, table: str | None) -> Iterator[ForeignTables]:
    """Open a SQLite database, a JSON object of lists, a dump of PostgreSQL, or files of one table each as tables.

    `table` is the name of the only table in a file that has one; None if the file names its tables.
    """
    if files.is_database():
        with files.open_database() as tables:
            yield tables
        return
    if files.members:
        yield FileTables(files, list_table_files(files.members))
        return
    if table is not None:
        yield FileTables(files, {table: ""})
        return
    if files.read_head().removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
        yield open_dump(files)
        return
    with files.open_json() as stream:
        names = []
        for name in stream.iterate_members():
            names.append(name)
            stream.skip_value()
        stream.require_end()
    yield JsonTables(files, dict.fromkeys(names, ()))
