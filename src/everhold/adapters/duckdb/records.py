"""A store of record in one DuckDB file, which one process owns.

DuckDB has no cascades and no partial unique indexes, and it rejects a key that the same transaction has deleted. So its
tables have columns but no constraints; a commit is planned in Python, by one writer at a time, and applied in one
transaction. Readers have a cursor per thread and never wait.
"""

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import duckdb

from everhold.adapters.duckdb import writing
from everhold.adapters.duckdb.connection import Database, DuckdbOptions, keep_private
from everhold.adapters.duckdb.dialect import DUCKDB
from everhold.adapters.duckdb.schema import READ_NUMBERS, SAVE_NUMBER, prepare
from everhold.errors import StoreReadOnly
from everhold.interrupts import GuardedLock, uninterrupted
from everhold.model import Outbox
from everhold.model.base import Row
from everhold.schema.catalog import ENTITIES, TABLES, get_table
from everhold.schema.operations import Feed, Operation, SettledLines, Traits
from everhold.schema.planning import plan
from everhold.schema.prefetch import Prefetch, find_problems_in_batches
from everhold.schema.rows import Key
from everhold.schema.rules import check_size
from everhold.schema.snapshots import UntrackedSnapshot
from everhold.schema.sql import quote, quote_names
from everhold.schema.sql_records import COMMIT_LIMIT, SqlRecords
from everhold.schema.statements import SqlStatement
from everhold.schema.table import Table

_OUTBOX = get_table(Outbox).name
_STREAMED_ROWS = 2048  # rows that a stream fetches at once


