"""A DuckDB file, opened read-only in a process that can read no other file."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from everhold.adapters.data_engine import confinement
from everhold.adapters.data_engine.child import QueryFailure, RowStream
from everhold.adapters.data_engine.duckdb_reader import (
    execute,
    lock_settings,
    open_in_memory,
    quote_text,
    take_first_line,
    translate_error,
)  # fmt: skip
from everhold.adapters.data_engine.file_formats import DUCKDB, require_format
from everhold.adapters.data_engine.session import CatalogColumn, CatalogTable

_OPENING_MEGABYTES = 4096
_CATALOG_SECONDS = 10.0
_TABLES = """
    SELECT table_name, estimated_size FROM duckdb_tables()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
"""
_VIEWS = """
    SELECT view_name FROM duckdb_views()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
"""
_COLUMNS = """
    SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
    ORDER BY table_name, column_index
"""
_CONSTRAINTS = """
    SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names
    FROM duckdb_constraints() WHERE database_name = current_database() AND schema_name = 'main'
"""


def open_session(request: Mapping[str, Any]) -> "DuckdbSession":
    """Open the file of the request, and give up all other rights."""
    limits, path = request["limits"], request["data"]["database"]
    confinement.set_first_limits(limits["seconds"] + 1, limits["cpu_seconds"], 0)
    memory_limit = confinement.MemoryLimit(limits["megabytes"])
    opening_limit = confinement.MemoryLimit(limits["megabytes"] + _OPENING_MEGABYTES)
    connection = open_in_memory(limits)
    log_path = f"{path}.wal"
    try:
        confinement.restrict_files([path, *([log_path] if Path(log_path).exists() else [])])
        require_format(path, DUCKDB)
        # A hostile file may take all memory while it is opened. Opening also reserves addresses: the limit is higher.
        opening_limit.apply()
        # The file is attached to the database in memory, because another database would read files of the system,
        # which is not possible now.
        connection.execute(f"ATTACH {quote_text(path)} AS connected (READ_ONLY)")
        connection.execute("USE connected")
        lock_settings(connection, [], None, 0)
    except (duckdb.Error, OSError) as error:
        raise QueryFailure("unreachable", take_first_line(error)) from error
    confinement.refuse_calls()
    memory_limit.apply()
    return DuckdbSession(connection)


class DuckdbSession:
    """A connection that may only read the tables of a file."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.server = f"DuckDB {duckdb.__version__}"
        self.notes: list[str] = []

    def read_rows(self, sql: str) -> RowStream:
        return execute(self._connection, sql)

    def query(self, sql: str, seconds: float) -> Sequence[tuple[Any, ...]]:
        timer = threading.Timer(seconds, self._connection.interrupt)  # DuckDB itself has no time limit
        timer.start()
        try:
            return self._connection.execute(sql).fetchall()
        except duckdb.InterruptException as error:
            raise QueryFailure("time", "") from error
        except duckdb.Error as error:
            raise translate_error(error) from error
        finally:
            timer.cancel()

    def list_tables(self) -> list[CatalogTable]:
        return sorted(self._read_catalog(), key=lambda table: table.name)

    def _read_catalog(self) -> Iterator[CatalogTable]:
        """Return an iterator over the tables and views with their columns and keys."""
        tables = {name: CatalogTable(name, False, size) for name, size in self.query(_TABLES, _CATALOG_SECONDS)}
        tables |= {
            name: CatalogTable(name, True) for (name,) in self.query(_VIEWS, _CATALOG_SECONDS) if name not in tables
        }
        for name, column, data_type in self.query(_COLUMNS, _CATALOG_SECONDS):
            if name in tables:
                tables[name].columns.append(CatalogColumn(column, data_type))
        for name, kind, columns, target, target_columns in self.query(_CONSTRAINTS, _CATALOG_SECONDS):
            if name not in tables:
                continue
            if kind == "PRIMARY KEY":
                tables[name].primary_key = list(columns)
            elif kind == "UNIQUE" and len(columns) == 1:
                tables[name].unique_columns.add(columns[0])
            elif kind == "FOREIGN KEY" and len(columns) == 1:
                tables[name].foreign_keys.append((columns[0], target, target_columns[0]))
        return iter(tables.values())
