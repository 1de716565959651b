"""A MySQL or MariaDB database, in a read-only transaction that the server ends at its time limit."""

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.cursors import SSCursor

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import QueryFailure, RowStream, fetch_batches, make_connection_failure
from everhold.adapters.data_engine.hosts import require_local, resolve_host
from everhold.adapters.data_engine.session import CatalogColumn, CatalogTable

_PORT: Final = 3306
_TYPES: Final[Mapping[int, str]] = {
    FIELD_TYPE.TINY: "integer", FIELD_TYPE.SHORT: "integer", FIELD_TYPE.LONG: "integer", FIELD_TYPE.INT24: "integer",
    FIELD_TYPE.LONGLONG: "integer", FIELD_TYPE.YEAR: "integer", FIELD_TYPE.DECIMAL: "decimal",
    FIELD_TYPE.NEWDECIMAL: "decimal", FIELD_TYPE.FLOAT: "float", FIELD_TYPE.DOUBLE: "float", FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date", FIELD_TYPE.TIME: "interval", FIELD_TYPE.DATETIME: "timestamp",
    FIELD_TYPE.TIMESTAMP: "timestamp", FIELD_TYPE.JSON: "json", FIELD_TYPE.BIT: "bytes", FIELD_TYPE.ENUM: "text",
    FIELD_TYPE.SET: "text", FIELD_TYPE.VARCHAR: "text", FIELD_TYPE.VAR_STRING: "text", FIELD_TYPE.STRING: "text",
    FIELD_TYPE.BLOB: "text", FIELD_TYPE.TINY_BLOB: "text", FIELD_TYPE.MEDIUM_BLOB: "text",
    FIELD_TYPE.LONG_BLOB: "text",
}  # fmt: skip
_BINARY_CHARSET: Final = 63  # the number of the character set of columns with bytes
# Users with these rights can read or write files of the server, or change how it works.
_DANGEROUS: Final = ("FILE", "SUPER", "SYSTEM_VARIABLES_ADMIN", "SYSTEM_USER")
_HARMLESS: Final = ("USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES", "PROCESS", "REFERENCES")
_PRIVILEGES: Final = """
    SELECT privilege_type FROM information_schema.user_privileges WHERE grantee = {user}
    UNION SELECT privilege_type FROM information_schema.schema_privileges
        WHERE grantee = {user} AND {database} LIKE table_schema
    UNION SELECT privilege_type FROM information_schema.table_privileges
        WHERE grantee = {user} AND table_schema = {database}
"""
_TABLES: Final = """
    SELECT table_name, table_type <> 'BASE TABLE', table_rows FROM information_schema.tables
    WHERE table_schema = {database} AND table_type IN ('BASE TABLE', 'VIEW') ORDER BY 1
"""
_COLUMNS: Final = """
    SELECT table_name, column_name, column_type FROM information_schema.columns
    WHERE table_schema = {database} ORDER BY table_name, ordinal_position
"""
_KEYS: Final = """
    SELECT table_name, index_name, MIN(non_unique), GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR '\\n')
    FROM information_schema.statistics WHERE table_schema = {database} AND non_unique = 0
    GROUP BY table_name, index_name ORDER BY 1, 2
"""
_FOREIGN_KEYS: Final = """
    SELECT table_name, constraint_name, MIN(column_name), MIN(referenced_table_name), MIN(referenced_column_name)
    FROM information_schema.key_column_usage
    WHERE table_schema = {database} AND referenced_table_schema = {database}
    GROUP BY table_name, constraint_name HAVING COUNT(*) = 1 ORDER BY 1, 2
"""


