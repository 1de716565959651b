"""The command that makes a section for a prompt."""

from typing import Annotated, Any

import typer
from rich.console import Console

from everhold.context.section import Context
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, Outcome, command
from everhold.interfaces.cli.groups import Included, Namespaces, narrowing

app = typer.Typer()


@command(app, "context", narrowed=narrowing)
def context(
    call: Call,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    budget: Annotated[int, typer.Option(metavar="TOKENS", help="The most tokens it may have.")] = 1000,
    k: Annotated[int, typer.Option("-k", metavar="1–1000", help="How many memories to recall.")] = 20,
    minimum: Annotated[float | None, typer.Option(metavar="SCORE", help="Recall nothing below this score.")] = None,
    include: Included = None,
    namespace: Namespaces = None,
    *,
    narrowed: dict[str, Any],
) -> Outcome:  # fmt: skip
    """Make a section for a prompt: what is pinned, core memory, the session so far, what is recalled."""
    made = call.view.context(
        question,
        budget=budget,
        k=k,
        minimum=minimum,
        include=include or (),
        timezone=call.zone.key,
        namespace=namespace or None,
        **narrowed,
    )
    if not call.as_json:
        _show(made, budget)
    return Outcome(made, None)


def _show(made: Context, budget: int) -> None:
    """The text alone and unwrapped on standard output, to be piped on; what it took on standard error."""
    if made.text:
        Console(highlight=False).print(show.plain(made.text), soft_wrap=True)
    used = [f"{one.name} {one.shown}" + (f" of {one.shown + one.left_out}" if one.left_out else "")
            for one in made.sections]  # fmt: skip
    said = " · ".join([f"{made.tokens:,} of {budget:,} tokens", *used])
    Console(stderr=True, highlight=False).print(show.plain(said, style="dim"), soft_wrap=True)
