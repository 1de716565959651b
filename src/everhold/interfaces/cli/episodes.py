"""Commands on episodes: summaries of what was said."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Episode
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import OnlySession, read_filters
from everhold.interfaces.cli.memory_results import render_cursor
from everhold.interfaces.cli.sessions import make_messages_table
from everhold.interfaces.shared.times import format_local

app = typer.Typer(help="Summaries of what was said, by topic, session and period.")

_MAX_SUMMARY_LENGTH = 300


def read_span(
    call: Call,
    after: Annotated[str | None, typer.Option(metavar="TIME", help="From that time on.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", help="Before that time.")] = None,
    only: OnlySession = None,
) -> dict[str, Any]:
    """Return the span of time and the session that were passed, as the verbs take them."""
    return read_filters(call, after=after, before=before, only=only)


@command(app, "list", filters=read_span)
def list_episodes(
    call: Call,
    level: Annotated[
        str, typer.Option(help="episode, section, chapter, session, day, week, month or year.")
    ] = "episode",
    limit: Annotated[int, typer.Option(metavar="N", help="How many.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="The cursor of the previous page.")] = None,
    *,
    filters: dict[str, Any],
) -> CommandResult:
    """Show episodes, newest first."""
    page = call.view.episodes(level=level, limit=limit, cursor=cursor, **filters)
    output: RenderableType = make_episodes_table(call, page) if page.episodes else Text("no episodes", style="dim")
    parts = [output, *([render_cursor(page.cursor)] if page.cursor else [])]
    return CommandResult({"episodes": page.episodes, "cursor": page.cursor}, Group(*parts))


@command(app, "show")
def show_episode(
    call: Call, episode_id: Annotated[str, typer.Argument(metavar="ID", help="The id of an episode.")]
) -> CommandResult:
    """Show an episode with its messages, or a rollup with the episodes that it is made of."""
    details = call.view.episode(episode_id)
    episode = details.episode
    heading = f"{episode.level_name} {episode.name or episode.id} · {episode.message_count:,} messages"
    parts: list[RenderableType] = [Text(heading, style="bold"), show.render_text(episode.summary)]
    parts += [show.render_text(f"fact: {fact['text']}") for fact in episode.key_facts]
    if details.parts:
        parts += [Text(), make_episodes_table(call, details.parts)]
    if details.messages:
        parts += [Text(), make_messages_table(details.messages, with_session=episode.session_id is None)]
    document = {"episode": episode, "parts": details.parts, "messages": details.messages}
    return CommandResult(document, Group(*parts))


@command(app, "summary", filters=read_span)
def summarise(
    call: Call,
    budget: Annotated[int, typer.Option(metavar="TOKENS", help="The most tokens of the summary.")] = 400,
    *,
    filters: dict[str, Any],
) -> CommandResult:
    """Show what was said in a span of time, within a number of tokens."""
    summary = call.view.summary(budget=budget, **filters)
    output = (
        show.render_text(summary.text)
        if summary.text
        else Text(f"nothing was said, or nothing fits {budget:,} tokens", style="dim")
    )
    return CommandResult({"text": summary.text, "tokens": summary.tokens, "quotes": list(summary.quotes)}, output)


def make_episodes_table(call: Call, episodes: Iterable[Episode]) -> RenderableType:
    """Return episodes as a table of their times, numbers of messages and summaries."""
    table = show.make_table("id", "from", "name", "messages", "summary")
    for episode in episodes:
        table.add_row(
            episode.id,
            format_local(episode.span_from, call.zone),
            show.render_text(episode.name or episode.session_id or ""),
            f"{episode.message_count:,}",
            show.render_text(episode.summary, _MAX_SUMMARY_LENGTH),
        )
    return table
