"""A store of record in one SQLite file.

Writers of this process take turns on one connection; writers of other processes are waited for. Readers borrow a
connection from a pool and never wait.
"""

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from everhold.adapters.sqlite.connection import (
    SqliteOptions,
    choose_access,
    connect,
    create_file,
    for_reading,
    pragma,
    refuse_writing,
    retry_locked,
    translated,
)  # fmt: skip
from everhold.adapters.sqlite.dialect import SQLITE
from everhold.adapters.sqlite.pool import GuardedConnection, ReaderPool, close_all
from everhold.adapters.sqlite.schema import prepare
from everhold.adapters.sqlite.words import FOLD, FOLD_AFTER, MERGE, WAITING
from everhold.errors import StaleVersion, StoreUnavailable
from everhold.interrupts import Turn, uninterrupted
from everhold.model import Chunk, Outbox
from everhold.schema.operations import Feed, Operation, Put, Traits
from everhold.schema.rules import check_size
from everhold.schema.sql_records import COMMIT_LIMIT, SqlRecords
from everhold.schema.statements import SqlStatement

T = TypeVar("T")
_FOLDING = tuple(SqlStatement(sql, ()) for sql in FOLD)
_STREAM_CACHE = -2000
_CHECKPOINT_MILLISECONDS = 1000


