"""Read aggregates that a question only implies: amounts of tables, counts per group, shares and changes.

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re
from dataclasses import replace

from everhold.ask.frame import Expression, Function, QueryFrame, WindowKind
from everhold.ask.frame_parts import list_tables
from everhold.ask.grammar.draft import FrameDraft, PlacedExpression, make_count
from everhold.ask.grouping import choose_function, find_amount, holds_money
from everhold.ask.joins import has_several_rows
from everhold.ask.schema import AskColumn, AskSchema, AskTable, ColumnKind

_GAP = "[_xfihLT]"


def read_table_amounts(draft: FrameDraft) -> None:
    """Read "total refunds", "average invoice" and "share of orders": an aggregate of all rows of a table."""
    for match in draft.find(rf"(?P<function>[a$]){_GAP}{{0,4}}?(?P<table>T)(?!{_GAP}{{0,3}}C)"):
        position, table_position = match.start("function"), match.start("table")
        table = draft.schema.table(str(draft.mention(table_position).table))
        expression = _make_figure(draft, table, draft.cue(position).value)
        if expression:
            draft.select.append(PlacedExpression(position, expression))
            draft.take(position)


def _make_figure(draft: FrameDraft, table: AskTable, value: object) -> Expression | None:
    window = value if isinstance(value, WindowKind) else None
    amount = find_amount(table)
    if value is Function.AVERAGE:
        return Expression(amount.ref, Function.AVERAGE) if amount else None
    if amount and (holds_money(table) or (value is Function.SUM and not _is_counted(draft))):
        return Expression(amount.ref, Function.SUM, window=window)
    return replace(make_count(table.name), window=window)


def _is_counted(draft: FrameDraft) -> bool:
    """Return whether "total" means a count, as in "total orders", and not a sum, as in "the total of the orders"."""
    return not any(piece.text in ("total of", "sum of", "how much", "sum") for piece in draft.pieces)


def read_counted_groups(draft: FrameDraft) -> None:
    """Read "orders per channel": without another aggregate, the rows of the first named table are counted."""
    if not draft.group or any(placed.expression.is_aggregate for placed in draft.select) or draft.order or draft.most:
        return
    first = min(placed.position for placed in draft.group)
    if any(draft.codes[index] == "C" for index in range(first)) or re.search(r"[am#$]", draft.codes):
        return
    counted = [(position, table) for position, table in draft.tables() if position < first]
    if counted:
        draft.select.append(PlacedExpression(counted[0][0], make_count(counted[0][1].name)))


def read_loose_windows(draft: FrameDraft) -> None:
    """Read "how did revenue change" and "and the change from the previous month", anywhere in the question."""
    for match in draft.find(r"(?P<and>[&r])?[_x]*(?P<window>\$)"):
        cue = draft.cue(match.start("window"))
        figures = [placed for placed in draft.select if _can_be_figure(draft, placed.expression)]
        if not figures or not isinstance(cue.value, WindowKind):
            continue
        figure = figures[-1]
        draft.take(match.start("window"))
        if figure.expression.window is cue.value:
            continue
        windowed = replace(_add_function(draft, figure.expression), window=cue.value)
        position = draft.select.index(figure)
        # With "and", the figure itself is shown too.
        plain = [replace(figure, expression=_add_function(draft, figure.expression))] if match["and"] else []
        draft.select[position : position + 1] = [*plain, replace(figure, expression=windowed)]


def _can_be_figure(draft: FrameDraft, expression: Expression) -> bool:
    if expression.is_aggregate:
        return True
    return expression.column is not None and draft.schema.column(expression.column).kind is ColumnKind.MEASURE


def _add_function(draft: FrameDraft, expression: Expression) -> Expression:
    if expression.function is not None or expression.column is None:
        return expression
    return replace(expression, function=choose_function(draft.schema, draft.schema.column(expression.column)))


def read_conditional_shares(draft: FrameDraft) -> None:
    """Read "percentage of orders that were cancelled": the condition after the noun limits the share, not the rows."""
    for number, placed in enumerate(draft.select):
        expression = placed.expression
        if expression.window is not WindowKind.SHARE or expression.condition:
            continue
        grouped = {group.expression.column for group in draft.group}
        noun_position = _find_noun(draft, placed.position)
        after_noun = [
            condition
            for condition in draft.where
            if condition.start > noun_position
            and not condition.negated
            and not _is_period(draft, condition.predicate.left)
            and condition.predicate.left.column not in grouped
        ]
        if len(after_noun) == 1:
            draft.select[number] = replace(placed, expression=replace(expression, condition=after_noun[0].predicate))
            draft.where.remove(after_noun[0])


def _find_noun(draft: FrameDraft, position: int) -> int:
    """Return the position of the noun after a share: the first table or column after it."""
    return next((p for p in range(position, len(draft.codes)) if draft.original(p) in "TC"), position)


def _is_period(draft: FrameDraft, expression: Expression) -> bool:
    return expression.column is not None and draft.schema.column(expression.column).is_time


def is_single_row(draft: FrameDraft, column: AskColumn) -> bool:
    """Return whether the conditions select a single row of a column's table. Then its value needs no aggregate."""
    if draft.limit == 1 or draft.most:
        return True
    for placed in draft.where:
        left = placed.predicate.left.column
        if left and placed.predicate.operator == "=":
            table = draft.schema.table(left.table)
            is_row = draft.schema.column(left).is_unique or left in (table.key_ref, table.display_ref)
            if is_row and not has_several_rows(draft.schema, table.name, column.table):
                return True
    return False