class _ClearTextRefusal:
    """Refuses a server's request to send the password in clear text."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        raise pymysql.err.OperationalError(2061, "the server asks for the password in clear text")


def open_session(request: Mapping[str, Any]) -> "MysqlSession":
    """Connect to the database of the request, and give up all other rights."""
    limits, data = request["limits"], request["data"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    confinement.MemoryLimit(limits["megabytes"]).apply()  # before a hostile server can send anything
    try:
        connection = _connect(data, limits["seconds"])
        session = MysqlSession(connection, data["database"], limits["seconds"])
        session.refuse_dangerous_user()
    except _ERRORS as error:
        raise make_connection_failure(_explain(error)) from error
    confinement.restrict_files([])
    confinement.refuse_calls()
    return session


# The errors that the driver raises: its own, those of sockets, and any of the others if a server breaks the protocol.
_ERRORS: Final = (
    pymysql.err.MySQLError, OSError, RuntimeError, ValueError, IndexError, KeyError, TypeError, AttributeError,
    AssertionError, ArithmeticError,
)  # fmt: skip


def _connect(data: Mapping[str, Any], seconds: float) -> Any:
    """Return a connection to the server, whose socket has a time limit and whose password is not sent in clear text."""
    ssl_mode = data["parameters"].get("ssl", "")
    auth_handlers = {} if ssl_mode else {b"mysql_clear_password": _ClearTextRefusal, b"dialog": _ClearTextRefusal}
    connection = pymysql.connect(
        host=data["host"] or "localhost",
        user=data["user"],
        password=data["password"],
        database=data["database"],
        charset="utf8mb4",
        # These timeouts are later than the deadline of the process, because its message says more clearly that the
        # server does not answer.
        connect_timeout=int(seconds) + 1,
        read_timeout=int(seconds) + 1,
        write_timeout=int(seconds) + 1,
        local_infile=False,
        autocommit=True,
        ssl=_make_tls(ssl_mode),
        auth_plugin_map=auth_handlers,
        defer_connect=True,
    )
    connection.connect(_open_socket(data, seconds))
    return connection


def _make_tls(ssl_mode: str) -> ssl.SSLContext | None:
    """Return the TLS settings for the parameter `ssl` of an address; None if it is empty.

    "require" encrypts without checking the certificate of the server, and "verify" checks it.
    """
    if not ssl_mode:
        return None
    context = ssl.create_default_context()
    if ssl_mode == "require":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _open_socket(data: Mapping[str, Any], seconds: float) -> socket.socket:
    """Return a socket to the address that was checked; the driver would look the name up again."""
    path = data["parameters"].get("unix_socket")
    if path:
        require_local(path, data["hosts"])
        server_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address: Any = path
    else:
        port = data["port"] or _PORT
        resolved = resolve_host(data["host"], port, data["hosts"])
        server_socket, address = socket.socket(resolved.family, socket.SOCK_STREAM), (resolved.address, port)
    server_socket.settimeout(seconds + 1)
    try:
        server_socket.connect(address)
    except OSError as error:
        server = path or f"{data['host']}:{data['port'] or _PORT}"
        raise QueryFailure("unreachable", f"{server}: {_explain(error)}") from error
    server_socket.settimeout(None)  # the driver sets its own timeouts
    return server_socket


class MysqlSession:
    """A read-only connection to one database."""

    def __init__(self, connection: Any, database: str, seconds: float) -> None:
        self._connection, self._database = connection, database
        # MariaDB begins with the version of MySQL that old clients expect.
        version = str(connection.get_server_info()).removeprefix("5.5.5-")
        self._is_mariadb = "mariadb" in version.lower()
        self.server = f"{'MariaDB' if self._is_mariadb else 'MySQL'} {version.partition('-')[0][:20]}"
        self.notes: list[str] = []
        self._user = ""
        self._limit_time(seconds)
        self._run("SET SESSION time_zone = '+00:00'")
        # Refuse selected columns that are neither grouped nor aggregated, as other databases do: MySQL would return any
        # of their values.
        self._run("SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,ONLY_FULL_GROUP_BY'")
        self._run("SET SESSION TRANSACTION READ ONLY")

    def _limit_time(self, seconds: float) -> None:
        """Have the server end statements. The two products count in different units."""
        if self._is_mariadb:
            self._run(f"SET SESSION max_statement_time = {seconds:.3f}")
        else:
            self._run(f"SET SESSION max_execution_time = {max(1, int(1000 * seconds))}")

    def refuse_dangerous_user(self) -> None:
        """Raise QueryFailure if the user can reach files of the server; note if it can write."""
        [(user,)] = self._run("SELECT CURRENT_USER()")
        self._user = str(user)
        name, _, host = self._user.rpartition("@")
        grantee = self._connection.escape(f"'{name}'@'{host}'")
        database = self._connection.escape(self._database)
        privileges = {str(row[0]).upper() for row in self._run(_PRIVILEGES.format(user=grantee, database=database))}
        if privileges & set(_DANGEROUS):
            raise QueryFailure("role", self._user)
        write_privileges = sorted(privileges - set(_HARMLESS))
        if write_privileges:
            self.notes.append(
                f"the user {self._user!r} may also {write_privileges[0]}; every query runs in a read-only transaction, "
                "but a user that may only read is safer"
            )

    def _run(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def read_rows(self, sql: str) -> RowStream:
        try:
            self._run("START TRANSACTION READ ONLY")
            cursor = self._connection.cursor(SSCursor)
            cursor.execute(sql)
            description = cursor.description or ()
            fields = cursor._result.fields if cursor._result is not None else ()
        except _ERRORS as error:
            raise _translate(error) from error
        columns = [(str(column[0]), _name_type(field)) for column, field in zip(description, fields, strict=False)]
        return RowStream(columns, _fetch(cursor))

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        try:
            self._limit_time(seconds)
            return self._run(sql)
        except _ERRORS as error:
            raise _translate(error) from error

    def list_tables(self) -> list[CatalogTable]:
        try:
            return self._list_tables()
        except _ERRORS as error:
            raise _translate(error) from error

    def _list_tables(self) -> list[CatalogTable]:
        database = self._connection.escape(self._database)
        tables = {
            name: CatalogTable(name, bool(is_view), None if is_view else estimate)
            for name, is_view, estimate in self._run(_TABLES.format(database=database))
        }
        for name, column, data_type in self._run(_COLUMNS.format(database=database)):
            if name in tables:
                tables[name].columns.append(CatalogColumn(column, data_type))
        for name, index, _, joined_columns in self._run(_KEYS.format(database=database)):
            if name in tables:
                columns = joined_columns.split("\n")
                if index == "PRIMARY":
                    tables[name].primary_key = columns
                elif len(columns) == 1:
                    tables[name].unique_columns.add(columns[0])
        for name, _, column, target, target_column in self._run(_FOREIGN_KEYS.format(database=database)):
            if name in tables:
                tables[name].foreign_keys.append((column, target, target_column))
        return list(tables.values())


def _fetch(cursor: Any) -> Iterator[list[tuple[Any, ...]]]:
    try:
        yield from fetch_batches(cursor.fetchmany)
    except _ERRORS as error:
        raise _translate(error) from error


def _name_type(field: Any) -> str:
    kind = _TYPES.get(field.type_code, "unknown")
    return "bytes" if kind == "text" and field.charsetnr == _BINARY_CHARSET else kind


# The codes of both products for a statement that reached its time limit, waited too long for a lock or was interrupted.
_TIMEOUT_CODES: Final = frozenset({1969, 3024, 1205, 1317})


def _translate(error: Exception) -> QueryFailure:
    code = error.args[0] if isinstance(error, pymysql.err.MySQLError) and error.args else None
    if code in _TIMEOUT_CODES or isinstance(error, TimeoutError):
        return QueryFailure("time", "")
    return QueryFailure("failed", _explain(error))


def _explain(error: Exception) -> str:
    """Return the message of the server or the driver, on one line."""
    if isinstance(error, pymysql.err.MySQLError):
        text = str(error.args[-1]) if error.args else type(error).__name__
    elif isinstance(error, OSError):
        text = error.strerror or str(error) or type(error).__name__
    else:
        text = f"the server does not speak the protocol of MySQL ({type(error).__name__})"
    return text.partition("\n")[0][:300]
