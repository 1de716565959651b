"""Statements in the dialect of the database that runs them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import sqlglot
from sqlglot.errors import SqlglotError

from everhold.ask.reading import QuestionReading, ReadingOrigin

_PROPOSED = "duckdb"


def translate_readings(readings: Iterable[QuestionReading], dialect: str) -> Iterator[QuestionReading]:
    """Yield readings with their SQL in a dialect; rules write it so, other sources write DuckDB's.

    One that cannot be translated is left out.
    """
    for reading in readings:
        if dialect == _PROPOSED or reading.origin is ReadingOrigin.RULES:
            yield reading
            continue
        try:
            [sql] = sqlglot.transpile(reading.sql, read=_PROPOSED, write=dialect)
        except (SqlglotError, ValueError):
            continue
        yield replace(reading, sql=sql)
