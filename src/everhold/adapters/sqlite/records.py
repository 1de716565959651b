"""A store of record in one SQLite file.

The writers of this process share one connection and a lock; SQLite makes them wait for writers of other processes.
Readers borrow connections from a pool and never wait for writers.
"""

import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.adapters.sqlite.connection import (
    SqliteOptions,
    choose_access,
    choose_read_options,
    connect,
    create_file,
    make_read_only_error,
    read_pragma,
    retry_locked,
    translate_errors,
)  # fmt: skip
from everhold.adapters.sqlite.dialect import SQLITE
from everhold.adapters.sqlite.pool import GuardedConnection, ReaderPool, close_all
from everhold.adapters.sqlite.schema import prepare
from everhold.adapters.sqlite.words import COUNT_UNINDEXED, INDEX_AFTER, INDEX_CHUNKS, MERGE
from everhold.errors import StaleVersion, StoreUnavailable
from everhold.interrupts import GuardedLock, uninterrupted
from everhold.model import Chunk
from everhold.schema.operations import Feed, Operation, Put, SettledLines, Traits
from everhold.schema.rules import check_size
from everhold.schema.sql_records import COMMIT_LIMIT, SqlRecords
from everhold.schema.statements import SqlStatement

if TYPE_CHECKING:
    from everhold.adapters.sqlite.snapshot import SqliteSnapshot
    from everhold.model import Outbox

T = TypeVar("T")
_INDEX_STATEMENTS = tuple(SqlStatement(sql, ()) for sql in INDEX_CHUNKS)
_STREAM_CACHE = -2000  # a negative size is in kibibytes
_CHECKPOINT_MILLISECONDS = 1000  # how long emptying the log file waits for readers


