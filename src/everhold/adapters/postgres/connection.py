"""Connect to a PostgreSQL server and translate the errors of psycopg into Everhold errors."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from everhold.adapters.postgres.dialect import CONTEXT
from everhold.errors import (
    AlreadyExists,
    BrokenReference,
    EverholdError,
    InvalidInput,
    InvalidSettings,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)  # fmt: skip
from everhold.interrupts import uninterrupted
from everhold.retries import RetryPolicy, retry
from everhold.schema.catalog import TABLES
from everhold.schema.sql import name_index

T = TypeVar("T")

# Seconds between the attempts of a retry.
_FIRST_PAUSE = 0.07
_MAX_PAUSE = 30.0
_PREPARE_AFTER = 3  # executions of a statement before it is prepared
# jit: queries find rows by key, so compiling costs more than running. random_page_cost: tables grow, so the planner
# must not avoid index scans while they are small. cursor_tuple_fraction: a stream is always read to its end.
_PLANNING = {"jit": "off", "random_page_cost": "1.1", "cursor_tuple_fraction": "1.0"}
INCARNATION = """SELECT extract(epoch FROM pg_postmaster_start_time())::text || ' '
  || coalesce(extract(epoch FROM stats_reset)::text, '') FROM pg_stat_bgwriter"""


# psycopg logs the statements that a failed pipeline does not run; the engine raises that error itself
logging.getLogger("psycopg").addHandler(logging.NullHandler())


@dataclass(frozen=True)
class PostgresOptions:
    """Options for connecting to a database.

    `query_seconds` limits how long a statement runs or waits for a lock before StoreBusy; `connect_seconds` limits the
    wait for a connection before StoreUnavailable. If the server has not answered `grace_seconds` after the time
    limit of a statement, the connection counts as lost.

    `ssl` is libpq's sslmode; None leaves it to the URL. Behind a pooler in transaction mode (PgBouncer), set
    `transaction_pooler`: then nothing depends on the session, and limits are set in every transaction.

    With `row_security` the database itself separates organizations. `owner_url` is the address of the tables' owner,
    who prepares them for the role of `url`; it must lead to the server itself, not to a pooler. `replica_url` is the
    address of a streaming replica that recalls may read from. `vector_index` is the kind of vector index for large
    scopes; `lists` is a parameter of IVFFlat, the two `hnsw_` fields are parameters of HNSW. `partitions` is the
    length of the time range in each partition of a new store's large tables.
    """

    url: str = field(repr=False)
    pool_size: int = 10
    connect_seconds: float = 30.0
    query_seconds: float = 30.0
    grace_seconds: float = 5.0
    ssl: str | None = None
    retries: int = 5
    read_only: bool = False
    transaction_pooler: bool = False
    row_security: bool = False
    owner_url: str | None = field(default=None, repr=False)
    replica_url: str | None = field(default=None, repr=False)
    vector_index: Literal["hnsw", "ivfflat"] = "hnsw"
    hnsw_m: int = 16
    hnsw_ef_construction: int = 64
    lists: int = 100
    partitions: Literal["none", "month", "quarter"] = "none"

    @property
    def owner(self) -> "PostgresOptions":
        """The options to connect as the owner of the tables."""
        return self if self.owner_url is None else replace(self, url=self.owner_url, transaction_pooler=False)

    @property
    def place(self) -> str:
        """The database without its password, for messages."""
        parts = self._parse_url()
        host = parts.get("host") or parts.get("hostaddr") or "local socket"
        port = f":{parts['port']}" if parts.get("port") else ""
        return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"

    def make_arguments(self) -> dict[str, Any]:
        """Return the arguments for psycopg.connect."""
        parts = self._parse_url()
        arguments = {
            "connect_timeout": max(2, round(self.connect_seconds)),
            "tcp_user_timeout": round(1000 * self.query_seconds),
            "application_name": parts.get("application_name") or "everhold",
        }
        if self.ssl is not None:
            arguments["sslmode"] = self.ssl
        if not self.transaction_pooler:
            settings = " ".join(f"-c {name}={value}" for name, value in self.make_settings().items())
            arguments["options"] = f"{parts.get('options') or ''} {settings}".strip()
        prepare = None if self.transaction_pooler else _PREPARE_AFTER
        return {**parts, **arguments, "autocommit": True, "prepare_threshold": prepare, "context": CONTEXT}

    def make_settings(self) -> dict[str, str]:
        """Return the server settings for every session, or for every transaction behind a pooler."""
        limit = f"{round(1000 * self.query_seconds)}ms"
        settings = {"statement_timeout": limit, "lock_timeout": limit, **_PLANNING}
        return {**settings, "default_transaction_read_only": "on"} if self.read_only else settings

    def _parse_url(self) -> dict[str, Any]:
        try:
            parts = conninfo_to_dict(self.url)
        except psycopg.ProgrammingError:  # its message may quote the password
            raise InvalidSettings(
                "the PostgreSQL address cannot be read", remedy="write postgresql://user:password@host:port/database"
            ) from None
        if "@" in str(parts.get("host") or "")[1:]:  # a socket may begin with one
            raise InvalidSettings("the PostgreSQL address has more than one @", remedy="write one in a password as %40")
        return parts


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for each answer only for a limited time."""

    patience: float | None = None
    """Seconds to wait for an answer: longer than the server's statement timeout, for a broken network."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # otherwise the next statement would get the late answer
            raise


def _make_connection_class(options: PostgresOptions) -> type[PostgresConnection]:
    patience = options.query_seconds + options.grace_seconds if options.query_seconds else None
    return type("Connection", (PostgresConnection,), {"patience": patience})


def read_incarnation(connection: psycopg.Connection[tuple[Any, ...]]) -> str:
    """Return an identifier of the server's current run, which changes after a restart or a recovery."""
    [(name,)] = connection.execute(INCARNATION, binary=True).fetchall()
    return str(name)


