"""Prepare rows for charts: limit them to the largest, fold measures into rows, count bins, and thin out points."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from everhold.ask.charts.chart import OTHER, ChartRow
from everhold.ask.charts.fields import ChartColumn, ChartField, ChartValue
from everhold.ports.chart_renderer import MAX_ROWS

MAX_BARS = 25
MAX_BINS = 12
WANTED_BINS = 10
GRID_BINS = 40


def make_rows(columns: Iterable[ChartColumn]) -> list[ChartRow]:
    """Return the values of columns as one mapping per row."""
    columns = list(columns)
    names = [column.field.name for column in columns]
    rows = zip(*(column.values for column in columns), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def get_number(row: ChartRow, field: ChartField) -> float:
    """Return a quantity of a row, 0 if it has none."""
    value = row.get(field.name)
    return float(value) if isinstance(value, int | float) else 0.0


def keep_largest(
    rows: Sequence[ChartRow], x: ChartField, y: ChartField, *, keeps_order: bool, max_rows: int = MAX_BARS
) -> tuple[list[ChartRow], list[str]]:
    """Return the rows with the largest values, largest first, and notes on the other rows.

    The others are added up in one row if the values can be added up; otherwise they are left out. With `keeps_order`,
    the rows stay in their order, and the first rows are kept instead of the largest.
    """
    ordered = list(rows) if keeps_order else sorted(rows, key=lambda row: -get_number(row, y))
    if len(ordered) <= max_rows:
        return ordered, []
    shown, others = ordered[:max_rows], ordered[max_rows:]
    if not y.is_additive or keeps_order:
        return shown, [f"{len(shown)} of {len(ordered):,} are shown"]
    total = sum(get_number(row, y) for row in others)
    return [*shown, {x.name: OTHER, y.name: _round(total)}], [f"{OTHER!r} is the sum of {len(others):,} more"]


def keep_largest_series(
    rows: Sequence[ChartRow], x: ChartField, y: ChartField, series: ChartField, max_series: int
) -> tuple[list[ChartRow], list[str], list[str]]:
    """Return the rows of the largest series, the names of these series, and notes.

    The other series are added up in a series named OTHER if that is possible; otherwise they are left out.
    """
    names = rank_labels(rows, series, y)
    if len(names) <= max_series:
        return list(rows), names, []
    # If the others can be added up, they take the last place.
    largest = names[: max_series - 1] if y.is_additive else names[:max_series]
    largest_rows = [row for row in rows if row[series.name] in largest]
    if not y.is_additive:
        return largest_rows, largest, [f"{len(largest)} of {len(names):,} are shown"]
    totals: dict[ChartValue, float] = {}
    for row in rows:
        if row[series.name] not in largest:
            totals[row[x.name]] = totals.get(row[x.name], 0.0) + get_number(row, y)
    other_rows: list[ChartRow] = [
        {x.name: key, series.name: OTHER, y.name: _round(total)} for key, total in totals.items()
    ]
    notes = [f"{OTHER!r} is the sum of {len(names) - len(largest):,} more"]
    return largest_rows + other_rows, [*largest, OTHER], notes


def rank_labels(rows: Sequence[ChartRow], field: ChartField, y: ChartField) -> list[str]:
    """Return the labels of a field, ordered by the sum of their values, largest first."""
    totals: dict[str, float] = {}
    for row in rows:
        label = str(row[field.name])
        totals[label] = totals.get(label, 0.0) + get_number(row, y)
    return sorted(totals, key=lambda label: (-totals[label], label))


def fold_measures(
    rows: Sequence[ChartRow], quantities: Sequence[ChartColumn], measure: ChartField, value: ChartField
) -> list[ChartRow]:
    """Return a row for each measure of each row. It has the name of the measure and its value as two fields."""
    measure_names = {column.field.name for column in quantities}
    return [
        {
            **{name: cell for name, cell in row.items() if name not in measure_names},
            measure.name: column.field.title,
            value.name: row[column.field.name],
        }
        for row in rows
        for column in quantities
    ]


def count_bins(numbers: Sequence[float]) -> list[tuple[float, float, int]]:
    """Return the start, the end and the count of each bin. There are about ten bins, of a round width."""
    low, high = min(numbers), max(numbers)
    width = choose_step(high - low, WANTED_BINS) if high > low else 1.0
    first = math.floor(low / width)
    # The small addend keeps a number at an edge, such as 0.3 with a width of 0.1, out of the bin before it.
    counts = Counter(math.floor(number / width + 1e-9) - first for number in numbers)
    last = max(counts)
    # If the maximum is exactly at an edge, it is counted in the bin before the edge.
    if (
        last
        and counts[last] == sum(number == high for number in numbers)
        and math.isclose(high, (first + last) * width)
    ):
        counts[last - 1] += counts.pop(last)
        last -= 1
    edges = [_round((first + number) * width) for number in range(last + 2)]
    return [(edges[number], edges[number + 1], counts[number]) for number in range(last + 1)]


def choose_step(span: float, parts: int) -> float:
    """Return a round width that divides a span into about `parts` or fewer parts.

    It is 1, 2, 2.5 or 5 times a power of ten.
    """
    exact = span / parts
    power = 10.0 ** math.floor(math.log10(exact))
    # A round width may be smaller than the exact one by a rounding error.
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= exact * 0.999)


def count_grid(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float, float, float, int]]:
    """Return the cells with points of a grid of 40 × 40: the start in x and in y, width, height and count of each."""
    low_x, low_y = min(xs), min(ys)
    width = (max(xs) - low_x) / GRID_BINS or 1.0
    height = (max(ys) - low_y) / GRID_BINS or 1.0
    cells = Counter(
        (min(GRID_BINS - 1, int((x - low_x) / width)), min(GRID_BINS - 1, int((y - low_y) / height)))
        for x, y in zip(xs, ys, strict=True)
    )
    return [
        (_round(low_x + column * width), _round(low_y + row * height), width, height, count)
        for (column, row), count in sorted(cells.items())
    ]


def thin_rows(rows: Sequence[ChartRow], max_rows: int = MAX_ROWS) -> tuple[list[ChartRow], list[str]]:
    """Return at most `max_rows` rows, chosen at equal distances, and a note if some were left out."""
    if len(rows) <= max_rows:
        return list(rows), []
    step = len(rows) / max_rows
    return [rows[int(number * step)] for number in range(max_rows)], [f"{max_rows:,} of {len(rows):,} rows are drawn"]


def _round(number: float) -> float:
    """Return a number rounded to 12 significant digits, which removes the errors of binary fractions."""
    return float(f"{number:.12g}")
