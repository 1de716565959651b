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
from everhold.interfaces.cli.call import Call, CommandResult, command, make_call_without_store
from everhold.interfaces.cli.evaluations import app
from everhold.interfaces.shared.documents import Line

if TYPE_CHECKING:
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

    judged = sql_fitting.leave_databases_out(outcomes) if folds else outcomes
    line = Line({"file": str(questions), "folds": folds, **sql.summarise(judged)})
    wrong = [outcome for outcome in outcomes if not outcome.test_suite] if failures else []
    if failures:
        line["failures"] = [_write_failure(outcome) for outcome in wrong]
    return CommandResult(line, _make_table(line, wrong))


@command(app, "fit-sql", make_call_without_store)
def fit_sql(call: Call, questions: Questions, folder: Folder) -> CommandResult:
    """Print the weights of confidence, fitted to questions whose SQL is known, as confidence.json has them."""
    outcomes = _evaluate(call, questions, folder)
    from everhold.evaluation import sql_fitting

    fitted = sql_fitting.fit_file(outcomes)
    return CommandResult(fitted, Text(json.dumps(fitted, indent=2), no_wrap=True, overflow="ignore"))


def _evaluate(call: Call, questions: Path, folder: Path) -> "list[SqlOutcome]":
    try:
        from everhold.evaluation import sql
    except ModuleNotFoundError as error:
        raise MissingExtra("questions about data need sqlglot", remedy="pip install 'everhold[ask]'") from error
    listed = sql.read_questions(questions)
    with call.progress("asking", len(listed)) as progress:
        return sql.evaluate(listed, folder, progress)


def _write_failure(outcome: "SqlOutcome") -> dict[str, Any]:
    question = outcome.question
    names = {"database": question.database, "question": question.text, "gold": question.gold, "sql": outcome.sql}
    return {**names, "execution": outcome.execution, "confidence": outcome.confidence}


def _make_table(line: Mapping[str, Any], wrong: "Sequence[SqlOutcome]") -> RenderableType:
    table = show.make_number_table("", "questions", "execution", "test suite")
    rows = {**line["by_difficulty"], **line["by_database"], "single table": line["single_table"], "all": line}
    for name, row in rows.items():
        figures = ("–" if row[key] is None else f"{row[key]:.3f}" for key in ("execution", "test_suite"))
        table.add_row(show.render_text(name), f"{row['questions']:,}", *figures)
    coverage = Text(f"coverage at 90 % precision: {line['coverage_at_90']:.3f}", style="dim")
    lines = [Text(f"{o.question.text}\n  expected: {o.question.gold}\n  made:     {o.sql}") for o in wrong]
    return Group(table, coverage, *lines)
