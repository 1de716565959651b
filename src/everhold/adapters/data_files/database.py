"""The DuckDB connection of the child: little memory, files of one folder only, no extensions."""

import datetime
import decimal
import math
from pathlib import Path
from typing import Any

import duckdb

from everhold.ports.table_content import Cell

_THREADS = 2


def connect(folder: Path, source: Path, memory_megabytes: int) -> duckdb.DuckDBPyConnection:
    """Return a connection that reads `source`, and reads and writes files below `folder`."""
    # A part of the memory is outside of DuckDB's count: Python, buffers of the CSV and Parquet readers.
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": _THREADS,
            "memory_limit": f"{max(64, memory_megabytes // 2)}MB",
            "temp_directory": str(folder / "spill"),
            "max_temp_directory_size": "4GB",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        },
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET allowed_paths = [{quote_text(str(source))}]")
    connection.execute(f"SET allowed_directories = [{quote_text(str(folder))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def make_cell(value: Any) -> Cell:
    """Return a value of DuckDB as a value that JSON has: a time as ISO text, a decimal as a number."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)
