"""The tables of a plain dump of PostgreSQL, whose rows stand between COPY … FROM stdin; and a line with \\."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from everhold.importers.files import ForeignFiles

_COPY = re.compile(r'COPY (?:"?\w+"?\.)?"?(?P<table>\w+)"? \((?P<columns>[^)]*)\) FROM stdin;')
_END = "\\."
_ESCAPED = re.compile(r"\\(.)")
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class DumpTables:
    """The tables of a dump, used like a database. Rows come in the order of the dump."""

    files: ForeignFiles
    columns: Mapping[str, Sequence[str]]

    def read_rows(self, table: str, order: Sequence[str] = ()) -> Iterator[Mapping[str, Any]]:
        for name, line in _iterate_lines(self.files):
            if name == table and line is not None:
                cells = [_read_cell(cell) for cell in line.split("\t")]
                columns = self.columns[table]
                yield dict(zip(columns, cells, strict=True)) if len(cells) == len(columns) else {"": line}

    def count_rows(self, table: str) -> int:
        return sum(1 for _ in self.read_rows(table))


def open_dump(files: ForeignFiles) -> DumpTables:
    """Open a dump as tables."""
    columns = {}
    for _, line in files.read_lines():
        if copy := _COPY.match(line):
            columns[copy["table"]] = [name.strip().strip('"') for name in copy["columns"].split(",")]
    return DumpTables(files, columns)


def list_dumped_tables(head: str) -> list[str]:
    """Return the names of the tables at the beginning of a dump."""
    return [copy["table"] for copy in _COPY.finditer(head)]


def _iterate_lines(files: ForeignFiles) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of rows with the names of their tables."""
    table: str | None = None
    for _, line in files.read_lines():
        text = line.rstrip("\r\n")
        if table is None:
            copy = _COPY.match(text)
            table = copy["table"] if copy else None
        elif text == _END:
            table = None
        else:
            yield table, text


def _read_cell(cell: str) -> str | None:
    if cell == "\\N":
        return None
    return _ESCAPED.sub(lambda match: _CONTROLS.get(match[1], match[1]), cell)
