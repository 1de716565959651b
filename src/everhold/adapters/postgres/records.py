"""A store of record in a PostgreSQL database.

A commit takes two round trips: first all statements in one pipeline, whose answers give the number of changed rows and
the transaction id; then the COMMIT. Bulk inserts take one more round trip per table. A connection that is lost before
the COMMIT has written nothing. If it is lost during the COMMIT, the server is asked for the outcome.
"""

import logging
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg

from everhold.adapters.postgres.bulk import Bulk, Part, collect_bulks, insert_bulk
from everhold.adapters.postgres.connection import (
    INCARNATION,
    PostgresConnection,
    PostgresOptions,
    connect,
    is_transient,
    make_pool,
    retry_transient,
    translate_errors,
)
from everhold.adapters.postgres.inspection import INVALID_OBJECTS, make_orphan_queries
from everhold.adapters.postgres.nearest import build_missing_indexes
from everhold.adapters.postgres.outcome import Ticket, TransactionOutcome, find_outcome
from everhold.adapters.postgres.partitions import is_partitioned, maintain_partitions
from everhold.adapters.postgres.reading import PostgresReading
from everhold.adapters.postgres.schema import prepare
from everhold.adapters.postgres.security import (
    EVERYTHING,
    WHOLE_STORE,
    compile_with_access,
    find_faults,
    read_role,
    require_isolation,
    set_access,
)
from everhold.adapters.postgres.snapshot import PostgresSnapshot
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

# Identifies a transaction, so that its outcome can be looked up after a lost connection.
_TICKET = f"SELECT pg_current_xact_id()::text, ({INCARNATION})"
_FIRST_ANALYSIS = 400  # rows in a new database before its tables are analysed for the planner
_POLL_SECONDS = 0.1  # between two queries for the outcome of a transaction
_DERIVED_TABLES = ("revisions", "changes", "messages", "episodes", "jobs")
_HOT_TABLES = ("memories", "chunks", "memory_tags", "memory_relationships", "memory_access_logs", "outbox")

# Errors of invalid rows: from the server, or from an encoder that got a value of the wrong type.
_ROW_ERRORS = (AlreadyExists, BrokenReference, InvalidInput, struct.error, AttributeError, TypeError, ValueError)

logger = logging.getLogger(__name__)

# A statement that was sent, and the cursor with its result.
_SentStatement = tuple[psycopg.Cursor[tuple[Any, ...]], SqlStatement]


