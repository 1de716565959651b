"""Delete the file of a SQLite store in which nothing was stored."""

import sqlite3
from collections.abc import Collection
from pathlib import Path


def delete_empty_file(path: Path, tables: Collection[str]) -> bool:
    """Delete the file if `tables` have no rows and no other connection uses it; return whether it was deleted."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)
    try:
        # This fails while another connection has the file open. One that opens it later and waits for the lock below
        # cannot lose a write: without WAL, SQLite refuses to write to a file that has been deleted.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        if any(connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() for table in tables):
            return False
        path.unlink()
    except (sqlite3.Error, OSError):  # the file is in use, or gone
        return False
    finally:
        connection.close()
    return True
