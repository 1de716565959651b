"""Commands about recall: why a memory is not a hit, how an answer changed over time, and an overview."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold.interfaces.cli import memory_lists, show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.groups import ALL_TAGS, ANY_KIND, Included, OnlySession, Superseded, read_filters
from everhold.interfaces.cli.ids import MemoryName, resolve_id
from everhold.interfaces.shared.documents import add_tags
from everhold.interfaces.shared.inputs import parse_where
from everhold.interfaces.shared.times import format_local
from everhold.recall.timeline import Period
from everhold.recall.why_not import WhyNot

app = typer.Typer()
_OPTIONS = {"minimum": "--minimum {:g}", "k": "-k {:g}", "include_superseded": "--include-superseded"}


@command(app, "why-not")
def explain_absence(
    call: Call,
    name: MemoryName,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    k: Annotated[int, typer.Option("-k", metavar="1–1000", help="The maximum number of hits.")] = 10,
    kind: Annotated[list[str] | None, typer.Option(metavar="KIND", help=ANY_KIND)] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help=ALL_TAGS)] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="FIELD=VALUE|JSON", help="A condition, as in `recall`.")
    ] = None,
    as_of: Annotated[str | None, typer.Option(metavar="TIME", help="Answer with what was known at this time.")] = None,
    minimum: Annotated[float | None, typer.Option(metavar="SCORE", help="The lowest score of a hit, 0 to 1.")] = None,
    recipe: Annotated[str, typer.Option(metavar="NAME", help="hybrid, meaning or words.")] = "hybrid",
    include_superseded: Superseded = False,
    only: OnlySession = None,
) -> CommandResult:
    """Explain why a memory is not a hit for a question."""
    filters: dict[str, Any] = {
        "kind": kind or None,
        "tags": tag or None,
        "where": parse_where(where, call.zone, "--where") if where else None,
        "only": only,
    }
    moment = call.parse_moment("--as-of", as_of, "ago")
    explanation = call.view.why_not(
        resolve_id(call, name), question, k=k, as_of=moment, minimum=minimum, recipe=recipe,
        include_superseded=include_superseded, **filters,
    )  # fmt: skip
    return CommandResult(explanation, _render_explanation(call, explanation))


@command(app, "timeline", filters=read_filters)
def show_timeline(
    call: Call,
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    include: Included = None,
    *,
    filters: dict[str, Any],
) -> CommandResult:
    """Show how the answer to a question changed over time."""
    periods = call.search_view.timeline(question, include=include or (), **filters)
    return CommandResult([period._asdict() for period in periods], _show_periods(call, periods))


@command(app, "overview")
def show_overview(
    call: Call,
    about: Annotated[str, typer.Argument(metavar="NAME", help="A person, a thing or a tag.")],
    k: Annotated[int, typer.Option("-k", metavar="1–1000", help="How many memories.")] = 50,
    include: Included = None,
    only: OnlySession = None,
) -> CommandResult:
    """Show the memories about a person, a thing or a tag, most important first."""
    filters: dict[str, Any] = {"only": only}
    memories = call.view.overview(about, k=k, include=include or (), **filters)
    tags = call.view.tags_of([memory.id for memory in memories])
    numbered = call.number_rows(memory.id for memory in memories)
    output = memory_lists.make_memory_list(
        memories, call.zone, tags, call.scope, empty=memory_lists.NOTHING_FOUND, numbered=numbered
    )
    return CommandResult({"memories": add_tags(memories, tags)}, output)


def _show_periods(call: Call, periods: Sequence[Period]) -> RenderableType:
    if not periods:
        return Text(memory_lists.NOTHING_FOUND, style="dim")
    table = show.make_table("from", "until", "memory")
    for memory, since, until in periods:
        end = "today" if until is None else format_local(until, call.zone)
        table.add_row(format_local(since, call.zone), end, show.render_text(memory.text))
    return table


def _render_explanation(call: Call, explanation: WhyNot) -> RenderableType:
    heading = show.render_text(f"{explanation.memory.id}: {'; '.join(explanation.reasons)}", style="bold")
    parts: list[RenderableType] = [heading, memory_lists.render_memory(explanation.memory, call.zone)]
    if explanation.score is not None and explanation.place is not None:
        parts.append(Text(f"score {explanation.score:.3f} · place {explanation.place:,}"))
    if explanation.winner is not None and not explanation.returned:
        lead = "" if explanation.behind is None else f", {explanation.behind:.3f} ahead"
        parts.append(
            show.render_text(f"the best hit is {explanation.winner.id} with {explanation.winner.score:.3f}{lead}")
        )
    if explanation.admitted_by:
        options = [_OPTIONS[name].format(value) for name, value in explanation.admitted_by.items()]
        parts.append(show.render_text(f"{' '.join(options)} would return it"))
    if explanation.why is not None:
        similarity = Text(
            f"similarity {explanation.why.similarity:.3f} · begins at {explanation.why.base:+.2f}", style="dim"
        )
        parts += [Text(), show.make_signals_table(explanation.why), similarity]
    return Group(*parts)
