"""A PostgreSQL database, in a read-only transaction that the server ends at its time limit."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.datetime import DateLoader, TimeLoader, TimestampLoader, TimestamptzLoader

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import BATCH_ROWS, QueryFailure, RowStream

_TYPES: Final[Mapping[str, str]] = {
    "bool": "boolean", "int2": "integer", "int4": "integer", "int8": "integer", "numeric": "decimal",
    "float4": "float", "float8": "float", "text": "text", "varchar": "text", "bpchar": "text", "name": "text",
    "uuid": "text", "bytea": "bytes", "date": "date", "time": "time", "timetz": "time", "timestamp": "timestamp",
    "timestamptz": "timestamp", "interval": "interval", "json": "json", "jsonb": "json",
}  # fmt: skip
# Roles with these rights can read or write files of the server, or run programs there.
_DANGEROUS: Final = """
    SELECT rolsuper OR EXISTS (
        SELECT FROM unnest(ARRAY['pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program']) AS r
        WHERE pg_has_role(session_user, r, 'MEMBER')
    ) FROM pg_roles WHERE rolname = session_user
"""


# PostgreSQL has times that Python lacks: infinity, years before 1 or after 9999, and 24:00. They are returned as text.
_LOADERS: Final[Mapping[str, type[Loader]]] = {
    "date": DateLoader, "time": TimeLoader, "timestamp": TimestampLoader, "timestamptz": TimestamptzLoader,
}  # fmt: skip


def read_rows(request: Mapping[str, Any]) -> RowStream:
    """Return the rows of the statement in the request."""
    limits, data = request["limits"], request["data"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    memory = confinement.MemoryLimit(limits["megabytes"])
    try:
        connection = _connect(data["url"], limits["seconds"])
        _begin(connection, data["schema"])
    except psycopg.Error as error:
        raise QueryFailure("unavailable", _first_line(error)) from error
    confinement.restrict_files([])
    confinement.refuse_calls()
    memory.apply()
    return _execute(connection, request["sql"])


def _connect(url: str, seconds: float) -> psycopg.Connection[tuple[Any, ...]]:
    milliseconds = int(seconds * 1000)
    options = {
        "default_transaction_read_only": "on", "statement_timeout": milliseconds, "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds, "client_connection_check_interval": 1000,
        "max_parallel_workers_per_gather": 0, "timezone": "UTC", "client_encoding": "UTF8",
    }  # fmt: skip
    connection = psycopg.connect(url, connect_timeout=max(2, int(seconds)), autocommit=True)
    for name, value in options.items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, str(value)])
    for kind, loader in _LOADERS.items():
        connection.adapters.register_loader(kind, _make_lenient(loader))
    # Reading a UUID imports a Python module, which is not possible once files are restricted.
    connection.execute("SELECT gen_random_uuid()").fetchall()
    return connection


def _make_lenient(loader: type[Loader]) -> type[Loader]:
    class LenientLoader(loader):  # type: ignore[valid-type, misc]
        def load(self, data: Buffer) -> Any:
            try:
                return super().load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return LenientLoader


def _begin(connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> None:
    [(is_dangerous,)] = connection.execute(_DANGEROUS).fetchall()
    if is_dangerous:
        raise QueryFailure("role", connection.info.user)
    connection.execute("BEGIN TRANSACTION READ ONLY")
    connection.execute(sql.SQL("SET LOCAL search_path = {}, pg_temp").format(sql.Identifier(schema)))


def _execute(connection: psycopg.Connection[tuple[Any, ...]], text: str) -> RowStream:
    try:
        # A cursor takes one query that changes nothing. `prepare` sends it by the protocol that refuses a second one.
        declared = f"DECLARE result NO SCROLL CURSOR WITHOUT HOLD FOR {text}"
        connection.execute(declared.encode(), prepare=True)
        cursor = connection.cursor()
        cursor.execute(f"FETCH FORWARD {BATCH_ROWS} FROM result")
    except psycopg.Error as error:
        raise _translate(error) from error
    columns = [(column.name, _name_type(connection, column.type_code)) for column in cursor.description or ()]
    return RowStream(columns, _fetch(cursor))


def _fetch(cursor: psycopg.Cursor[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    try:
        while batch := cursor.fetchall():
            yield batch
            cursor.execute(f"FETCH FORWARD {BATCH_ROWS} FROM result")
    except psycopg.Error as error:
        raise _translate(error) from error


def _name_type(connection: psycopg.Connection[tuple[Any, ...]], code: int) -> str:
    known = connection.adapters.types.get(code)
    if known is None:
        return "unknown"
    return _TYPES.get(known.name, "unknown") if known.oid == code else "json"  # or an array of the type


def _translate(error: psycopg.Error) -> QueryFailure:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return QueryFailure("time", "")
    if isinstance(error, psycopg.errors.OutOfMemory):
        return QueryFailure("memory", "")
    return QueryFailure("failed", _first_line(error))


def _first_line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0][:300]
