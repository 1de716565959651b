"""Convert patterns and lessons to rows and back."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from datetime import date
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from everhold.ask.connections.dialects import translate_statement
from everhold.ask.formulas import Formula, is_expression
from everhold.ask.frame import Expression, Function, Predicate
from everhold.ask.learning.mining import Lesson
from everhold.ask.learning.patterns import LearnedPattern, QuestionContext, make_pattern
from everhold.ask.learning.teaching import LearnedStatus
from everhold.ask.learning.templates import resolve_column
from everhold.ask.lessons import TaughtCondition, TaughtJoin, TaughtMetric, TaughtName
from everhold.ask.schema import AskColumn, AskSchema, ColumnKind, ColumnRef
from everhold.errors import InvalidInput
from everhold.model import QueryLesson, QueryPattern

_MAX_PARSED = 10_000  # cached statements, because after each change all rows of a scope are read again
ALIAS, METRIC, JOIN = "alias", "metric", "join"


@lru_cache(_MAX_PARSED)
def list_used_tables(sql: str, dialect: str) -> tuple[str, ...]:
    """Return the tables of a statement in lower case, without those that it defines; none if it cannot be parsed.

    The guard lets no statement define a table with the name of another one.
    """
    try:
        tree = sqlglot.parse_one(sql, read=dialect)
    except (SqlglotError, ValueError, RecursionError):
        return ()
    defined = {expression.alias.lower() for expression in tree.find_all(exp.CTE)}
    return tuple(sorted({table.name.lower() for table in tree.find_all(exp.Table)} - defined))


def make_fingerprint(schema: AskSchema, tables: Iterable[str]) -> str:
    """Return a hash of the names and types of the columns of tables; empty if a table is missing."""
    tables_by_name = {table.name.lower(): table for table in schema.tables}
    names = sorted({name.lower() for name in tables})
    if not names or any(name not in tables_by_name for name in names):
        return ""
    lines = [f"{name}\t{column.name}\t{name_type(column)}" for name in names for column in tables_by_name[name].columns]
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8", "replace")).hexdigest()


def name_type(column: AskColumn) -> str:
    """Return the type of a column on which statements depend: "number", "date" or "text"."""
    if column.is_numeric:
        return "number"
    return "date" if column.kind is ColumnKind.DATE else "text"


def list_column_types(schema: AskSchema, sql: str, dialect: str) -> dict[str, str]:
    """Return the columns that a statement uses, with their types.

    They must be the same after a change of the schema.
    """
    tree = sqlglot.parse_one(sql, read=dialect)
    refs = {resolve_column(schema, column) for column in tree.find_all(exp.Column)} - {None}
    return {f"{ref.table}.{ref.column}": name_type(schema.column(ref)) for ref in refs if ref is not None}


def list_lesson_tables(lesson: Lesson) -> list[str]:
    """Return the tables that a lesson is about."""
    if isinstance(lesson, TaughtJoin):
        return [lesson.left.table, lesson.right.table]
    if isinstance(lesson, TaughtName):
        return [lesson.table]
    if isinstance(lesson, TaughtMetric):
        return list(dict.fromkeys([lesson.table, *(ref.table for ref in lesson.formula.columns)]))
    return [lesson.predicate.left.column.table] if lesson.predicate.left.column is not None else []


def list_lesson_columns(schema: AskSchema, lesson: Lesson) -> dict[str, str]:
    """Return the columns that a lesson is about, with their types."""
    if isinstance(lesson, TaughtJoin):
        refs = [lesson.left, lesson.right]
    elif isinstance(lesson, TaughtName):
        refs = [] if lesson.column is None else [ColumnRef(lesson.table, lesson.column)]
    elif isinstance(lesson, TaughtMetric):
        refs = list(lesson.formula.columns)
    else:
        refs = [lesson.predicate.left.column] if lesson.predicate.left.column is not None else []
    types = {column.ref: name_type(column) for column in schema.columns()}
    return {f"{ref.table}.{ref.column}": types.get(ref, "") for ref in refs}


def describe_slots(pattern: LearnedPattern) -> dict[str, Any]:
    """Return the description of a pattern's slots for its row. It is informative; slots are found again at each use."""
    return {
        "labels": list(pattern.masked.labels),
        "texts": [slot.text for slot in pattern.masked.slots],
        "uses": [
            {"place": use.place, "slot": use.slot, "form": use.form.value, "column": _name_column(use.column)}
            for use in pattern.template.uses
        ],
        "constants": list(pattern.template.constants),
    }


