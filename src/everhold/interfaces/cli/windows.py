"""The command that builds the next prompt of a conversation."""

from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from everhold.context.window import STRATEGIES, Window
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import Included, OnlySession
from everhold.schema.codec import encode_json

app = typer.Typer()


def list_strategies() -> list[str]:
    return list(STRATEGIES)


@command(app, "window")
def build_window(
    call: Call,
    question: Annotated[
        str | None, typer.Argument(metavar="[QUESTION]", help="What to recall for; default: what a user said last.")
    ] = None,
    budget: Annotated[int, typer.Option(metavar="TOKENS", help="The maximum number of tokens.")] = 4000,
    strategy: Annotated[
        str,
        typer.Option(metavar="STRATEGY", help="adaptive, truncate or summarise.", autocompletion=list_strategies),
    ] = "adaptive",
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system text.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Only this conversation of it.")] = None,
    k: Annotated[int, typer.Option("-k", metavar="1–1000", help="How many memories and messages to recall.")] = 10,
    minimum: Annotated[float | None, typer.Option(metavar="SCORE", help="The lowest score of a hit.")] = None,
    include: Included = None,
    only: OnlySession = None,
    style: Annotated[
        Literal["openai", "anthropic"],
        typer.Option("--as", metavar="openai|anthropic", help="The form of the messages."),
    ] = "openai",
) -> CommandResult:
    """Build the prompt for the next turn of a session, within a number of tokens."""
    # The verb checks both values.
    checked_strategy: Any = strategy
    checked_only: Any = only
    window = call.view.window(
        question,
        budget=budget,
        strategy=checked_strategy,
        system=system,
        conversation=conversation,
        k=k,
        minimum=minimum,
        include=include or (),
        only=checked_only,
        timezone=call.zone.key,
    )
    prompt = window.as_anthropic() if style == "anthropic" else {"messages": window.as_openai()}
    if not call.as_json:
        _show(window)
    return CommandResult({**prompt, **_describe(window)}, None)


def _describe(window: Window) -> dict[str, Any]:
    """Return a window without its messages: the strategy, and how much of the budget each section uses."""
    return {
        "strategy": window.strategy,
        "budget": window.budget,
        "tokens": window.tokens,
        "cursor": window.cursor,
        "shortened_ids": window.shortened_ids,
        "sections": window.sections,
    }


def _show(window: Window) -> None:
    """Print the messages on standard output and their size on standard error."""
    for message in window.as_openai():
        speaker = f"{message['role']} ({message['name']})" if "name" in message else message["role"]
        text = message["content"] if isinstance(message["content"], str) else encode_json(message["content"] or [])
        texts = [] if message["content"] is None else [text]
        texts += [f"calls {entry['function']['name']} {entry['function']['arguments']}"
                 for entry in message.get("tool_calls", [])]  # fmt: skip
        Console(highlight=False).print(show.render_text(f"{speaker}: {' '.join(texts)}"), soft_wrap=True)
    parts = [f"{part.name} {part.shown}" for part in window.sections]
    older = ["earlier messages fell out"] if window.cursor else []
    cut = [f"{len(window.shortened_ids)} cut"] if window.shortened_ids else []
    summary = " · ".join([f"{window.tokens:,} of {window.budget:,} tokens", *parts, *cut, *older])
    Console(stderr=True, highlight=False).print(show.render_text(summary, style="dim"), soft_wrap=True)
