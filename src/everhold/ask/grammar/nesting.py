"""Add inner queries to frames: for aggregates over selected rows, and for rows that must have related rows."""

import re
from collections.abc import Iterator
from dataclasses import replace

from everhold.ask.frame import Expression, Membership, QueryFrame
from everhold.ask.frame_parts import list_tables
from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.grammar.negation import include_related
from everhold.ask.joins import find_joins
from everhold.ask.schema import AskSchema
from everhold.errors import InvalidInput


def pick_rows_first(schema: AskSchema, frame: QueryFrame) -> QueryFrame:
    """Move a limit or a condition on counts into an inner query if only aggregates are shown.

    For "How many concerts took place in the largest stadium?" the inner query selects the stadium.
    """
    if frame.group or not frame.select or not all(item.is_aggregate for item in frame.select):
        return frame
    if frame.having:
        return _pick_by_count(schema, frame)
    column = frame.order[0].expression.column if frame.order and frame.limit else None
    if column is None:
        return frame
    key = schema.table(column.table).key_ref
    inner = QueryFrame(column.table, (Expression(key),), order=frame.order, limit=frame.limit)
    return replace(frame, order=(), limit=None, where=(*frame.where, Membership(key, inner)))


def _pick_by_count(schema: AskSchema, frame: QueryFrame) -> QueryFrame:
    entity = next((item.of_table for item in frame.select if item.of_table), None) or frame.entity
    key = schema.table(entity).key_ref
    counted = [predicate.left.of_table for predicate in frame.having]
    if entity in counted:
        return frame
    joined = tuple(table for table in counted if table)
    inner = QueryFrame(entity, (Expression(key),), group=(Expression(key),), having=frame.having, joined=joined)
    return replace(frame, entity=entity, having=(), where=(*frame.where, Membership(key, inner)))


def require_related(draft: FrameDraft, frame: QueryFrame) -> QueryFrame:
    """Require related rows in tables that only a relative clause names: "dogs that had a treatment"."""
    if frame.combined:
        return frame
    used = set(_list_used_tables(draft.schema, frame))
    for position, table in draft.tables():
        codes_before = draft.originals[:position]
        is_unused = draft.codes[position] == "T" and table.name not in used
        is_in_clause = re.search("[rhx]", codes_before) and "n" not in codes_before
        if is_unused and is_in_clause and not draft.having and not draft.most:
            related = include_related(draft.schema, frame.entity, [table.name], [])
            if related:
                frame = replace(frame, where=(*frame.where, related))
                used.add(table.name)
    return frame


def _list_used_tables(schema: AskSchema, frame: QueryFrame) -> Iterator[str]:
    tables = list(list_tables(frame))
    try:
        yield from find_joins(schema, tables, frame.via).tables
    except InvalidInput:
        yield from tables
    for condition in frame.where:
        if isinstance(condition, Membership):
            yield from _list_used_tables(schema, condition.frame)
