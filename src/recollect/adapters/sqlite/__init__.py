"""Records in one SQLite file, with full text and vectors in the same transaction."""

from recollect.adapters.sqlite.candidates import SqliteWords
from recollect.adapters.sqlite.connection import SqliteOptions
from recollect.adapters.sqlite.records import SqliteRecords

__all__ = ["SqliteOptions", "SqliteRecords", "SqliteWords"]
