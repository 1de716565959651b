"""Read CSV, Excel, JSON, Parquet and SQLite files in a child process and write their tables as Parquet."""

from everhold.adapters.data_files.process import ChildReader

__all__ = ["ChildReader"]
