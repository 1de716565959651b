"""Commands that ask uploaded data: in plain language, and in SQL."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Answer, Everhold
from everhold.errors import InvalidInput
from everhold.files import write_private
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command

app = typer.Typer()
_MAX_ROWS = 20
_MAX_TEXT = 60
_WIDTH = 80


@command(app, "ask")
def ask(
    call: Call,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    after: Annotated[
        list[str] | None, typer.Option(metavar="QUESTION", help="The question before, which this one changes.")
    ] = None,
    chart: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the chart to a .png or .svg file.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the rows to a CSV file.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")] = False,
) -> CommandResult:
    """Answer a question about uploaded data: a sentence, the rows, the SQL and how the question was read."""
    if chart is not None and chart.suffix not in (".png", ".svg"):
        raise InvalidInput(f"a chart cannot be drawn to {str(chart)!r}", value=str(chart), remedy="name a .png or .svg")
    answer = call.view.ask(question, after=after or ())
    files = []
    if csv is not None:
        write_private(csv, answer.to_csv().encode(), overwrite=overwrite)
        files.append(csv)
    if chart is not None:
        write_private(chart, _draw(answer, chart.suffix), overwrite=overwrite)
        files.append(chart)
    return CommandResult(_make_document(answer), Group(*_render_answer(answer, [str(path) for path in files])))


@command(app, "sql")
def run_sql(call: Call, statement: Annotated[str, typer.Argument(metavar="SELECT")]) -> CommandResult:
    """Run a SELECT on uploaded data; anything else is refused."""
    result = call.view.sql(statement)
    names = [column.name for column in result.columns]
    rows = [list(row) for row in result.rows]
    return CommandResult(
        {"columns": names, "rows": rows, "truncated": result.truncated}, _render_rows(names, rows, result.row_count)
    )


def _draw(answer: Answer, suffix: str) -> bytes:
    specification = answer.specification
    if specification is None:
        raise InvalidInput("no chart fits this answer", remedy="leave --chart out")
    return Everhold.draw_chart(specification, svg=suffix == ".svg")


def _make_document(answer: Answer) -> dict[str, Any]:
    return {
        "question": answer.question,
        "sentence": answer.sentence,
        "columns": [column.name for column in answer.table.columns],
        "rows": [list(row) for row in answer.table.rows],
        "sql": answer.sql,
        "read_as": answer.restatement,
        "assumptions": answer.assumptions,
        "alternatives": answer.alternatives,
        "confidence": round(answer.confidence, 3),
        "chart": answer.specification,
    }


def _render_answer(answer: Answer, files: list[str]) -> list[RenderableType]:
    names = [column.name for column in answer.table.columns]
    parts: list[RenderableType] = [show.render_text(answer.sentence, style="bold")]
    if len(answer.table.rows) > 1:
        parts.append(_render_rows(names, [list(row) for row in answer.table.rows], len(answer.table.rows)))
    sketch = answer.sketch(_WIDTH)
    if sketch:
        parts.append(Text(sketch))
    parts.append(show.render_text(f"read as: {answer.restatement} (confidence {answer.confidence:.0%})", style="dim"))
    parts += [show.render_text(f"assumed: {text}", style="dim") for text in answer.assumptions]
    parts += [show.render_text(f"or: {text}", style="dim") for text in answer.alternatives]
    parts.append(show.render_text(answer.sql, style="dim"))
    return [*parts, *(show.render_text(f"written: {name}", style="dim") for name in files)]


def _render_rows(names: list[str], rows: list[list[Any]], count: int) -> RenderableType:
    table = show.make_table(*names)
    for row in rows[:_MAX_ROWS]:
        table.add_row(*(show.render_text("" if cell is None else str(cell), _MAX_TEXT) for cell in row))
    rest = count - min(len(rows), _MAX_ROWS)
    return Group(table, Text(f"{rest:,} more rows", style="dim")) if rest > 0 else table
