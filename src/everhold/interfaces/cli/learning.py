"""Commands by which users teach: verdicts on answers about data, and what was learned from them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import LearnedItem, VerdictResult
from everhold.interfaces.cli import show
from everhold.interfaces.cli.asking import questions
from everhold.interfaces.cli.call import Call, CommandResult, command

Query = Annotated[str, typer.Argument(metavar="QUERY", help="The query of an answer, as `ask` shows it.")]


@command(questions, "confirm")
def confirm(call: Call, query: Query) -> CommandResult:
    """Say that an answer is right, so that similar questions are answered in the same way."""
    return _show_verdict(call.view.confirm(query))


@command(questions, "correct")
def correct(
    call: Call,
    query: Query,
    sql: Annotated[str | None, typer.Option(metavar="SELECT", help="The statement that answers the question.")] = None,
    choice: Annotated[int | None, typer.Option(metavar="N", help="The number of the choice that is right.")] = None,
) -> CommandResult:
    """Say what the right answer is: a SELECT, or one of the answer's choices."""
    return _show_verdict(call.view.correct(query, sql=sql, choice=choice))


@command(questions, "reject")
def reject(call: Call, query: Query) -> CommandResult:
    """Say that an answer is wrong."""
    return _show_verdict(call.view.reject(query))


@command(questions, "learned")
def show_learned(
    call: Call, limit: Annotated[int, typer.Option(metavar="N", help="How many are shown.")] = 100
) -> CommandResult:
    """Show what was learned from answers that were judged, the latest first, and why it is used or not."""
    items = call.view.learned(limit=limit)
    return CommandResult({"learned": [_make_document(item) for item in items]}, _render_items(items))


@command(questions, "forget-learned")
def forget_learned(
    call: Call, item: Annotated[str, typer.Argument(metavar="ID", help="The id of what was learned.")]
) -> CommandResult:
    """Revoke something that was learned."""
    forgotten = call.view.forget_learned(item)
    return CommandResult({"forgotten": _make_document(forgotten)}, show.render_text(f"forgot {forgotten.id}"))


def _show_verdict(result: VerdictResult) -> CommandResult:
    document = {
        "query": result.query.id,
        "question": result.query.question,
        "feedback": result.query.feedback,
        "learned": [_make_document(item) for item in result.learned],
        "notes": result.notes,
    }
    notes = [show.render_text(f"note: {note}", style="yellow") for note in result.notes]
    heading = show.render_text(f"{result.query.feedback}: {result.query.question}", style="bold")
    learned = _render_items(result.learned) if result.learned else Text("nothing new was learned", style="dim")
    return CommandResult(document, Group(heading, *notes, learned))


def _make_document(item: LearnedItem) -> dict[str, Any]:
    return asdict(item)


def _render_items(items: Sequence[LearnedItem]) -> RenderableType:
    if not items:
        return Text("nothing was learned", style="dim")
    return Group(*(part for item in items for part in _render_item(item)))


def _render_item(item: LearnedItem) -> Iterator[RenderableType]:
    author = f" by {item.author}" if item.author else ""
    owner = f" for user {item.user}" if item.user else ""
    record = f"{item.wins} right, {item.losses} wrong, {item.origin}{author}{owner}"
    yield show.render_text(f"{item.kind}: {item.text}")
    yield show.render_text(f"  means {item.meaning}", style="dim")
    yield show.render_text(f"  {item.status} ({item.why})" if item.why else f"  {item.status}", style="dim")
    yield show.render_text(f"  {record}: {item.id}", style="dim")
