"""A SQLite file that other processes may write while it is read."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import QueryFailure, RowStream
from everhold.adapters.data_engine.file_formats import SQLITE, require_format
from everhold.adapters.data_engine.session import CatalogColumn, CatalogTable
from everhold.adapters.data_engine.sqlite_reader import (
    execute,
    limit_time,
    list_names,
    make_authorizer,
    open_file,
    translate_error,
)  # fmt: skip

_WRITE_AHEAD: Final = 2  # in the header: changes are in a log beside the file
_VERSION_BYTE: Final = 19  # the position of the format version in the header


def open_session(request: Mapping[str, Any]) -> "SqliteSession":
    """Open the file of the request, and give up all other rights."""
    limits, path = request["limits"], request["data"]["database"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    memory_limit = confinement.MemoryLimit(limits["megabytes"])
    try:
        confinement.restrict_files(list_parts(path))
        require_format(path, SQLITE)
        connection = open_file(path, limits, is_immutable=has_no_log(path))
        session = SqliteSession(connection, limits["seconds"])
    except (sqlite3.Error, OSError) as error:
        raise QueryFailure("unreachable", str(error)[:300]) from error
    confinement.refuse_calls()
    memory_limit.apply()
    return session


def list_parts(path: str) -> list[str]:
    """Return the files that a SQLite file consists of."""
    companions = [f"{path}{suffix}" for suffix in ("-wal", "-shm", "-journal")]
    return [path, *(name for name in companions if Path(name).exists())]


def has_no_log(path: str) -> bool:
    """Return whether a file in write-ahead mode has no log.

    Such a file is complete, and SQLite must not try to make a log, for which it has no right.
    """
    with Path(path).open("rb") as file:
        header = file.read(_VERSION_BYTE + 1)
    is_write_ahead = len(header) > _VERSION_BYTE and header[_VERSION_BYTE] == _WRITE_AHEAD
    return is_write_ahead and not (Path(f"{path}-wal").exists() and Path(f"{path}-shm").exists())


class SqliteSession:
    """A connection that may only read the tables of a file."""

    def __init__(self, connection: sqlite3.Connection, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self.server = f"SQLite {sqlite3.sqlite_version}"
        self.notes: list[str] = []
        limit_time(connection, seconds)
        self._tables = list(self._read_catalog())
        connection.set_authorizer(make_authorizer(list_names(connection)))

    def read_rows(self, sql: str) -> RowStream:
        limit_time(self._connection, self._seconds)
        return execute(self._connection, sql)

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        limit_time(self._connection, seconds)
        try:
            return self._connection.execute(sql).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise translate_error(error) from error

    def list_tables(self) -> list[CatalogTable]:
        return self._tables

    def _read_catalog(self) -> Iterator[CatalogTable]:
        """Yield the tables and views except virtual tables, which run code.

        Call this before the authorizer is set, which forbids reading the catalog.
        """
        rows = self._connection.execute(
            "SELECT name, type = 'view' FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND coalesce(sql, '') NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
        ).fetchall()
        for name, is_view in rows:
            try:
                yield self._read_table(str(name), bool(is_view))
            except sqlite3.OperationalError as error:  # such as a view of a table that was dropped
                self.notes.append(f"{name!s} cannot be read ({str(error)[:100]})")

    def _read_table(self, name: str, is_view: bool) -> CatalogTable:
        """Return a table or view with its columns and keys."""
        run = self._connection.execute
        table = CatalogTable(name, is_view)
        primary_key: list[tuple[int, str]] = []
        quoted = _quote_text(name)  # `open_file` allows no parameters in statements
        for column, data_type, key_position in run(
            f"SELECT name, type, pk FROM pragma_table_info({quoted})"
        ).fetchall():
            table.columns.append(CatalogColumn(str(column), str(data_type).upper() or "TEXT"))
            if key_position:
                primary_key.append((key_position, str(column)))
        table.primary_key = [column for _, column in sorted(primary_key)]
        foreign_keys: dict[int, list[tuple[str, str, str]]] = {}
        for key_id, target, column, target_column in run(
            f'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list({quoted})'
        ).fetchall():
            columns = foreign_keys.setdefault(key_id, [])
            columns.append((column, target, target_column or self._find_key(target)))
        table.foreign_keys = [columns[0] for columns in foreign_keys.values() if len(columns) == 1 and columns[0][2]]
        return table

    def _find_key(self, table: str) -> str:
        """Return the first column of a table's primary key, or an empty text."""
        sql = f"SELECT name FROM pragma_table_info({_quote_text(table)}) WHERE pk = 1"
        rows = self._connection.execute(sql).fetchall()
        return str(rows[0][0]) if rows else ""


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
