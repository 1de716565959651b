"""Records in one SQLite file, with full text and vectors in the same transaction."""

from everhold.adapters.sqlite.candidates import SqliteWords
from everhold.adapters.sqlite.connection import SqliteOptions
from everhold.adapters.sqlite.records import SqliteRecords

__all__ = ["SqliteOptions", "SqliteRecords", "SqliteWords"]
