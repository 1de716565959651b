"""Answer a question about data, with readings by rules, by learned patterns, and by a language model if there is one.

The steps are: find the tables, read the question with them, refuse words that are not understood, check the
statements of the readings, run them in the sandbox, and make the answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Protocol, TypeVar

from everhold.ask.answer import Answer, make_answer, make_refusal
from everhold.ask.candidates import (
    CandidateSource,
    FindRejected,
    ScopedReadings,
    confirm_reading,
    gather_candidates,
)
from everhold.ask.connections.lookup import require_connection
from everhold.ask.connections.places import (
    DataPlace,
    PlaceReadings,
    choose_place,
    choose_readings,
    narrow_places,
    query_connection,
    split_places,
)
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.frame import Expression, Function, QueryFrame, WindowKind
from everhold.ask.guard import check_statement
from everhold.ask.language_model.calling import ModelUse
from everhold.ask.language_model.proposing import NO_PROPOSAL, ModelSource, add_proposal, drop_rejected, read_offered
from everhold.ask.learning.frames import find_previous
from everhold.ask.outcome import MAX_CHOICES, is_rival, make_choices, write_clarification
from everhold.ask.reading import QuestionReading, ReadingOrigin, Readings
from everhold.ask.results import have_same_rows
from everhold.ask.schema import AskSchema
from everhold.ask.sources.cache import ScopeTables
from everhold.ask.sources.content import load_reader, load_scope, open_tables
from everhold.ask.sources.deps import DataDeps
from everhold.ask.wording.frames import name_columns, name_rows
from everhold.errors import InvalidInput, NotFound, QueryError, Remedy, StatementRefused, Verb
from everhold.model import Scope, TableMetadata
from everhold.ports.data_engine import CheckedStatement, DataEngine, ParquetTables, QueryResult
from everhold.ports.result_table import AnswerColumn, ResultTable

T = TypeVar("T")


class FindTables(Protocol):
    """Returns the tables that a question is about, best first."""

    def __call__(self, question: str, /) -> Sequence[TableMetadata]: ...


@dataclass(frozen=True)
class AskedQuestion:
    """The answer to a question, with the result and the reading that it was made from.

    `result` and `reading` are None if nothing was run. `choice` is the number that the caller chose, if any.
    `model_use` describes the call of a language model, if there was one.
    """

    answer: Answer
    result: QueryResult | None
    choice: int | None = None
    reading: QuestionReading | None = None
    is_follow_up: bool = False
    today: date | None = None
    model_use: ModelUse | None = None


@dataclass(frozen=True)
class _ExecutedReading:
    """A reading of a question whose SQL was run, and the result."""

    reading: QuestionReading
    result: QueryResult


# If a scope has more tables than this, a question is read with only those tables that it is about.
MAX_TABLES = 60
# Other readings are run only if the best one took less time. If their results differ, the user has to choose.
_CHEAP_SECONDS = 1.0


def ask_question(
    deps: DataDeps,
    engine: DataEngine,
    scope: Scope,
    question: str,
    today: date,
    find_tables: FindTables,
    after: Sequence[EarlierQuestion] = (),
    choice: int | None = None,
    sources: Sequence[CandidateSource] = (),
    find_rejected: FindRejected | None = None,
    *,
    model: ModelSource | None = None,
    offered: Sequence[str] = (),
    connection: str | None = None,
) -> AskedQuestion:
    """Return the answer to a question about the tables of a scope.

    The rules read the question, and `sources` may propose further readings; all are ranked, checked and run together.
    `model` is asked if none of these readings is sure.

    `after` are the earlier questions, oldest first: a fragment such as "only in 2025" changes the last of them.
    `choice` is the number of a choice of an earlier answer, and `offered` are the statements of those choices, because
    a model may not write the same statements again. Raise NotFound if the scope has no tables, and InvalidInput if
    there is no such choice.
    """
    scoped = read_in_scope(deps, scope, question, today, find_tables, after, connection)

    def run(reading: QuestionReading) -> _ExecutedReading:
        return _ExecutedReading(reading, _run(deps, engine, scoped.place, scoped.tables, scoped.check(reading)))

    make_asked = partial(_make_asked_question, scoped, today)
    proposal = NO_PROPOSAL
    candidates = gather_candidates(question, scoped, sources, find_rejected)
    if choice is not None and offered:
        chosen = run(read_offered(_pick(offered, choice), scoped, candidates.readings))
        answer = _make_answer(question, scoped.reader.schema, candidates.readings, [chosen])
        return make_asked(answer, chosen, choice)
    if choice is None and model is not None and model.is_needed(scoped, candidates, after):
        proposal = model.propose(question, scoped, candidates, after, lambda reading: run(reading).result)
        proposal = drop_rejected(proposal, find_rejected(question, scoped) if find_rejected is not None else ())
        candidates = add_proposal(candidates, proposal)
    readings = candidates.readings
    if candidates.problems or readings.best is None:
        notes = [*candidates.notes, proposal.note] if proposal.note else candidates.notes
        return make_asked(make_refusal(question, candidates.problems, notes), None, model_use=proposal.use)
    rivals = _run_rivals(readings, run)
    shown = rivals if choice is None else [_pick(rivals, choice)]
    answer = _make_answer(question, scoped.reader.schema, readings, shown)
    return make_asked(answer, shown[0], choice, model_use=proposal.use)


def _make_asked_question(
    scoped: ScopedReadings, today: date, answer: Answer, executed: _ExecutedReading | None, choice: int | None = None,
    model_use: ModelUse | None = None,
) -> AskedQuestion:  # fmt: skip
    """Return the answer together with the values that are recorded with it.

    `is_follow_up` is that of the reading that was run. A statement of a model or a pattern does not show whether the
    question is a fragment, so for such a reading it is taken from the readings by the rules.
    """
    if executed is None:
        return AskedQuestion(answer, None, choice, None, scoped.is_follow_up, today, model_use)
    reading = executed.reading
    is_follow_up = reading.is_follow_up or (reading.features is None and scoped.is_follow_up)
    return AskedQuestion(answer, executed.result, choice, reading, is_follow_up, today, model_use)


def _run_rivals(readings: Readings, run: Callable[[QuestionReading], _ExecutedReading]) -> list[_ExecutedReading]:
    """Run the best reading and its rivals. Return the best, and the rivals whose results differ.

    A rival is about as likely as the best reading. A proposal that cannot be run is left out; if the best reading comes
    from the rules, its error is raised. A reading of another origin with the same result confirms the best reading.
    """
    first, others = _run_first(readings.readings, run)
    best = first.reading
    executed = [first]
    if first.result.seconds > _CHEAP_SECONDS:
        return executed
    for reading in _choose_others(best, others):
        try:
            other = run(reading)
        except (StatementRefused, QueryError):
            continue  # a reading that cannot be run is not offered as a choice
        if have_same_rows(executed[0].result.rows, other.result.rows):
            if reading.origin is not best.origin and _has_values(other.result):
                executed[0] = _confirm(executed[0], other)
        elif is_rival(best, reading) and not any(
            have_same_rows(rival.result.rows, other.result.rows) for rival in executed
        ):
            executed.append(other)
    return executed


def _has_values(result: QueryResult) -> bool:
    """Return whether a result has a value. Two statements without results do not confirm each other."""
    return any(cell is not None for row in result.rows for cell in row)


def _confirm(first: _ExecutedReading, other: _ExecutedReading) -> _ExecutedReading:
    """Return one of two readings with the same result. Its confidence is raised, because they confirm each other.

    A reading with a frame is preferred to a model's statement without one, because a frame can be put into words.
    """
    lacks_frame = first.reading.origin is ReadingOrigin.MODEL and first.reading.frame is None
    preferred, confirming = (other, first) if lacks_frame else (first, other)
    return replace(preferred, reading=confirm_reading(preferred.reading, confirming.reading))


def _run_first(
    readings: Sequence[QuestionReading], run: Callable[[QuestionReading], _ExecutedReading]
) -> tuple[_ExecutedReading, Sequence[QuestionReading]]:
    """Return the first reading that can be run with its result, and the readings after it."""
    best, *others = readings
    try:
        return run(best), others
    except (StatementRefused, QueryError):
        if best.origin is ReadingOrigin.RULES or not others:
            raise
        return _run_first(others, run)


def _choose_others(best: QuestionReading, others: Sequence[QuestionReading]) -> list[QuestionReading]:
    """Return the readings to compare the best one with: its rivals, and the best reading of each other origin."""
    best_by_origin = {reading.origin: reading for reading in reversed(others)}  # the first of each origin stays
    rivals = [other for other in others if is_rival(best, other)][: MAX_CHOICES - 1]
    confirming = [
        reading for origin, reading in best_by_origin.items() if origin is not best.origin and reading not in rivals
    ]
    return [*rivals, *confirming]


def _pick(offered: Sequence[T], choice: int) -> T:
    """Return the item of `offered` with this number, counted from 1; raise InvalidInput if there is no such number."""
    if not 1 <= choice <= len(offered):
        remedy = f"pass a number from 1 to {len(offered)}" if len(offered) > 1 else "ask without a choice"
        raise InvalidInput(f"there is no choice {choice}", value=str(choice), remedy=remedy)
    return offered[choice - 1]


def _make_answer(question: str, schema: AskSchema, readings: Readings, rivals: Sequence[_ExecutedReading]) -> Answer:
    """Return the answer of the first of `rivals`. If there are several, all are offered as choices."""
    first = rivals[0].reading
    schema = replace(schema, metrics=first.metrics) if first.metrics else schema
    offered = [rival.reading for rival in rivals]
    return make_answer(
        question,
        _make_table(rivals[0].result, first.frame, schema),
        first.sql,
        first.restatement,
        frame=first.frame,
        row_noun="rows" if first.frame is None else name_rows(schema, first.frame),
        assumptions=_list_assumptions(first),
        alternatives=_list_alternatives(readings, first),
        confidence=first.confidence,
        choices=make_choices(offered) if len(offered) > 1 else (),
        clarification=write_clarification(offered) if len(offered) > 1 else "",
    )


def read_in_scope(
    deps: DataDeps,
    scope: Scope,
    question: str,
    today: date,
    find_tables: FindTables,
    after: Sequence[EarlierQuestion] = (),
    connection: str | None = None,
) -> ScopedReadings:
    """Read a question about the tables of a scope and return the readings; no SQL is run.

    The question is read with the tables of each place (the uploaded files and each connected database), or only those
    of `connection`. The readings of the likeliest place are returned. Raise NotFound if the scope has no tables.
    """
    conversation = " ".join([*(earlier.text for earlier in after), question])
    all_readings = []
    for place in _require_places(deps, scope, connection):
        tables = _choose_tables(place.tables, conversation, find_tables)
        reader = load_reader(deps, place.tables, tables, place.dialect)
        previous = find_previous(reader, after, today)
        readings = reader.read(question, today, previous)
        all_readings.append(ScopedReadings(tables, reader, readings, today, previous, place, after=after))
    candidates = [
        PlaceReadings(scoped.place, scoped.reader, scoped.readings) for scoped in all_readings if scoped.place
    ]
    best = choose_readings(question, candidates)
    chosen = next(scoped for scoped in all_readings if scoped.place is best.place)
    return chosen._replace(readings=best.readings, others=candidates)


def run_statement(
    deps: DataDeps, engine: DataEngine, scope: Scope, sql: str, connection: str | None = None
) -> QueryResult:
    """Return the rows of a caller's own SELECT on the tables of a scope, after the same guard as for questions."""
    place = choose_place(sql, _require_places(deps, scope, connection))
    tables = place.tables
    columns = {table.table_name: [field.name for field in tables.fields[table.id]] for table in tables.tables}
    return _run(deps, engine, place, tables.tables, check_statement(sql, place.dialect, columns))


