"""A store of record in a PostgreSQL database.

A commit is two round trips: everything but the COMMIT, pipelined, whose answers say which rows were touched and which
transaction it is; then the COMMIT. Many rows at once take a round trip more for each table. A connection that dies in
between has written nothing. One that dies on the COMMIT leaves its outcome open, and the server is asked for it.
"""

import logging
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from everhold.adapters.postgres.bulk import Bulk, Part, gathered, load
from everhold.adapters.postgres.connection import (
    INCARNATION,
    Connection,
    PostgresOptions,
    connect,
    is_transient,
    make_pool,
    retry_transient,
    translated,
)
from everhold.adapters.postgres.inspection import OUT_OF_FORCE, orphan_queries
from everhold.adapters.postgres.nearest import build_needed
from everhold.adapters.postgres.outcome import Outcome, Ticket, outcome_of
from everhold.adapters.postgres.partitions import is_parted, tend
from everhold.adapters.postgres.reading import PostgresReading
from everhold.adapters.postgres.schema import prepare
from everhold.adapters.postgres.security import EVERYTHING, WHOLE_STORE, faults_of, guarded, name, require, role_of
from everhold.errors import (
    AlreadyExists,
    BrokenReference,
    InvalidInput,
    StaleVersion,
    StoreReadOnly,
    StoreUnavailable,
)
from everhold.interrupts import uninterrupted
from everhold.schema.operations import Operation, Traits
from everhold.schema.rules import check_operation, check_size
from everhold.schema.sql import quote, quote_names
from everhold.schema.sql_records import COMMIT_LIMIT
from everhold.schema.statements import SqlStatement

_TICKET = f"SELECT pg_current_xact_id()::text, ({INCARNATION})"
_FIRST_ANALYSIS = 400
_ASK_AGAIN = 0.1
_DERIVED_TABLES = ("revisions", "changes", "messages", "episodes", "jobs")
_HOT_TABLES = ("memories", "chunks", "memory_tags", "memory_relationships", "memory_access_logs", "outbox")

_REFUSED = (AlreadyExists, BrokenReference, InvalidInput, struct.error, AttributeError, TypeError, ValueError)
"""By the server, or before it was asked because a value is not of its column's kind."""

logger = logging.getLogger(__name__)

_Sent = tuple[psycopg.Cursor[tuple[Any, ...]], SqlStatement]


