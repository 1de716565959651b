"""Describe a result in one sentence with its numbers."""

from collections.abc import Sequence
from datetime import datetime

from everhold.ask.charts.fields import (
    ChartColumn,
    ChartValue,
    FieldType,
    format_cell,
    format_number,
    read_columns,
    split_name,
)
from everhold.ask.charts.intent import ChartIntent
from everhold.ask.charts.shape import ResultShape, read_shape
from everhold.ask.export import write_cell
from everhold.ports.result_table import ResultTable

_MAX_NAMED = 3  # the number of rows that a sentence names
_MAX_LABEL_LENGTH = 60
_MAX_CHANGE = 10  # a larger change, relative to the first value, is not shown in percent
_MAX_STEADY_CHANGE = 0.005  # a smaller relative change is described as "about the same"


def describe_result(table: ResultTable, intent: ChartIntent, row_noun: str = "rows") -> str:
    """Return one sentence with the numbers of a result, or a sentence that says that it is empty.

    `row_noun` is the plural noun for the rows.
    """
    if not table.rows:
        return f"No {row_noun} match."
    columns = read_columns(table)
    shape = read_shape(columns, len(table.rows), intent)
    if len(table.rows) == 1:
        return _describe_cell(columns[0], table) if len(columns) == 1 else _describe_row(columns, intent)
    count = f"{len(table.rows):,}{' or more' if table.is_truncated else ''} {row_noun}"
    if not shape.quantities or not shape.quantities[0].numbers:
        return _describe_list(columns, count)
    return _describe_quantity(shape, shape.quantities[0], count, intent)


def _describe_quantity(shape: ResultShape, quantity: ChartColumn, count: str, intent: ChartIntent) -> str:
    keys = [*shape.times, *shape.categories]
    if not keys:
        return _describe_numbers(quantity, count)
    if shape.times and not shape.categories and shape.times[0].is_unique:
        return _describe_trend(shape.times[0], quantity)
    if intent.is_ordered and not shape.times:
        return _describe_ranking(keys, quantity)
    return _describe_groups(keys, quantity, count, intent)


def _describe_cell(column: ChartColumn, table: ResultTable) -> str:
    cell = table.rows[0][0]
    if cell is None:
        return f"There is no {column.field.title}: no row has a value."
    if column.values[0] is None:
        return f"{_capitalize(column.field.title)}: {write_cell(cell)}."  # a number that cannot be drawn
    is_number = column.field.type == FieldType.QUANTITY
    return f"{_capitalize(column.field.title)}: {_show(column, 0)}." if is_number else f"{_show(column, 0)}."


def _describe_row(columns: Sequence[ChartColumn], intent: ChartIntent) -> str:
    quantities = [column for column in columns if column.field.type == FieldType.QUANTITY]
    labels = [column for column in columns if column.field.type not in (FieldType.QUANTITY, FieldType.ID)]
    if len(quantities) == 1 and len(labels) == 1:
        link = ", with" if intent.is_ordered else " has"
        return f"{_show(labels[0], 0)}{link} {quantities[0].field.title} {_show(quantities[0], 0)}."
    return f"{_capitalize('; '.join(f'{column.field.title}: {_show(column, 0)}' for column in columns))}."


def _describe_ranking(keys: Sequence[ChartColumn], quantity: ChartColumn) -> str:
    total = len(quantity.values)
    named = [f"{_show_all(keys, index)} ({_show(quantity, index)})" for index in range(min(_MAX_NAMED, total))]
    return f"Ranked by {quantity.field.title}: {_join(named, total - len(named))}."


