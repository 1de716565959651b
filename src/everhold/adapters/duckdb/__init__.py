"""Store the records in one DuckDB file. The rules of the tables are checked in Python."""

from everhold.adapters.duckdb.connection import DuckdbOptions
from everhold.adapters.duckdb.records import DuckdbRecords

__all__ = ["DuckdbOptions", "DuckdbRecords"]
