"""Measure how often the SQL made from a question returns the rows of the expected SQL, on a database and variants."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from everhold.adapters.sqlite_files.reader import read_tables, run_query
from everhold.ask.confidence import Features, estimate_confidence
from everhold.ask.guard import check_statement
from everhold.ask.outcome import MAX_CHOICES
from everhold.ask.profile.build import build_schema
from everhold.ask.reading import QuestionReader, Readings
from everhold.ask.results import Rows, are_equal, have_same_rows
from everhold.ask.values import ValueIndex
from everhold.errors import InvalidInput, StatementRefused, StoreError
from everhold.evaluation.sql_levels import LEVELS, find_level, is_single_table, is_sorted
from everhold.evaluation.sql_statuses import count_statuses

# The day from which relative periods are counted, so that a run can be repeated.
TODAY = date(2024, 1, 1)
# Coverage is measured at this precision.
PRECISION = 0.9
_CURVE_POINTS = 20
_SECONDS = 5.0
_MAX_ROWS = 20_000
_DIGITS = 4


@dataclass(frozen=True)
class SqlQuestion:
    """A question about a database and the SQL that answers it."""

    database: str
    text: str
    gold: str


@dataclass(frozen=True)
class SqlOutcome:
    """The outcome of a question: whether the result was right on the database, and on all its variants.

    `rivals` are the next readings with another result on the database: how far each is behind in score, and whether it
    is right on every variant.
    """

    question: SqlQuestion
    sql: str
    confidence: float
    features: Features | None
    execution: bool = False
    test_suite: bool = False
    rivals: tuple[tuple[float, bool], ...] = ()

    @property
    def level(self) -> str:
        return find_level(self.question.gold)


def read_questions(path: Path) -> list[SqlQuestion]:
    """Return the questions of a JSON file: a list of objects with `db_id`, `question` and `query`."""
    try:
        entries = json.loads(path.read_text("utf-8"))
        return [SqlQuestion(str(entry["db_id"]), str(entry["question"]), str(entry["query"])) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        fact = f"{path} is not a list of questions: {error!r}"
        raise InvalidInput(fact, remedy="write a JSON list of objects with db_id, question and query") from error


def evaluate(
    questions: Sequence[SqlQuestion], folder: Path, progress: Callable[[int], None] = lambda _: None
) -> list[SqlOutcome]:
    """Return the outcome of each question, in their order. Databases are at `folder/NAME/NAME.sqlite`."""
    readers: dict[str, tuple[QuestionReader, set[str]]] = {}
    outcomes = []
    for question in questions:
        if question.database not in readers:
            readers[question.database] = _open_reader(folder, question.database)
        outcomes.append(_judge(question, *readers[question.database], _list_variants(folder, question.database)))
        progress(1)
    return outcomes


def _open_reader(folder: Path, name: str) -> tuple[QuestionReader, set[str]]:
    tables = read_tables(_list_variants(folder, name)[0])
    return QuestionReader(build_schema(tables), ValueIndex(tables)), {table.name for table in tables}


def _list_variants(folder: Path, name: str) -> list[Path]:
    """Return the database and then its variants, which are the other SQLite files in the same folder."""
    original = folder / name / f"{name}.sqlite"
    if not original.is_file():
        raise InvalidInput(f"no database {original}", value=name, remedy="pass the folder that holds the databases")
    return [original, *(path for path in sorted(original.parent.glob("*.sqlite")) if path != original)]


def _judge(question: SqlQuestion, reader: QuestionReader, tables: set[str], variants: Sequence[Path]) -> SqlOutcome:
    readings = reader.read(question.text, TODAY)
    reading = readings.best
    if reading is None:
        return SqlOutcome(question, "", 0.0, None)
    outcome = SqlOutcome(question, reading.sql, reading.confidence, reading.features)
    sql = _check(reading.sql, tables)
    if sql is None:
        return outcome
    agreements = _compare_all(question.gold, sql, variants)
    execution = next(agreements)
    test_suite = execution and all(agreements)
    rivals = tuple(_find_rivals(question, readings, sql, tables, variants))
    return replace(outcome, sql=sql, execution=execution, test_suite=test_suite, rivals=rivals)


def _check(sql: str, tables: set[str]) -> str | None:
    try:
        return check_statement(sql, "sqlite", tables).sql
    except StatementRefused:
        return None


def _find_rivals(
    question: SqlQuestion, readings: Readings, best_sql: str, tables: set[str], variants: Sequence[Path]
) -> Iterator[tuple[float, bool]]:
    different_rows = [_run(variants[0], best_sql)]
    for reading in readings.alternatives[: MAX_CHOICES - 1]:
        sql = _check(reading.sql, tables)
        rows = None if sql is None else _run(variants[0], sql)
        if sql is None or rows is None:
            continue
        if not any(have_same_rows(other or (), rows) for other in different_rows):
            different_rows.append(rows)
            yield readings.readings[0].score - reading.score, all(_compare_all(question.gold, sql, variants))


def _compare_all(gold: str, sql: str, variants: Iterable[Path]) -> Iterator[bool]:
    is_ordered = is_sorted(gold)
    for path in variants:
        expected, actual = _run(path, gold), _run(path, sql)
        yield expected is not None and actual is not None and are_equal(expected, actual, is_ordered)


def _run(path: Path, sql: str) -> Rows | None:
    try:
        return run_query(path, sql, _SECONDS, _MAX_ROWS)
    except StoreError:
        return None


def summarise(outcomes: Sequence[SqlOutcome]) -> dict[str, Any]:
    """Return the figures of `everhold eval sql --json`."""
    single = [outcome for outcome in outcomes if is_single_table(outcome.question.gold)]
    databases = sorted({outcome.question.database for outcome in outcomes})
    curve = trace_curve(outcomes)
    return {
        **_measure(outcomes),
        "single_table": _measure(single),
        "by_difficulty": {level: _measure([o for o in outcomes if o.level == level]) for level in LEVELS},
        "by_database": {name: _measure([o for o in outcomes if o.question.database == name]) for name in databases},
        "coverage_at_90": find_coverage(curve, PRECISION),
        "statuses": count_statuses(outcomes),
        "curve": curve[:: max(1, len(curve) // _CURVE_POINTS)],
    }


def _measure(outcomes: Sequence[SqlOutcome]) -> dict[str, Any]:
    count = len(outcomes)
    shares = {
        name: round(sum(getattr(outcome, name) for outcome in outcomes) / count, _DIGITS) if count else None
        for name in ("execution", "test_suite")
    }
    return {"questions": count, **shares}


def trace_curve(outcomes: Sequence[SqlOutcome]) -> list[dict[str, float]]:
    """Return, for each confidence from the highest down, the share of questions answered and of those right.

    Questions with one confidence are answered together or not at all.
    """
    ranked = sorted(outcomes, key=lambda outcome: -outcome.confidence)
    curve, right = [], 0
    for number, outcome in enumerate(ranked, 1):
        right += outcome.test_suite
        is_last = number == len(ranked) or ranked[number].confidence != outcome.confidence
        if is_last and outcome.sql:
            share, precision = number / len(ranked), right / number
            point = {"confidence": outcome.confidence, "coverage": share, "precision": precision}
            curve.append({name: round(value, _DIGITS) for name, value in point.items()})
    return curve


def find_coverage(curve: Sequence[Mapping[str, float]], precision: float) -> float:
    """Return the largest share of questions that can be answered with at least this precision."""
    return max((point["coverage"] for point in curve if point["precision"] >= precision), default=0.0)


def apply_weights(outcomes: Iterable[SqlOutcome], weights: Mapping[str, float]) -> Iterator[SqlOutcome]:
    """Yield the outcomes with the confidence that other weights give."""
    for outcome in outcomes:
        confidence = estimate_confidence(outcome.features, weights) if outcome.features else 0.0
        yield replace(outcome, confidence=confidence)
