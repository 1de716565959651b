"""Apply learned metrics. A metric is computed from several rows, so conditions on it are conditions on groups."""

from collections.abc import Iterator
from dataclasses import replace

from everhold.ask.frame import Expression, Function
from everhold.ask.grammar.draft import FrameDraft, GroupCondition, PlacedPredicate
from everhold.ask.schema import AskSchema

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "between"})


def read_metrics(draft: FrameDraft) -> None:
    """Set the function of every metric in the draft, and turn conditions on metrics into conditions on groups."""
    schema = draft.schema
    if not schema.metrics:
        return
    draft.select = [
        replace(placed, expression=add_metric_function(schema, placed.expression)) for placed in draft.select
    ]
    draft.order = [replace(order, expression=add_metric_function(schema, order.expression)) for order in draft.order]
    draft.having = [
        replace(condition, figure=add_metric_function(schema, condition.figure)) if condition.figure else condition
        for condition in draft.having
    ]
    row_conditions = []
    for placed in draft.where:
        if _is_metric(schema, placed.predicate.left) and not _compares_rows(draft, placed):
            draft.having.extend(_compare_groups(schema, placed))
        else:
            row_conditions.append(placed)
    draft.where = row_conditions


def add_metric_function(schema: AskSchema, item: Expression) -> Expression:
    """Return an expression with the function of its metric, unless the question names another possible function."""
    if not _is_metric(schema, item) or item.column is None:
        return item
    formula = schema.column(item.column).formula
    assert formula is not None
    if formula.function is Function.COMPUTED or item.function in (None, Function.COUNT):
        return replace(item, function=formula.function, distinct=False)
    return item


def _is_metric(schema: AskSchema, item: Expression) -> bool:
    return item.column is not None and schema.column(item.column).formula is not None


def _compares_rows(draft: FrameDraft, placed: PlacedPredicate) -> bool:
    """Return whether a condition is about single rows, as in "order lines with a turnover over 100"."""
    predicate, entity = placed.predicate, draft.entity()
    if predicate.frame is not None or placed.negated or predicate.operator not in _COMPARISONS:
        return True  # for example, a comparison with an average of the rows
    assert predicate.left.column is not None
    formula = draft.schema.column(predicate.left.column).formula
    is_of_entity = entity is not None and entity.name == predicate.left.column.table
    shows_columns = any(not item.expression.is_aggregate for item in draft.select)
    return formula is not None and formula.function is not Function.COMPUTED and is_of_entity and not shows_columns


def _compare_groups(schema: AskSchema, placed: PlacedPredicate) -> Iterator[GroupCondition]:
    predicate, figure = placed.predicate, add_metric_function(schema, placed.predicate.left)
    operators = (">=", "<=") if predicate.operator == "between" else (predicate.operator,)
    assert figure.column is not None
    for operator, value in zip(operators, predicate.values, strict=True):
        yield GroupCondition(placed.start, figure.column.table, operator, value, figure)
