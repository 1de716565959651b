"""A PostgreSQL database, in a read-only transaction that the server ends at its time limit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.sql import SQL, Identifier
from psycopg.types.datetime import DateLoader, TimeLoader, TimestampLoader, TimestamptzLoader

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import BATCH_ROWS, QueryFailure, RowStream, make_connection_failure
from everhold.adapters.data_engine.hosts import require_local, resolve_host
from everhold.adapters.data_engine.session import CatalogColumn, CatalogTable

_TYPES: Final[Mapping[str, str]] = {
    "bool": "boolean", "int2": "integer", "int4": "integer", "int8": "integer", "numeric": "decimal",
    "float4": "float", "float8": "float", "text": "text", "varchar": "text", "bpchar": "text", "name": "text",
    "uuid": "text", "bytea": "bytes", "date": "date", "time": "time", "timetz": "time", "timestamp": "timestamp",
    "timestamptz": "timestamp", "interval": "interval", "json": "json", "jsonb": "json",
}  # fmt: skip
# Returns whether the role has rights with which it can read or write files of the server, or run programs there.
IS_DANGEROUS_ROLE: Final = """
    SELECT rolsuper OR EXISTS (
        SELECT FROM unnest(ARRAY['pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program']) AS r
        WHERE pg_has_role(session_user, r, 'MEMBER')
    ) FROM pg_roles WHERE rolname = session_user
"""
_TABLES: Final = """
    SELECT c.relname, c.relkind IN ('v', 'm'), c.reltuples::bigint,
        has_table_privilege(c.oid, 'INSERT') OR has_table_privilege(c.oid, 'UPDATE')
            OR has_table_privilege(c.oid, 'DELETE')
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
        AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
    ORDER BY 1
"""
_COLUMNS: Final = """
    SELECT c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    ORDER BY c.relname, a.attnum
"""
# This reads pg_catalog, because information_schema shows the constraints of a table only to the table's owner.
_CONSTRAINTS: Final = """
    SELECT c.relname, k.contype::text, f.relname,
        ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS u(number, place)
            JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number ORDER BY u.place),
        ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS u(number, place)
            JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.number ORDER BY u.place)
    FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_catalog.pg_class f ON f.oid = k.confrelid
    WHERE n.nspname = %s AND k.contype IN ('p', 'u', 'f')
        AND (k.confrelid = 0 OR f.relnamespace = c.relnamespace)
    ORDER BY k.conname
"""
_PORT: Final = 5432
# Without these, libpq would send a server passwords and certificates from files of the user who runs this process.
_NO_FILES: Final[Mapping[str, str]] = {"passfile": "no-such-file", "sslcertmode": "disable", "gssencmode": "disable"}


# PostgreSQL has times that Python lacks: infinity, years before 1 or after 9999, and 24:00. They are returned as text.
_LOADERS: Final[Mapping[str, type[Loader]]] = {
    "date": DateLoader, "time": TimeLoader, "timestamp": TimestampLoader, "timestamptz": TimestamptzLoader,
}  # fmt: skip


def open_session(request: Mapping[str, Any]) -> "PostgresSession":
    """Connect to the database of the request, and give up all other rights."""
    limits, data = request["limits"], request["data"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    confinement.MemoryLimit(limits["megabytes"]).apply()  # before a hostile server can send anything
    parameters = choose_parameters(data)
    try:
        connection = _connect(parameters, limits["seconds"])
        _refuse_dangerous_role(connection)
    except psycopg.Error as error:
        raise make_connection_failure(_take_first_line(error)) from error
    confinement.restrict_files([])
    confinement.refuse_calls()
    return PostgresSession(connection, data["schema"] or "public")


def choose_parameters(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters for libpq.

    They contain the host's address, so that libpq does not resolve the name again.
    """
    host, port = data["host"], data["port"] or _PORT
    parameters = {"user": data["user"], "password": data["password"], "dbname": data["database"], "port": port}
    parameters |= {**_NO_FILES, **data["parameters"]}
    if host.startswith("/"):
        require_local(host, data["hosts"])
        return {**parameters, "host": host}
    return {**parameters, "host": host, "hostaddr": resolve_host(host, port, data["hosts"]).address}


