"""Write the measures of a frame as nouns: "the number of orders", "the average price", "the share of revenue"."""

from collections.abc import Mapping

from everhold.ask.frame import Expression, Function, WindowKind
from everhold.ask.schema import ColumnRef
from everhold.ask.wording.names import FrameNames, make_plural

_FUNCTIONS: Mapping[Function, str] = {
    Function.SUM: "total", Function.AVERAGE: "average", Function.MINIMUM: "lowest", Function.MAXIMUM: "highest",
}  # fmt: skip
_TIME_FUNCTIONS: Mapping[Function, str] = {Function.MINIMUM: "earliest", Function.MAXIMUM: "latest"}


def describe_measure(names: FrameNames, item: Expression) -> str:
    """Return an aggregate as a noun without an article."""
    if item.per is not None:
        return f"average {_describe_aggregate(names, item)} per {names.name_group(item.per)}"
    if item.window is None:
        return _describe_aggregate(names, item)
    if item.window is WindowKind.SHARE:
        return f"share of the {_describe_aggregate(names, item)}"
    if item.window is WindowKind.RUNNING:
        is_sum = item.function is Function.SUM and item.column is not None
        inner = names.name_column(item.column) if is_sum and item.column else _describe_aggregate(names, item)
        return f"running total of {inner}"
    return f"change in the {_describe_aggregate(names, item)}"


def _describe_aggregate(names: FrameNames, item: Expression) -> str:
    if item.function is Function.COUNT:
        return f"number of {describe_counted(names, item)}"
    if item.column is None or item.function is None:
        return describe_column(names, item)
    column = names.schema.column(item.column)
    if column.formula is not None and column.formula.function is item.function:
        return names.name_column(item.column)  # the metric itself
    words = _TIME_FUNCTIONS if column.is_time else _FUNCTIONS
    word = words.get(item.function, _FUNCTIONS[item.function])
    noun = names.name_column(item.column)
    first, _, remainder = noun.partition(" ")
    # A noun that begins with the word already, such as "total sales", does not get it twice.
    return f"{word} {remainder}" if first == word and remainder else f"{word} {noun}"


def describe_counted(names: FrameNames, item: Expression) -> str:
    """Return the plural noun for what is counted: rows of a table, or different values of a column."""
    if item.column is None or (names.names_row(item.column) and not item.distinct):
        table = item.column.table if item.column else item.of_table or names.subject
        return names.name_rows(table)
    if names.names_row(item.column):
        return f"different {names.name_rows(item.column.table)}"
    noun = make_plural(names.name_group(item.column))
    return f"different {noun}" if item.distinct else noun


def describe_column(names: FrameNames, item: Expression) -> str:
    """Return the noun for a column, or for the period to which its dates are truncated."""
    if item.grain:
        return item.grain
    return names.name_column(item.column) if item.column else names.name_rows(item.of_table or names.subject)


def name_extreme(names: FrameNames, item: Expression, *, is_highest: bool) -> str:
    """Return the highest or the lowest of a measure: "most orders", "highest total revenue", "latest departure"."""
    if item.function is Function.COUNT and item.window is None:
        return f"{'most' if is_highest else 'fewest'} {describe_counted(names, item)}"
    noun = describe_measure(names, item) if item.is_aggregate else describe_column(names, item)
    is_time = item.column is not None and not item.is_aggregate and is_time_column(names, item.column)
    highest, lowest = ("latest", "earliest") if is_time else ("highest", "lowest")
    return f"{highest if is_highest else lowest} {noun}"


def is_time_column(names: FrameNames, ref: ColumnRef) -> bool:
    """Return whether a column has dates or years."""
    return names.schema.column(ref).is_time
