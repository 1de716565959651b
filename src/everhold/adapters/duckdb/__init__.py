"""Records in one DuckDB file, the rules kept in Python."""

from everhold.adapters.duckdb.connection import DuckdbOptions
from everhold.adapters.duckdb.records import DuckdbRecords

__all__ = ["DuckdbOptions", "DuckdbRecords"]
