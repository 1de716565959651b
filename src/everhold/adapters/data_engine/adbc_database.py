"""A database that a driver of ADBC (Arrow Database Connectivity) reaches, if the settings allow the driver.

The drivers of SQLite and PostgreSQL are opened read-only and confined as the built-in connections are. Other drivers
may open files, threads and connections at any time, so for them the guard, the limits and the role must suffice.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

import adbc_driver_manager as manager
import nanoarrow

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import QueryFailure, RowStream, fetch_batches, make_connection_failure
from everhold.adapters.data_engine.hosts import require_local, resolve_host
from everhold.adapters.data_engine.session import CatalogColumn, CatalogTable

# The errors that drivers raise, and those of reading rows: a server may send a value that Python cannot represent.
_ERRORS: Final = (manager.Error, OSError, RuntimeError, ValueError, LookupError, TypeError, ArithmeticError)
_KINDS: Final[Mapping[str, str]] = {
    "BOOL": "boolean", "INT8": "integer", "INT16": "integer", "INT32": "integer", "INT64": "integer",
    "UINT8": "integer", "UINT16": "integer", "UINT32": "integer", "UINT64": "integer", "HALF_FLOAT": "float",
    "FLOAT": "float", "DOUBLE": "float", "STRING": "text", "LARGE_STRING": "text", "STRING_VIEW": "text",
    "BINARY": "bytes", "LARGE_BINARY": "bytes", "BINARY_VIEW": "bytes", "FIXED_SIZE_BINARY": "bytes",
    "DECIMAL32": "decimal", "DECIMAL64": "decimal", "DECIMAL128": "decimal", "DECIMAL256": "decimal",
    "DATE32": "date", "DATE64": "date", "TIMESTAMP": "timestamp", "TIME32": "time", "TIME64": "time",
    "DURATION": "interval",
}  # fmt: skip


def _format_uuid(content: bytes) -> str:
    return "-".join(re.findall(r"^.{8}|.{12}$|.{4}", content.hex()))  # 8-4-4-4-12 digits


# Types that Arrow lacks, and which arrive as text or bytes: the name of the type in the metadata of a column, the name
# of the type in a result, and the function that converts a value.
_EXTENSIONS: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ('"numeric"', "decimal", Decimal),
    ("arrow.uuid", "text", _format_uuid),
    ("arrow.json", "json", str),
)
_SERVER_INFO: Final = (0, 1)  # the codes of the product and of its version
_PRIMARY, _UNIQUE, _FOREIGN = "PRIMARY KEY", "UNIQUE", "FOREIGN KEY"
_WRITE_WARNING: Final = "the driver cannot be kept from writing; connect with a role that may only read"


def open_session(request: Mapping[str, Any]) -> "AdbcSession":
    """Connect to the database of the request, and give up all rights that the driver does not need."""
    limits, data = request["limits"], request["data"]
    warnings.simplefilter("ignore")  # of types that Arrow lacks
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    confinement.MemoryLimit(limits["megabytes"]).apply()
    name = data["url"].partition(":")[0].lower().removeprefix("adbc+")
    try:
        driver = import_module(f"adbc_driver_{name}")._driver_path()
    except (ImportError, AttributeError) as error:
        raise QueryFailure("driver", f"adbc-driver-{name}") from error
    try:
        return _OPENERS.get(name, _open_any)(driver, data, limits)
    except _ERRORS as error:
        raise make_connection_failure(_explain(error)) from error


def _open_sqlite(driver: str, data: Mapping[str, Any], limits: Mapping[str, Any]) -> "AdbcSession":
    from everhold.adapters.data_engine.sqlite_database import has_no_log, list_parts

    path = data["database"]
    _connect(driver, ":memory:").close()  # the driver and its libraries are loaded before files are out of reach
    confinement.restrict_files([driver, *list_parts(path)])
    mode = "mode=ro&immutable=1" if has_no_log(path) else "mode=ro"
    connection = _connect(driver, f"file:{quote(path)}?{mode}")
    session = AdbcSession(connection, None)
    confinement.refuse_calls()
    return session


def _open_postgresql(driver: str, data: Mapping[str, Any], limits: Mapping[str, Any]) -> "AdbcSession":
    """Connect to PostgreSQL in a read-only session; refuse a role that can read files of the server."""
    from psycopg.conninfo import make_conninfo

    from everhold.adapters.data_engine.postgres_database import IS_DANGEROUS_ROLE, choose_parameters

    seconds, schema = limits["seconds"], data["schema"] or "public"
    connection = _connect(driver, make_conninfo(**choose_parameters(data), connect_timeout=int(seconds) + 2))
    session = AdbcSession(connection, schema)
    # `SELECT` settings last for the session, and the guard lets no statement change them.
    for setting in (
        "default_transaction_read_only = on",
        f"statement_timeout = {int(1000 * seconds)}",
        f"search_path = {_quote(schema)}, pg_temp",
    ):
        session.execute(f"SET {setting}")
    if session.execute(IS_DANGEROUS_ROLE) != [(False,)]:
        raise QueryFailure("role", data["user"])
    confinement.restrict_files([])
    confinement.refuse_calls()
    return session


def _open_any(driver: str, data: Mapping[str, Any], limits: Mapping[str, Any]) -> "AdbcSession":
    url, host = urlsplit(data["url"][len("adbc+") :]), data["host"]
    if not host:
        require_local("a local server", data["hosts"])
    else:
        address = resolve_host(host, data["port"] or 0, data["hosts"]).address
        if host.lower() not in {entry.lower() for entry in data["hosts"]}:
            address = f"[{address}]" if ":" in address else address
            user, _, host_and_port = url.netloc.rpartition("@")
            host_and_port = host_and_port.replace(host, address, 1) if host in host_and_port else address
            url = url._replace(netloc=f"{user}@{host_and_port}" if user else host_and_port)
    return AdbcSession(_connect(driver, urlunsplit(url)), data["schema"], notes=[_WRITE_WARNING])


_OPENERS: Final = {"sqlite": _open_sqlite, "postgresql": _open_postgresql}


def _connect(driver: str, uri: str) -> manager.AdbcConnection:
    return manager.AdbcConnection(manager.AdbcDatabase(driver=driver, uri=uri))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class AdbcSession:
    """A connection of ADBC. Only the tables of `schema` are shown, or those of all schemas if it is None."""

    def __init__(self, connection: manager.AdbcConnection, schema: str | None, notes: Sequence[str] = ()) -> None:
        self._connection, self._schema = connection, schema
        self.server = " ".join(_list_info(connection))
        self.notes = list(notes)

    def read_rows(self, sql: str) -> RowStream:
        try:
            names, rows = self._run(sql)
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error
        return RowStream(names, self._fetch(rows))

    @staticmethod
    def _fetch(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        try:
            yield from fetch_batches(lambda count: islice(rows, count))
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        try:
            return self.execute(sql)
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement of Everhold itself and return its rows. Errors of the driver are not translated."""
        return list(self._run(sql)[1])

    def _run(self, sql: str) -> tuple[list[tuple[str, str]], Iterator[tuple[Any, ...]]]:
        """Return the columns with their types, and the rows."""
        statement = manager.AdbcStatement(self._connection)
        statement.set_sql_query(sql)
        stream = nanoarrow.ArrayStream(statement.execute_query()[0])
        types = [_find_type(field) for field in stream.schema.fields]
        names = [str(field.name) for field in stream.schema.fields]
        columns = list(zip(names, (kind for kind, _ in types), strict=True))
        return columns, _convert(stream, [convert for _, convert in types])

    def list_tables(self) -> list[CatalogTable]:
        try:
            return sorted(self._read_catalog(), key=lambda table: table.name)
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error

    def _read_catalog(self) -> Iterator[CatalogTable]:
        handle = self._connection.get_objects(manager.GetObjectsDepth.ALL, db_schema=self._schema)
        for catalog in nanoarrow.ArrayStream(handle).read_all().to_pylist():
            for schema in catalog["catalog_db_schemas"] or ():
                for table in schema["db_schema_tables"] or ():
                    kind = str(table["table_type"]).lower()
                    if "table" in kind or "view" in kind:
                        yield _make_table(table, is_view="view" in kind)