def connect(options: PostgresOptions) -> PostgresConnection:
    """Return a new connection outside the pool, with the same settings."""
    return _make_connection_class(options).connect(**options.make_arguments())


def make_pool(
    options: PostgresOptions,
    configure: Callable[[PostgresConnection], None] | None = None,
    reconnect_timeout: float = 300.0,
) -> ConnectionPool[PostgresConnection]:
    """Return a connection pool. After `reconnect_timeout` it stops reconnecting until a connection is needed."""
    return ConnectionPool(
        connection_class=_make_connection_class(options),
        kwargs=options.make_arguments(),
        min_size=1,
        max_size=options.pool_size,
        timeout=options.connect_seconds,
        configure=configure,
        reconnect_timeout=reconnect_timeout,
        open=True,
        name="everhold",
    )


class BorrowedConnection:
    """A connection borrowed from the pool for longer than one call, for a stream.

    If an interrupt prevents `give_back`, the connection is returned when Python collects this object. Otherwise the
    pool would lose a connection.
    """

    def __init__(self, pool: ConnectionPool[PostgresConnection], timeout: float | None = None) -> None:
        self._pool = pool
        self._is_given_back = True
        with uninterrupted:
            self.connection = pool.getconn(timeout)
            self._is_given_back = False

    def give_back(self) -> None:
        """Return the connection to the pool, outside any transaction. A second call does nothing."""
        with uninterrupted:
            if self._is_given_back:
                return
            self._is_given_back = True
            if self.connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                with suppress(psycopg.Error):  # the pool closes what is broken
                    self.connection.rollback()
            self._pool.putconn(self.connection)

    def __del__(self) -> None:
        if not self._is_given_back:  # tested first, because an interrupt deferred in a finalizer is lost
            self.give_back()


# retries

# Serialization failure, deadlock, too many connections, shutdown, crash, starting up, idle session or transaction.
_TRANSIENT = ("40001", "40P01", "53300", "57P01", "57P02", "57P03", "57P05", "25P03")
_LASTING_REFUSALS = ("authentication failed", "does not exist", "pg_hba.conf", "certificate", "not support SSL")


def is_transient(error: Exception) -> bool:
    """Return whether a retry may succeed, because nothing was done."""
    if not isinstance(error, psycopg.Error):
        return False
    if isinstance(error, PoolClosed | PoolTimeout):
        return False
    if error.sqlstate is None:
        is_lasting = any(words in str(error) for words in _LASTING_REFUSALS)
        return isinstance(error, psycopg.OperationalError) and not is_lasting
    return error.sqlstate in _TRANSIENT or error.sqlstate.startswith("08")


def retry_transient(
    name: str, work: Callable[[], T], options: PostgresOptions, before_retry: Callable[[], object] = lambda: None
) -> T:
    """Return the result of `work`. Retry it after transient errors."""
    policy = RetryPolicy(attempts=options.retries + 1, first_pause=_FIRST_PAUSE, longest_pause=_MAX_PAUSE)
    return retry(name, lambda _: work(), policy, on=psycopg.Error, should_retry=is_transient, before_retry=before_retry)


# translation of errors