def _require_places(deps: DataDeps, scope: Scope, connection: str | None) -> list[DataPlace]:
    """Return the places with tables of a scope, or only the place of one connection.

    Raise NotFound if there are no tables.
    """
    places = split_places(load_scope(deps, scope))
    if connection is not None:
        places = narrow_places(places, require_connection(deps.records, scope, connection))
    if not places:
        remedy = Remedy("add a file with {}, or a database with {}", Verb("upload"), Verb("connect"))
        raise NotFound("this scope has no tables", remedy=remedy)
    return places


def run_checked(deps: DataDeps, engine: DataEngine, scoped: ScopedReadings, sql: str) -> QueryResult:
    """Return the rows of a statement on the tables of a scope; raise StatementRefused if the guard does not let it
    pass."""
    return _run(deps, engine, scoped.place, scoped.tables, scoped.check_sql(sql))


def _choose_tables(scope_tables: ScopeTables, question: str, find_tables: FindTables) -> Sequence[TableMetadata]:
    tables = scope_tables.tables
    if len(tables) <= MAX_TABLES:
        return tables
    ranks = {table.id: rank for rank, table in enumerate(find_tables(question))}
    linked = {key["to_table"] for table in tables if table.id in ranks for key in table.foreign_keys}
    chosen = [table for table in tables if table.id in ranks or table.table_name in linked]
    # If columns of several tables have the same name, the reader prefers the first. So the best tables come first.
    return sorted(chosen, key=lambda table: ranks.get(table.id, len(ranks))) or tables[:MAX_TABLES]