class DuckdbRecords(SqlRecords):
    """Records in a DuckDB file."""

    def __init__(self, options: DuckdbOptions) -> None:
        super().__init__(DUCKDB)
        self.options = options
        self._write_lock = GuardedLock()
        self._local = threading.local()
        self._numbers: dict[str, int] = {}
        database: Database | None = None
        try:
            with uninterrupted:
                database = self._database = Database(options)
                with database, database.cursor() as cursor:
                    prepare(cursor, options)
                    self._numbers = dict(cursor.execute(READ_NUMBERS).fetchall())
        except BaseException:  # also a deferred interrupt: no other code could close the file
            if database is not None:
                database.close()
            raise
        self._saved_numbers = dict(self._numbers)
        self._head = self._numbers[_OUTBOX]

    @property
    def traits(self) -> Traits:
        return Traits(
            name="duckdb",
            words="portable",
            vectors="portable",
            commit_limit=COMMIT_LIMIT,
            details={"file": str(self.options.path), "duckdb": duckdb.__version__},
        )

    # reading

    def _fetch(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with uninterrupted, self._database:
            generation, cursor = getattr(self._local, "cursor", (-1, None))
            if cursor is None or generation != self._database.generation:
                cursor = self._database.cursor()
                self._local.cursor = (self._database.generation, cursor)
            return cursor.execute(sql, values).fetchall()

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield rows on a separate cursor: on the thread's cursor, the next query would discard a half-read result."""
        with uninterrupted, self._database:
            cursor = self._database.begin_stream()
        try:
            with cursor:
                with uninterrupted, self._database:
                    cursor.execute(sql, values)
                while True:
                    with uninterrupted, self._database:
                        rows = cursor.fetchmany(_STREAMED_ROWS)
                    if not rows:
                        return
                    yield from rows
        finally:
            with uninterrupted:
                self._database.end_stream()

    def query(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query in DuckDB's own SQL."""
        return self._fetch(sql, values)

    def find_rows_by_columns(self, table: Table, columns: Sequence[str], keys: Sequence[Key]) -> list[Row]:
        """Return the rows whose values in `columns` are among `keys`, deleted rows included. None equals None."""
        codec = self.compiler.codec(ENTITIES[table.name])
        conditions, joins, bound_values = [], [], []
        lists: dict[str, list[Any]] = {}
        for name, values in zip(columns, zip(*keys, strict=True), strict=True):
            encoded = [codec.encode_value(name, value) for value in values]
            if len(set(values)) > 1:
                operator = "IS NOT DISTINCT FROM" if None in values else "="
                joins.append(f"{quote(name)} {operator} wanted.v{len(lists)}")
                lists[name] = encoded
            elif values[0] is None:
                conditions.append(f"{quote(name)} IS NULL")
            else:
                conditions.append(f"{quote(name)} = ?")
                bound_values.append(encoded[0])
        sql = self.compiler.selects[ENTITIES[table.name]]
        if lists:
            sql += f" SEMI JOIN ({writing.select_values(table.name, tuple(lists))}) AS wanted ON {' AND '.join(joins)}"
        sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return [codec.decode(values) for values in self._fetch(sql, [*lists.values(), *bound_values])]

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        if after >= self.head():
            return Feed([], after)
        codec = self.compiler.codec(Outbox)
        sql = self.compiler.selects[Outbox] + ' WHERE "sequence" > ? ORDER BY "sequence" LIMIT ?'
        lines = [codec.decode(values) for values in self._fetch(sql, (after, limit))]
        return Feed(lines, lines[-1].sequence if lines else after)

    def head(self) -> int:
        """Return the position of the feed's end. It is known without a query: no other process writes the file."""
        self._database.require_open()
        return self._head

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        return SettledLines(self.feed(after, limit=limit).lines, self.head())

    @contextmanager
    def read_snapshot(self) -> Iterator[UntrackedSnapshot]:
        with uninterrupted, self._database:
            cursor = self._database.begin_stream()
        try:
            with cursor:
                with uninterrupted, self._database:
                    cursor.execute("BEGIN TRANSACTION READ ONLY")
                    numbers = dict(cursor.execute(READ_NUMBERS).fetchall())
                yield UntrackedSnapshot(
                    numbers[_OUTBOX], partial(self._count_rows, cursor), partial(self._read_rows, cursor)
                )
        finally:
            with uninterrupted:
                self._database.end_stream()

    def _count_rows(self, cursor: duckdb.DuckDBPyConnection, entity: type[Row]) -> int:
        with uninterrupted, self._database:
            return int(cursor.execute(f"SELECT count(*) FROM {quote(get_table(entity).name)}").fetchall()[0][0])

    def _read_rows(self, cursor: duckdb.DuckDBPyConnection, entity: type[Row]) -> Iterator[tuple[Any, ...]]:
        decode = self.compiler.codec(entity).make_decoder(get_table(entity).names)
        with uninterrupted, self._database:
            cursor.execute(self.compiler.selects[entity])
        while True:
            with uninterrupted, self._database:
                rows = cursor.fetchmany(_STREAMED_ROWS)
            if not rows:
                return
            yield from itertools.starmap(decode, rows)

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        check_size(operations, COMMIT_LIMIT)
        self._require_writable()
        with self._write_lock:
            reader = Prefetch(self)
            reader.predict(operations)

            def generate_number(table: Table) -> int:
                self._numbers[table.name] += 1
                reader.note_unused(table, self._numbers[table.name])
                return self._numbers[table.name]

            changes = plan(reader, operations, generate_number)
            self._transact(itertools.chain(writing.compile_changes(self.compiler, changes), self._save_numbers()))
            self._saved_numbers = dict(self._numbers)
            self._head = self._numbers[_OUTBOX]

    def _require_writable(self) -> None:
        if self.options.read_only:
            raise StoreReadOnly(f"{self.options.path} was opened read-only", remedy="open it without mode=ro to write")

    def run_schema_statements(self, statements: Iterable[SqlStatement]) -> None:
        """Run statements that change the schema, in one transaction."""
        self._require_writable()
        with self._write_lock:
            self._transact(statements)

    def _save_numbers(self) -> Iterator[SqlStatement]:
        for name, number in self._numbers.items():
            if number != self._saved_numbers[name]:
                yield SqlStatement(SAVE_NUMBER, (number, name))

    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        with self._database, self._database.cursor() as cursor:
            cursor.execute("BEGIN")
            for sql, values, *_ in statements:
                cursor.execute(sql, values)
            cursor.execute("COMMIT")
        keep_private(self.options)

    # maintenance

    def maintain(self, *, erased: bool = False) -> bool:
        """Write the log into the file and free the space of deleted rows; with `erased`, rewrite the file."""
        if self.options.read_only:
            return True
        with self._write_lock:
            is_checkpointed = self._database.checkpoint()
            # The rewrite needs an empty log: a log with changes would belong to neither the old nor the new file.
            return is_checkpointed and self._database.rewrite() if erased else True

    def find_problems(self) -> list[str]:
        with self._write_lock:
            return [problem for table in TABLES.values() for problem in self._find_table_problems(table)]

    def _find_table_problems(self, table: Table) -> Iterator[str]:
        key = quote_names(table.key)
        for values in self._fetch(f"SELECT {key} FROM {quote(table.name)} GROUP BY {key} HAVING count(*) > 1", ()):
            yield f"{table.name} {values}: more than one row has this key"
        codec = self.compiler.codec(ENTITIES[table.name])
        stream = self._stream(self.compiler.selects[ENTITIES[table.name]], ())
        yield from find_problems_in_batches(self, table, map(codec.decode, stream))

    def close(self) -> None:
        with self._write_lock:
            self._database.close()
