"""The command that builds the memory section of a prompt."""

from typing import Annotated, Any

import typer
from rich.console import Console

from everhold.context.section import Context
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import Included, Namespaces, read_filters

app = typer.Typer()


@command(app, "context", filters=read_filters)
def context(
    call: Call,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    budget: Annotated[int, typer.Option(metavar="TOKENS", help="The maximum number of tokens.")] = 1000,
    k: Annotated[int, typer.Option("-k", metavar="1–1000", help="How many memories to recall.")] = 20,
    minimum: Annotated[float | None, typer.Option(metavar="SCORE", help="The lowest score of a memory.")] = None,
    include: Included = None,
    namespace: Namespaces = None,
    *,
    filters: dict[str, Any],
) -> CommandResult:  # fmt: skip
    """Build a section of a prompt from pinned, core and recalled memories and the session."""
    section = call.view.context(
        question,
        budget=budget,
        k=k,
        minimum=minimum,
        include=include or (),
        timezone=call.zone.key,
        namespace=namespace or None,
        **filters,
    )
    if not call.as_json:
        _show(section, budget)
    return CommandResult(section, None)


def _show(section: Context, budget: int) -> None:
    """Print only the text on standard output, so that it can be piped, and its size on standard error."""
    if section.text:
        Console(highlight=False).print(show.render_text(section.text), soft_wrap=True)
    parts = [f"{part.name} {part.shown}" + (f" of {part.shown + part.left_out}" if part.left_out else "")
            for part in section.sections]  # fmt: skip
    summary = " · ".join([f"{section.tokens:,} of {budget:,} tokens", *parts])
    Console(stderr=True, highlight=False).print(show.render_text(summary, style="dim"), soft_wrap=True)