def count_different_rows(schema: AskSchema, frame: QueryFrame) -> QueryFrame:
    """Return the frame with a count of different keys in place of each count of rows that a join would repeat.

    "How many patients had an appointment in 2025?" counts each patient once.
    """
    if frame.group or frame.combined or not any(item.of_table for item in frame.select):
        return frame
    tables = set(list_tables(frame))

    def count_keys(item: Expression) -> Expression:
        name = item.of_table
        if name is None or item.column or item.window or item.per or item.condition:
            return item
        if not any(has_several_rows(schema, name, other) for other in tables - {name}):
            return item
        return replace(item, column=schema.table(name).key_ref, distinct=True)

    return replace(frame, select=tuple(count_keys(item) for item in frame.select))


def read_averages_per(draft: FrameDraft) -> None:
    """Read "average number of orders per customer": the number of orders divided by that of customers with orders."""
    for match in draft.find(r"(?P<average>a)#?[_xf]*(?P<table>T)[_xi]*e[_x]*(?P<per>T)"):
        counted, per = (draft.mention(match.start(name)).table for name in ("table", "per"))
        is_average = draft.cue(match.start("average")).value is Function.AVERAGE
        is_count = "#" in match.group() or find_amount(draft.schema.table(str(counted))) is None
        if is_average and is_count and has_several_rows(draft.schema, str(per), str(counted)):
            expression = replace(make_count(counted), per=draft.schema.table(str(per)).key_ref)
            draft.select.append(PlacedExpression(match.start(), expression))
            draft.take(*(index for index in range(match.start(), match.end()) if draft.codes[index] != "T"))


def sum_lone_measures(draft: FrameDraft) -> None:
    """Read "revenue in 2024": a measure that is asked for alone, without naming rows, is added up."""
    if len(draft.select) != 1 or draft.tables() or draft.group or draft.order or draft.limit or "d" in draft.originals:
        return
    expression = draft.select[0].expression
    if expression.column is None or expression.function or not re.search("[PN]", draft.originals):
        return
    column = draft.schema.column(expression.column)
    is_sum = column.kind is ColumnKind.MEASURE and choose_function(draft.schema, column) is Function.SUM
    has_period = any(_is_period(draft, placed.predicate.left) for placed in draft.where)
    if is_sum and has_period and not is_single_row(draft, column):
        draft.select[0] = replace(draft.select[0], expression=replace(expression, function=Function.SUM))


def count_grouped_times(draft: FrameDraft) -> None:
    """Read "signups per month": a date that is grouped by its month is counted, not shown beside the month."""
    grouped = {placed.expression.column for placed in draft.group if placed.expression.grain}
    for number, placed in enumerate(draft.select):
        expression = placed.expression
        if expression.column in grouped and expression.function is None and expression.grain is None:
            assert expression.column
            draft.select[number] = replace(placed, expression=make_count(expression.column.table))
