"""A snapshot of all rows of a SQLite file: a read transaction on a separate connection."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from everhold.adapters.sqlite.connection import SqliteOptions, translate_errors
from everhold.adapters.sqlite.tracking import name_row_number, read_epoch, read_touched
from everhold.interrupts import uninterrupted
from everhold.model.base import Row
from everhold.schema.catalog import get_table
from everhold.schema.plain_values import PlainRow
from everhold.schema.snapshots import ChangedRows, CollectRow, RowBatch
from everhold.schema.sql import quote, quote_names

_BATCH = 1000  # keys fetched at once, and row numbers bound in one query
_COLLECTED_ROWS = 200  # rows in a batch
_LAST_SEQUENCE = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'outbox'"


class SqliteSnapshot:
    """The rows that a connection in a read transaction sees. SQLite stores values in their plain form."""

    def __init__(self, reader: sqlite3.Connection, options: SqliteOptions) -> None:
        self._reader, self._options = reader, options
        self._queries: dict[str, sqlite3.Cursor] = {}
        with translate_errors(options):
            reader.execute("BEGIN")
            self.sequence = int(reader.execute(_LAST_SEQUENCE).fetchone()[0])
            self._epoch = read_epoch(reader)

    def close(self) -> None:
        """End the read transaction, and remove the functions of the queries from the connection."""
        for cursor in self._queries.values():
            cursor.close()
        self._reader.rollback()
        for name in self._queries:
            self._reader.create_function(name, -1, None)

    @property
    def mark(self) -> str:
        return "" if self._epoch is None else self._epoch.mark

    def count(self, entity: type[Row]) -> int:
        with translate_errors(self._options):
            return int(self._reader.execute(f"SELECT count(*) FROM {quote(get_table(entity).name)}").fetchone()[0])

    def read(self, entity: type[Row], collect: CollectRow) -> Iterator[RowBatch]:
        return self._read_batches(entity, "", (), collect)

    def read_keys(self, entity: type[Row]) -> Iterator[Sequence[PlainRow]]:
        table = get_table(entity)
        with translate_errors(self._options):
            cursor = self._reader.execute(f"SELECT {quote_names(table.key)} FROM {quote(table.name)}")
            while rows := cursor.fetchmany(_BATCH):
                yield rows

    def read_changes(self, entity: type[Row], mark: str, collect: CollectRow) -> ChangedRows | None:
        since = None if self._epoch is None else self._epoch.find_since(mark)
        if since is None:
            return None
        with translate_errors(self._options):
            row_numbers = read_touched(self._reader, get_table(entity), since)
        return ChangedRows(self._read_rows(entity, row_numbers, collect), row_numbers)

    def _read_rows(self, entity: type[Row], numbers: Sequence[int], collect: CollectRow) -> Iterator[RowBatch]:
        column = quote(name_row_number(get_table(entity)))
        batches = [numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH)]
        for batch in batches:
            placeholders = ", ".join("?" * len(batch))
            yield from self._read_batches(entity, f" WHERE {column} IN ({placeholders})", batch, collect)

    def _read_batches(
        self, entity: type[Row], where: str, values: Sequence[Any], collect: CollectRow
    ) -> Iterator[RowBatch]:
        """Collect rows inside a query, by a function that the query calls.

        This takes two thirds of the time of fetching the rows: SQLite locks the connection for each value fetched, and
        not for the arguments of a function.
        """
        table = get_table(entity)
        numbers: list[int] = []

        def collect_row(number: int, *row: Any) -> None:
            numbers.append(number)
            collect(row)

        # A query that was not read to its end still uses its function, so each query has a function of its own.
        name = f"collect_{len(self._queries)}"
        names = quote_names((name_row_number(table), *table.names))
        with translate_errors(self._options):
            self._reader.create_function(name, -1, collect_row)
            cursor = self._reader.execute(f"SELECT {name}({names}) FROM {quote(table.name)}{where}", values)
            self._queries[name] = cursor
            while self._fetch_batch(cursor):
                yield RowBatch(len(numbers), [*numbers])
                numbers.clear()

    def _fetch_batch(self, cursor: sqlite3.Cursor) -> bool:
        """Return whether there were more rows."""
        with uninterrupted:  # SQLite turns an interrupt inside a function into an error of its own
            return bool(cursor.fetchmany(_COLLECTED_ROWS))
