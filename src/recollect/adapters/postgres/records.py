"""A store of record in a PostgreSQL database.

A commit is two round trips: everything but the COMMIT, pipelined, whose answers say which rows were touched and which
transaction it is; then the COMMIT. A connection that dies in between has written nothing. One that dies on the COMMIT
leaves its outcome open, and the server is asked for it.
"""

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from recollect.adapters.postgres.connection import (
    Connection,
    PostgresOptions,
    connect,
    is_transient,
    make_pool,
    patiently,
    pauses,
    translated,
)
from recollect.adapters.postgres.dialect import POSTGRES
from recollect.adapters.postgres.inspection import OUT_OF_FORCE, orphan_queries
from recollect.adapters.postgres.nearest import build_needed
from recollect.adapters.postgres.outcome import Outcome, Ticket, outcome_of
from recollect.adapters.postgres.schema import prepare
from recollect.errors import StaleVersion, StoreReadOnly, StoreUnavailable
from recollect.model.housekeeping import Outbox
from recollect.schema.operations import Feed, Operation, Traits
from recollect.schema.rules import check_size
from recollect.schema.sql import listed
from recollect.schema.sql_records import COMMIT_LIMIT, SqlRecords
from recollect.schema.statements import Statement

_FETCHED = 10_000
_FIRST_ANALYSIS = 400
_ASK_AGAIN = 0.1
_HOT_TABLES = ("memories", "chunks", "memory_tags", "memory_relationships", "memory_access_logs", "outbox")
_NOW = "pg_snapshot_xmin(pg_current_snapshot())"

_Sent = tuple[psycopg.Cursor[tuple[Any, ...]], str]