@contextmanager
def translate_errors(options: PostgresOptions) -> Iterator[None]:
    """Raise the errors of psycopg as Everhold errors."""
    try:
        yield
    except psycopg.Error as error:
        raise _translate(error, options) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise InvalidInput(f"PostgreSQL cannot hold a value: {error}", remedy="change the value") from error


_BUSY = ("{place} blocked a statement for {seconds:g} s", "try again, or raise the query limit")
_UNREACHABLE = ("{place} cannot be reached ({error})", "check that the server runs and accepts connections, then retry")
_NOT_SIGNED_IN = ("{place} refused to sign in ({error})", "check the user, the password and the database")
_REFUSED = re.compile(r"FATAL: .*(authentication failed|does not exist|no pg_hba\.conf entry)")
_MISSING_OBJECT = ("{place} lacks something that was created there ({error})", "restore it from a backup")
_ERRORS: dict[str, tuple[type[EverholdError], str, str]] = {
    "08": (StoreUnavailable, *_UNREACHABLE),
    "22": (InvalidInput, "the store refused a value: {error}", "change the value"),
    "23": (InvalidInput, "the store refused a value: {error}", "change the value"),
    "2BP01": (StoreError, "{place}: {error}", "drop what depends on it first"),
    "25006": (StoreReadOnly, "{place} is read-only", "open it for writing, or connect to the primary server"),
    "28": (InvalidSettings, *_NOT_SIGNED_IN),
    "3D000": (InvalidSettings, *_NOT_SIGNED_IN),
    "40": (StoreBusy, "{place}: the transaction kept conflicting with other writers ({error})", "try again"),
    "42501": (StoreError, "{place}: {error}", "grant it to the role, or let an administrator do it"),
    "42P01": (StoreDamaged, *_MISSING_OBJECT),
    "42703": (StoreDamaged, *_MISSING_OBJECT),
    "53100": (StoreFull, "no space left for {place} ({error})", "free some disk, then retry"),
    "53300": (StoreUnavailable, "{place} has too many connections ({error})", "lower pool_size or raise the limit"),
    "54": (InvalidInput, "a value is too large for the store: {error}", "use a smaller one"),
    "55P03": (StoreBusy, *_BUSY),
    "57014": (StoreBusy, *_BUSY),
    "57P": (StoreUnavailable, *_UNREACHABLE),
    "XX001": (StoreDamaged, "{place} is damaged ({error})", "restore it from a backup"),
    "XX002": (StoreDamaged, "{place} has a damaged index ({error})", "run REINDEX"),
}
_DEFAULT_ERROR = (StoreError, "PostgreSQL failed on {place}: {error}", "see the server's log")


def _translate(error: psycopg.Error, options: PostgresOptions) -> EverholdError:
    state = error.sqlstate
    if state == "23505":
        return _make_duplicate_error(error)
    if state == "23503":
        return BrokenReference(
            "a row refers to one that does not exist in its organization", remedy="create that row first"
        )
    if state is None:
        kind, fact, remedy = _classify_without_state(error)
    else:
        matches = (_ERRORS.get(state[:length]) for length in (5, 3, 2))
        kind, fact, remedy = next(filter(None, matches), _DEFAULT_ERROR)
    text = error.diag.message_primary or str(error).strip()
    return kind(fact.format(place=options.place, error=text, seconds=options.query_seconds), remedy=remedy)


def _classify_without_state(error: psycopg.Error) -> tuple[type[EverholdError], str, str]:
    """Return the class and message for errors without a SQLSTATE: the driver's own, and those before a session."""
    match error:
        case PoolClosed():
            return StoreUnavailable, "{place} has been closed", "open it again"
        case PoolTimeout():
            return (
                StoreUnavailable,
                "{place} gave no connection in time ({error})",
                "check the server, or raise pool_size",
            )
        case psycopg.DataError() | psycopg.ProgrammingError():
            return InvalidInput, "PostgreSQL cannot hold a value: {error}", "change the value"
        case _ if _REFUSED.search(str(error)):  # before a session there is no SQLSTATE, only a message
            return InvalidSettings, *_NOT_SIGNED_IN
        case _:
            return StoreUnavailable, *_UNREACHABLE


def _make_duplicate_error(error: psycopg.Error) -> AlreadyExists:
    partition, rule = error.diag.table_name or "", error.diag.constraint_name or ""
    name = partition.partition("@")[0]  # the name of a partition is "table@range"
    if rule == f"{partition}_pkey":
        rule = "key"
    for table in TABLES.values():
        for unique in table.uniques:
            if name_index(table, "one", (unique.name,)) == rule:
                name, rule = table.name, unique.name
    return AlreadyExists(f"{name}: a live row with the same {rule} exists", table=name, rule=rule)
