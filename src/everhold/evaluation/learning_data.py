"""Questions with the SQL that answers them, for the evaluation of learning."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from everhold.adapters.sqlite_files.reader import read_tables, run_query
from everhold.ask.guard import check_statement
from everhold.ask.learning.gate import ReplayGate
from everhold.ask.learning.patterns import QuestionContext
from everhold.ask.learning.slots import MaskedQuestion
from everhold.ask.profile.build import build_schema
from everhold.ask.reading import QuestionReader
from everhold.ask.results import Rows, are_equal
from everhold.ask.schema import AskSchema
from everhold.ask.values import ValueIndex
from everhold.errors import InvalidInput, StatementRefused, StoreError
from everhold.evaluation.sql import TODAY
from everhold.evaluation.sql_levels import is_sorted

DIALECT = "sqlite"
_SECONDS = 5.0
_MAX_ROWS = 20_000


@dataclass(frozen=True)
class LearningPair:
    """A question, the SQL that answers it, and its template: questions with one template differ in values only."""

    question: str
    sql: str
    template: str
    is_ordered: bool


class LearningDatabase:
    """A SQLite file with questions about it, and the objects that answer them without a store."""

    def __init__(self, path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
        tables = read_tables(path)
        self.name, self._path = path.stem, path
        self.schema: AskSchema = build_schema(tables)
        values = ValueIndex(tables)
        self.context = QuestionContext(QuestionReader(self.schema, values), TODAY)
        self.columns = {table.name: [column.name for column in table.columns] for table in self.schema.tables}
        self.gate = ReplayGate(self.context, self._run)
        self._masks: dict[str, list[MaskedQuestion]] = {}
        self._entries = entries

    @cached_property
    def pairs(self) -> list[LearningPair]:
        """The questions whose expected SQL is allowed and runs. The others can neither be taught nor be compared."""
        pairs = [_make_pair(self.schema, entry) for entry in self._entries]
        return [pair for pair in pairs if pair is not None and self.gate.run(pair.sql) is not None]

    def mask(self, question: str) -> list[MaskedQuestion]:
        if question not in self._masks:
            self._masks[question] = self.context.mask(question)
        return self._masks[question]

    def is_right(self, pair: LearningPair, sql: str) -> bool:
        """Return whether a statement returns the expected rows, in the same order if the expected SQL sorts."""
        expected, actual = self.gate.run(pair.sql), self.gate.run(sql)
        return expected is not None and actual is not None and are_equal(expected, actual, pair.is_ordered)

    def _run(self, sql: str) -> Rows | None:
        try:
            statement = check_statement(sql, DIALECT, self.columns, row_limit=_MAX_ROWS)
            return run_query(self._path, statement.sql, _SECONDS, _MAX_ROWS)
        except (StatementRefused, StoreError):
            return None


def read_databases(folder: Path) -> list[LearningDatabase]:
    """Return the databases in a folder with their questions; databases with more questions come first.

    The folder has questions.json, a list of objects with `question` and `query`, and either one SQLite file, or
    database/NAME/NAME.sqlite for every `db_id` of the questions. `template` is optional.
    """
    path = folder / "questions.json"
    try:
        entries = json.loads(path.read_text("utf-8"))
        names = {str(entry.get("db_id", "")) for entry in entries}
        by_name = {name: [entry for entry in entries if str(entry.get("db_id", "")) == name] for name in names}
        if not all(isinstance(entry["question"], str) and isinstance(entry["query"], str) for entry in entries):
            raise TypeError("a question or a query is not text")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fact = f"{path} is not a list of questions: {error!r}"
        raise InvalidInput(fact, remedy="write a JSON list of objects with question and query") from error
    databases = [LearningDatabase(_find_file(folder, name), by_name[name]) for name in sorted(by_name)]
    return sorted(databases, key=lambda database: (-len(database.pairs), database.name))


def _find_file(folder: Path, name: str) -> Path:
    paths = [folder / "database" / name / f"{name}.sqlite"] if name else sorted(folder.glob("*.sqlite"))
    if len(paths) != 1 or not paths[0].is_file():
        fact = f"no database {name!r} in {folder}" if name else f"{len(paths)} SQLite files in {folder} instead of one"
        raise InvalidInput(fact, value=name, remedy="pass a folder with questions.json and its databases")
    return paths[0]


def _make_pair(schema: AskSchema, entry: Mapping[str, Any]) -> LearningPair | None:
    try:
        tree = sqlglot.parse_one(str(entry["query"]).strip().rstrip(";"), read=DIALECT)
    except SqlglotError:
        return None
    _read_quoted_texts(schema, tree)
    sql = tree.sql(dialect=DIALECT)
    for literal in list(tree.find_all(exp.Literal)):
        literal.replace(exp.Literal.string("?"))
    template = entry.get("template") or tree.sql(dialect=DIALECT, normalize=True)
    return LearningPair(str(entry["question"]), sql, str(template), is_sorted(sql))


def _read_quoted_texts(schema: AskSchema, tree: exp.Expr) -> None:
    """Turn double-quoted words that are not names into texts, as SQLite reads them."""
    names = {column.name.lower() for column in schema.columns()} | {table.name.lower() for table in schema.tables}
    for column in list(tree.find_all(exp.Column)):
        node = column.this
        if isinstance(node, exp.Identifier) and node.quoted and not column.table and node.name.lower() not in names:
            column.replace(exp.Literal.string(node.name))
