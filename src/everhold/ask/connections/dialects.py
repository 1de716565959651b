"""Translate statements into the dialect of the database that runs them."""

from collections.abc import Iterator
from dataclasses import replace

import sqlglot
from sqlglot.errors import SqlglotError

from everhold.ask.reading import QuestionReading

_PROPOSAL_DIALECT = "duckdb"


def list_translations(reading: QuestionReading, dialect: str) -> Iterator[QuestionReading]:
    """Yield a proposed reading unchanged, because it may already be in the dialect, and then translated from DuckDB's
    SQL.
    """
    yield reading
    sql = translate_statement(reading.sql, _PROPOSAL_DIALECT, dialect)
    if sql is not None and sql != reading.sql:
        yield replace(reading, sql=sql)


def translate_statement(sql: str, source: str, target: str) -> str | None:
    """Return a statement in another dialect; None if it cannot be translated.

    Even a statement that both dialects allow must be translated, because it may mean something else: in some of them,
    the quotient of two whole numbers is a whole number.
    """
    if source == target:
        return sql
    try:
        [translated] = sqlglot.transpile(sql, read=source, write=target)
    except (SqlglotError, ValueError, RecursionError):
        return None
    return translated
