"""Read what to show: columns, counts and aggregates, and their groups.

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re
from dataclasses import replace

from everhold.ask.frame import Expression, Function, WindowKind
from everhold.ask.grammar.columns import find_stated_time
from everhold.ask.grammar.draft import FrameDraft, PlacedExpression, make_count
from everhold.ask.grammar.figures import (
    count_grouped_times,
    is_single_row,
    read_averages_per,
    read_conditional_shares,
    read_counted_groups,
    read_loose_windows,
    read_table_amounts,
    sum_lone_measures,
)
from everhold.ask.grammar.groups import read_groups
from everhold.ask.linking.mention import VERB
from everhold.ask.schema import AskColumn, ColumnKind


def read_selection(draft: FrameDraft) -> None:
    """Read groups, then aggregates and counts, then plain columns."""
    draft.everything = "*" in draft.codes
    read_averages_per(draft)
    read_groups(draft)
    _read_aggregates(draft)
    _read_counts(draft)
    read_table_amounts(draft)
    read_counted_groups(draft)
    _read_columns(draft)
    _read_listed_tables(draft)
    count_grouped_times(draft)
    sum_lone_measures(draft)
    read_loose_windows(draft)
    read_conditional_shares(draft)
    draft.select.sort(key=lambda placed: placed.position)


def _read_aggregates(draft: FrameDraft) -> None:
    """Read aggregates. Several may share a column: "the average, minimum and maximum age"."""
    for match in draft.find(r"\$?(?P<functions>[ams$](?:[,&]*[ams])*)#?[_xfihT]{0,6}?(?P<column>C)"):
        column = draft.column(match.start("column"))
        window = _read_window(draft, match)
        for position in range(match.start("functions"), match.end("functions")):
            if draft.codes[position] in "ams$":
                function = _read_function(draft, position)
                if draft.pieces[position].text == "how much" and is_single_row(draft, column):
                    draft.select.append(PlacedExpression(position, Expression(column.ref)))
                    continue
                if function is Function.SUM and column.kind is ColumnKind.DATE:
                    # "The running total of hires" counts the rows with a hire date.
                    draft.select.append(PlacedExpression(position, replace(make_count(column.table), window=window)))
                    continue
                if function in (Function.SUM, Function.AVERAGE) and not column.is_numeric:
                    continue
                expression = Expression(column.ref, function, window=window)
                draft.select.append(PlacedExpression(position, expression))
        draft.take(*range(match.start(), match.end()))


def _read_function(draft: FrameDraft, position: int) -> Function:
    value = draft.cue(position).value
    if isinstance(value, Function):
        return value
    if isinstance(value, WindowKind):
        return Function.SUM
    return Function.MAXIMUM if value else Function.MINIMUM


def _read_window(draft: FrameDraft, match: re.Match[str]) -> WindowKind | None:
    for position in range(match.start(), match.end("functions")):
        value = draft.cue(position).value if draft.codes[position] in "ams$" else None
        if isinstance(value, WindowKind):
            return value
    return None


def _read_counts(draft: FrameDraft) -> None:
    for match in draft.find(r"(?P<window>\$)?#(?P<different>d)?(?:[xf]{0,2}(?P<noun>[CT])|[x=]{0,2}(?P<amount>C))?"):
        window = draft.cue(match.start("window")).value if match["window"] else None
        position = match.start("noun") if match["noun"] else match.start("amount")
        if position < 0 or (match["amount"] and not _is_amount(draft.column(position))):
            _count_without_noun(draft, match)
            continue
        mention = draft.mention(position)
        expression = _make_count_of(draft, position, bool(match["different"]), window)
        draft.select.append(PlacedExpression(match.start(), expression))
        keep = {position} if mention.table else set()
        draft.take(*(p for p in range(match.start(), match.end()) if p not in keep))


def _count_without_noun(draft: FrameDraft, match: re.Match[str]) -> None:
    """Read a count without a noun. It counts the entity, unless there is a count already that it only repeats."""
    if not any(placed.expression.function is Function.COUNT for placed in draft.select):
        draft.select.append(PlacedExpression(match.start(), make_count()))
    draft.take(match.start())


def _make_count_of(draft: FrameDraft, position: int, distinct: bool, window: WindowKind | None) -> Expression:
    mention = draft.mention(position)
    if mention.table:
        return Expression(function=Function.COUNT, of_table=mention.table, window=window)
    column = draft.column(position)
    if _is_amount(column) and not distinct:
        total_position = _find_total(draft)
        draft.take(total_position)
        is_sum = total_position >= 0 or not is_single_row(draft, column)
        return Expression(column.ref, Function.SUM if is_sum else None)
    return Expression(column.ref, Function.COUNT, distinct=distinct, window=window)


def _find_total(draft: FrameDraft) -> int:
    """Return the position of an unused "in total", or -1."""
    return next((p for p, code in enumerate(draft.codes) if code == "a" and draft.cue(p).value is Function.SUM), -1)


def _is_amount(column: AskColumn) -> bool:
    """Return whether "how many" asks for the value of this column, as in "how many cylinders", not for a count."""
    return column.kind is ColumnKind.MEASURE


def _read_columns(draft: FrameDraft) -> None:
    draft.distinct = "d" in draft.codes
    hidden = _find_hidden(draft)
    for position, code in enumerate(draft.codes):
        if code == "C" and position not in hidden and _is_shown(draft, position):
            draft.select.append(PlacedExpression(position, Expression(draft.column(position).ref)))
            draft.take(position)


def _is_shown(draft: FrameDraft, position: int) -> bool:
    """Return whether a column is shown. Guessed columns, and columns that are named again for a condition, are not."""
    mention = draft.mention(position)
    if mention.why in ("similar word", VERB):
        return False
    if mention.why == "part of the name" and draft.column(position) == find_stated_time(draft) and not draft.group:
        # "Hired in 2025" says which date the period is about.
        return not any(placed.predicate.left.column == mention.column for placed in draft.where)
    compared = {placed.predicate.left.column for placed in draft.where}
    return not (mention.why == "synonym" and mention.column in compared)


def _read_listed_tables(draft: FrameDraft) -> None:
    """Read "the names of teachers and their courses": a table in a list of columns is shown by its display column."""
    entity = draft.entity()
    if not any(not placed.expression.is_aggregate for placed in draft.select):
        return
    hidden = _find_hidden(draft)
    for match in draft.find(r"[&,](?P<table>T)"):
        position = match.start("table")
        table = draft.schema.table(str(draft.mention(position).table))
        if table != entity and position not in hidden and not re.search("[nB|]", draft.originals):
            draft.select.append(PlacedExpression(position, Expression(table.display_ref)))
            draft.take(position)


def _find_hidden(draft: FrameDraft) -> set[int]:
    """Return the positions inside relative clauses, because columns that are only named there are not shown."""
    hidden: set[int] = set()
    is_inside = False
    for position, code in enumerate(draft.originals):
        cue = draft.pieces[position].cue
        if (
            code == "r"
            and position > 0
            and draft.originals[position - 1] not in ".L"
            and not _is_plain_with(draft, position)
        ):
            is_inside = True
        elif code in ".Lo" or (cue and code == ","):
            is_inside = is_inside and code == ","
        if is_inside:
            hidden.add(position)
    return hidden


def _is_plain_with(draft: FrameDraft, position: int) -> bool:
    """Return whether a relative word is a "with" before a column: "names with their ages" shows both columns."""
    return draft.originals[position + 1 : position + 2] == "C" and draft.codes[position + 1 : position + 2] == "C"
