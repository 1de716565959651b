"""Translate proposed statements into the dialect of the database that runs them."""

from collections.abc import Iterator
from dataclasses import replace

import sqlglot
from sqlglot.errors import SqlglotError

from everhold.ask.reading import QuestionReading

_PROPOSED = "duckdb"


def list_translations(reading: QuestionReading, dialect: str) -> Iterator[QuestionReading]:
    """Yield a proposed reading unchanged, because it may already be in the dialect, and then translated from DuckDB's
    SQL.
    """
    yield reading
    if dialect == _PROPOSED:
        return
    try:
        [sql] = sqlglot.transpile(reading.sql, read=_PROPOSED, write=dialect)
    except (SqlglotError, ValueError):
        return
    if sql != reading.sql:
        yield replace(reading, sql=sql)
