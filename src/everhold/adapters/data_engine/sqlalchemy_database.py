"""A database that SQLAlchemy reaches with a driver that the settings allow.

The statement is the same checked SELECT as elsewhere, in a transaction that is rolled back. Whether the transaction is
read-only depends on the driver, so the role should be one that may only read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import sqlalchemy
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import SQLAlchemyError

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import QueryFailure, RowStream, fetch_batches, make_connection_failure
from everhold.adapters.data_engine.hosts import require_local, resolve_host
from everhold.adapters.data_engine.session import CatalogColumn, CatalogTable

_READ_ONLY_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "postgresql": {"postgresql_readonly": True},
}
# The errors that drivers raise if a server breaks the protocol, in addition to the errors that SQLAlchemy wraps.
_ERRORS: Final = (SQLAlchemyError, OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError)
_KINDS: Final[Mapping[type, str]] = {bool: "boolean", int: "integer", float: "float", str: "text", bytes: "bytes"}
# Types that a driver may define itself, by the names of their classes.
_KINDS_BY_NAME: Final = {
    "Decimal": "decimal", "datetime": "timestamp", "date": "date", "time": "time", "timedelta": "interval",
}  # fmt: skip
_FIRST_ROWS: Final = 200  # the rows from which the types of the columns are inferred


def open_session(request: Mapping[str, Any]) -> "SqlalchemySession":
    """Connect to the database of the request, and give up all rights that a driver does not need."""
    limits, data = request["limits"], request["data"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    confinement.MemoryLimit(limits["megabytes"]).apply()
    try:
        url = sqlalchemy.make_url(data["url"])
        url.get_dialect().import_dbapi()  # first: without its driver, no host need be found
        url = _pin_host(url, data["hosts"])
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
        connection = engine.connect().execution_options(**_READ_ONLY_OPTIONS.get(engine.dialect.name, {}))
        session = SqlalchemySession(connection, data["schema"])
    except ImportError as error:
        raise QueryFailure("driver", str(error.name)) from error
    except sqlalchemy.exc.NoSuchModuleError as error:
        raise QueryFailure("driver", data["url"].partition(":")[0]) from error
    except _ERRORS as error:
        raise make_connection_failure(_explain(error)) from error
    # No seccomp and no Landlock here: a driver may import modules, or open a second connection, at any time.
    return session


def _pin_host(url: URL, allowed: Sequence[str]) -> URL:
    """Return the URL with the address that was checked, unless the settings name its host."""
    host = url.host or url.query.get("host") or ""
    if not isinstance(host, str):
        raise QueryFailure("host", ", ".join(host))
    if not host or host.startswith("/"):
        require_local(host or "a local server", allowed)
        return url
    resolved = resolve_host(host, url.port or 0, allowed)
    if url.host is None or host.lower() in {entry.lower() for entry in allowed}:
        return url
    return url.set(host=resolved.address)


class SqlalchemySession:
    """A connection of SQLAlchemy."""

    def __init__(self, connection: Connection, schema: str | None) -> None:
        self._connection, self._schema = connection, schema
        dialect = connection.dialect
        version = ".".join(map(str, getattr(dialect, "server_version_info", None) or ()))
        self.server = f"{dialect.name} {version}".strip()
        self.notes = ["the driver cannot be kept from writing; connect with a role that may only read"]

    def read_rows(self, sql: str) -> RowStream:
        try:
            result = self._connection.exec_driver_sql(sql)
            names = [str(column[0]) for column in result.cursor.description]
            first_rows = [tuple(row) for row in result.fetchmany(_FIRST_ROWS)]
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error
        kinds = [_find_type([row[index] for row in first_rows]) for index in range(len(names))]
        return RowStream(list(zip(names, kinds, strict=True)), self._fetch(result, first_rows))

    @staticmethod
    def _fetch(result: Any, first_rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        yield first_rows
        try:
            yield from fetch_batches(lambda count: [tuple(row) for row in result.fetchmany(count)])
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        try:
            return [tuple(row) for row in self._connection.exec_driver_sql(sql).fetchall()]
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error
        finally:
            self._connection.rollback()

    def list_tables(self) -> list[CatalogTable]:
        try:
            return list(self._read_catalog())
        except _ERRORS as error:
            raise QueryFailure("failed", _explain(error)) from error

    def _read_catalog(self) -> Iterator[CatalogTable]:
        """Yield the tables and views of the schema with their columns and keys."""
        inspector = sqlalchemy.inspect(self._connection)
        views = set(inspector.get_view_names(self._schema))
        for name in sorted({*inspector.get_table_names(self._schema), *views}):
            table = CatalogTable(name, name in views)
            table.columns = [
                CatalogColumn(column["name"], str(column["type"]))
                for column in inspector.get_columns(name, self._schema)
            ]
            if name not in views:
                table.primary_key = list(inspector.get_pk_constraint(name, self._schema)["constrained_columns"])
                table.foreign_keys = [
                    (key["constrained_columns"][0], key["referred_table"], key["referred_columns"][0])
                    for key in inspector.get_foreign_keys(name, self._schema)
                    if len(key["constrained_columns"]) == 1
                ]
            yield table
        self._connection.rollback()


def _find_type(values: Sequence[Any]) -> str:
    """Return the type that all values of a column have, because each driver has other names for its types."""
    kinds = {_name_kind(value) for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 else "unknown"


def _name_kind(value: Any) -> str:
    return _KINDS.get(type(value)) or _KINDS_BY_NAME.get(type(value).__name__, "unknown")


def _explain(error: BaseException) -> str:
    """Return the driver's message without the statement and the link that SQLAlchemy adds to it."""
    original = getattr(error, "orig", None) or error
    return str(original).partition("\n")[0][:300]