def _describe_groups(keys: Sequence[ChartColumn], quantity: ChartColumn, count: str, intent: ChartIntent) -> str:
    """Return a sentence about the quantity of each group: all values if there are few, else the range."""
    ranked = sorted(
        (index for index, value in enumerate(quantity.values) if isinstance(value, int | float)),
        key=lambda index: _to_float(quantity.values[index]),
        reverse=True,
    )
    start = f"{_capitalize(quantity.field.title)} by {' and '.join(key.field.title for key in keys)}"
    if intent.is_share and quantity.field.percent:
        named = [f"{_show_all(keys, index)} {_show(quantity, index)}" for index in ranked[:_MAX_NAMED]]
        return f"{start}: {_join(named, len(ranked) - len(named))}."
    total = ""
    if quantity.field.is_additive and not quantity.field.percent:
        total = f"; {format_number(_sum_numbers(quantity), quantity.field)} in total"
    if len(ranked) <= _MAX_NAMED:
        named = [f"{_show_all(keys, index)} {_show(quantity, index)}" for index in ranked]
        return f"{start}: {_join(named, 0)}{total}."
    low, high = (f"{_show(quantity, index)} ({_show_all(keys, index)})" for index in (ranked[-1], ranked[0]))
    return f"{start}, {count}: from {low} to {high}{total}."


def _describe_trend(time: ChartColumn, quantity: ChartColumn) -> str:
    """Return a sentence about the first, last, highest and lowest value of a quantity over time."""
    points = sorted(
        (moment, float(value))
        for moment, value in zip(time.values, quantity.values, strict=True)
        if isinstance(moment, datetime) and isinstance(value, int | float)
    )
    if not points:
        return f"{len(time.values):,} rows without a {quantity.field.title}."
    (start, first), (end, last) = points[0], points[-1]
    top, bottom = max(points, key=lambda point: point[1]), min(points, key=lambda point: point[1])

    def show(point: tuple[datetime, float]) -> str:
        return f"{format_cell(point[0], time.field)} ({format_number(point[1], quantity.field)})"

    extremes = f"the highest was in {show(top)}, the lowest in {show(bottom)}"
    title = quantity.field.title
    if quantity.field.is_change:
        return f"{_capitalize(title)} over {len(points)} periods: {extremes}."
    ends = (
        f"from {format_number(first, quantity.field)} in {format_cell(start, time.field)} "
        f"to {format_number(last, quantity.field)} in {format_cell(end, time.field)}"
    )
    return f"{_capitalize(title)} {_name_direction(first, last)} {ends}{_show_change(first, last)}; {extremes}."


def _name_direction(first: float, last: float) -> str:
    if abs(last - first) <= _MAX_STEADY_CHANGE * abs(first):
        return "stayed about the same,"
    return "rose" if last > first else "fell"


def _show_change(first: float, last: float) -> str:
    is_shown = first > 0 and _MAX_STEADY_CHANGE * first < abs(last - first) < _MAX_CHANGE * first
    return f" ({(last - first) / first:+.1%})" if is_shown else ""


def _describe_numbers(quantity: ChartColumn, count: str) -> str:
    low, high = min(quantity.numbers), max(quantity.numbers)
    mean = sum(quantity.numbers) / len(quantity.numbers)
    low_text, high_text, mean_text = (format_number(number, quantity.field) for number in (low, high, mean))
    return f"{count}: {quantity.field.title} from {low_text} to {high_text}, {mean_text} on average."


def _describe_list(columns: Sequence[ChartColumn], count: str) -> str:
    names = [column for column in columns if column.field.type in (FieldType.NOMINAL, FieldType.TEXT)]
    is_person = len(names) > 1 and {"first", "last"} <= {split_name(column.field.title)[0] for column in names[:2]}
    label = names[:2] if is_person else (names or list(columns))[:1]
    total = len(label[0].values)
    shown = [" ".join(_show(column, index) for column in label) for index in range(min(_MAX_NAMED, total))]
    return f"{count}: {_join(shown, total - len(shown))}."


def _show_all(keys: Sequence[ChartColumn], index: int) -> str:
    return ", ".join(_show(key, index) for key in keys)


def _show(column: ChartColumn, index: int) -> str:
    text = format_cell(column.values[index], column.field)
    return text if len(text) <= _MAX_LABEL_LENGTH else f"{text[:_MAX_LABEL_LENGTH]}…"


def _join(parts: Sequence[str], omitted: int) -> str:
    if omitted > 0:
        return f"{', '.join(parts)} and {omitted:,} more"
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _sum_numbers(quantity: ChartColumn) -> float:
    return float(f"{sum(quantity.numbers):.12g}")


def _to_float(value: ChartValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
