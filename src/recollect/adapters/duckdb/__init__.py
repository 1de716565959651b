"""Records in one DuckDB file, the rules kept in Python."""

from recollect.adapters.duckdb.connection import DuckdbOptions
from recollect.adapters.duckdb.records import DuckdbRecords

__all__ = ["DuckdbOptions", "DuckdbRecords"]
