"""Memories and what hangs on them, as tables for a terminal of 80 columns or more, with or without colour.

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

from recollect import Hit, Memory
from recollect.interfaces.cli.times import local, local_with_zone
from recollect.model.memory import DEFAULT_PRIORITY

_VISIBLE = {code: 0xFFFD for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\n\t"}
_LONGEST = 400
_BAR = "▇"


def plain(text: object, longest: int | None = None, style: str = "") -> Text:
    """Stored text as it is, safe to print; shortened to `longest` characters if given."""
    whole = str(text).translate(_VISIBLE)
    if longest is not None and len(whole) > longest:
        whole = whole[: longest - 1].rstrip() + "…"
    return Text(whole, style=style)


def table(*columns: str, **options: Any) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", **options)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def fields_table(values: Mapping[str, Any], zone: ZoneInfo) -> RenderableType:
    """One thing: a line for each field that holds something."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in values.items():
        if value not in (None, False, "", [], {}, ()) and not isinstance(value, bytes):
            grid.add_row(name, _field(value, zone))
    return grid


def _field(value: Any, zone: ZoneInfo) -> Text:
    match value:
        case bool():
            return Text("yes" if value else "no")
        case float():
            return Text(f"{value:.3f}")
        case list() | tuple():
            return plain(", ".join(str(one) for one in value))
        case _ if callable(getattr(value, "astimezone", None)):
            return Text(local_with_zone(value, zone))
        case _:
            return plain(value)


def described(memory: Memory, zone: ZoneInfo, tags: Sequence[str] = ()) -> Text:
    """A memory's id and in short what it is; on a second line, if there is any, what is special about it."""
    usual = [memory.id, memory.kind, local(memory.occurred_at or memory.created_at, zone)]
    parts = [memory.speaker] if memory.speaker else []
    if memory.priority != DEFAULT_PRIORITY:
        parts.append(f"priority {memory.priority}")
    if memory.expires_at:
        parts.append(f"expires {local(memory.expires_at, zone)}")
    if memory.superseded_by:
        parts.append(f"superseded by {memory.superseded_by}")
    parts += [f"#{tag}" for tag in tags]
    return plain("\n".join(" · ".join(line) for line in (usual, parts) if line), style="dim")


def memory_cell(memory: Memory, zone: ZoneInfo, tags: Sequence[str] = ()) -> Group:
    details = Padding(described(memory, zone, tags), (0, 0, 0, 2))
    return Group(plain(memory.text or memory.content, _LONGEST), details)


def memories_table(
    memories: Iterable[Memory], zone: ZoneInfo, tags: Mapping[str, Sequence[str]], *, empty: str = "no memories"
) -> RenderableType:
    rows = list(memories)
    if not rows:
        return Text(empty, style="dim")
    grid = Table.grid(pad_edge=False)
    for memory in rows:
        grid.add_row(memory_cell(memory, zone, tags.get(memory.id, ())))
    return grid


def why_line(hit: Hit) -> Text:
    """What each sign contributed, with a bar as long as it counted."""
    why = hit.why
    signs = (("meaning", why.meaning, "cyan"), ("words", why.words, "green"), ("importance", why.importance, "yellow"))
    line = Text()
    for name, share, colour in signs:
        bar = _BAR * round(10 * share)
        line.append(" · " if line else "", "dim").append(f"{name} ", "dim").append(f"{bar} " if bar else "", colour)
        line.append(f"{share:.2f}")
        if name == "words" and why.matched:
            line.append(f" ({', '.join(_written(term, hit.memory.text) for term in why.matched)})", "dim")
    return line


def _written(term: str, text: str) -> str:
    """The word of the text that a matched term, which is only a stem, stands for."""
    stem = term[: max(3, len(term) - 1)]
    return next((word for word in re.findall(r"\w+", text.lower()) if word.startswith(stem)), term)


def hits_table(hits: Iterable[Hit], zone: ZoneInfo, *, why: bool = False) -> RenderableType:
    """Hits, best first: the score, the memory, and beneath it what it is and why it is there."""
    rows: list[tuple[Hit, list[RenderableType]]] = []
    for hit in hits:
        reasons = [Padding(why_line(hit), (0, 0, 0, 2))] if why else []
        rows.append((hit, [memory_cell(hit.memory, zone, hit.tags), *reasons]))
    return _scored(rows)


def answers_table(hits: Iterable[Hit]) -> RenderableType:
    """Hits in short: who said what, and why it is there."""
    return _scored([(hit, [plain(f"{hit.memory.speaker}: {hit.memory.text}"), why_line(hit)]) for hit in hits])


def _scored(rows: Sequence[tuple[Hit, Sequence[RenderableType]]]) -> RenderableType:
    if not rows:
        return Text("nothing found", style="dim")
    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(justify="right", style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for hit, lines in rows:
        grid.add_row(f"{hit.score:.2f}", Group(*lines))
    return grid


def why_table(hits: Iterable[Hit]) -> Table:
    """What each sign gave to each score, and of what it was made."""
    made = table(title="why", title_justify="left")
    for name in ("#", "score", "meaning", "words", "importance", "likeness"):
        made.add_column(name, justify="right", no_wrap=True)
    made.add_column("words in common", overflow="fold")
    for number, hit in enumerate(hits, 1):
        why = hit.why
        shares = (hit.score, why.meaning, why.words, why.importance, why.likeness)
        matched = ", ".join(f"{term} {share:.2f}" for term, share in why.matched.items())
        made.add_row(str(number), *(f"{share:.3f}" for share in shares), plain(matched))
    return made
