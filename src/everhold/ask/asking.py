"""Answer a question about uploaded data, without a language model.

tables → readings of the question → checked statement → result of the sandbox → answer
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple, Protocol

from everhold.ask.answer import Answer, make_answer
from everhold.ask.frame import QueryFrame
from everhold.ask.guard import check_statement
from everhold.ask.reading import QuestionReading, Readings
from everhold.ask.schema import AskSchema
from everhold.ask.sources.cache import ScopeTables
from everhold.ask.sources.content import load_reader, load_scope, open_tables
from everhold.ask.sources.deps import DataDeps
from everhold.errors import InvalidInput, NotFound, Remedy, Verb
from everhold.model import Scope, TableMetadata
from everhold.ports.data_engine import CheckedStatement, DataEngine, ParquetTables, QueryResult
from everhold.ports.result_table import AnswerColumn, ResultTable

DIALECT = "duckdb"


class FindTables(Protocol):
    """Returns the tables that a question is about, best first."""

    def __call__(self, question: str, /) -> Sequence[TableMetadata]: ...


@dataclass(frozen=True)
class AskedQuestion:
    """The answer to a question, and the result that it is made from."""

    answer: Answer
    result: QueryResult


# More tables than these are narrowed to those that a question is about before it is read.
MAX_TABLES = 60


def ask_question(
    deps: DataDeps,
    engine: DataEngine,
    scope: Scope,
    question: str,
    today: date,
    find_tables: FindTables,
    after: Sequence[str] = (),
) -> AskedQuestion:
    """Return the answer to a question about the tables of a scope.

    `after` are the questions before, oldest first: a fragment such as "only in 2025" changes the last of them. Raise
    NotFound if the scope has no tables, and InvalidInput if nothing in the question names something in them.
    """
    scoped = read_in_scope(deps, scope, question, today, find_tables, after)
    best = scoped.readings.best
    if best is None:
        raise InvalidInput(
            "nothing in the question names a table, a column or a value",
            remedy=Remedy("use words of the data; {} lists the tables", Verb("tables")),
        )
    result = _run(deps, engine, scoped.tables, scoped.check(best))
    answer = make_answer(
        question,
        _make_table(result, best.frame, scoped.schema),
        best.sql,
        best.words,
        frame=best.frame,
        assumptions=_list_assumptions(best),
        alternatives=_list_alternatives(scoped.readings),
        confidence=best.confidence,
    )
    return AskedQuestion(answer, result)


class ScopedReadings(NamedTuple):
    """The readings of a question, and the tables of the scope that it was read with."""

    tables: Sequence[TableMetadata]
    schema: AskSchema
    readings: Readings

    def check(self, reading: QuestionReading) -> CheckedStatement:
        """Return the statement of a reading after the guard; StatementRefused if it may not run."""
        columns = {table.name: [column.name for column in table.columns] for table in self.schema.tables}
        return check_statement(reading.sql, DIALECT, columns)


def read_in_scope(
    deps: DataDeps, scope: Scope, question: str, today: date, find_tables: FindTables, after: Sequence[str] = ()
) -> ScopedReadings:
    """Return the readings of a question about the tables of a scope; nothing is run. NotFound without tables."""
    scope_tables = _require_tables(deps, scope)
    tables = _choose_tables(scope_tables, " ".join([*after, question]), find_tables)
    reader = load_reader(deps, scope_tables, tables, DIALECT)
    previous: QueryFrame | None = None
    for earlier in after:
        reading = reader.read(earlier, today, previous).best
        previous = previous if reading is None else reading.frame
    return ScopedReadings(tables, reader.schema, reader.read(question, today, previous))


def run_statement(deps: DataDeps, engine: DataEngine, scope: Scope, sql: str) -> QueryResult:
    """Return the rows of a caller's own SELECT on the tables of a scope, after the same guard as for questions."""
    scope_tables = _require_tables(deps, scope)
    columns = {
        table.table_name: [field.name for field in scope_tables.fields[table.id]] for table in scope_tables.tables
    }
    return _run(deps, engine, scope_tables.tables, check_statement(sql, DIALECT, columns))


def _require_tables(deps: DataDeps, scope: Scope) -> ScopeTables:
    scope_tables = load_scope(deps, scope)
    if not scope_tables.tables:
        raise NotFound("this scope has no tables", remedy=Remedy("add a file with {}", Verb("upload")))
    return scope_tables


def _choose_tables(scope_tables: ScopeTables, question: str, find_tables: FindTables) -> Sequence[TableMetadata]:
    tables = scope_tables.tables
    if len(tables) <= MAX_TABLES:
        return tables
    best = [table.id for table in find_tables(question)]
    ranks = {table_id: rank for rank, table_id in enumerate(best)}
    linked = {key["to_table"] for table in tables if table.id in ranks for key in table.foreign_keys}
    chosen = [table for table in tables if table.id in ranks or table.table_name in linked]
    # The reader prefers the first of columns that are named alike, so the tables that fit best come first.
    return sorted(chosen, key=lambda table: ranks.get(table.id, len(ranks)))


def _run(
    deps: DataDeps, engine: DataEngine, tables: Sequence[TableMetadata], statement: CheckedStatement
) -> QueryResult:
    used = [table for table in tables if table.table_name in statement.tables]
    with open_tables(deps, used) as paths:
        # The address of a content is its hash, so it also names the version of the data.
        version = " ".join(sorted(str(table.metadata.get("content")) for table in used))
        data = ParquetTables({name: (str(path),) for name, path in paths.items()}, version)
        return engine.run(data, statement)


def _make_table(result: QueryResult, frame: QueryFrame, schema: AskSchema) -> ResultTable:
    """Return the result with what its frame says about each column: its meaning, and the function that made it."""
    columns = [AnswerColumn(column.name, column.type.value) for column in result.columns]
    if frame.combined is None and len(frame.select) == len(columns):
        columns = [
            AnswerColumn(
                column.name,
                column.data_type,
                "" if expression.column is None or expression.function else schema.column(expression.column).kind.value,
                "" if expression.function is None else expression.function.value,
            )
            for column, expression in zip(columns, frame.select, strict=True)
        ]
    return ResultTable(tuple(columns), result.rows, result.truncated)


def _list_assumptions(reading: QuestionReading) -> list[str]:
    unread = [f"not used: {word!r}" for word in reading.unexplained]
    return [*reading.assumptions, *unread]


def _list_alternatives(readings: Readings) -> list[str]:
    best = readings.best
    words = [reading.words for reading in readings.alternatives]
    return [text for text in dict.fromkeys(words) if best is not None and text != best.words]
