"""Results written as Parquet files."""

from everhold.adapters.parquet_files.writer import write_parquet

__all__ = ["write_parquet"]
