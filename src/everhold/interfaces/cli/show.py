"""Fields and scores as tables for a terminal of 80 columns or more, with or without colour.

Stored texts are never interpreted as markup, and their control characters are made visible.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from everhold import Hit
from everhold.interfaces.cli.memory_lists import (
    clean_text,
    describe_origin,
    join_common_words,
    sort_groups,
    sum_by_group,
)
from everhold.interfaces.shared.times import format_local, format_local_with_zone
from everhold.recall.hit import Why
from everhold.recall.recipe import GROUPS

_SCREEN_WIDTH = 80
# Columns that a contribution takes at most.
_NUMBER_WIDTH = 6
# The padding of a column.
_COLUMN_PADDING = 3


def render_text(text: object, max_length: int | None = None, style: str = "") -> Text:
    """Return stored text that is safe to print, shortened to `max_length` characters."""
    return Text(clean_text(text, max_length), style=style)


def make_table(*columns: str, **options: Any) -> Table:
    empty_table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", **options)
    for column in columns:
        empty_table.add_column(column, overflow="fold")
    return empty_table


def make_number_table(first: str, *others: str, **options: Any) -> Table:
    """Return an empty table whose first column contains names and whose other columns contain numbers."""
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


def make_why_table(hits: Iterable[Hit], zone: ZoneInfo) -> RenderableType:
    """Return two tables about hits, which do not fit side by side.

    The first has the points that each group of retrievers gave to each hit, the second the words that a hit shares with
    the question, and its origin.
    """
    rows = [(str(number), hit, hit.why) for number, hit in enumerate(hits, 1)]
    sums_by_hit = {number: sum_by_group(why) for number, _, why in rows}
    used_groups = sort_groups(name for sums in sums_by_hit.values() for name in sums)
    columns = ["#", "score", *used_groups]
    is_roomy = sum(max(len(name), _NUMBER_WIDTH) + _COLUMN_PADDING for name in columns) <= _SCREEN_WIDTH
    contributions_table = make_table(title="why", title_justify="left", padding=(0, 1) if is_roomy else 0)
    for name in columns:
        contributions_table.add_column(name, justify="right", overflow="fold", min_width=min(len(name), _NUMBER_WIDTH))
    words_table = make_table("#", "similarity", "words in common", "from")
    for number, hit, why in rows:
        values = [f"{sums_by_hit[number][name]:+.2f}" if name in sums_by_hit[number] else "" for name in used_groups]
        contributions_table.add_row(number, f"{hit.score:.3f}", *values)
        source = (
            describe_origin(hit.memory, zone) if hit.kind == "memory" else format_local(hit.record.created_at, zone)
        )
        words_table.add_row(
            number, f"{why.similarity:.3f}", render_text(join_common_words(why, hit.text)), render_text(source)
        )
    return Group(contributions_table, Text(), words_table)


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