class PostgresSession:
    """A read-only connection to one schema."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> None:
        self._connection, self._schema = connection, schema
        version = connection.info.server_version
        self.server = f"PostgreSQL {version // 10000}.{version % 10000}"
        self.notes: list[str] = []

    def read_rows(self, sql: str) -> RowStream:
        try:
            self._begin()
        except psycopg.Error as error:
            raise QueryFailure("unreachable", _take_first_line(error)) from error
        return _execute(self._connection, sql)

    def _begin(self) -> None:
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        set_path = SQL("SET LOCAL search_path = {}, pg_temp").format(Identifier(self._schema))
        self._connection.execute(set_path)

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        try:
            self._begin()
            self._connection.execute(f"SET LOCAL statement_timeout = {int(1000 * seconds)}".encode())
            return self._connection.execute(sql.encode()).fetchall()
        except psycopg.Error as error:
            raise _translate(error) from error
        finally:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")

    def list_tables(self) -> list[CatalogTable]:
        try:
            return self._list_tables()
        except psycopg.Error as error:
            raise _translate(error) from error

    def _list_tables(self) -> list[CatalogTable]:
        run, schema = self._connection.execute, [self._schema]
        rows = run(_TABLES, schema).fetchall()
        tables = {
            name: CatalogTable(name, is_view, estimate if estimate >= 0 else None)
            for name, is_view, estimate, _ in rows
        }
        writable = [name for name, _, _, can_write in rows if can_write]
        if writable:
            self.notes.append(
                f"the role {self._connection.info.user!r} can also write, for example to {writable[0]!r}; every query "
                "runs in a read-only transaction, but a role that may only read is safer"
            )
        for name, column, data_type in run(_COLUMNS, schema).fetchall():
            if name in tables:
                tables[name].columns.append(CatalogColumn(column, data_type))
        for name, kind, target, columns, target_columns in run(_CONSTRAINTS, schema).fetchall():
            if name in tables:
                _add_constraint(tables[name], kind, target, columns, target_columns)
        return list(tables.values())


def _add_constraint(table: CatalogTable, kind: str, target: str, columns: list[str], target_columns: list[str]) -> None:
    if kind == "p":
        table.primary_key = columns
    elif kind == "u" and len(columns) == 1:
        table.unique_columns.add(columns[0])
    elif kind == "f" and len(columns) == 1:
        table.foreign_keys.append((columns[0], target, target_columns[0]))


def _connect(parameters: dict[str, Any], seconds: float) -> psycopg.Connection[tuple[Any, ...]]:
    milliseconds = int(seconds * 1000)
    options = {
        "default_transaction_read_only": "on", "statement_timeout": milliseconds, "lock_timeout": milliseconds,
        "idle_in_transaction_session_timeout": milliseconds, "client_connection_check_interval": 1000,
        "max_parallel_workers_per_gather": 0, "timezone": "UTC", "client_encoding": "UTF8",
        "standard_conforming_strings": "on",  # as the guard reads texts
    }  # fmt: skip
    connection = psycopg.connect(**parameters, connect_timeout=int(seconds) + 2, autocommit=True)
    for name, value in options.items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, str(value)])
    for kind, loader in _LOADERS.items():
        connection.adapters.register_loader(kind, _make_lenient(loader))
    # Reading a UUID imports a Python module, which is not possible once files are restricted.
    connection.execute("SELECT gen_random_uuid()").fetchall()
    return connection


def _make_lenient(loader: type[Loader]) -> type[Loader]:
    """Return a loader that returns the text of a value that it cannot convert."""

    class LenientLoader(loader):  # type: ignore[valid-type, misc]
        def load(self, data: Buffer) -> Any:
            try:
                return super().load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return LenientLoader


def _refuse_dangerous_role(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    rows = connection.execute(IS_DANGEROUS_ROLE).fetchall()
    if rows != [(False,)]:
        raise QueryFailure("role", connection.info.user)


def _execute(connection: psycopg.Connection[tuple[Any, ...]], text: str) -> RowStream:
    try:
        # A cursor takes one query that changes nothing. `prepare` sends it by the protocol that refuses a second one.
        declaration = f"DECLARE result NO SCROLL CURSOR WITHOUT HOLD FOR {text}"
        connection.execute(declaration.encode(), prepare=True)
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
    type_info = connection.adapters.types.get(code)
    if type_info is None:
        return "unknown"
    is_array = type_info.oid != code
    return "json" if is_array else _TYPES.get(type_info.name, "unknown")


def _translate(error: psycopg.Error) -> QueryFailure:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return QueryFailure("time", "")
    if isinstance(error, psycopg.errors.OutOfMemory):
        return QueryFailure("memory", "")
    return QueryFailure("failed", _take_first_line(error))


def _take_first_line(error: psycopg.Error) -> str:
    return str(error).partition("\n")[0][:300]
