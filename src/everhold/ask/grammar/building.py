"""Build a frame: read all parts of a question, and add groups, negation, alternatives and set operations.

The letters in the patterns are the codes of `language/cues.py` and `linking/mention.py`.
"""

import re
from dataclasses import replace

from everhold.ask.frame import (
    AnyPredicate,
    Expression,
    Function,
    Membership,
    Ordering,
    Predicate,
    QueryFrame,
    SetOperation,
)
from everhold.ask.grammar.conditions import read_conditions
from everhold.ask.grammar.contradictions import are_disjoint, find_contradiction
from everhold.ask.grammar.directions import split_directed
from everhold.ask.grammar.draft import FrameDraft, PlacedPredicate, make_count
from everhold.ask.grammar.figures import count_different_rows
from everhold.ask.grammar.metrics import read_metrics
from everhold.ask.grammar.negation import exclude_related, read_absences
from everhold.ask.grammar.nesting import pick_rows_first, require_related
from everhold.ask.grammar.ordering import read_limits, read_orderings, read_superlatives
from everhold.ask.grammar.ranking import read_rankings, sort_by_figure
from everhold.ask.grammar.selection import read_selection
from everhold.ask.grammar.values import read_values
from everhold.ask.linking.beam import Assignment
from everhold.ask.schema import AskSchema, AskTable, ColumnKind

Condition = Predicate | AnyPredicate | Membership


def build_frame(schema: AskSchema, assignment: Assignment) -> tuple[QueryFrame, FrameDraft] | None:
    """Return the frame of an assignment and the draft it was made from; None if the question names no table or
    column."""
    draft = FrameDraft(schema, assignment.pieces)
    if draft.entity() is None:
        return None
    read_limits(draft)
    read_conditions(draft)
    read_values(draft)
    read_rankings(draft)
    read_orderings(draft)
    read_superlatives(draft)
    absences = read_absences(draft)
    read_selection(draft)
    read_metrics(draft)
    return _assemble(draft, absences), draft


def _assemble(draft: FrameDraft, absences: list[Membership]) -> QueryFrame:
    select = _drop_repeated(draft, list(dict.fromkeys(placed.expression for placed in draft.select)))
    entity = _choose_entity(draft, select)
    select = _name_listed_rows(draft, _choose_select(draft, select), entity)
    is_distinct = draft.distinct and not any(item.distinct for item in select)
    frame = QueryFrame(entity.name, tuple(select), distinct=is_distinct)
    if not select and not draft.everything:
        frame = replace(frame, select=tuple(map(Expression, entity.shown_refs)))
    frame = _group(draft, frame)
    frame = _sort(draft, frame)
    frame = _complete_groups(draft, _simplify_extreme(frame))
    frame = sort_by_figure(draft.schema, frame, draft.highest_first)
    frame = _add_conditions(draft, frame, absences)
    frame = pick_rows_first(draft.schema, frame)
    return count_different_rows(draft.schema, require_related(draft, frame))


def _drop_repeated(draft: FrameDraft, select: list[Expression]) -> list[Expression]:
    """Leave out a plain column that an aggregate already computes, as in "the average price (price)"."""
    if draft.group:
        return select
    computed = {item.column for item in select if item.function not in (None, Function.COUNT)}
    return [item for item in select if item.is_aggregate or item.column not in computed]


def _choose_entity(draft: FrameDraft, select: list[Expression]) -> AskTable:
    named = draft.entity()
    assert named is not None
    for item in select:
        if item.of_table:
            return draft.schema.table(item.of_table)
    columns = [item.column for item in select if item.column]
    if columns and named.name not in {column.table for column in columns}:
        return draft.schema.table(columns[0].table)
    return named


def _choose_select(draft: FrameDraft, select: list[Expression]) -> list[Expression]:
    """Return the expressions to select.

    A minimum or maximum beside a plain column becomes a sort order that selects the row with this value.
    """
    extremes = [item for item in select if item.function in (Function.MINIMUM, Function.MAXIMUM)]
    plain = [item for item in select if not item.is_aggregate]
    if len(extremes) == 1 and plain and not draft.group and len(extremes) + len(plain) == len(select):
        extreme = extremes[0]
        draft.order.append(Ordering(Expression(extreme.column), extreme.function is Function.MAXIMUM))
        draft.limit = draft.limit or 1
        return [Expression(item.column) if item is extreme else item for item in select]
    return select