class PostgresRecords(PostgresReading):
    """Records in PostgreSQL."""

    def __init__(self, options: PostgresOptions) -> None:
        super().__init__()
        self.options = options
        self.writes = 0
        """How many commits were tried. Whoever keeps what was read looks whether it has changed."""
        self._counting = threading.Lock()
        with translated(options):
            self._details = retry_transient("prepare the schema", self._prepare, options)
            self._pool = make_pool(options)

    def _prepare(self) -> Mapping[str, str]:
        with connect(self.options) as connection:
            self._role = role = role_of(connection)
            if self.options.owner_url is None:
                prepare(connection, self.options)
            else:
                with connect(self.options.owner) as owner:
                    prepare(owner, self.options, role)
            require(connection, self.options)
            [(vector, unknown)] = connection.execute(
                """SELECT extversion, (SELECT reltuples < 0 FROM pg_class WHERE oid = 'memories'::regclass)
                FROM pg_extension WHERE extname = 'vector'"""
            ).fetchall()
            self._analyse_after = _FIRST_ANALYSIS if unknown else None
            server = connection.info.parameter_status("server_version") or ""
            parted = "memories, chunks and the access log" if is_parted(connection) else "none"
        apart = f"in force for role {role}" if self.options.row_security else "off"
        described = {"database": self.options.place, "postgresql": server, "pgvector": vector}
        return {**described, "row security": apart, "partitions": parted}

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

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        check_size(operations, COMMIT_LIMIT)
        fit, refusal = _before_a_refusal(operations)
        if self.options.row_security:
            self._write([list(guarded(fit, self.compiler))], fit, refusal)
        elif refusal is not None or not self._loaded(fit):
            self._write([list(self.compile_statements(fit))], fit, refusal)

    def _loaded(self, operations: Sequence[Operation]) -> bool:
        """Whether the rows could be written many at once. If not, nothing was, and one by one shows why."""
        try:
            parts = gathered(operations, self.compiler)
            if parts is not None:
                self._write(parts, operations)
        except _REFUSED:
            return False
        return parts is not None

    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        self._write([list(statements)], ())

    def _write(
        self, parts: Sequence[Part], operations: Sequence[Operation], refusal: InvalidInput | None = None
    ) -> None:
        """Commits; or, given why what comes after them is refused, does so once none of these is refused itself."""
        if self.options.read_only:
            raise StoreReadOnly(
                f"{self.options.place} was opened read-only", remedy="open it without read_only to write"
            )
        try:
            with translated(self.options):
                while any(parts):
                    ticket = retry_transient(
                        "commit", lambda: self._attempt(parts, refusal), self.options, self._drop_dead
                    )
                    if ticket is None or self._was_committed(ticket, operations):
                        return
            if refusal is not None:
                raise refusal
        finally:
            with self._counting:
                self.writes += 1  # also those that failed: what became of them may not be known

    def _attempt(self, parts: Sequence[Part], refusal: InvalidInput | None) -> Ticket | None:
        """Nothing when the commit is known to have happened, or else what to ask for."""
        with uninterrupted, self._pool.connection() as connection:
            sent: list[_Sent] = []
            try:
                drawn = self._send(connection, parts, sent)
            except (psycopg.Error, UnicodeEncodeError):
                _require_valid_results(sent)  # the first operation that failed is the one to tell of
                raise
            _require_valid_results(sent)
            if refusal is not None:
                raise refusal
            [(xid, incarnation)] = drawn.fetchall()
            try:
                connection.execute("COMMIT")
            except psycopg.Error:
                if not connection.closed:
                    raise
                return Ticket(int(xid), incarnation)
        left = self._analyse_after  # read once: another thread may end the count at any moment
        if left is not None:
            left -= sum(part.rows if isinstance(part, Bulk) else len(part) for part in parts)
            self._analyse_after = left if left >= 0 else None
        return None

    def _send(self, connection: Connection, parts: Sequence[Part], sent: list[_Sent]) -> psycopg.Cursor[Any]:
        """All but the COMMIT. Returns where the transaction's id and the server's run will be.

        A pooler keeps its clients through a restart of the server, so the run is asked for in the transaction itself.
        """
        with connection.pipeline():
            self._begin(connection, {})
            drawn = connection.execute(_TICKET.encode())
            if not isinstance(parts[0], Bulk):
                sent.extend(self._sent(connection, parts[0]))
                parts = parts[1:]
        for part in parts:
            if isinstance(part, Bulk):
                load(connection, part)
                if self._analyse_after is not None:
                    connection.execute(f"ANALYZE (SKIP_LOCKED) {quote(part.table)}".encode())
            else:
                with connection.pipeline():
                    sent.extend(self._sent(connection, part))
        return drawn

    def _sent(self, connection: Connection, batch: Sequence[SqlStatement]) -> Iterator[_Sent]:
        """Statements on their way, each with what to say if it touches no row.

        In a new database the planner takes every table for empty, and would keep checking each reference by reading
        all of an organization; so it is told of the first rows as soon as there are some.
        """
        for at, statement in enumerate(batch):
            if at == self._analyse_after:
                connection.execute(f"ANALYZE (SKIP_LOCKED) {quote_names(_HOT_TABLES)}".encode())
            returned = connection.execute(statement.sql.encode(), statement.values, binary=statement.check is not None)
            yield returned, statement

    def _was_committed(self, ticket: Ticket, operations: Sequence[Operation]) -> bool:
        deadline = time.monotonic() + self.options.connect_seconds + self.options.query_seconds
        outcome = Outcome.IN_PROGRESS
        while outcome is Outcome.IN_PROGRESS and time.monotonic() < deadline:
            self._drop_dead()
            try:
                with uninterrupted, self._pool.connection() as connection, connection.transaction():
                    if self.options.row_security:
                        name(connection, WHOLE_STORE)
                    outcome = outcome_of(connection, ticket, operations)
            except psycopg.OperationalError as error:
                if not is_transient(error):
                    raise _unknown(self.options) from error
            if outcome is Outcome.IN_PROGRESS:
                time.sleep(_ASK_AGAIN)
        if outcome in (Outcome.IN_PROGRESS, Outcome.UNKNOWN):
            raise _unknown(self.options)
        logger.warning("a connection was lost during COMMIT; the transaction is %s", outcome.name.lower())
        return outcome is Outcome.COMMITTED

    # care

    def maintain(self, *, erased: bool = False) -> bool:
        """Make and drop partitions of large tables, clear away dead rows, refresh the planner's statistics, and index
        the vectors of scopes grown large.

        With `erased`, every table that may have held what was purged is vacuumed. PostgreSQL then reuses the space;
        only VACUUM FULL, which locks the tables, rewrites the files.
        """
        if self._pool.closed:
            raise StoreUnavailable(f"{self.options.place} has been closed", remedy="open it again")
        is_owner = self.options.owner_url is not None or not self.options.row_security
        with translated(self.options), connect(replace(self.options.owner, query_seconds=0)) as connection:
            if is_owner:
                tend(connection, self.options, self._role)
            tables = (*_HOT_TABLES, *_DERIVED_TABLES) if erased else _HOT_TABLES
            connection.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {quote_names(tables)}".encode())
            if is_owner and not self.options.owner.transaction_pooler:
                build_needed(connection, self.options)
        return True

    def find_problems(self) -> list[str]:
        """Rows whose reference by kind leads nowhere, and indexes and triggers that are not in force."""
        rows = self.ask([*((sql, ()) for sql in orphan_queries()), (OUT_OF_FORCE, ())], access=EVERYTHING)
        found = [str(text) for answer in rows for (text,) in answer]
        if self.options.row_security:
            with translated(self.options), uninterrupted, self._pool.connection() as connection:
                found += faults_of(connection)
        return found

    def close(self) -> None:
        with uninterrupted:
            self._pool.close()


def _before_a_refusal(operations: Sequence[Operation]) -> tuple[Sequence[Operation], InvalidInput | None]:
    """The operations up to the first that makes a row what no row could be, and why that is refused. The server
    would refuse a change only in some of its plans if the row is not there."""
    for at, operation in enumerate(operations):
        try:
            check_operation(operation)
        except InvalidInput as refusal:
            return operations[:at], refusal
    return operations, None


def _require_valid_results(sent: Sequence[_Sent]) -> None:
    """Raise the error of the first statement that touched no row, or left a row that breaks a rule."""
    for cursor, statement in sent:
        if statement.stale and cursor.rowcount == 0:
            raise StaleVersion(statement.stale)
        if statement.check and cursor.rowcount > 0:
            for row in cursor.fetchall():
                statement.check(row)


def _unknown(options: PostgresOptions) -> StoreUnavailable:
    return StoreUnavailable(
        f"{options.place} was lost while it committed and whether it did cannot be known now",
        remedy="read what was to be written before writing it again",
    )
