"""Read what aggregates are grouped by: "per store", "by month and airline", "web and store orders compared".

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re
from datetime import date
from functools import partial
from itertools import pairwise

from everhold.ask.frame import Expression, Predicate
from everhold.ask.grammar.columns import find_near_tables, find_stated_time, is_birth
from everhold.ask.grammar.contradictions import are_disjoint
from everhold.ask.grammar.draft import FrameDraft, PlacedExpression
from everhold.ask.joins import has_several_rows
from everhold.ask.schema import AskColumn, ColumnKind

# The grains but the year, and the number of days that each has at most.
_MAX_GRAIN_DAYS = (("day", 1), ("week", 7), ("month", 31), ("quarter", 92))
# After these cues, a list with commas names groups too.
_LIST_CUES = frozenset({"per", "by", "grouped by", "group by", "broken down by"})
# Matches further groups after "and" or a comma. A column that is compared with a value is a condition, not a group.
_MORE_GROUPS = r"(?P<more>(?:[&,]+[CTM](?![>=hi]*[NVP]))*)"


def read_groups(draft: FrameDraft) -> None:
    """Read groups by periods, then groups by columns and tables, then compared values."""
    _read_grains(draft)
    _read_named_groups(draft)
    _read_compared_values(draft)
    if re.search("[#a$m]", draft.originals) or any(map(partial(_is_measure, draft), range(len(draft.codes)))):
        _read_compared_periods(draft)


def _is_measure(draft: FrameDraft, position: int) -> bool:
    return draft.original(position) == "C" and draft.column(position).kind is ColumnKind.MEASURE


def _read_grains(draft: FrameDraft) -> None:
    """Read "by month" and "monthly"."""
    for position, code in enumerate(draft.codes):
        if code == "$" and draft.cue(position).grain and "g" not in draft.codes:
            group_by_period(draft, position, draft.cue(position).grain)
    for match in draft.find(rf"g{_MORE_GROUPS}"):
        group_by_period(draft, match.start(), str(draft.cue(match.start()).value))
        draft.take(match.start())
        _group_by_list(draft, match)


def group_by_period(draft: FrameDraft, position: int, grain: str) -> bool:
    """Group by the periods of a grain such as "month". Return whether there is a time to group by."""
    time = _find_time(draft, grain)
    if time:
        expression = Expression(time.ref, grain=None if time.kind is ColumnKind.YEAR else grain)
        draft.group.append(PlacedExpression(position, expression))
    return time is not None


def _find_time(draft: FrameDraft, grain: str) -> AskColumn | None:
    """Return the time column to group by: a year if the grain is "year", else a date, of the nearest table."""
    stated = find_stated_time(draft)
    if stated:
        return stated
    names = draft.mentioned_tables()
    for tables in (names, find_near_tables(draft.schema, names)):
        columns = [column for name in tables for column in draft.schema.table(name).columns]
        years = [column for column in columns if column.kind is ColumnKind.YEAR and grain == "year"]
        dates = [column for column in columns if column.kind is ColumnKind.DATE and not is_birth(column)]
        if years or dates:
            return (years or dates)[0]
    return None


def _read_named_groups(draft: FrameDraft) -> None:
    """Read "for each city", "per customer", and "by city" if the question counts or adds up something."""
    pattern = rf"(?P<each>[eb])[x#d]{{0,2}}(?P<noun>[CT]){_MORE_GROUPS}|[if]d#?(?P<column>C)"
    for match in draft.find(pattern):
        position = match.start("noun") if match["noun"] else match.start("column")
        is_group = _has_figure(draft, match.start(), position) and not (
            match["each"] == "b" and _names_no_group(draft, match)
        )
        if not is_group:
            draft.take(match.start())
            continue
        group_by(draft, position)
        draft.take(match.start(), *range(match.start() + 1, position))
        if match["noun"]:
            _group_by_list(draft, match)


def _has_figure(draft: FrameDraft, cue: int, position: int) -> bool:
    """Return whether the question asks for an aggregate of each group."""
    if (
        draft.group
        or re.search(r"[#a$m]", draft.codes)
        or any(placed.expression.is_aggregate for placed in draft.select)
    ):
        return True
    if draft.pieces[cue].text in _LIST_CUES and _counts_rows(draft, cue, position):
        return True
    measures = [draft.column(p) for p in range(cue) if draft.codes[p] == "C"]
    return any(column.kind is ColumnKind.MEASURE and has_several(draft, column, position) for column in measures)


def _counts_rows(draft: FrameDraft, cue: int, position: int) -> bool:
    """Return whether rows are counted for each group, as in "orders per channel"; "products by price" is a sort
    order."""
    if re.search(r"[ostS]", draft.originals[:cue]) or "C" in draft.codes[:cue] or "T" not in draft.originals[:cue]:
        return False
    mention = draft.mention(position)
    return mention.column is None or draft.schema.column(mention.column).kind is not ColumnKind.MEASURE


def has_several(draft: FrameDraft, measure: AskColumn, position: int) -> bool:
    """Return whether the table or column named at a position may have several values of a measure.

    It has only one if it identifies the row that has the measure.
    """
    mention = draft.mention(position)
    if mention.table:
        return has_several_rows(draft.schema, mention.table, measure.table)
    group = draft.column(position)
    if group.table != measure.table:
        return not group.is_unique or has_several_rows(draft.schema, group.table, measure.table)
    return not (group.is_unique or group.kind is ColumnKind.ID)


def _names_no_group(draft: FrameDraft, match: re.Match[str]) -> bool:
    """Return whether "by" names no group, but a person, or after another group a measure: "by channel, by amount"."""
    if draft.group and match["noun"] == "C" and draft.column(match.start("noun")).kind is ColumnKind.MEASURE:
        draft.take(match.start("noun"))
        return True
    return _names_agent(draft, match)


def _names_agent(draft: FrameDraft, match: re.Match[str]) -> bool:
    """Return whether "by" names who did something, as in "songs performed by singers"; "songs by singer" is a group."""
    return match["noun"] == "T" and draft.originals[match.start() - 1 : match.start()] not in tuple("CTVNP")


def group_by(draft: FrameDraft, position: int) -> None:
    """Group by the column or the table that is named at a position."""
    mention = draft.mention(position)
    if mention.column:
        draft.group.append(PlacedExpression(position, Expression(mention.column)))
        draft.take(position)
    elif mention.table:
        draft.group.append(PlacedExpression(position, Expression(of_table=mention.table)))


def _group_by_list(draft: FrameDraft, match: re.Match[str]) -> None:
    """Read the groups that follow the first: "and airline", "and month"."""
    if draft.pieces[match.start()].text not in _LIST_CUES and not match["more"].startswith("&"):
        return  # "for each city, the name and the age" shows what follows
    for index in range(match.start("more"), match.end("more")):
        if draft.codes[index] in "CT":
            group_by(draft, index)
        elif draft.codes[index] == "M":
            group_by_period(draft, index, str(draft.cue(index).value))
            draft.take(index)


def _read_compared_periods(draft: FrameDraft) -> None:
    """Read "revenue in 2024 and 2025": aggregates of several periods are grouped by period."""
    periods = [placed.predicate for placed in draft.where if placed.predicate.half_open]
    for first, second in pairwise(periods):
        if first.left == second.left and are_disjoint(first, second) and first.left.column:
            grain = _find_grain(first)
            draft.group.append(PlacedExpression(len(draft.codes), Expression(first.left.column, grain=grain)))
            return


def _find_grain(period: Predicate) -> str:
    start, end = (date.fromisoformat(str(value)) for value in period.values)
    days = (end - start).days
    return next((grain for grain, max_days in _MAX_GRAIN_DAYS if days <= max_days), "year")


def _read_compared_values(draft: FrameDraft) -> None:
    """Read "compare web and store orders": compared values of one column become groups."""
    equalities = [placed for placed in draft.where if placed.predicate.operator == "=" and not placed.negated]
    compared = [placed.predicate.left for placed in equalities]
    for position in [index for index, code in enumerate(draft.codes) if code == "K"]:
        draft.take(position)
        for expression in dict.fromkeys(compared):
            if compared.count(expression) > 1 and expression not in [placed.expression for placed in draft.group]:
                draft.group.append(PlacedExpression(len(draft.codes), expression))