def _name_listed_rows(draft: FrameDraft, select: list[Expression], entity: AskTable) -> list[Expression]:
    """Add the names of rows that are listed with other columns: "the 10 highest paid employees with their salary"."""
    if draft.having and select and all(item.is_aggregate for item in select) and _begins_with_rows(draft):
        return [*map(Expression, draft.tables()[0][1].shown_refs), *select]
    start = next((position for position, table in draft.tables() if table == entity), None)
    positions = [placed.position for placed in draft.select]
    if start is None or not positions or any(item.is_aggregate for item in select) or draft.group:
        return select
    is_list = not re.search("[C#am]", draft.originals[:start]) and "r" in draft.originals[start : min(positions)]
    selected_columns = {item.column for item in select}
    if not is_list or min(positions) < start or selected_columns & set(entity.shown_refs):
        return select
    return [*map(Expression, entity.shown_refs), *select]


def _begins_with_rows(draft: FrameDraft) -> bool:
    """Return whether rows are listed before they are counted: "customers with 3 orders and their number of orders"."""
    return bool(draft.tables()) and not re.search("[#am]", draft.originals[: draft.tables()[0][0]])


def _group(draft: FrameDraft, frame: QueryFrame) -> QueryFrame:
    """Add the groups that the question names, or those that are implied if counts stand beside plain columns."""
    select, group = list(frame.select), []
    for placed in draft.group:
        if placed.expression.of_table:
            table = draft.schema.table(placed.expression.of_table)
            group.append(Expression(table.key_ref))
            if not any(_describes_row(draft, item, table) for item in select):
                select.extend(map(Expression, table.shown_refs))
        else:
            group.append(placed.expression)
            if placed.expression not in select:
                select.append(placed.expression)
    plain = [item for item in select if not item.is_aggregate]
    aggregates = [item for item in select if item.is_aggregate]
    counted = [condition.table for condition in draft.having] + ([draft.most[0]] if draft.most else [])
    counted += [item.of_table for item in aggregates if item.of_table]
    counted += [
        item.expression.column.table for item in draft.order if item.expression.is_aggregate and item.expression.column
    ]
    if not group and plain and (aggregates or counted):
        group = _choose_groups(draft, plain, counted)
    having = tuple(
        Predicate(condition.figure or make_count(condition.table), condition.operator, (condition.number,))
        for condition in draft.having
    )
    return replace(frame, select=tuple(select), group=tuple(dict.fromkeys(group)), having=having)


def _describes_row(draft: FrameDraft, item: Expression, table: AskTable) -> bool:
    """Return whether a selected item describes a row of `table`: a column of that table that is not a measure."""
    if item.column is None or item.is_aggregate or item.column.table != table.name:
        return False
    return draft.schema.column(item.column).kind is not ColumnKind.MEASURE


def _choose_groups(draft: FrameDraft, plain: list[Expression], counted: list[str]) -> list[Expression]:
    """Return the key of the table whose columns are shown, or the shown columns themselves.

    The columns are the groups if nothing is counted, if rows of their table are counted, or if the question does not
    name their table: "which ward has the most treatments" groups by the ward, and "the ward of the patient with the
    most treatments" by the patient.
    """
    owner = next((item.column.table for item in plain if item.column), None)
    if owner is None or owner in counted or not counted or _are_groups(draft, plain, owner):
        return plain
    return [Expression(draft.schema.table(owner).key_ref)]


def _are_groups(draft: FrameDraft, plain: list[Expression], owner: str) -> bool:
    """Return whether the shown columns are the groups: several rows share them, and the question names no such row."""
    table = draft.schema.table(owner)
    columns = [draft.schema.column(item.column) for item in plain if item.column is not None]
    is_shared = all(
        column.table == owner and column.kind is ColumnKind.CATEGORY and column.ref != table.display_ref
        for column in columns
    )
    return is_shared and all(named.name != owner for _, named in draft.tables())


def _sort(draft: FrameDraft, frame: QueryFrame) -> QueryFrame:
    order = list(draft.order)
    if draft.most:
        table, descending = draft.most
        order.append(Ordering(make_count(table), descending))
        if not frame.group:
            shown = [item for item in frame.select if not item.is_aggregate]
            frame = replace(frame, group=tuple(_choose_groups(draft, shown, [table])))
    limit = draft.limit if draft.limit or not draft.most else 1
    return replace(frame, order=tuple(order), limit=limit)


def _complete_groups(draft: FrameDraft, frame: QueryFrame) -> QueryFrame:
    """Add the groups that sorting by an aggregate needs. If only aggregates are shown, drop the sort order instead."""
    sorting = [ordering.expression for ordering in frame.order if ordering.expression.is_aggregate]
    if frame.group or not sorting:
        return frame
    plain = [item for item in frame.select if not item.is_aggregate]
    if plain or not frame.select:
        counted = [table for item in sorting if (table := item.of_table or (item.column and item.column.table))]
        shown = plain or [Expression(draft.schema.table(frame.entity).key_ref)]
        return replace(frame, group=tuple(_choose_groups(draft, shown, counted)))
    return replace(frame, order=tuple(item for item in frame.order if not item.expression.is_aggregate))


