"""A third-party store, as an example: one file, to which every commit adds a line.

A line holds the changes of one commit and a checksum. If a crash cut a line short, the line does not count as a commit.
Opening the file reads all rows into memory. The example has only what a store must have.
"""

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from everhold.errors import StoreDamaged
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.catalog import ENTITIES, TABLES, get_key
from everhold.schema.operations import Traits
from everhold.schema.plain_records import PlainRecords
from everhold.schema.planning import RowChange
from everhold.schema.rows import Rows
from everhold.schema.table import Table

TRAITS = Traits(name="plain_file", words="portable", vectors="portable", commit_limit=100_000)


def open_store(storage: str) -> Records:
    """Open a store by its address; the entry point names this function. `plain-file:///a.log` opens the file a.log."""
    return PlainFileRecords(Path(unquote(urlsplit(storage).path).removeprefix("/")))


class PlainFileRecords(PlainRecords):
    """Keeps rows in memory, and every change of a row in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(TRAITS)
        self._path = path
        self._rows = Rows()
        self._last_numbers: dict[str, int] = {}
        end = self._replay(path.read_bytes() if path.exists() else b"")
        self._file = path.open("ab")
        self._file.truncate(end)

    def _read_rows(self, table: Table) -> list[Row]:
        return self._rows.list_rows(table)

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        return self._rows.find_rows(table, values)

    def _generate_number(self, table: Table) -> int:
        self._last_numbers[table.name] = self._last_numbers.get(table.name, 0) + 1
        return self._last_numbers[table.name]

    def _apply_changes(self, changes: Sequence[RowChange]) -> None:
        line = _encode_line(changes, self._last_numbers)
        end = self._file.tell()
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(end)
            raise
        self._apply(changes)

    def _apply(self, changes: Sequence[RowChange]) -> None:
        for change in changes:
            self._rows.set(change.table, change.key, change.after)

    def _release(self) -> None:
        self._file.close()

    def maintain(self, *, erased: bool = False) -> bool:
        """Rewrite the file without the rows that were changed or deleted."""
        self._require_open()
        changes = [
            RowChange(table, get_key(row), None, row) for table in TABLES.values() for row in self._read_rows(table)
        ]
        rewritten = self._path.with_name(f"{self._path.name}.new")
        with self._lock, rewritten.open("wb") as file:
            file.write(_encode_line(changes, self._last_numbers))
            file.flush()
            os.fsync(file.fileno())
            self._file.close()
            rewritten.replace(self._path)
            self._file = self._path.open("ab")
        return True

    def _replay(self, content: bytes) -> int:
        """Apply every complete line, and return the position after the last one."""
        end = 0
        for line in content.splitlines(keepends=True):
            checksum, _, body = line.rstrip(b"\n").partition(b" ")
            if not line.endswith(b"\n") or checksum != _compute_checksum(body):
                if end + len(line) < len(content):
                    raise StoreDamaged(f"{self._path} is damaged at byte {end}; restore it from a backup")
                break
            commit = json.loads(body)
            self._apply([_decode_change(change) for change in commit["changes"]])
            self._last_numbers.update(commit["drawn"])
            end += len(line)
        return end


def _encode_line(changes: Sequence[RowChange], last_numbers: Mapping[str, int]) -> bytes:
    """Return the line of one commit; `last_numbers` has the last number that was drawn for each table."""
    body = json.dumps({"changes": [_encode_change(change) for change in changes], "drawn": last_numbers}).encode()
    return _compute_checksum(body) + b" " + body + b"\n"


def _compute_checksum(body: bytes) -> bytes:
    return f"{zlib.crc32(body):08x}".encode()


def _encode_change(change: RowChange) -> list[Any]:
    row = change.after if change.after is not None else change.before
    assert row is not None
    return [change.table.name, row.model_dump(mode="json"), change.after is not None]


def _decode_change(encoded: list[Any]) -> RowChange:
    table_name, values, is_stored = encoded
    table = TABLES[table_name]
    row = ENTITIES[table_name].model_validate_json(json.dumps(values))
    return RowChange(table, get_key(row), None, row if is_stored else None)
