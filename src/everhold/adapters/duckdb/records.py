"""A store of record in one DuckDB file, which one process owns.

DuckDB neither cascades nor keeps rules about live rows only, and refuses to take a key again that the same transaction
gave back. So its tables hold columns and nothing else; what a commit changes is planned in Python, by one writer at a
time, and made in one transaction. Readers have a cursor per thread and never wait.
"""

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import duckdb

from everhold.adapters.duckdb import writing
from everhold.adapters.duckdb.connection import Database, DuckdbOptions, keep_private
from everhold.adapters.duckdb.dialect import DUCKDB
from everhold.adapters.duckdb.schema import DRAW, DRAWN, prepare
from everhold.errors import StoreReadOnly
from everhold.interrupts import GuardedLock, uninterrupted
from everhold.model import Outbox
from everhold.model.base import Row
from everhold.schema.catalog import ENTITIES, TABLES, get_table
from everhold.schema.operations import Feed, Operation, Traits
from everhold.schema.planning import plan
from everhold.schema.prefetch import Prefetch, find_problems_in_batches
from everhold.schema.rows import Key
from everhold.schema.rules import check_size
from everhold.schema.sql import quote, quote_names
from everhold.schema.sql_records import COMMIT_LIMIT, SqlRecords
from everhold.schema.statements import SqlStatement
from everhold.schema.table import Table

_OUTBOX = get_table(Outbox).name
_STREAMED = 2048


class DuckdbRecords(SqlRecords):
    """Records in a DuckDB file."""

    def __init__(self, options: DuckdbOptions) -> None:
        super().__init__(DUCKDB)
        self.options = options
        self._turn = GuardedLock()
        self._local = threading.local()
        self._drawn: dict[str, int] = {}
        database: Database | None = None
        try:
            with uninterrupted:
                database = self._database = Database(options)
                with database, database.cursor() as cursor:
                    prepare(cursor, options)
                    self._drawn = dict(cursor.execute(DRAWN).fetchall())
        except BaseException:  # also a deferred interrupt: no other code could close the file
            if database is not None:
                database.close()
            raise
        self._saved = dict(self._drawn)
        self._head = self._drawn[_OUTBOX]

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
        """Yield rows from a cursor of its own: the thread's next query would discard a result that is half read."""
        with uninterrupted, self._database:
            cursor = self._database.begin_stream()
        try:
            with cursor:
                with uninterrupted, self._database:
                    cursor.execute(sql, values)
                while True:
                    with uninterrupted, self._database:
                        rows = cursor.fetchmany(_STREAMED)
                    if not rows:
                        return
                    yield from rows
        finally:
            with uninterrupted:
                self._database.end_stream()

    def find_rows_in(self, table: Table, columns: Sequence[str], wanted: Sequence[Key]) -> list[Row]:
        """Every row, deleted or not, whose values of these columns are among those wanted; an absent value equals an
        absent one."""
        codec = self.compiler.codec(ENTITIES[table.name])
        conditions, joined, bound = [], [], []
        lists: dict[str, list[Any]] = {}
        for name, values in zip(columns, zip(*wanted, strict=True), strict=True):
            encoded = [codec.encode_value(name, value) for value in values]
            if len(set(values)) > 1:
                equals = "IS NOT DISTINCT FROM" if None in values else "="
                joined.append(f"{quote(name)} {equals} given.v{len(lists)}")
                lists[name] = encoded
            elif values[0] is None:
                conditions.append(f"{quote(name)} IS NULL")
            else:
                conditions.append(f"{quote(name)} = ?")
                bound.append(encoded[0])
        sql = self.compiler.selects[ENTITIES[table.name]]
        if lists:
            sql += f" SEMI JOIN ({writing.given(table.name, tuple(lists))}) AS given ON {' AND '.join(joined)}"
        sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return [codec.decode(values) for values in self._fetch(sql, [*lists.values(), *bound])]

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        if after >= self.head():
            return Feed([], after)
        codec = self.compiler.codec(Outbox)
        sql = self.compiler.selects[Outbox] + ' WHERE "sequence" > ? ORDER BY "sequence" LIMIT ?'
        lines = [codec.decode(values) for values in self._fetch(sql, (after, limit))]
        return Feed(lines, lines[-1].sequence if lines else after)

    def head(self) -> int:
        """Known without asking: nobody else writes the file."""
        self._database.require_open()
        return self._head

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        check_size(operations, COMMIT_LIMIT)
        if self.options.read_only:
            raise StoreReadOnly(f"{self.options.path} was opened read-only", remedy="open it without mode=ro to write")
        with self._turn:
            reader = Prefetch(self)
            reader.predict(operations)

            def draw(table: Table) -> int:
                self._drawn[table.name] += 1
                reader.note_unused(table, self._drawn[table.name])
                return self._drawn[table.name]

            changes = plan(reader, operations, draw)
            self._transact(itertools.chain(writing.statements(self.compiler, changes), self._drawing()))
            self._saved = dict(self._drawn)
            self._head = self._drawn[_OUTBOX]

    def _drawing(self) -> Iterator[SqlStatement]:
        for name, number in self._drawn.items():
            if number != self._saved[name]:
                yield SqlStatement(DRAW, (number, name))

    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        with self._database, self._database.cursor() as cursor:
            cursor.execute("BEGIN")
            for sql, values, *_ in statements:
                cursor.execute(sql, values)
            cursor.execute("COMMIT")
        keep_private(self.options)

    # care

    def maintain(self, *, erased: bool = False) -> bool:
        """Fold the log into the file and give back the space of deleted rows; with `erased`, rewrite the file."""
        if self.options.read_only:
            return True
        with self._turn:
            folded = self._database.checkpoint()
            # A log that is not folded in would match neither file after a rewrite.
            return folded and self._database.rewrite() if erased else True

    def find_problems(self) -> list[str]:
        with self._turn:
            return [problem for table in TABLES.values() for problem in self._problems(table)]

    def _problems(self, table: Table) -> Iterator[str]:
        key = quote_names(table.key)
        for values in self._fetch(f"SELECT {key} FROM {quote(table.name)} GROUP BY {key} HAVING count(*) > 1", ()):
            yield f"{table.name} {values}: more than one row has this key"
        codec = self.compiler.codec(ENTITIES[table.name])
        stream = self._stream(self.compiler.selects[ENTITIES[table.name]], ())
        yield from find_problems_in_batches(self, table, map(codec.decode, stream))

    def close(self) -> None:
        with self._turn:
            self._database.close()