class SqliteRecords(SqlRecords):
    """Records in a SQLite file."""

    def __init__(self, options: SqliteOptions) -> None:
        super().__init__(SQLITE)
        self.options = choose_access(options)
        self._requested_options = options
        with translate_errors(options):
            if self.options.read_only:
                self.options = choose_read_options(self.options)
            else:
                create_file(options.path)
        seconds = options.busy_seconds
        self._write_lock = GuardedLock(seconds, f"{options.path}: other threads wrote for {seconds:g} s")
        self._closed_message = f"{options.path} has been closed"
        self._is_closed = False
        self._readers = ReaderPool(self._connect, self._closed_message)
        self._streams = ReaderPool(self._connect_for_stream, self._closed_message)
        with translate_errors(options), uninterrupted:
            self._writer = self._connect()
            prepare(self._writer, self.options)
            self._unindexed = int(self._writer.execute(COUNT_UNINDEXED).fetchone()[0])

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
        with translate_errors(self.options):
            return self._readers.fetch(sql, values)

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield rows on a connection of the stream pool: a half-read result keeps its connection on an old snapshot."""
        with translate_errors(self.options):
            yield from self._streams.stream(sql, values)

    def _write(self, work: Callable[[GuardedConnection], T]) -> T:
        """Run `work` with the writing connection, one thread at a time, and return its result.

        A transaction that `work` leaves open is rolled back.
        """
        if self.options.read_only:
            raise make_read_only_error(self._requested_options)
        with self._write_lock, self._writer.lock, translate_errors(self.options):
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
        """Commit operations. The commit that completes a batch of chunks also adds them to the full-text index."""
        puts = [operation for operation in operations if isinstance(operation, Put)]
        added_chunks = sum(1 for put in puts if isinstance(put.row, Chunk))
        check_size(operations, COMMIT_LIMIT)
        statements = self.compile_statements(operations)

        def run(writer: GuardedConnection) -> None:
            is_batch_full = added_chunks > 0 and self._unindexed + added_chunks >= INDEX_AFTER
            self._run(writer, itertools.chain(statements, _INDEX_STATEMENTS) if is_batch_full else statements)
            self._unindexed = 0 if is_batch_full else self._unindexed + added_chunks

        self._write(run)

    def _run(self, writer: GuardedConnection, statements: Iterable[SqlStatement]) -> None:
        """Run statements in one transaction. Raise StaleVersion unless each statement with `stale` changes one row."""
        execute = writer.execute
        execute("BEGIN IMMEDIATE")
        for sql, values, stale, check in statements:
            cursor = execute(sql, values)
            rows = cursor.fetchall() if check else ()  # rowcount is right only after all rows are fetched
            if stale and cursor.rowcount != 1:
                raise StaleVersion(stale)
            if check:
                for row in rows:
                    check(row)
        execute("COMMIT")

    def run_schema_statements(self, statements: Iterable[SqlStatement]) -> None:
        """Run statements that change the schema, in one transaction."""
        self._transact(statements)

    def query(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a query in SQLite's own SQL."""
        return self._fetch(sql, values)

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        with translate_errors(self.options):
            lines = self._readers.run(lambda reader: self._read_feed(reader, after, limit))
        return Feed(lines, lines[-1].sequence if lines else after)

    def _read_feed(self, reader: GuardedConnection, after: int, limit: int) -> "list[Outbox]":
        # data_version changes when another connection commits. Values from different connections are not comparable.
        [(version,)] = reader.execute("PRAGMA data_version").fetchall()
        if reader.feed_end == (version, after):
            return []
        from everhold.model import Outbox  # a short process reads no line

        codec = self.compiler.codec(Outbox)
        sql = self.compiler.selects[Outbox] + ' WHERE "sequence" > ? ORDER BY "sequence" LIMIT ?'
        lines = [codec.decode(values) for values in reader.execute(sql, (after, limit)).fetchall()]
        reader.feed_end = None if lines else (version, after)
        return lines

    def head(self) -> int:
        return int(self._fetch('SELECT coalesce(max("sequence"), 0) FROM "outbox"', ())[0][0])

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        return SettledLines(self.feed(after, limit=limit).lines, self.head())

    @contextmanager
    def read_snapshot(self) -> "Iterator[SqliteSnapshot]":
        from everhold.adapters.sqlite.snapshot import SqliteSnapshot  # only backups need it

        if not self.options.read_only:
            self._write(_begin_epoch)
        with translate_errors(self.options), self._streams.lend() as reader:
            snapshot = SqliteSnapshot(reader, self.options)
            yield snapshot
            with uninterrupted:
                snapshot.close()

    def maintain(self, *, erased: bool = False) -> bool:
        """Return free pages to the system, refresh the query planner's statistics and empty the log file.

        With `erased`, also remove the terms of deleted chunks from the full-text index and rewrite the whole file.
        Return False if a reader, in this process or another, prevented emptying the log file.
        """

        def run(writer: GuardedConnection) -> bool:
            self._run(writer, [*_INDEX_STATEMENTS, SqlStatement(MERGE, ())] if erased else _INDEX_STATEMENTS)
            self._unindexed = 0
            if erased:
                # secure_delete zeroes deleted rows, but a page that SQLite rebalances can keep an old copy of a row
                # between its cells. Only rewriting the file removes those.
                writer.execute("VACUUM")
            else:
                writer.executescript("PRAGMA incremental_vacuum")  # `execute` would free a single page
            writer.execute("PRAGMA optimize")
            return self._empty_log_file(writer)

        return self._write(run)

    def _empty_log_file(self, writer: GuardedConnection) -> bool:
        # Do not wait long: writers wait meanwhile, and a half-read stream of this same thread would never end.
        writer.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_MILLISECONDS}")
        try:
            [(busy, _, _)] = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            writer.execute(f"PRAGMA busy_timeout = {int(self.options.busy_seconds * 1000)}")
        return not busy

    def find_problems(self) -> list[str]:
        damage = [str(text) for (text,) in self._fetch("PRAGMA quick_check", ()) if text != "ok"]
        broken_references = self._fetch("PRAGMA foreign_key_check", ())
        return [
            *damage,
            *(f"a row of {table} refers to a missing row of {target}" for table, _, target, _ in broken_references),
        ]

    def read_pragma(self, name: str) -> Any:
        """Return the value of a SQLite setting on the writing connection, for `doctor`."""
        with self._write_lock, self._writer.lock, translate_errors(self.options):
            if self._is_closed:
                raise StoreUnavailable(self._closed_message, remedy="open it again")
            return read_pragma(self._writer, name)

    def close(self) -> None:
        """Refuse further use, wait for running statements, interrupt those that take long, and close the file.

        May be called again, by any thread, while others read or write: they get StoreUnavailable.
        """
        self._is_closed = True
        self._readers.close()
        self._streams.close()
        close_all([self._writer])


def _begin_epoch(writer: GuardedConnection) -> None:
    from everhold.adapters.sqlite.tracking import begin_epoch  # only backups need it

    writer.execute("BEGIN IMMEDIATE")
    begin_epoch(writer)
    writer.execute("COMMIT")
