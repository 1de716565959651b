"""Propose charts for results without a category or a time: single numbers, histograms and scatter plots."""

from collections.abc import Iterator
from dataclasses import replace

from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.costs import MAX_COLORS
from everhold.ask.charts.fields import ChartField, FieldType, format_cell
from everhold.ask.charts.preparing import count_bins, count_grid, make_rows, thin_rows
from everhold.ask.charts.shape import ResultShape, can_share_axis
from everhold.ports.chart_renderer import MAX_ROWS

_MIN_HISTOGRAM_ROWS = 8
_LABEL = ChartField("label", "measure", FieldType.NOMINAL)
_VALUE = ChartField("value", "value", FieldType.QUANTITY)
_TEXT = ChartField("text", "value", FieldType.NOMINAL)
_COUNT = ChartField("rows", "rows", FieldType.QUANTITY, is_additive=True)


def propose_single_row(shape: ResultShape) -> Iterator[Chart]:
    """Yield charts of a result with one row: a number, tiles, or bars if all values have the same unit."""
    quantities = shape.quantities
    fields = tuple(column.field for column in shape.columns)
    if len(quantities) == 1 and quantities[0].numbers:
        labels = (*shape.categories, *shape.times)
        yield Chart(
            ChartKind.NUMBER, "", fields, tuple(make_rows(shape.columns)), labels[0].field if labels else None,
            quantities[0].field,
        )  # fmt: skip
    elif len(quantities) > 1:
        values = [(column.field, column.values[0]) for column in quantities]
        if can_share_axis(quantities) and not shape.categories and not shape.times:
            value = replace(_VALUE, unit=quantities[0].field.unit, percent=quantities[0].field.percent)
            rows = tuple({"label": field.title, "value": number} for field, number in values)
            order = tuple(field.title for field, _ in values)
            yield Chart(ChartKind.BARS, "", (_LABEL, value), rows, _LABEL, value, order=order)
        texts = tuple({"label": field.title, "text": format_cell(number, field)} for field, number in values)
        yield Chart(ChartKind.TILES, "", (_LABEL, _TEXT), texts, _LABEL, _TEXT)


def propose_number_charts(shape: ResultShape) -> Iterator[Chart]:
    """Yield charts of rows that have only quantities."""
    quantities = shape.quantities
    if len(quantities) == 1:
        yield from _propose_distribution(shape)
    elif len(quantities) == 2 and shape.row_count > MAX_ROWS:
        yield _make_binned_heatmap(shape)
    elif len(quantities) in (2, 3):
        yield make_scatter(shape)
        if len(quantities) == 2:
            yield _make_binned_heatmap(shape)


def _propose_distribution(shape: ResultShape) -> Iterator[Chart]:
    quantity = shape.quantities[0]
    numbers = quantity.numbers
    if len(numbers) < _MIN_HISTOGRAM_ROWS or quantity.distinct < 3:
        return
    start = replace(quantity.field, name="bin_start")
    end = replace(quantity.field, name="bin_end", title=f"{quantity.field.title}, below")
    rows = tuple({"bin_start": low, "bin_end": high, "rows": count} for low, high, count in count_bins(numbers))
    yield Chart(ChartKind.HISTOGRAM, "", (start, end, _COUNT), rows, start, _COUNT)
    drawn_rows, notes = thin_rows([{quantity.field.name: number} for number in numbers])
    box = Chart(ChartKind.BOX, "", (quantity.field,), tuple(drawn_rows), None, quantity.field, notes=tuple(notes))
    yield box
    yield replace(box, kind=ChartKind.STRIP)


def make_scatter(shape: ResultShape) -> Chart:
    """Return a scatter plot of two quantities.

    A category with repeated values sets the color, a third quantity the size.
    """
    x, y, *more_fields = (column.field for column in shape.quantities)
    fields = tuple(column.field for column in shape.columns)
    rows = [row for row in make_rows(shape.columns) if row[x.name] is not None and row[y.name] is not None]
    drawn_rows, notes = thin_rows(rows)
    colored = (column for column in shape.categories if not column.is_unique and column.distinct <= MAX_COLORS)
    series = next(colored, None)
    names = tuple(sorted({str(label) for label in series.values})) if series else ()
    return Chart(
        ChartKind.SCATTER, "", fields, tuple(drawn_rows), x, y, series.field if series else None,
        more_fields[0] if more_fields else None,
        series_order=names, notes=tuple(notes),
    )  # fmt: skip


def _make_binned_heatmap(shape: ResultShape) -> Chart:
    x, y = (column.field for column in shape.quantities)
    points = [
        (float(first), float(second))
        for first, second in zip(shape.quantities[0].values, shape.quantities[1].values, strict=True)
        if isinstance(first, int | float) and isinstance(second, int | float)
    ]
    cells = count_grid([first for first, _ in points], [second for _, second in points]) if points else []
    rows = tuple(
        {"x": left, "x_end": left + width, "y": low, "y_end": low + height, "rows": count}
        for left, low, width, height, count in cells
    )
    fields = (replace(x, name="x"), replace(y, name="y"), _COUNT)
    return Chart(ChartKind.BINNED_HEATMAP, "", fields, rows, fields[0], fields[1], size=_COUNT)