def _simplify_extreme(frame: QueryFrame) -> QueryFrame:
    """Drop order and limit if a single aggregate is shown and it is sorted by its own column."""
    if frame.limit == 1 and len(frame.select) == 1 and frame.select[0].is_aggregate and not frame.group:
        column = frame.select[0].column
        if frame.order and all(ordering.expression.column == column for ordering in frame.order):
            return replace(frame, order=(), limit=None)
    return frame


def _add_conditions(draft: FrameDraft, frame: QueryFrame, absences: list[Membership]) -> QueryFrame:
    placed_conditions = sorted(draft.where, key=lambda condition: condition.start)
    both_position = draft.originals.find("B")
    pair = _find_pair(placed_conditions, both_position) if both_position >= 0 else None
    if both_position < 0 and "|" not in draft.originals:
        pair = find_contradiction(placed_conditions)
    if pair:
        return _intersect(draft, frame, placed_conditions, pair, absences)
    directed, placed_conditions = split_directed(draft, placed_conditions)
    conditions = _join_alternatives(draft, placed_conditions)
    where: list[Condition] = [_negate(draft, frame, condition) for condition in conditions]
    return replace(frame, where=(*where, *directed, *absences), via=tuple(draft.via))


def _find_pair(placed: list[PlacedPredicate], both_position: int) -> tuple[PlacedPredicate, PlacedPredicate] | None:
    after = [condition for condition in placed if condition.end > both_position]
    return (after[0], after[1]) if len(after) >= 2 else None


def _intersect(
    draft: FrameDraft,
    frame: QueryFrame,
    placed: list[PlacedPredicate],
    pair: tuple[PlacedPredicate, PlacedPredicate],
    absences: list[Membership],
) -> QueryFrame:
    shared = [condition for condition in placed if condition not in pair]
    if frame.order or frame.limit or frame.group or any(item.is_aggregate for item in frame.select):
        return _require_both(draft, frame, shared, pair, absences)
    frames = []
    for condition in pair:
        where = [_negate(draft, frame, item) for item in (*shared, condition)]
        frames.append(replace(frame, where=(*where, *absences)))
    return replace(frames[0], combined=(SetOperation.INTERSECT, frames[1]))


def _require_both(
    draft: FrameDraft,
    frame: QueryFrame,
    shared: list[PlacedPredicate],
    pair: tuple[PlacedPredicate, PlacedPredicate],
    absences: list[Membership],
) -> QueryFrame:
    """Require each condition of a pair in a subquery of its own, so that different related rows may meet them.

    Unlike with an INTERSECT, the rows can still be counted or sorted.
    """
    key = draft.schema.table(frame.entity).key_ref
    where: list[Condition] = [_negate(draft, frame, condition) for condition in shared]
    for condition in pair:
        inner = QueryFrame(frame.entity, (Expression(key),), where=(_negate(draft, frame, condition),))
        where.append(Membership(key, inner))
    return replace(frame, where=(*where, *absences))


def _join_alternatives(draft: FrameDraft, placed: list[PlacedPredicate]) -> list[PlacedPredicate | AnyPredicate]:
    """Join conditions by OR if "or" is between them, or if they are about values of one column that exclude each
    other."""
    joined: list[PlacedPredicate | AnyPredicate] = []
    last: PlacedPredicate | None = None
    for condition in placed:
        between = draft.originals[last.end + 1 : condition.start] if last else ""
        if last and ("|" in between or _exclude_each_other(last, condition, between)) and not condition.negated:
            previous = joined.pop()
            choices = previous.choices if isinstance(previous, AnyPredicate) else (previous.predicate,)
            joined.append(AnyPredicate((*choices, condition.predicate)))
        else:
            joined.append(condition)
        last = condition
    return joined


def _exclude_each_other(first: PlacedPredicate, second: PlacedPredicate, between: str) -> bool:
    if first.predicate.left != second.predicate.left:
        return False
    if are_disjoint(first.predicate, second.predicate):
        return True
    return first.predicate.operator == second.predicate.operator == "=" and "." not in between


def _negate(draft: FrameDraft, frame: QueryFrame, condition: PlacedPredicate | AnyPredicate) -> Condition:
    if isinstance(condition, AnyPredicate) or not condition.negated:
        return condition if isinstance(condition, AnyPredicate) else condition.predicate
    column = condition.predicate.left.column
    if column and column.table != frame.entity and not frame.group:
        related = exclude_related(draft.schema, frame.entity, [column.table], [condition.predicate])
        if related:
            return related
    if condition.predicate.operator == "=":
        return replace(condition.predicate, operator="!=")
    return replace(condition.predicate, negated=True)
