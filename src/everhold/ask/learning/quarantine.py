"""Check learned rows again after their tables have changed. Rows that no longer fit are quarantined."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from everhold.ask.connections.dialects import translate_statement
from everhold.ask.learning.gate import RunStatement
from everhold.ask.learning.rows import (
    list_column_types,
    list_lesson_columns,
    list_lesson_tables,
    list_used_tables,
    make_fingerprint,
    name_type,
    read_meaning,
)
from everhold.ask.learning.teaching import LearnedStatus
from everhold.ask.schema import AskSchema
from everhold.model import QueryLesson, QueryPattern
from everhold.schema.operations import Patch

_MAX_RUN = 50  # the maximum number of statements to run at once; the others are checked at the next question
_USABLE = (LearnedStatus.ACTIVE, LearnedStatus.QUARANTINED)


@dataclass(frozen=True)
class _RowCheck:
    """A row, the present fingerprint of its tables, and whether it fits these tables."""

    row: QueryPattern | QueryLesson
    fingerprint: str
    is_valid: bool


def revalidate(
    schema: AskSchema,
    dialect: str,
    run: RunStatement,
    patterns: Sequence[QueryPattern],
    lessons: Sequence[QueryLesson],
    now: datetime,
) -> list[Patch]:
    """Return the changes of rows whose tables have changed. Rows that still fit become active, others quarantined.

    A pattern fits if its columns have the same types and its statement passes the guard and runs. A lesson fits if its
    columns exist with the same types. Rows whose tables do not exist are not changed; they are not used anyway.
    `dialect` is that of the database with the tables.
    """
    checks = [*_check_patterns(schema, dialect, run, patterns), *_check_lessons(schema, lessons)]
    return [_make_patch(check, now) for check in checks]


def explain_disuse(schemas: Sequence[AskSchema], row: QueryPattern | QueryLesson) -> str:
    """Return why a row is not used on the tables as they are now; empty if these did not change.

    `schemas` are those of the places in which the row may be used, with all tables that it uses.
    """
    tables = _list_tables(row)
    fingerprints = [fingerprint for schema in schemas if (fingerprint := make_fingerprint(schema, tables))]
    is_quarantined = row.status == LearnedStatus.QUARANTINED
    if not tables or (row.fingerprint in fingerprints and not is_quarantined):
        return ""
    names = {table.name.lower() for schema in schemas for table in schema.tables}
    missing = [table for table in tables if table.lower() not in names]
    if missing:
        return f"there is no table {missing[0]!r} any more"
    types = {f"{column.table}.{column.name}": name_type(column) for schema in schemas for column in schema.columns()}
    for name, old_type in (row.metadata.get("columns") or {}).items():
        if types.get(name) != old_type:
            return f"{name} was a {old_type} and is a {types[name]}" if name in types else f"{name} is gone"
    if is_quarantined and row.metadata.get("tried") in fingerprints:
        return "its statement does not run on the changed tables"
    return "its tables have changed; the next question tries it again"


def _list_tables(row: QueryPattern | QueryLesson) -> Sequence[str]:
    if isinstance(row, QueryPattern):
        return list_used_tables(row.sql, row.dialect)
    lesson = read_meaning(row)
    return [] if lesson is None else list_lesson_tables(lesson)


def list_needed_tables(rows: Sequence[QueryPattern | QueryLesson]) -> frozenset[str]:
    """Return the names of the tables that rows are about, in lower case."""
    return frozenset(table.lower() for row in rows for table in _list_tables(row))


def _check_patterns(
    schema: AskSchema, dialect: str, run: RunStatement, rows: Sequence[QueryPattern]
) -> Iterator[_RowCheck]:
    run_count = 0
    for row in rows:
        fingerprint = make_fingerprint(schema, list_used_tables(row.sql, row.dialect))
        if not _is_due(row, fingerprint) or run_count == _MAX_RUN:
            continue
        is_same = list_column_types(schema, row.sql, row.dialect) == row.metadata.get("columns")
        run_count += is_same
        sql = translate_statement(row.sql, row.dialect, dialect) if is_same else None
        yield _RowCheck(row, fingerprint, sql is not None and run(sql) is not None)


def _check_lessons(schema: AskSchema, rows: Sequence[QueryLesson]) -> Iterator[_RowCheck]:
    for row in rows:
        lesson = read_meaning(row)
        fingerprint = "" if lesson is None else make_fingerprint(schema, list_lesson_tables(lesson))
        if lesson is not None and _is_due(row, fingerprint):
            yield _RowCheck(row, fingerprint, list_lesson_columns(schema, lesson) == row.metadata.get("columns"))


def _is_due(row: QueryPattern | QueryLesson, fingerprint: str) -> bool:
    """Return whether a row must be checked on its tables. `fingerprint` is their present one; empty without them."""
    is_stale = row.fingerprint != fingerprint or row.status == LearnedStatus.QUARANTINED
    return bool(fingerprint) and row.status in _USABLE and is_stale and row.metadata.get("tried") != fingerprint


def _make_patch(check: _RowCheck, now: datetime) -> Patch:
    row = check.row
    values: dict[str, object] = {"updated_at": now, "metadata": {**row.metadata, "tried": check.fingerprint}}
    if check.is_valid:
        values |= {"fingerprint": check.fingerprint, "status": LearnedStatus.ACTIVE.value}
    else:
        values |= {"status": LearnedStatus.QUARANTINED.value}
    return Patch(type(row), (row.organization_id, row.id), values, version=row.version)
