"""A snapshot of all rows of a SQLite file: a read transaction on a separate connection."""

import sqlite3
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from everhold.adapters.sqlite.connection import SqliteOptions, translate_errors
from everhold.adapters.sqlite.tracking import name_row_number, read_epoch, read_touched
from everhold.model.base import Row
from everhold.schema.catalog import get_table
from everhold.schema.plain_values import PlainRow
from everhold.schema.snapshots import ChangedRows, RowBatch
from everhold.schema.sql import quote, quote_names

_BATCH = 1000  # keys fetched at once, and row numbers bound in one query
# Rows fetched at once: few enough to stay in the processor's cache until they are packed.
_FETCH_ROWS = 200
_drop_last = itemgetter(slice(None, -1))
_LAST_SEQUENCE = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'outbox'"


class SqliteSnapshot:
    """The rows that a connection in a read transaction sees. SQLite stores values in their plain form."""

    def __init__(self, reader: sqlite3.Connection, options: SqliteOptions) -> None:
        self._reader, self._options = reader, options
        with translate_errors(options):
            reader.execute("BEGIN")
            self.sequence = int(reader.execute(_LAST_SEQUENCE).fetchone()[0])
            self._epoch = read_epoch(reader)

    @property
    def mark(self) -> str:
        return "" if self._epoch is None else self._epoch.mark

    def count(self, entity: type[Row]) -> int:
        with translate_errors(self._options):
            return int(self._reader.execute(f"SELECT count(*) FROM {quote(get_table(entity).name)}").fetchone()[0])

    def read(self, entity: type[Row]) -> Iterator[RowBatch]:
        return self._read_batches(entity, "", ())

    def read_keys(self, entity: type[Row]) -> Iterator[Sequence[PlainRow]]:
        table = get_table(entity)
        with translate_errors(self._options):
            cursor = self._reader.execute(f"SELECT {quote_names(table.key)} FROM {quote(table.name)}")
            while rows := cursor.fetchmany(_BATCH):
                yield rows

    def read_changes(self, entity: type[Row], mark: str) -> ChangedRows | None:
        since = None if self._epoch is None else self._epoch.find_since(mark)
        if since is None:
            return None
        with translate_errors(self._options):
            touched = read_touched(self._reader, get_table(entity), since)
        return ChangedRows(self._read_rows(entity, touched), touched)

    def _read_rows(self, entity: type[Row], numbers: Sequence[int]) -> Iterator[RowBatch]:
        column = quote(name_row_number(get_table(entity)))
        for start in range(0, len(numbers), _BATCH):
            batch = numbers[start : start + _BATCH]
            placeholders = ", ".join("?" * len(batch))
            yield from self._read_batches(entity, f" WHERE {column} IN ({placeholders})", batch)

    def _read_batches(self, entity: type[Row], where: str, values: Sequence[Any]) -> Iterator[RowBatch]:
        table = get_table(entity)
        number = name_row_number(table)
        # Not every table lists its row number among its columns. Then it is read as the last column and removed again.
        names = table.names if number in table.by_name else (*table.names, number)
        sql = f"SELECT {quote_names(names)} FROM {quote(table.name)}{where}"
        get_number = itemgetter(names.index(number))
        with translate_errors(self._options):
            cursor = self._reader.execute(sql, values)
            while rows := cursor.fetchmany(_FETCH_ROWS):
                numbers = [*map(get_number, rows)]
                yield RowBatch(rows if names is table.names else [*map(_drop_last, rows)], numbers)
