"""Memories, hits and scores as tables for a terminal of 80 columns or more, with or without colour.

What was stored is shown as text, never as markup, and its control characters are made visible.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from everhold import Hit, Memory
from everhold.interfaces.shared.times import format_local, format_local_with_zone
from everhold.model.base import Entity
from everhold.model.memory import DEFAULT_PRIORITY
from everhold.recall.hit import Why
from everhold.recall.recipe import GROUPS

_VISIBLE = {code: 0xFFFD for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\n\t"}
_MAX_TEXT_LENGTH = 400
_BAR = "▇"
_BAR_LENGTH = 10
_STRONGEST = 3
_SCREEN = 80
# Columns that a contribution takes at most.
_NUMBER = 6
# The padding of a column.
_ROOM = 3
_NO_RETRIEVERS = ("lead", "turn")
_ORDER = (*dict.fromkeys(GROUPS.values()), "replaced", "related", *_NO_RETRIEVERS)
NOTHING_FOUND = "nothing found"
NOTHING_RELEVANT = "nothing relevant enough"


def render_text(text: object, longest: int | None = None, style: str = "") -> Text:
    """Return stored text that is safe to print, shortened to `longest` characters."""
    whole = str(text).translate(_VISIBLE)
    if longest is not None and len(whole) > longest:
        whole = whole[: longest - 1].rstrip() + "…"
    return Text(whole, style=style)


def make_table(*columns: str, **options: Any) -> Table:
    empty_table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", **options)
    for column in columns:
        empty_table.add_column(column, overflow="fold")
    return empty_table


def make_number_table(first: str, *others: str, **options: Any) -> Table:
    """Return an empty table of a first column of names and others of numbers."""
    empty_table = make_table(first, **options)
    for name in others:
        empty_table.add_column(name, justify="right", no_wrap=True)
    return empty_table


def make_fields_table(values: Mapping[str, Any], zone: ZoneInfo) -> RenderableType:
    """Return a table with a row for each field that is not empty."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        if value not in (None, False, "", [], {}, ()) and not isinstance(value, bytes):
            grid.add_row(name, _render_field(value, zone))
    return grid


def _render_field(value: Any, zone: ZoneInfo) -> Text:
    match value:
        case bool():
            return Text("yes" if value else "no")
        case float():
            return Text(f"{value:.3f}")
        case list() | tuple():
            return render_text(", ".join(str(item) for item in value))
        case _ if callable(getattr(value, "astimezone", None)):
            return Text(format_local_with_zone(value, zone))
        case _:
            return render_text(value)


_DIMENSIONS = {"user": "user_id", "project": "project_id", "agent": "agent_id"}


def name_owners(records: Iterable[Entity], scope: Mapping[str, Any]) -> dict[str, str]:
    """Map the id of each record to whose it is, as far as the scope leaves that open.

    The user is always named, a project or an agent only if the records differ in it.
    """
    rows = list(records)
    shown = {
        name: column
        for name, column in _DIMENSIONS.items()
        if scope.get(name) is None and (name == "user" or len({row.__dict__.get(column) for row in rows}) > 1)
    }
    return {row.id: " · ".join(_name_owner(row, shown)) for row in rows}


def _name_owner(record: Entity, shown: Mapping[str, str]) -> list[str]:
    values = {name: record.__dict__.get(column) for name, column in shown.items()}
    return [f"{name} {value}" for name, value in values.items() if value]


def describe_memory(memory: Memory, zone: ZoneInfo, tags: Sequence[str] = (), owner: str = "") -> Text:
    """Return the id, kind and time of a memory and, on a second line, what differs from the defaults."""
    usual = [memory.id, memory.kind, format_local(memory.occurred_at or memory.created_at, zone)]
    parts = [owner] if owner else []
    parts += [memory.speaker] if memory.speaker else []
    if memory.version > 1:
        parts.append(f"version {memory.version}")
    if memory.priority != DEFAULT_PRIORITY:
        parts.append(f"priority {memory.priority}")
    if memory.expires_at:
        parts.append(f"expires {format_local(memory.expires_at, zone)}")
    if memory.superseded_by:
        parts.append(f"superseded by {memory.superseded_by}")
    parts += [f"#{tag}" for tag in tags]
    return render_text("\n".join(" · ".join(line) for line in (usual, parts) if line), style="dim")


