"""Commands that measure questions about data: how often the SQL made from them is right."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.errors import MissingExtra
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_call_without_store, make_store_call
from everhold.interfaces.cli.evaluations import app, open_empty
from everhold.interfaces.shared.documents import Line

if TYPE_CHECKING:
    from everhold.evaluation.answers import AnswerOutcome
    from everhold.evaluation.sql import SqlOutcome

Questions = Annotated[
    Path, typer.Argument(metavar="QUESTIONS", dir_okay=False, help="A JSON list: db_id, question and query of each.")
]
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", file_okay=False, help="Databases: DIR/NAME/NAME.sqlite and variants beside it.")
]


@command(app, "sql", make_call_without_store)
def measure_sql(
    call: Call,
    questions: Questions,
    folder: Folder,
    failures: Annotated[bool, typer.Option("--failures", help="List the questions with a wrong result.")] = False,
    folds: Annotated[
        Literal["database"] | None,
        typer.Option(help="Compute confidence for each database with weights fitted to the others."),
    ] = None,
) -> CommandResult:
    """Show how often the SQL made from questions returns what the expected SQL returns."""
    outcomes = _evaluate(call, questions, folder)
    from everhold.evaluation import sql, sql_fitting

    scored_outcomes = sql_fitting.leave_databases_out(outcomes) if folds else outcomes
    line = Line({"file": str(questions), "folds": folds, **sql.summarise(scored_outcomes)})
    wrong_outcomes = [outcome for outcome in outcomes if not outcome.test_suite] if failures else []
    if failures:
        line["failures"] = [_describe_failure(outcome) for outcome in wrong_outcomes]
    return CommandResult(line, _make_table(line, wrong_outcomes))


@command(app, "fit-sql", make_call_without_store)
def fit_sql(call: Call, questions: Questions, folder: Folder) -> CommandResult:
    """Print the weights of confidence, fitted to questions whose SQL is known, as confidence.json has them."""
    outcomes = _evaluate(call, questions, folder)
    from everhold.evaluation import sql_fitting

    weights = sql_fitting.fit_file(outcomes)
    return CommandResult(weights, Text(json.dumps(weights, indent=2), no_wrap=True, overflow="ignore"))


@command(app, "ask", make_store_call)
def measure_answers(
    call: Call,
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS", dir_okay=False, help="As examples/sample_questions.json.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", file_okay=False, help="The folder of the data files.")],
) -> CommandResult:
    """Upload data files to a new store in memory, ask questions about them, and compare rows with those expected."""
    try:
        from everhold.evaluation import answers
    except ModuleNotFoundError as error:
        raise MissingExtra("questions about data need sqlglot", remedy="pip install 'everhold[ask]'") from error
    file = answers.read_question_file(questions)
    with open_empty(call) as engine, call.progress("asking", len(file.questions)) as progress:
        outcomes = list(answers.evaluate_answers(engine, file, folder, progress))
    line = Line({"file": str(questions), **answers.summarise_answers(outcomes)})
    missed_answers = [outcome for outcome in outcomes if outcome.verdict != answers.RIGHT]
    line["missed"] = [_describe_missed(outcome) for outcome in missed_answers]
    return CommandResult(line, Group(_make_answers_table(line), *map(_render_missed, line["missed"])))


@command(app, "learning", make_call_without_store)
def measure_learning(
    call: Call,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", file_okay=False, help="questions.json, and a SQLite file or database/NAME/."),
    ],
    folds: Annotated[
        int, typer.Option(metavar="N", min=2, max=20, help="How many parts questions are split into.")
    ] = 5,
    limit: Annotated[int | None, typer.Option(metavar="N", min=10, help="Use only so many questions.")] = None,
) -> CommandResult:
    """Show how much confirmed answers teach: accuracy on other questions, on new templates, and after wrong ones."""
    try:
        from everhold.evaluation import learning_report
    except ModuleNotFoundError as error:
        raise MissingExtra("questions about data need sqlglot", remedy="pip install 'everhold[ask]'") from error
    databases = learning_report.choose_databases(folder, limit)
    with call.progress("teaching", learning_report.count_steps(databases, folds)) as progress:
        figures = learning_report.measure_learning(databases, folds, progress)
    line = Line({"folder": str(folder), **figures})
    return CommandResult(line, _make_learning_table(line))


def _make_learning_table(line: Mapping[str, Any]) -> RenderableType:
    table = show.make_number_table("", "questions", "without", "with", "seen", "unseen", "leaks")
    rows = {f"after {point['confirmed']:,} confirmed": point for point in line.get("by_question", ())}
    rows |= {"new templates": line["by_template"]} if "by_template" in line else {}
    for name, row in {**rows, **line.get("by_database", {})}.items():
        keys = ("accuracy_without", "accuracy", "accuracy_seen", "accuracy_unseen")
        shares = ("–" if row[key] is None else f"{row[key]:.3f}" for key in keys)
        table.add_row(show.render_text(name), f"{row['questions']:,}", *shares, f"{row['literal_leaks']:,}")
    noise = line.get("wrong_confirmations")
    if noise is None:
        return table
    recovered = f"{noise['recovered_by_one_correction']} of {noise['wrong_confirmations']}"
    return Group(table, Text(f"wrong confirmations that one correction repaired: {recovered}"))


def _describe_missed(outcome: "AnswerOutcome") -> dict[str, Any]:
    question, answer = outcome.question, outcome.answer
    document = {"id": question.id, "verdict": outcome.verdict, "question": question.text, "expected": question.expected}
    if answer is None:
        return {**document, "status": "failed", "sentence": outcome.problem, "read_as": None, "sql": None}
    reading = {"read_as": answer.restatement or None, "sql": answer.sql or None}
    return {**document, "status": answer.status.value, "sentence": answer.sentence, **reading}


def _make_answers_table(line: Mapping[str, Any]) -> RenderableType:
    table = show.make_number_table("", "questions", "right", "wrong", "unclear")
    for name, row in {**line["by_source"], "all": line}.items():
        counts = (f"{row[key]:,}" for key in ("questions", "right", "wrong", "unclear"))
        table.add_row(show.render_text(name), *counts)
    return table


def _render_missed(answer: Mapping[str, Any]) -> RenderableType:
    lines = [f"{answer['verdict']}: {answer['question']}", f"  {answer['status']}: {answer['sentence']}"]
    lines += [f"  read as: {answer['read_as']}"] if answer["read_as"] else []
    return Text("\n".join(lines))


def _evaluate(call: Call, questions: Path, folder: Path) -> "list[SqlOutcome]":
    try:
        from everhold.evaluation import sql
    except ModuleNotFoundError as error:
        raise MissingExtra("questions about data need sqlglot", remedy="pip install 'everhold[ask]'") from error
    question_list = sql.read_questions(questions)
    with call.progress("asking", len(question_list)) as progress:
        return sql.evaluate(question_list, folder, progress)


def _describe_failure(outcome: "SqlOutcome") -> dict[str, Any]:
    question = outcome.question
    document = {"database": question.database, "question": question.text, "gold": question.gold, "sql": outcome.sql}
    return {**document, "execution": outcome.execution, "confidence": outcome.confidence}


def _make_table(line: Mapping[str, Any], wrong_outcomes: "Sequence[SqlOutcome]") -> RenderableType:
    table = show.make_number_table("", "questions", "execution", "test suite")
    rows = {**line["by_difficulty"], **line["by_database"], "single table": line["single_table"], "all": line}
    for name, row in rows.items():
        figures = ("–" if row[key] is None else f"{row[key]:.3f}" for key in ("execution", "test_suite"))
        table.add_row(show.render_text(name), f"{row['questions']:,}", *figures)
    coverage = Text(f"coverage at 90 % precision: {line['coverage_at_90']:.3f}", style="dim")
    counts = {status: line["statuses"][status] for status in ("answered", "clarify", "cannot")}
    statuses = [Text(f"{name}: {row['questions']:,}, right: {row['right']:,}") for name, row in counts.items()]
    lines = [Text(f"{o.question.text}\n  expected: {o.question.gold}\n  made:     {o.sql}") for o in wrong_outcomes]
    return Group(table, coverage, *statuses, *lines)
