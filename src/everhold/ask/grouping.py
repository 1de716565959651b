"""Add up the measures of a grouped frame."""

from dataclasses import replace

from everhold.ask.frame import Expression, Function, QueryFrame
from everhold.ask.schema import AskSchema, ColumnKind


def sum_grouped_measures(schema: AskSchema, frame: QueryFrame) -> QueryFrame:
    """Return the frame with measures that have no function added up: "revenue per store" means the sum."""
    if not frame.group or any(item.function is not None for item in frame.select):
        return frame
    grouped = {group.column for group in frame.group}

    def add_up(item: Expression) -> Expression:
        if item.column is None or item.column in grouped or item.grain is not None:
            return item
        is_measure = schema.column(item.column).kind is ColumnKind.MEASURE
        return replace(item, function=Function.SUM) if is_measure else item

    return replace(frame, select=tuple(add_up(item) for item in frame.select))
