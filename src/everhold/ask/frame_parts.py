"""List the columns and tables that a frame uses."""

from collections.abc import Iterator

from everhold.ask.frame import AnyPredicate, Membership, QueryFrame
from everhold.ask.schema import ColumnRef


def list_columns(frame: QueryFrame) -> Iterator[ColumnRef]:
    """Yield the columns that a frame uses. The columns of frames inside it are left out."""
    expressions = [*frame.select, *frame.group, *(ordering.expression for ordering in frame.order)]
    expressions.extend(predicate.left for predicate in frame.having)
    for condition in frame.where:
        if isinstance(condition, Membership):
            yield condition.column
        else:
            choices = condition.choices if isinstance(condition, AnyPredicate) else (condition,)
            expressions.extend(choice.left for choice in choices)
    for expression in expressions:
        yield from (ref for ref in (expression.column, expression.per) if ref is not None)
        if expression.condition and expression.condition.left.column:
            yield expression.condition.left.column


def list_tables(frame: QueryFrame) -> Iterator[str]:
    """Yield the tables that a frame needs, its entity first."""
    yield frame.entity
    yield from frame.joined
    yield from (ref.table for ref in list_columns(frame))
    expressions = [*frame.select, *(ordering.expression for ordering in frame.order)]
    expressions.extend(predicate.left for predicate in frame.having)
    yield from (expression.of_table for expression in expressions if expression.of_table)