class PostgresRecords(PostgresReading):
    """Records in PostgreSQL."""

    def __init__(self, options: PostgresOptions) -> None:
        super().__init__()
        self.options = options
        self.writes = 0
        """The number of attempted commits. If it has changed, a replica may have to catch up."""
        self.role = ""
        """The database role of the connections."""
        self._writes_lock = threading.Lock()
        with translate_errors(options):
            self._details = retry_transient("prepare the schema", self._prepare, options)
            self._pool = make_pool(options)

    def _prepare(self) -> Mapping[str, str]:
        """Create or upgrade the tables, and return what `doctor` shows about the database."""
        with connect(self.options) as connection:
            self.role = role = read_role(connection)
            if self.options.owner_url is None:
                prepare(connection, self.options)
            else:
                with connect(self.options.owner) as owner:
                    prepare(owner, self.options, role)
            require_isolation(connection, self.options)
            [(pgvector_version, is_unanalysed)] = connection.execute(
                """SELECT extversion, (SELECT reltuples < 0 FROM pg_class WHERE oid = 'memories'::regclass)
                FROM pg_extension WHERE extname = 'vector'"""
            ).fetchall()
            self._analyse_after = _FIRST_ANALYSIS if is_unanalysed else None
            server_version = connection.info.parameter_status("server_version") or ""
            partitions = "memories, chunks and the access log" if is_partitioned(connection) else "none"
        row_security = f"in force for role {role}" if self.options.row_security else "off"
        versions = {"postgresql": server_version, "pgvector": pgvector_version}
        return {"database": self.options.place, **versions, "row security": row_security, "partitions": partitions}

    @property
    def traits(self) -> Traits:
        return Traits(
            name="postgres",
            words="native",
            vectors="native",
            commit_limit=COMMIT_LIMIT,
            ordered=False,
            details={**self._details, "pool": str(self.options.pool_size)},
            erasure_note="vacuumed; VACUUM FULL and the removal of old WAL files rewrite the last bytes",
        )

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        check_size(operations, COMMIT_LIMIT)
        valid, refusal = _split_at_invalid(operations)
        if self.options.row_security:
            self._write([list(compile_with_access(valid, self.compiler))], valid, refusal)
        elif refusal is not None or not self._write_in_bulk(valid):
            self._write([list(self.compile_statements(valid))], valid, refusal)

    def _write_in_bulk(self, operations: Sequence[Operation]) -> bool:
        """Write the rows with COPY. Return False, with nothing written, if that is not possible."""
        try:
            parts = collect_bulks(operations, self.compiler)
            if parts is not None:
                self._write(parts, operations)
        except _ROW_ERRORS:  # single statements then give the error of the first invalid row
            return False
        return parts is not None

    def _transact(self, statements: Iterable[SqlStatement]) -> None:
        self._write([list(statements)], ())

    def _write(
        self, parts: Sequence[Part], operations: Sequence[Operation], refusal: InvalidInput | None = None
    ) -> None:
        """Commit the parts. With `refusal`, the error of a later operation, run them and roll back.

        An error of the parts is raised first, because their operations come first; otherwise `refusal` is raised.
        """
        if self.options.read_only:
            raise StoreReadOnly(
                f"{self.options.place} was opened read-only", remedy="open it without read_only to write"
            )
        try:
            with translate_errors(self.options):
                while any(parts):
                    ticket = retry_transient(
                        "commit", lambda: self._attempt(parts, refusal), self.options, self._drop_dead_connections
                    )
                    if ticket is None or self._was_committed(ticket, operations):
                        return
            if refusal is not None:
                raise refusal
        finally:
            with self._writes_lock:
                self.writes += 1  # also after a failure, because the outcome may be unknown

    def _attempt(self, parts: Sequence[Part], refusal: InvalidInput | None) -> Ticket | None:
        """Commit and return None; if the connection is lost during COMMIT, return the ticket to look up the outcome."""
        with uninterrupted, self._pool.connection() as connection:
            sent: list[_SentStatement] = []
            try:
                ticket = self._send(connection, parts, sent)
            except (psycopg.Error, UnicodeEncodeError):
                _require_valid_results(sent)  # an earlier statement may have failed without an error of the server
                raise
            _require_valid_results(sent)
            if refusal is not None:
                raise refusal
            [(xid, incarnation)] = ticket.fetchall()
            try:
                connection.execute("COMMIT")
            except psycopg.Error:
                if not connection.closed:
                    raise
                return Ticket(int(xid), incarnation)
        rows_left = self._analyse_after  # read once: another thread may set it to None at any moment
        if rows_left is not None:
            rows_left -= sum(part.rows if isinstance(part, Bulk) else len(part) for part in parts)
            self._analyse_after = rows_left if rows_left >= 0 else None
        return None

    def _send(
        self, connection: PostgresConnection, parts: Sequence[Part], sent: list[_SentStatement]
    ) -> psycopg.Cursor[Any]:
        """Send everything except the COMMIT. Return the cursor with the transaction's id and the server's incarnation.

        A pooler keeps its clients through a restart of the server, so the incarnation is read in the transaction.
        """
        with connection.pipeline():
            self._begin(connection, {})
            ticket = connection.execute(_TICKET.encode())
            if not isinstance(parts[0], Bulk):
                sent.extend(self._send_statements(connection, parts[0]))
                parts = parts[1:]
        for part in parts:
            if isinstance(part, Bulk):
                insert_bulk(connection, part)
                if self._analyse_after is not None:
                    connection.execute(f"ANALYZE (SKIP_LOCKED) {quote(part.table)}".encode())
            else:
                with connection.pipeline():
                    sent.extend(self._send_statements(connection, part))
        return ticket

    def _send_statements(
        self, connection: PostgresConnection, batch: Sequence[SqlStatement]
    ) -> Iterator[_SentStatement]:
        """Send statements and yield each with its cursor.

        In a new database the planner assumes that every table is empty, and would check each reference by scanning all
        rows of the organization. So the tables are analysed as soon as they have some rows.
        """
        for position, statement in enumerate(batch):
            if position == self._analyse_after:
                connection.execute(f"ANALYZE (SKIP_LOCKED) {quote_names(_HOT_TABLES)}".encode())
            cursor = connection.execute(statement.sql.encode(), statement.values, binary=statement.check is not None)
            yield cursor, statement

    def _was_committed(self, ticket: Ticket, operations: Sequence[Operation]) -> bool:
        """Ask the server for the outcome of a transaction whose connection was lost, until it is decided."""
        deadline = time.monotonic() + self.options.connect_seconds + self.options.query_seconds
        outcome = TransactionOutcome.IN_PROGRESS
        while outcome is TransactionOutcome.IN_PROGRESS and time.monotonic() < deadline:
            self._drop_dead_connections()
            try:
                with uninterrupted, self._pool.connection() as connection, connection.transaction():
                    if self.options.row_security:
                        set_access(connection, WHOLE_STORE)
                    outcome = find_outcome(connection, ticket, operations)
            except psycopg.OperationalError as error:
                if not is_transient(error):
                    raise _make_unknown_error(self.options) from error
            if outcome is TransactionOutcome.IN_PROGRESS:
                time.sleep(_POLL_SECONDS)
        if outcome in (TransactionOutcome.IN_PROGRESS, TransactionOutcome.UNKNOWN):
            raise _make_unknown_error(self.options)
        logger.warning("a connection was lost during COMMIT; the transaction is %s", outcome.name.lower())
        return outcome is TransactionOutcome.COMMITTED

    @contextmanager
    def read_snapshot(self) -> Iterator[PostgresSnapshot]:
        if self._pool.closed:
            raise StoreUnavailable(f"{self.options.place} has been closed", remedy="open it again")
        # No time limit: reading a whole table for a backup takes long, and holds no locks that others wait for.
        with translate_errors(self.options):
            connection = connect(replace(self.options, query_seconds=0))
        try:
            yield PostgresSnapshot(connection, self.options)
        finally:
            with uninterrupted:
                connection.close()

    # maintenance

    def maintain(self, *, erased: bool = False) -> bool:
        """Create and drop partitions, vacuum, refresh the planner's statistics, and index the vectors of large scopes.

        With `erased`, every table that may have had purged rows is vacuumed. PostgreSQL then reuses the space;
        only VACUUM FULL, which locks the tables, rewrites the files.
        """
        if self._pool.closed:
            raise StoreUnavailable(f"{self.options.place} has been closed", remedy="open it again")
        is_owner = self.options.owner_url is not None or not self.options.row_security
        with translate_errors(self.options), connect(replace(self.options.owner, query_seconds=0)) as connection:
            if is_owner:
                maintain_partitions(connection, self.options, self.role)
            tables = (*_HOT_TABLES, *_DERIVED_TABLES) if erased else _HOT_TABLES
            connection.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {quote_names(tables)}".encode())
            if is_owner and not self.options.owner.transaction_pooler:
                build_missing_indexes(connection, self.options)
        return True

    def find_problems(self) -> list[str]:
        """Return broken references by kind, invalid indexes, disabled triggers and faults of row-level security."""
        rows = self.ask([*((sql, ()) for sql in make_orphan_queries()), (INVALID_OBJECTS, ())], access=EVERYTHING)
        problems = [str(text) for answer in rows for (text,) in answer]
        if self.options.row_security:
            with translate_errors(self.options), uninterrupted, self._pool.connection() as connection:
                problems += find_faults(connection)
        return problems

    def close(self) -> None:
        with uninterrupted:
            self._pool.close()


def _split_at_invalid(operations: Sequence[Operation]) -> tuple[Sequence[Operation], InvalidInput | None]:
    """Return the operations before the first invalid one, and the error of the invalid one.

    The check is needed because the server checks the values of an UPDATE only if the row exists.
    """
    for position, operation in enumerate(operations):
        try:
            check_operation(operation)
        except InvalidInput as refusal:
            return operations[:position], refusal
    return operations, None


def _require_valid_results(sent: Sequence[_SentStatement]) -> None:
    """Raise the error of the first statement that changed no row, or left a row that breaks a rule."""
    for cursor, statement in sent:
        if statement.stale and cursor.rowcount == 0:
            raise StaleVersion(statement.stale)
        if statement.check and cursor.rowcount > 0:
            for row in cursor.fetchall():
                statement.check(row)


def _make_unknown_error(options: PostgresOptions) -> StoreUnavailable:
    return StoreUnavailable(
        f"the connection to {options.place} was lost during COMMIT, and the outcome is unknown",
        remedy="read the data before you write it again",
    )
