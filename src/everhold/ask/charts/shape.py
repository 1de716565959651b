"""Find the shape of a result: which columns can be drawn as times, categories and quantities."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everhold.ask.charts.fields import ChartColumn, ChartField, FieldType, split_name
from everhold.ask.charts.intent import ChartIntent

MAX_COLUMNS = 6
# Two columns such as first and last names become one label if less than this share of all combinations occurs.
_SPARSE_GRID = 0.3
_MAX_SIZE_RATIO = 50  # measures whose maximums differ by a larger factor cannot share an axis


@dataclass(frozen=True)
class ResultShape:
    """The columns of a result that a chart can use. `columns` are all columns, which tooltips show."""

    columns: tuple[ChartColumn, ...]
    times: tuple[ChartColumn, ...]
    categories: tuple[ChartColumn, ...]
    quantities: tuple[ChartColumn, ...]
    row_count: int

    @property
    def is_drawable(self) -> bool:
        return self.row_count > 0 and len(self.columns) <= MAX_COLUMNS and not self._has_text

    @property
    def _has_text(self) -> bool:
        return any(column.field.type == FieldType.TEXT for column in self.columns)


def read_shape(columns: Sequence[ChartColumn], row_count: int, intent: ChartIntent) -> ResultShape:
    """Return the shape of a result, without columns that a chart does not need.

    These are ids beside names, constants, and labels that depend on other labels.
    """
    times = [column for column in columns if column.field.type == FieldType.TIME]
    categories = [column for column in columns if column.field.is_category]
    ids = [column for column in columns if column.field.type == FieldType.ID]
    quantities = [column for column in columns if column.field.type == FieldType.QUANTITY]
    if not categories and not times and ids:
        categories = [replace(column, field=replace(column.field, type=FieldType.NOMINAL)) for column in ids]
    if row_count > 1:
        categories, times = _drop_constants(categories, times)
    joined_columns: tuple[ChartColumn, ...] = ()
    if len(categories) > 1:
        categories, joined_columns = _drop_dependent(categories, row_count)
    times, categories = _choose_axis(times, categories, row_count, intent)
    return ResultShape(
        (*columns, *joined_columns),
        tuple(times),
        tuple(categories),
        tuple(_choose_measures(quantities, intent)),
        row_count,
    )


def _drop_constants(
    categories: list[ChartColumn], times: list[ChartColumn]
) -> tuple[list[ChartColumn], list[ChartColumn]]:
    varied = [column for column in categories if column.distinct > 1]
    varied_times = [column for column in times if column.distinct > 1]
    return (varied, varied_times) if varied or varied_times else (categories[:1], times[:1])


def _drop_dependent(categories: list[ChartColumn], row_count: int) -> tuple[list[ChartColumn], tuple[ChartColumn, ...]]:
    """Return the categories that are needed, and a tuple with the column that joins two of them, if there is one.

    A category that is different in every row is needed alone. Two categories of which few combinations occur are joined
    to one label.
    """
    for column in categories:
        if column.is_unique:
            return [column], ()
    if len(categories) == 2:
        first, second = categories
        labels = tuple(f"{left} {right}" for left, right in zip(first.values, second.values, strict=True))
        is_sparse = row_count < _SPARSE_GRID * first.distinct * second.distinct
        if is_sparse and len(set(labels)) == row_count:
            name, title = f"{first.field.name}_{second.field.name}", f"{first.field.title} {second.field.title}"
            label = ChartColumn(ChartField(name, title, FieldType.NOMINAL), labels)
            return [label], (label,)
    return categories, ()


def _choose_axis(
    times: list[ChartColumn], categories: list[ChartColumn], row_count: int, intent: ChartIntent
) -> tuple[list[ChartColumn], list[ChartColumn]]:
    """Leave out the time or the category if the other alone is different in every row."""
    if not times or not categories or row_count == 1:
        return times, categories
    is_sorted = list(times[0].values) == sorted(times[0].values, key=str)
    if times[0].is_unique and (is_sorted or intent.is_trend or not categories[0].is_unique):
        return times, []
    if categories[0].is_unique:
        return [], categories
    return times, categories


def _choose_measures(quantities: list[ChartColumn], intent: ChartIntent) -> list[ChartColumn]:
    """Return the measures to draw: a share or a change if the question asks for it, otherwise all."""
    if intent.is_share:
        shares = [column for column in quantities if column.field.percent]
        return shares[:1] or quantities
    if intent.is_change:
        changes = [column for column in quantities if column.field.is_change]
        return changes[:1] or quantities
    return quantities


def can_share_axis(columns: Sequence[ChartColumn]) -> bool:
    """Return whether quantities can share an axis.

    They can if they have similar sizes and the same unit. Quantities without a unit also need a common word in their
    names.
    """
    units = {(column.field.unit, bool(column.field.percent)) for column in columns}
    if len(units) > 1:
        return False
    sizes = [max((abs(number) for number in column.numbers), default=0.0) for column in columns]
    if min(sizes) * _MAX_SIZE_RATIO < max(sizes):
        return False
    if units != {("", False)}:
        return True
    words = [{word for word in split_name(column.field.title) if not word.isdigit()} for column in columns]
    return bool(set.intersection(*words))


def sums_to_whole(column: ChartColumn) -> bool:
    """Return whether the values are shares that add up to the whole."""
    numbers = column.numbers
    total = sum(numbers)
    total_share = column.field.percent or (1 if total < 50 else 100)
    return bool(numbers) and min(numbers) >= 0 and abs(total - total_share) <= 0.01 * total_share