def _name_column(ref: ColumnRef | None) -> str | None:
    return None if ref is None else f"{ref.table}.{ref.column}"


def read_pattern(context: QuestionContext, row: QueryPattern) -> LearnedPattern | None:
    """Return the pattern of a row; None if it cannot be read, as rows may come from elsewhere.

    Its statement is translated into the dialect of the context's tables, which may have moved to another database. It
    is active only if its row is active and its tables have not changed since it was learned.
    """
    dialect = context.reader.dialect
    sql = translate_statement(row.sql, row.dialect, dialect)
    if sql is None:
        return None
    learned_on = QuestionContext(context.reader, _find_day(row))
    fingerprint = make_fingerprint(context.reader.schema, list_used_tables(row.sql, row.dialect))
    is_current = row.status in (LearnedStatus.ACTIVE, LearnedStatus.HELD_BACK) and fingerprint == row.fingerprint
    is_active = is_current and row.status == LearnedStatus.ACTIVE
    try:
        pattern = make_pattern(
            learned_on, row.id, row.question, sql, dialect, row.wins, row.losses, is_active=is_active
        )
    except (SqlglotError, ValueError, RecursionError, InvalidInput):
        return None
    return replace(pattern, is_current=is_current)


def _find_day(row: QueryPattern) -> date:
    """Return the day on which the question was asked: periods such as "last month" are counted from it."""
    try:
        return date.fromisoformat(str(row.metadata.get("asked_on")))
    except ValueError:
        return row.created_at.date()


def describe_meaning(lesson: Lesson) -> tuple[str, str, dict[str, Any]]:
    """Return the kind, the phrase and the meaning of a lesson, as they are stored in its row."""
    if isinstance(lesson, TaughtJoin):
        left, right = _name_column(lesson.left), _name_column(lesson.right)
        return JOIN, f"{left} = {right}", {"left": asdict(lesson.left), "right": asdict(lesson.right)}
    if isinstance(lesson, TaughtName):
        return ALIAS, lesson.phrase, {"table": lesson.table, "column": lesson.column, "value": lesson.value}
    if isinstance(lesson, TaughtMetric):
        formula = {**asdict(lesson.formula), "function": lesson.formula.function.value}
        return METRIC, lesson.phrase, {"table": lesson.table, "formula": formula, "text": lesson.formula.text}
    predicate = lesson.predicate
    assert predicate.left.column is not None
    meaning = {**asdict(predicate.left.column), "operator": predicate.operator, "value": predicate.values[0]}
    return METRIC, lesson.phrase, meaning


def read_lesson(schema: AskSchema, row: QueryLesson) -> Lesson | None:
    """Return the lesson of a row if it is active and fits the schema; None otherwise."""
    lesson = read_meaning(row)
    if lesson is None:
        return None
    is_active = row.status == LearnedStatus.ACTIVE and row.wins > row.losses
    fits = make_fingerprint(schema, list_lesson_tables(lesson)) == row.fingerprint
    return lesson if is_active and fits else None


def read_meaning(row: QueryLesson) -> Lesson | None:
    """Return the lesson of a row with any status; None if it cannot be read, as rows may come from elsewhere."""
    try:
        return _read_meaning(row)
    except (KeyError, TypeError, ValueError):
        return None


def _read_meaning(row: QueryLesson) -> Lesson:
    meaning: Mapping[str, Any] = row.meaning
    if row.kind == JOIN:
        return TaughtJoin(row.id, ColumnRef(**meaning["left"]), ColumnRef(**meaning["right"]), row.wins)
    if row.kind == ALIAS:
        return TaughtName(row.id, row.phrase, meaning["table"], meaning.get("column"), meaning.get("value"))
    if "formula" in meaning:
        return TaughtMetric(row.id, row.phrase, str(meaning["table"]), _read_formula(meaning["formula"]))
    column = ColumnRef(str(meaning["table"]), str(meaning["column"]))
    return TaughtCondition(row.id, row.phrase, Predicate(Expression(column), meaning["operator"], (meaning["value"],)))


def _read_formula(document: Mapping[str, Any]) -> Formula:
    """Return the formula of a row; raise ValueError if its text is not an expression of its columns."""
    columns = tuple(ColumnRef(str(item["table"]), str(item["column"])) for item in document["columns"])
    formula = Formula(str(document["sql"]), str(document["dialect"]), columns, Function(document["function"]))
    if not is_expression(formula):
        raise ValueError("the formula of a metric cannot be read")
    return formula