class PostgresRecords(SqlRecords):
    """Records in PostgreSQL."""

    def __init__(self, options: PostgresOptions) -> None:
        super().__init__(POSTGRES)
        self.options = options
        with translated(options):
            self._details = patiently(self._prepare, options)
            self._pool = make_pool(options)

    def _prepare(self) -> Mapping[str, str]:
        with connect(self.options) as connection:
            prepare(connection, self.options)
            [(vector, unknown)] = connection.execute(
                """SELECT extversion, (SELECT reltuples < 0 FROM pg_class WHERE oid = 'memories'::regclass)
                FROM pg_extension WHERE extname = 'vector'"""
            ).fetchall()
            self._analyse_after = _FIRST_ANALYSIS if unknown else None
            server = connection.info.parameter_status("server_version") or ""
        return {"database": self.options.place, "postgresql": server, "pgvector": vector}

    @property
    def traits(self) -> Traits:
        return Traits(
            name="postgres",
            words="native",
            vectors="native",
            commit_limit=COMMIT_LIMIT,
            ordered=False,
            details={**self._details, "pool": str(self.options.pool_size)},
        )

    # reading

    def ask(
        self, questions: Sequence[tuple[str, Sequence[Any]]], settings: Mapping[str, str] | None = None
    ) -> list[list[tuple[Any, ...]]]:
        """The rows of each query, all in one round trip and, with settings of their own, in one transaction."""
        with translated(self.options):
            return patiently(lambda: self._ask(questions, settings or {}), self.options, self._drop_dead)

    def _ask(self, questions: Sequence[tuple[str, Sequence[Any]]], settings: Mapping[str, str]) -> list[Any]:
        with self._pool.connection() as connection:
            if len(questions) == 1 and not settings and not self.options.transaction_pooler:
                sql, values = questions[0]
                return [connection.execute(sql.encode(), values, binary=True).fetchall()]
            with connection.pipeline():
                self._begin(connection, settings)
                cursors = [connection.execute(sql.encode(), values, binary=True) for sql, values in questions]
                connection.execute("COMMIT")
            return [cursor.fetchall() for cursor in cursors]

    def _begin(self, connection: Connection, settings: Mapping[str, str]) -> None:
        connection.execute("BEGIN READ ONLY" if self.options.read_only else "BEGIN")
        if self.options.transaction_pooler:
            settings = {**self.options.settings(), **settings}
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))

    def _rows(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self.ask([(sql, values)])[0]

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        with translated(self.options):
            started = False
            for pause in (*pauses(self.options.retries), None):
                try:
                    for batch in self._batches(sql, values):
                        started = True
                        yield from batch
                    return
                except psycopg.Error as error:
                    if started or pause is None or not is_transient(error):
                        raise
                time.sleep(pause)
                self._drop_dead()

    def _batches(self, sql: str, values: Sequence[Any]) -> Iterator[list[tuple[Any, ...]]]:
        fetch = f"FETCH FORWARD {_FETCHED} FROM stream".encode()
        with self._pool.connection() as connection:
            with connection.pipeline():
                self._begin(connection, {})
                connection.execute(f"DECLARE stream NO SCROLL CURSOR FOR {sql}".encode(), values)
                cursor = connection.execute(fetch, prepare=False, binary=True)
            batch = cursor.fetchall()
            while batch:
                yield batch
                if len(batch) < _FETCHED:
                    return
                batch = connection.execute(fetch, prepare=False, binary=True).fetchall()

    def _drop_dead(self) -> None:
        """One lost connection is seldom alone: the server may have gone and come back."""
        self._pool.check()

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        check_size(operations, COMMIT_LIMIT)
        self._write(itertools.chain.from_iterable(map(self.compiler.compile, operations)), operations)

    def _transact(self, statements: Iterable[Statement]) -> None:
        self._write(statements, ())

    def _write(self, statements: Iterable[Statement], operations: Sequence[Operation]) -> None:
        if self.options.read_only:
            raise StoreReadOnly(f"{self.options.place} was opened read-only; open it without read_only to write")
        with translated(self.options):
            batch = list(statements)
            while batch:
                ticket = patiently(lambda: self._attempt(batch), self.options, self._drop_dead)
                if ticket is None or self._was_committed(ticket, operations):
                    return

    def _attempt(self, batch: Sequence[Statement]) -> Ticket | None:
        """Nothing when the commit is known to have happened, or else what to ask for."""
        with self._pool.connection() as connection:
            sent: list[_Sent] = []
            try:
                with connection.pipeline():
                    self._begin(connection, {})
                    drawn = connection.execute("SELECT pg_current_xact_id()::text")
                    sent.extend(self._send(connection, batch))
            except (psycopg.Error, UnicodeEncodeError):
                _require_touched(sent)  # the first operation that failed is the one to tell of
                raise
            _require_touched(sent)
            [(xid,)] = drawn.fetchall()
            try:
                connection.execute("COMMIT")
            except psycopg.Error:
                if not connection.closed:
                    raise
                return Ticket(int(xid), connection.incarnation)
        if self._analyse_after is not None:
            left = self._analyse_after - len(batch)
            self._analyse_after = left if left >= 0 else None
        return None

    def _send(self, connection: Connection, batch: Sequence[Statement]) -> Iterator[_Sent]:
        """Statements on their way, each with what to say if it touches no row.

        In a new database the planner takes every table for empty, and would keep checking each reference by reading
        all of an organization; so it is told of the first rows as soon as there are some.
        """
        for at, (sql, values, stale) in enumerate(batch):
            if at == self._analyse_after:
                connection.execute(f"ANALYZE (SKIP_LOCKED) {listed(_HOT_TABLES)}".encode())
            yield connection.execute(sql.encode(), values), stale

    def _was_committed(self, ticket: Ticket, operations: Sequence[Operation]) -> bool:
        deadline = time.monotonic() + self.options.connect_seconds + self.options.query_seconds
        outcome = Outcome.IN_PROGRESS
        while outcome is Outcome.IN_PROGRESS and time.monotonic() < deadline:
            self._drop_dead()
            try:
                with self._pool.connection() as connection:
                    outcome = outcome_of(connection, ticket, operations)
            except psycopg.OperationalError as error:
                if not is_transient(error):
                    raise _unknown(self.options) from error
            if outcome is Outcome.IN_PROGRESS:
                time.sleep(_ASK_AGAIN)
        if outcome in (Outcome.IN_PROGRESS, Outcome.UNKNOWN):
            raise _unknown(self.options)
        return outcome is Outcome.COMMITTED

    # following

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        """Every visible line of transactions from `after` on; a transaction's lines are never parted.

        The position is the oldest transaction still running: it may yet show lines, and those after it come again.
        A position from the future belongs to another server, so everything comes again.
        """
        names = listed(self.compiler.codec(Outbox).table.names)
        since = "CASE WHEN %s::xid8 > pg_snapshot_xmax(pg_current_snapshot()) THEN '0' ELSE %s::xid8 END"
        sql = f"""WITH edge AS (SELECT {_NOW} AS xid), since AS MATERIALIZED (SELECT {since} AS xid),
  settled AS (
    SELECT * FROM "outbox" WHERE "xid" >= (SELECT xid FROM since) AND "xid" < (SELECT xid FROM edge)
    ORDER BY "xid" FETCH FIRST %s ROWS WITH TIES
  ),
  more AS (SELECT count(*) >= %s AS cut, max("xid") AS last FROM settled),
  found AS (
    SELECT * FROM settled UNION ALL
    SELECT "outbox".* FROM "outbox", more WHERE NOT more.cut AND "xid" >= (SELECT xid FROM edge)
      AND "xid" >= (SELECT xid FROM since)
  )
SELECT (SELECT CASE WHEN cut THEN last::text::bigint + 1 ELSE edge.xid::text::bigint END FROM more, edge), {names}
FROM (SELECT) AS always LEFT JOIN found ON true ORDER BY "sequence" """
        rows = self._rows(sql, (str(after), str(after), limit, limit))
        decode = self.compiler.codec(Outbox).decode
        return Feed([decode(row[1:]) for row in rows if row[1] is not None], int(rows[0][0]))

    def head(self) -> int:
        return int(self._rows(f"SELECT {_NOW}::text::bigint", ())[0][0])

    # care

    def upkeep(self) -> None:
        """Clears away dead rows, refreshes what the planner knows, and indexes the vectors of scopes grown large."""
        with translated(self.options), connect(replace(self.options, query_seconds=0)) as connection:
            connection.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {listed(_HOT_TABLES)}".encode())
            if not self.options.transaction_pooler:
                build_needed(connection)

    def problems(self) -> list[str]:
        """Rows whose reference by kind leads nowhere, and indexes and triggers that are not in force."""
        rows = self.ask([*((sql, ()) for sql in orphan_queries()), (OUT_OF_FORCE, ())])
        return [str(text) for answer in rows for (text,) in answer]

    def close(self) -> None:
        self._pool.close()


def _require_touched(sent: Sequence[_Sent]) -> None:
    for cursor, stale in sent:
        if stale and cursor.rowcount == 0:
            raise StaleVersion(stale)


def _unknown(options: PostgresOptions) -> StoreUnavailable:
    return StoreUnavailable(
        f"{options.place} was lost while it committed and whether it did cannot be known now; "
        "read what was to be written before writing it again"
    )