class SqliteRecords(SqlRecords):
    """Records in a SQLite file."""

    def __init__(self, options: SqliteOptions) -> None:
        super().__init__(SQLITE)
        self.options = choose_access(options)
        self._asked_options = options
        with translated(options):
            if self.options.read_only:
                self.options = for_reading(self.options)
            else:
                create_file(options.path)
        seconds = options.busy_seconds
        self._turn = Turn(seconds, f"{options.path}: other threads wrote for {seconds:g} s")
        self._closed_message = f"{options.path} has been closed"
        self._is_closed = False
        self._readers = ReaderPool(self._connect, self._closed_message)
        self._streams = ReaderPool(self._connect_for_stream, self._closed_message)
        with translated(options), uninterrupted:
            self._writer = self._connect()
            prepare(self._writer, self.options)
            self._unfolded = int(self._writer.execute(WAITING).fetchone()[0])

    @property
    def traits(self) -> Traits:
        return Traits(
            name="sqlite",
            words="native",
            vectors="portable",
            commit_limit=COMMIT_LIMIT,
            details={
                "file": str(self.options.path),
                "synchronous": self.options.synchronous,
                "sqlite": sqlite3.sqlite_version,
            },
        )

    def _connect(self) -> GuardedConnection:
        return retry_locked(lambda: connect(self.options, GuardedConnection), self.options.busy_seconds)

    def _connect_for_stream(self) -> GuardedConnection:
        connection = self._connect()
        connection.execute(f"PRAGMA cache_size = {_STREAM_CACHE}")  # streamed pages are not read again
        return connection

    def _fetch(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with translated(self.options):
            return self._readers.fetch(sql, values)

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield rows from another pool: a half-read result would keep an ordinary reader on an old snapshot."""
        with translated(self.options):
            yield from self._streams.stream(sql, values)

    def _write(self, work: Callable[[GuardedConnection], T]) -> T:
        """Return what `work` returns for the writing connection, which one thread has at a time.

        A transaction that `work` leaves open is rolled back.
        """
        if self.options.read_only:
            raise refuse_writing(self._asked_options)
        with self._turn, self._writer.lock, translated(self.options):
            if self._is_closed:
                raise StoreUnavailable(self._closed_message, remedy="open it again")
            try:
                return work(self._writer)
            finally:
                if self._writer.in_transaction:
                    self._writer.rollback()

    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        self._write(lambda writer: self._run(writer, statements))

    def commit(self, operations: Sequence[Operation]) -> None:
        """Commits, and with the commit that completes a batch feeds the full-text index."""
        added = sum(1 for one in operations if isinstance(one, Put) and isinstance(one.row, Chunk))
        check_size(operations, COMMIT_LIMIT)
        statements = self.compile_statements(operations)

        def run(writer: GuardedConnection) -> None:
            folds = added > 0 and self._unfolded + added >= FOLD_AFTER
            self._run(writer, itertools.chain(statements, _FOLDING) if folds else statements)
            self._unfolded = 0 if folds else self._unfolded + added

        self._write(run)

    def _run(self, writer: GuardedConnection, statements: Iterable[SqlStatement]) -> None:
        execute = writer.execute
        execute("BEGIN IMMEDIATE")
        for sql, values, stale, judge in statements:
            cursor = execute(sql, values)
            rows = cursor.fetchall() if judge else ()  # the rows touched are counted once all are fetched
            if stale and cursor.rowcount != 1:
                raise StaleVersion(stale)
            if judge:
                for row in rows:
                    judge(row)
        execute("COMMIT")

    def query(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Rows of a query that only this store understands."""
        return self._fetch(sql, values)

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        with translated(self.options):
            lines = self._readers.run(lambda reader: self._read_feed(reader, after, limit))
        return Feed(lines, lines[-1].sequence if lines else after)

    def _read_feed(self, reader: GuardedConnection, after: int, limit: int) -> list[Outbox]:
        # The version changes when another connection commits. Only values of one connection can be compared.
        [(version,)] = reader.execute("PRAGMA data_version").fetchall()
        if reader.feed_end == (version, after):
            return []
        codec = self.compiler.codec(Outbox)
        sql = self.compiler.selects[Outbox] + ' WHERE "sequence" > ? ORDER BY "sequence" LIMIT ?'
        lines = [codec.decode(values) for values in reader.execute(sql, (after, limit)).fetchall()]
        reader.feed_end = None if lines else (version, after)
        return lines

    def head(self) -> int:
        return int(self._fetch('SELECT coalesce(max("sequence"), 0) FROM "outbox"', ())[0][0])

    def maintain(self, *, erased: bool = False) -> bool:
        """Give free pages back to the system, refresh the query planner's statistics and empty the log file.

        With `erased`, also drop the terms of deleted chunks from the full-text index and rewrite the whole file. False
        if a reader, of this process or another, kept the log file from being emptied.
        """

        def run(writer: GuardedConnection) -> bool:
            self._run(writer, [*_FOLDING, SqlStatement(MERGE, ())] if erased else _FOLDING)
            self._unfolded = 0
            if erased:
                # secure_delete zeroes deleted rows, but a page that SQLite rebalances can keep an old copy of a row
                # between its cells. Only rewriting the file removes those.
                writer.execute("VACUUM")
            else:
                writer.executescript("PRAGMA incremental_vacuum")  # execute would give back a single page
            writer.execute("PRAGMA optimize")
            return self._empty_log_file(writer)

        return self._write(run)

    def _empty_log_file(self, writer: GuardedConnection) -> bool:
        # Do not wait long: writers wait for this, and a half-read stream of this very thread would never end.
        writer.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_MILLISECONDS}")
        try:
            [(busy, _, _)] = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            writer.execute(f"PRAGMA busy_timeout = {int(self.options.busy_seconds * 1000)}")
        return not busy

    def find_problems(self) -> list[str]:
        found = [str(text) for (text,) in self._fetch("PRAGMA quick_check", ()) if text != "ok"]
        broken = self._fetch("PRAGMA foreign_key_check", ())
        return found + [f"a row of {table} refers to a missing row of {target}" for table, _, target, _ in broken]

    def pragma(self, name: str) -> Any:
        """The value of one of SQLite's settings on the writing connection, for `doctor`."""
        with self._turn, self._writer.lock, translated(self.options):
            if self._is_closed:
                raise StoreUnavailable(self._closed_message, remedy="open it again")
            return pragma(self._writer, name)

    def close(self) -> None:
        """Refuse further use, wait for running statements, interrupt those that take long, and close the file.

        May be called again, by any thread, while others read or write: they get StoreUnavailable.
        """
        self._is_closed = True
        self._readers.close()
        self._streams.close()
        close_all([self._writer])
