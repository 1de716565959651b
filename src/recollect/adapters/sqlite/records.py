"""A store of record in one SQLite file.

Writers of this process take turns on one connection; writers of other processes are waited for. Readers have a
connection per thread and never wait.
"""

import itertools
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recollect.adapters.sqlite.connection import (
    SqliteOptions,
    connect,
    create_file,
    for_reading,
    patiently,
    pragma,
    translated,
)  # fmt: skip
from recollect.adapters.sqlite.dialect import SQLITE
from recollect.adapters.sqlite.schema import prepare
from recollect.adapters.sqlite.words import FOLD, FOLD_AFTER, WAITING
from recollect.errors import StaleVersion, StoreBusy, StoreReadOnly, StoreUnavailable
from recollect.model import Chunk, Outbox
from recollect.schema.operations import Feed, Operation, Put, Traits
from recollect.schema.rules import check_size
from recollect.schema.sql_records import COMMIT_LIMIT, SqlRecords
from recollect.schema.statements import Statement

_FOLDING = tuple(Statement(sql, ()) for sql in FOLD)
_STREAM_CACHE = -2000


class SqliteRecords(SqlRecords):
    """Records in a SQLite file."""

    def __init__(self, options: SqliteOptions) -> None:
        super().__init__(SQLITE)
        self.options = options
        self._turn = threading.Lock()
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        with translated(options):
            if options.read_only:
                self.options = for_reading(options)
            else:
                create_file(options.path)
            self._writer = patiently(self._connect, options.busy_seconds)
            prepare(self._writer, options)
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

    def _connect(self) -> sqlite3.Connection:
        connection = connect(self.options)
        self._opened.append(connection)
        return connection

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable(f"{self.options.path} has been closed; open it again")
        reader: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if reader is None:
            with translated(self.options):
                reader = self._local.connection = patiently(self._connect, self.options.busy_seconds)
        return reader

    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with translated(self.options):
            return self._reader().execute(sql, values).fetchall()

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """On a connection of its own: an answer that is half read would keep its thread's reader in the past."""
        with translated(self.options):
            connection = self._stream_reader()
            cursor = connection.execute(sql, values)
            try:
                yield from cursor
            finally:
                cursor.close()
                self._idle.append(connection)

    def _stream_reader(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable(f"{self.options.path} has been closed; open it again")
        try:
            return self._idle.pop()
        except IndexError:
            connection = patiently(self._connect, self.options.busy_seconds)
            connection.execute(f"PRAGMA cache_size = {_STREAM_CACHE}")  # what streams by is not read again
            return connection

    def _transact(self, statements: Iterable[Statement]) -> None:
        if self.options.read_only:
            raise StoreReadOnly(f"{self.options.path} was opened read-only; open it without mode=ro to write")
        if not self._turn.acquire(timeout=self.options.busy_seconds):
            raise StoreBusy(f"{self.options.path}: other threads wrote for {self.options.busy_seconds:g} s; try again")
        try:
            if self._closed:
                raise StoreUnavailable(f"{self.options.path} has been closed; open it again")
            with translated(self.options):
                self._run(statements)
        finally:
            self._turn.release()

    def commit(self, operations: Sequence[Operation]) -> None:
        """Commits, and with the commit that completes a batch feeds the full-text index."""
        added = sum(1 for one in operations if isinstance(one, Put) and isinstance(one.row, Chunk))
        folds = added > 0 and self._unfolded + added >= FOLD_AFTER
        check_size(operations, COMMIT_LIMIT)
        statements = self.statements(operations)
        self._transact(itertools.chain(statements, _FOLDING) if folds else statements)
        self._unfolded = 0 if folds else self._unfolded + added

    def _run(self, statements: Iterable[Statement]) -> None:
        execute = self._writer.execute
        execute("BEGIN IMMEDIATE")
        try:
            for sql, values, stale in statements:
                touched = execute(sql, values).rowcount
                if stale and touched != 1:
                    raise StaleVersion(stale)
            execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                execute("ROLLBACK")
            raise

    def query(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Rows of a query that only this store understands."""
        return self._rows(sql, values)

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        version = self._rows("PRAGMA data_version", ())[0][0]  # changes when another connection commits
        if getattr(self._local, "at_end", None) == (version, after):
            return Feed([], after)
        codec = self.compiler.codec(Outbox)
        sql = self.compiler.selects[Outbox] + ' WHERE "sequence" > ? ORDER BY "sequence" LIMIT ?'
        lines = [codec.decode(values) for values in self._rows(sql, (after, limit))]
        self._local.at_end = None if lines else (version, after)
        return Feed(lines, lines[-1].sequence if lines else after)

    def head(self) -> int:
        return int(self._rows('SELECT coalesce(max("sequence"), 0) FROM "outbox"', ())[0][0])

    def upkeep(self) -> None:
        """Gives free pages back to the system and refreshes what the query planner knows."""
        with self._turn, translated(self.options):
            self._run(_FOLDING)
            self._writer.executescript("PRAGMA incremental_vacuum")  # execute would give back a single page
            self._writer.execute("PRAGMA optimize")
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def problems(self) -> list[str]:
        found = [str(text) for (text,) in self._rows("PRAGMA quick_check", ()) if text != "ok"]
        broken = self._rows("PRAGMA foreign_key_check", ())
        return found + [f"a row of {table} refers to a missing row of {target}" for table, _, target, _ in broken]

    def pragma(self, name: str) -> Any:
        """The value of one of SQLite's settings on the writing connection, for `doctor`."""
        return pragma(self._writer, name)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            for connection in self._opened:
                connection.close()
            self._opened.clear()
