"""Commands that ask uploaded data: in plain language, and in SQL."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from everhold import Answer, AnswerColumn, AnswerStatus, Everhold, ResultTable
from everhold.errors import InvalidInput
from everhold.files import write_private
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.failures import FAILED
from everhold.interfaces.cli.question_group import QuestionGroup

app = typer.Typer()
questions = typer.Typer(
    cls=QuestionGroup, help="Ask questions about data in plain language, and say whether the answers are right."
)
_MAX_ROWS = 20
_MAX_TEXT = 60
_SKETCH_WIDTH = 80
_LABELS = ("id", "code", "year", "date", "flag")  # meanings of columns whose numbers have no separators
_SMALL = 0.01  # a figure below it would be 0.00
_SURE = 0.8  # the other readings are shown if the confidence is lower


@command(questions, "question")
def ask(
    call: Call,
    words: Annotated[list[str], typer.Argument(metavar="QUESTION...")],
    after: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION", help="The previous question, which this one changes.")
    ] = None,
    choice: Annotated[
        int | None, typer.Option(metavar="N", help="The reading that is meant, by its number in the previous answer.")
    ] = None,
    connection: Annotated[str | None, typer.Option(metavar="NAME", help="Ask only this connected database.")] = None,
    chart: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the chart to a .png or .svg file.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the rows to a CSV file.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
) -> CommandResult:
    """Answer a question about uploaded data: a sentence, the rows, the SQL and how the question was read.

    The exit code is 1 if the question was not understood.
    """
    if chart is not None and chart.suffix not in (".png", ".svg"):
        raise InvalidInput(f"a chart cannot be drawn to {str(chart)!r}", value=str(chart), remedy="name a .png or .svg")
    answer = call.view.ask(" ".join(words), after=after or (), choice=choice, connection=connection)
    notes = []
    if csv is not None and answer.sql:
        write_private(csv, answer.to_csv().encode(), overwrite=overwrite)
        notes.append(f"written: {csv}")
    specification = answer.specification
    if chart is not None and specification is not None:
        write_private(chart, Everhold.draw_chart(specification, svg=chart.suffix == ".svg"), overwrite=overwrite)
        notes.append(f"written: {chart}")
    elif chart is not None and answer.sql:
        notes.append(f"not written: {chart}, because no chart fits this answer")
    return show_answer(answer, notes)


def show_answer(answer: Answer, notes: Sequence[str] = ()) -> CommandResult:
    """Return the result that shows an answer. `notes` are sentences about the files that were written."""
    has_failed = answer.status is AnswerStatus.CANNOT or any(note.startswith("not written") for note in notes)
    output = Group(*_render_answer(answer), *(show.render_text(note, style="dim") for note in notes))
    return CommandResult(_make_document(answer), output, FAILED if has_failed else 0)


@command(app, "sql")
def run_sql(
    call: Call,
    statement: Annotated[str, typer.Argument(metavar="SELECT")],
    connection: Annotated[str | None, typer.Option(metavar="NAME", help="Run it on this connected database.")] = None,
) -> CommandResult:
    """Run a SELECT on files or a connected database; anything else is refused."""
    result = call.view.sql(statement, connection=connection)
    names = [column.name for column in result.columns]
    rows = [list(row) for row in result.rows]
    return CommandResult(
        {"columns": names, "rows": rows, "truncated": result.truncated}, _render_rows(names, rows, result.row_count)
    )


def _make_document(answer: Answer) -> dict[str, Any]:
    return {
        "question": answer.question,
        "status": answer.status.value,
        "sentence": answer.sentence,
        "columns": [column.name for column in answer.table.columns],
        "rows": [list(row) for row in answer.table.rows],
        "sql": answer.sql or None,
        "read_as": answer.restatement or None,
        "assumptions": answer.assumptions,
        "alternatives": answer.alternatives,
        "choices": [{**asdict(choice), "text": str(choice)} for choice in answer.choices],
        "not_understood": [{**asdict(problem), "message": str(problem)} for problem in answer.not_understood],
        "confidence": round(answer.confidence, 3),
        "chart": answer.specification,
        "query": answer.query or None,
    }


def _render_answer(answer: Answer) -> Iterator[RenderableType]:
    yield show.render_text(answer.sentence, style="bold")
    if answer.choices:
        for choice in answer.choices:
            yield show.render_text(f"  {choice.number}. {choice}", style="yellow")
        yield Text("the rows are those of 1; choose another by its number (--choice N)", style="dim")
    if not answer.sql:
        yield from (show.render_text(text, style="dim") for text in answer.assumptions)
        yield show.render_text(f"query {answer.query}: everhold ask correct teaches its answer", style="dim")
        return
    if len(answer.table.rows) > 1:
        yield _render_table(answer.table)
    sketch = answer.sketch(_SKETCH_WIDTH)
    if sketch and len(answer.table.rows) > 1:
        yield Text(sketch)
    yield show.render_text(f"read as: {answer.restatement} (confidence {answer.confidence:.0%})", style="dim")
    yield from (show.render_text(f"assumed: {text}", style="dim") for text in answer.assumptions)
    if not answer.choices and answer.confidence < _SURE:
        yield from (show.render_text(f"or: {text}", style="dim") for text in answer.alternatives)
    yield show.render_text(answer.sql, style="dim")
    yield show.render_text(f"query {answer.query}: everhold ask confirm, correct or reject it", style="dim")


def _render_table(table: ResultTable) -> RenderableType:
    """Return rows with their labels to the left of figures."""
    order = sorted(range(len(table.columns)), key=lambda index: bool(table.columns[index].function))
    figures_table = show.make_table()
    for index in order:
        column = table.columns[index]
        title = show.render_text(column.title or column.name)
        figures_table.add_column(title, justify="right" if _is_figure(column) else "left")
    for row in table.rows[:_MAX_ROWS]:
        cells = [_write_cell(row[index], table.columns[index]) for index in order]
        figures_table.add_row(*(show.render_text(cell, _MAX_TEXT) for cell in cells))
    return _add_note_on_omitted_rows(figures_table, len(table.rows))


def _is_figure(column: AnswerColumn) -> bool:
    """Return whether a column holds amounts. Years and ids are numbers, but not amounts."""
    if column.function == "count" or column.meaning == "measure":
        return True
    return bool(column.function) and column.meaning not in _LABELS


def _write_cell(cell: Any, column: AnswerColumn) -> str:
    if cell is None:
        return ""
    if _is_figure(column) and isinstance(cell, int | float | Decimal):
        if isinstance(cell, int) or not column.function:
            return f"{cell:,}"
        return f"{cell:,.2f}" if abs(float(cell)) >= _SMALL or not cell else f"{cell:.3g}"
    is_midnight = isinstance(cell, datetime) and cell.time() == time()
    return str(cell.date() if is_midnight else cell)


def _render_rows(names: list[str], rows: list[list[Any]], count: int) -> RenderableType:
    table = show.make_table(*names)
    for row in rows[:_MAX_ROWS]:
        table.add_row(*(show.render_text("" if cell is None else str(cell), _MAX_TEXT) for cell in row))
    return _add_note_on_omitted_rows(table, count)


def _add_note_on_omitted_rows(table: Table, count: int) -> RenderableType:
    omitted = count - _MAX_ROWS
    return Group(table, Text(f"{omitted:,} more rows", style="dim")) if omitted > 0 else table