def _list_info(connection: manager.AdbcConnection) -> Iterator[str]:
    info = dict(nanoarrow.ArrayStream(connection.get_info(list(_SERVER_INFO))).iter_tuples())
    yield from (str(info[code]) for code in _SERVER_INFO if info.get(code))


def _make_table(document: Mapping[str, Any], *, is_view: bool) -> CatalogTable:
    """Return a table as ADBC describes it: its columns in their order, and its keys of one column."""
    table = CatalogTable(document["table_name"], is_view)
    columns = sorted(document["table_columns"] or (), key=lambda column: column["ordinal_position"] or 0)
    table.columns = [CatalogColumn(column["column_name"], column["xdbc_type_name"] or "") for column in columns]
    for constraint in document["table_constraints"] or ():
        kind, names = constraint["constraint_type"], constraint["constraint_column_names"] or []
        usage: Sequence[Mapping[str, Any]] = constraint["constraint_column_usage"] or []
        if kind == _PRIMARY:
            table.primary_key = list(names)
        elif kind == _UNIQUE and len(names) == 1:
            table.unique_columns.add(names[0])
        elif kind == _FOREIGN and len(names) == len(usage) == 1:
            table.foreign_keys.append((names[0], usage[0]["fk_table"], usage[0]["fk_column_name"]))
    return table


def _find_type(field: Any) -> tuple[str, Callable[[Any], Any] | None]:
    """Return the name of a column's type in a result, and the function that converts its values from Arrow."""
    if field.type.name == "EXTENSION":
        metadata = b" ".join(dict(field.metadata.items()).values()).decode("utf-8", "replace")
        for name, kind, convert in _EXTENSIONS:
            if name in metadata:
                return kind, convert
    return _KINDS.get(field.type.name, "unknown"), None


def _convert(stream: Any, converters: Sequence[Callable[[Any], Any] | None]) -> Iterator[tuple[Any, ...]]:
    for row in stream.iter_tuples():
        yield tuple(
            value if convert is None or value is None else convert(value)
            for value, convert in zip(row, converters, strict=True)
        )


def _explain(error: BaseException) -> str:
    """Return the driver's message without the statement that the driver adds to it."""
    return str(error).partition("\n")[0][:300]