def render_memory(memory: Memory, zone: ZoneInfo, tags: Sequence[str] = (), owner: str = "") -> Group:
    details = Padding(describe_memory(memory, zone, tags, owner), (0, 0, 0, 2))
    return Group(render_text(memory.text or memory.content, _MAX_TEXT_LENGTH), details)


def make_memories_table(
    memories: Iterable[Memory],
    zone: ZoneInfo,
    tags: Mapping[str, Sequence[str]],
    scope: Mapping[str, Any],
    *,
    empty: str = "no memories",
    numbered: bool = False,
) -> RenderableType:
    rows = list(memories)
    if not rows:
        return Text(empty, style="dim")
    owners = name_owners(rows, scope)
    cells = [render_memory(memory, zone, tags.get(memory.id, ()), owners[memory.id]) for memory in rows]
    return _make_grid([[cell] for cell in cells], numbered=numbered)


def _make_grid(rows: Sequence[Sequence[RenderableType]], *, numbered: bool) -> Table:
    """Return rows without lines or headings; the last column is wide, and the others, with the number, narrow."""
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in range(len(rows[0]) - 1 + numbered):
        grid.add_column(justify="right", style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, cells in enumerate(rows, 1):
        grid.add_row(*([str(number)] if numbered else []), *cells)
    return grid


def sum_by_group(why: Why) -> dict[str, float]:
    """Return the contributions to a score by group of retrievers, in a fixed order."""
    sums: dict[str, float] = {}
    for retriever, value in why.by_retriever.items():
        group = GROUPS.get(retriever, retriever)
        sums[group] = sums.get(group, 0.0) + value
    return {name: sums[name] for name in _sort_groups(sums)}


def _sort_groups(names: Iterable[str]) -> list[str]:
    return sorted(set(names), key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))


def render_why(hit: Hit) -> Text:
    """Return the largest contributions, each with a bar for its share, and the words in common."""
    groups = {name: value for name, value in sum_by_group(hit.why).items() if name not in _NO_RETRIEVERS}
    total = sum(abs(value) for value in groups.values()) or 1.0
    line = Text()
    for name, value in sorted(groups.items(), key=lambda item: -abs(item[1]))[:_STRONGEST]:
        bar = _BAR * round(_BAR_LENGTH * abs(value) / total)
        line.append(" · " if line else "", "dim").append(f"{name} ", "dim")
        line.append(f"{bar} " if bar else "", "green" if value > 0 else "red").append(f"{value:+.2f}")
    if hit.why.matched:
        line.append(" · " if line else "", "dim").append(f"shares {_join_common_words(hit.why, hit.text)}", "dim")
    return line


def _join_common_words(why: Why, text: str) -> str:
    """Return the words in common with the question, as the text writes them."""
    return ", ".join(dict.fromkeys(_find_word(term, text) for term in why.matched))


def _find_word(term: str, text: str) -> str:
    """Return the word of the text that a matched term, which is a stem, stands for."""
    stem = term[: max(3, len(term) - 1)]
    return next((word for word in re.findall(r"\w+", text.lower()) if word.startswith(stem)), term)


def make_hits_table(
    hits: Iterable[Hit],
    zone: ZoneInfo,
    scope: Mapping[str, Any],
    *,
    why: bool = False,
    empty: str = NOTHING_FOUND,
    numbered: bool = False,
) -> RenderableType:
    """Return hits, best first: the score, the memory with its owner, and why it is a hit."""
    best = list(hits)
    owners = name_owners((hit.record for hit in best), scope)
    rows: list[tuple[Hit, list[RenderableType]]] = []
    for hit in best:
        reasons = [Padding(render_why(hit), (0, 0, 0, 2))] if why else []
        rows.append((hit, [_render_hit(hit, zone, owners[hit.id]), *reasons]))
    return _make_score_table(rows, empty, numbered=numbered)