def _run(
    deps: DataDeps,
    engine: DataEngine,
    place: DataPlace | None,
    tables: Sequence[TableMetadata],
    statement: CheckedStatement,
) -> QueryResult:
    if place is not None and place.connection is not None:
        return query_connection(deps, engine, place.connection, statement)
    used = [table for table in tables if table.table_name in statement.tables]
    with open_tables(deps, used) as paths:
        # `content` is the hash of a table's data, so it changes with the data.
        version = " ".join(sorted(str(table.metadata.get("content")) for table in used))
        data = ParquetTables({name: (str(path),) for name, path in paths.items()}, version)
        return engine.run(data, statement)


def _make_table(result: QueryResult, frame: QueryFrame | None, schema: AskSchema) -> ResultTable:
    """Return the result as a table.

    With a frame, each column also has its meaning, its function, its unit and a title.
    """
    columns = [AnswerColumn(column.name, column.type.value) for column in result.columns]
    if frame is not None and frame.combined is None and len(frame.select) == len(columns):
        titles = name_columns(schema, frame)
        columns = [
            AnswerColumn(
                column.name,
                column.data_type,
                "" if expression.column is None or expression.function else schema.column(expression.column).kind.value,
                "" if expression.function is None else expression.function.value,
                _find_unit(schema, expression),
                title,
            )
            for column, expression, title in zip(columns, frame.select, titles, strict=True)
        ]
    return ResultTable(tuple(columns), result.rows, result.truncated)


def _find_unit(schema: AskSchema, expression: Expression) -> str:
    """Return the unit of a selected expression; an empty text for counts and shares, which have none."""
    is_share = expression.window is WindowKind.SHARE or expression.condition is not None
    has_unit = expression.function is not Function.COUNT and not is_share
    return schema.column(expression.column).unit if has_unit and expression.column is not None else ""


def _list_assumptions(reading: QuestionReading) -> list[str]:
    unread = [f"not used: {word!r}" for word in dict.fromkeys([*reading.unexplained, *reading.unused])]
    return [*reading.assumptions, *unread]


def _list_alternatives(readings: Readings, chosen: QuestionReading) -> list[str]:
    restatements = dict.fromkeys(reading.restatement for reading in readings.readings)
    return [restatement for restatement in restatements if restatement != chosen.restatement]
