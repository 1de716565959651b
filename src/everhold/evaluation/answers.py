"""Measure how often answers to questions about data files are right: upload the files and ask each question."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError

from everhold import Answer, AnswerStatus, Everhold, View
from everhold.ask.results import are_equal
from everhold.errors import EverholdError, InvalidInput

RIGHT, WRONG, UNCLEAR = "right", "wrong", "unclear"
_DIALECT = "duckdb"


@dataclass(frozen=True)
class DataQuestion:
    """A question about a source, the SQL that returns the expected rows, and whether their order counts.

    `after` are the questions that it follows, oldest first.
    """

    id: str
    source: str
    text: str
    expected: str
    is_ordered: bool = False
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuestionFile:
    """Questions about data sources. `today` is the day on which they are asked, for periods such as "last month"."""

    today: date
    sources: Mapping[str, Mapping[str, str]]
    questions: tuple[DataQuestion, ...]


@dataclass(frozen=True)
class AnswerOutcome:
    """The outcome of one question.

    A question without an answer counts as unclear, even if its best reading is right.
    """

    question: DataQuestion
    answer: Answer | None
    has_expected_rows: bool
    problem: str = ""

    @property
    def verdict(self) -> str:
        is_answered = self.answer is not None and self.answer.status in (AnswerStatus.ANSWERED, AnswerStatus.ASSUMED)
        if self.answer is not None and not is_answered:
            return UNCLEAR
        return RIGHT if self.has_expected_rows else WRONG


def read_question_file(path: Path) -> QuestionFile:
    """Return the questions of a JSON file in the format of examples/sample_questions.json."""
    try:
        document = json.loads(path.read_text("utf-8"))
        entries_by_id = {entry["id"]: entry for entry in document["questions"]}
        return QuestionFile(
            date.fromisoformat(document["today"]),
            {name: dict(source) for name, source in document["sources"].items()},
            tuple(
                DataQuestion(
                    entry["id"],
                    entry["source"],
                    entry["question"],
                    entry["sql"],
                    bool(entry.get("ordered")),
                    tuple(_list_earlier(entries_by_id, entry)),
                )
                for entry in document["questions"]
            ),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fact = f"{path} is not a file of questions: {error!r}"
        raise InvalidInput(fact, remedy="write it as examples/sample_questions.json is") from error


def _list_earlier(entries_by_id: Mapping[str, Any], entry: Mapping[str, Any]) -> list[str]:
    if "after" not in entry:
        return []
    previous = entries_by_id[entry["after"]]
    return [*_list_earlier(entries_by_id, previous), previous["question"]]


def evaluate_answers(
    engine: Everhold, file: QuestionFile, folder: Path, progress: Callable[[int], None] = lambda _: None
) -> Iterator[AnswerOutcome]:
    """Upload each source below a folder to a separate project, and yield the outcome of each question."""
    views = {name: engine.scope(project=name) for name in file.sources}
    for name, source in file.sources.items():
        views[name].upload(*_list_files(folder / source["path"]))
    for question in file.questions:
        dialect = file.sources[question.source].get("dialect", _DIALECT)
        yield _ask(views[question.source], question, dialect, file.today)
        progress(1)


def _list_files(path: Path) -> list[str]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    if not all(file.is_file() for file in files) or not files:
        raise InvalidInput(f"no file {path}", value=str(path), remedy="pass the folder that holds the sources")
    return [str(file) for file in files]


def _ask(view: View, question: DataQuestion, dialect: str, today: date) -> AnswerOutcome:
    try:
        [sql] = sqlglot.transpile(question.expected, read=dialect, write=_DIALECT)
    except (SqlglotError, ValueError) as error:
        fact = f"the SQL of question {question.id!r} is invalid: {error}"
        raise InvalidInput(fact, value=question.expected, remedy=f"write it in the dialect {dialect!r}") from error
    expected = view.sql(sql).rows
    try:
        answer = view.ask(question.text, after=question.after, today=today)
    except EverholdError as error:
        return AnswerOutcome(question, None, False, str(error))
    return AnswerOutcome(question, answer, are_equal(expected, answer.table.rows, question.is_ordered))


def summarise_answers(outcomes: Sequence[AnswerOutcome]) -> dict[str, Any]:
    """Return how many answers are right, wrong and unclear, in all and by source.

    `unclear_but_right` counts the unclear questions whose best reading has the expected rows.
    """
    sources = dict.fromkeys(outcome.question.source for outcome in outcomes)
    unclear_but_right = sum(outcome.verdict == UNCLEAR and outcome.has_expected_rows for outcome in outcomes)
    by_source = {name: _count([o for o in outcomes if o.question.source == name]) for name in sources}
    return {**_count(outcomes), "unclear_but_right": unclear_but_right, "by_source": by_source}


def _count(outcomes: Sequence[AnswerOutcome]) -> dict[str, int]:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    return {"questions": len(outcomes), **{verdict: verdicts[verdict] for verdict in (RIGHT, WRONG, UNCLEAR)}}