def _render_hit(hit: Hit, zone: ZoneInfo, owner: str) -> Group:
    if hit.kind == "memory":
        return render_memory(hit.memory, zone, hit.tags, owner)
    parts = [hit.id, hit.kind, format_local(hit.record.created_at, zone)]
    parts += [owner] if owner else []
    if hit.kind == "message":
        parts += [part for part in (hit.message.session_id, hit.message.name or hit.message.role) if part]
    return Group(
        render_text(hit.text, _MAX_TEXT_LENGTH), Padding(render_text(" · ".join(parts), style="dim"), (0, 0, 0, 2))
    )


def make_answers_table(hits: Iterable[Hit]) -> RenderableType:
    """Return hits in short: the speaker, the text and why it is a hit."""
    rows = [(hit, [render_text(f"{hit.memory.speaker}: {hit.memory.text}"), render_why(hit)]) for hit in hits]
    return _make_score_table(rows, NOTHING_RELEVANT)


def _make_score_table(
    rows: Sequence[tuple[Hit, Sequence[RenderableType]]], empty: str, *, numbered: bool = False
) -> RenderableType:
    if not rows:
        return Text(empty, style="dim")
    return _make_grid([[f"{hit.score:.2f}", Group(*lines)] for hit, lines in rows], numbered=numbered)


def make_why_table(hits: Iterable[Hit], zone: ZoneInfo) -> RenderableType:
    """What each group of retrievers gave to each hit; beneath, as both do not fit side by side, what it shares with
    the question and where it is from."""
    rows = [(str(number), hit, hit.why) for number, hit in enumerate(hits, 1)]
    groups = {number: sum_by_group(why) for number, _, why in rows}
    used = _sort_groups(name for sums in groups.values() for name in sums)
    columns = ["#", "score", *used]
    is_roomy = sum(max(len(name), _NUMBER) + _ROOM for name in columns) <= _SCREEN
    contributions = make_table(title="why", title_justify="left", padding=(0, 1) if is_roomy else 0)
    for name in columns:
        contributions.add_column(name, justify="right", overflow="fold", min_width=min(len(name), _NUMBER))
    common = make_table("#", "similarity", "words in common", "from")
    for number, hit, why in rows:
        values = [f"{groups[number][name]:+.2f}" if name in groups[number] else "" for name in used]
        contributions.add_row(number, f"{hit.score:.3f}", *values)
        source = (
            describe_origin(hit.memory, zone) if hit.kind == "memory" else format_local(hit.record.created_at, zone)
        )
        common.add_row(
            number, f"{why.similarity:.3f}", render_text(_join_common_words(why, hit.text)), render_text(source)
        )
    return Group(contributions, Text(), common)


def make_signals_table(why: Why) -> Table:
    """Return the contribution of each group of retrievers to one score, with its signals."""
    signals_table = make_table("retriever")
    signals_table.add_column("gives", justify="right", no_wrap=True)
    signals_table.add_column("made of", overflow="fold")
    for group, value in sum_by_group(why).items():
        signals = [f"{name} {part:+.2f}" for name, part in why.contributions.items() if _find_group(name) == group]
        signals_table.add_row(
            group, f"{value:+.2f}", ", ".join(signals) if signals != [f"{group} {value:+.2f}"] else ""
        )
    return signals_table


def _find_group(signal: str) -> str:
    retriever = signal.partition(".")[0]
    return GROUPS.get(retriever, retriever)


def describe_origin(memory: Memory, zone: ZoneInfo) -> str:
    """Return the source, the speaker and the time of a memory."""
    provenance = memory.provenance
    source = provenance.get("memory") or provenance.get("file") or provenance.get("url")
    parts = [f"from {source}"] if source else []
    merged = provenance.get("merged")
    if isinstance(merged, list) and merged:
        parts.append(f"merged with {len(merged)} more")
    if memory.speaker:
        parts.append(memory.speaker)
    return " · ".join([*parts, format_local(memory.occurred_at or memory.created_at, zone)])
