"""Delete the file of a DuckDB store in which nothing was stored."""

from collections.abc import Collection
from pathlib import Path

import duckdb


def delete_empty_file(path: Path, tables: Collection[str]) -> bool:
    """Delete the file if `tables` have no rows and no other process uses it; return whether it was deleted."""
    try:
        connection = duckdb.connect(str(path))  # fails while another process has the file open
    except duckdb.Error:
        return False
    try:
        if any(connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() for table in tables):
            return False
        path.unlink()
    except (duckdb.Error, OSError):
        return False
    finally:
        connection.close()
    return True
