"""Propose charts for results with categories: bars, shares, groups and heat maps."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from everhold.ask.charts.chart import Chart, ChartKind, ChartRow
from everhold.ask.charts.costs import FEW_LABELS, MAX_COLORS, MAX_GROUPED
from everhold.ask.charts.fields import ChartColumn, ChartField, FieldType
from everhold.ask.charts.intent import ChartIntent
from everhold.ask.charts.number_rules import make_scatter
from everhold.ask.charts.preparing import (
    MAX_BARS,
    fold_measures,
    keep_largest,
    keep_largest_series,
    make_rows,
    rank_labels,
    thin_rows,
)
from everhold.ask.charts.shape import ResultShape, can_share_axis, sums_to_whole
from everhold.ask.charts.time_rules import MAX_PANELS, MEASURE, make_folded_field

MAX_SHARES = 6
_COUNT = ChartField("count", "count", FieldType.QUANTITY, is_additive=True)


def propose_category_charts(shape: ResultShape, intent: ChartIntent) -> Iterator[Chart]:
    """Yield charts that compare categories."""
    categories, quantities = shape.categories, shape.quantities
    if not quantities:
        # In a list of names only a few occur twice. In a column of categories, each occurs several times.
        is_repeated = bool(categories) and 2 * categories[0].distinct <= shape.row_count
        if len(categories) == 1 and is_repeated and len(shape.columns) == 1:
            yield from _propose_counts(categories[0], intent)
    elif len(categories) == 1 and categories[0].is_unique:
        yield from _propose_labelled(shape, intent)
    elif len(categories) == 1:
        yield from _propose_repeated_labels(shape)
    elif len(categories) == 2 and len(quantities) == 1:
        pairs = set(zip(categories[0].values, categories[1].values, strict=True))
        if len(pairs) == shape.row_count:
            yield from _propose_pairs(shape)


def _propose_counts(category: ChartColumn, intent: ChartIntent) -> Iterator[Chart]:
    """Yield bars that show how often each value occurs."""
    counts = Counter(category.values)
    columns = (replace(category, values=tuple(counts)), ChartColumn(_COUNT, tuple(counts.values())))
    yield from _propose_labelled(ResultShape(columns, (), columns[:1], columns[1:], len(counts)), intent)


def _propose_labelled(shape: ResultShape, intent: ChartIntent) -> Iterator[Chart]:
    if len(shape.quantities) == 1:
        yield from propose_bars(shape, intent)
        return
    if can_share_axis(shape.quantities) and len(shape.quantities) <= MAX_GROUPED:
        yield _fold_bars(shape, intent)
    if len(shape.quantities) <= MAX_PANELS:
        yield _make_bar_panels(shape, intent)
    if len(shape.quantities) == 2 and shape.row_count > FEW_LABELS:
        yield make_scatter(shape)


def propose_bars(shape: ResultShape, intent: ChartIntent) -> Iterator[Chart]:
    """Yield horizontal and vertical bars of one quantity for each label, and charts of shares if it is a whole."""
    label, quantity = shape.categories[0], shape.quantities[0]
    x, y = label.field, quantity.field
    fields = tuple(column.field for column in shape.columns)
    rows = sort_labels(make_rows(shape.columns), label)
    keeps_order = intent.is_ordered or bool(label.order)
    shown_rows, notes = keep_largest(rows, x, y, keeps_order=keeps_order)
    order = tuple(str(row[x.name]) for row in shown_rows)
    bars = Chart(ChartKind.BARS, "", fields, tuple(shown_rows), x, y, order=order, notes=tuple(notes))
    yield bars
    if len(shown_rows) <= MAX_BARS:
        yield replace(bars, kind=ChartKind.COLUMNS)
    numbers = quantity.numbers
    is_whole = sums_to_whole(quantity) if y.percent else y.is_additive and min(numbers, default=-1.0) >= 0
    if is_whole and 2 <= len(rows) <= MAX_SHARES and sum(numbers) > 0:
        parts, _ = keep_largest(rows, x, y, keeps_order=bool(label.order))
        share = replace(
            bars, kind=ChartKind.SHARE_BAR, rows=tuple(parts), order=tuple(str(row[x.name]) for row in parts)
        )
        if intent.is_share or intent.chart_word in ("pie", "donut"):
            yield share
            yield replace(share, kind=ChartKind.DONUT)
    if intent.chart_word in ("line", "area") and x.type == FieldType.ORDINAL:
        yield replace(bars, kind=ChartKind.LINE)


def sort_labels(rows: Sequence[ChartRow], label: ChartColumn) -> list[ChartRow]:
    """Return rows in the known order of an ordinal label, if it has one."""
    positions = {name: index for index, name in enumerate(label.order)}
    if not positions:
        return list(rows)
    return sorted(rows, key=lambda row: positions.get(str(row[label.field.name]), len(positions)))


def _fold_bars(shape: ResultShape, intent: ChartIntent) -> Chart:
    label, value = shape.categories[0], make_folded_field(shape)
    rows = sort_labels(make_rows(shape.columns), label)
    # Not additive, because a row for the sum of the others would have only the first measure.
    first = replace(shape.quantities[0].field, is_additive=False)
    keeps_order = intent.is_ordered or bool(label.order)
    shown_rows, notes = keep_largest(rows, label.field, first, keeps_order=keeps_order)
    return Chart(
        ChartKind.GROUPED_BARS, "", (label.field, MEASURE, value),
        tuple(fold_measures(shown_rows, shape.quantities, MEASURE, value)), label.field, value, MEASURE,
        order=tuple(str(row[label.field.name]) for row in shown_rows),
        series_order=tuple(column.field.title for column in shape.quantities), notes=tuple(notes),
    )  # fmt: skip


def _make_bar_panels(shape: ResultShape, intent: ChartIntent) -> Chart:
    label = shape.categories[0]
    rows = sort_labels(make_rows(shape.columns), label)
    # Not additive, for the same reason as in `_fold_bars`.
    first = replace(shape.quantities[0].field, is_additive=False)
    shown_rows, notes = keep_largest(rows, label.field, first, keeps_order=intent.is_ordered or bool(label.order))
    fields = (label.field, *(column.field for column in shape.quantities))
    order = tuple(str(row[label.field.name]) for row in shown_rows)
    return Chart(ChartKind.BAR_PANELS, "", fields, tuple(shown_rows), label.field, order=order, notes=tuple(notes))


def _propose_repeated_labels(shape: ResultShape) -> Iterator[Chart]:
    """Yield charts of results in which several rows have the same category."""
    category, quantities = shape.categories[0], shape.quantities
    fields = tuple(column.field for column in shape.columns)
    rows, notes = thin_rows(make_rows(shape.columns))
    if len(quantities) == 2:
        yield make_scatter(shape)
    elif len(quantities) == 1:
        order = tuple(rank_labels(rows, category.field, quantities[0].field))
        if category.order:
            order = category.order
        if len(order) <= MAX_BARS:
            strip = Chart(
                ChartKind.STRIP, "", fields, tuple(rows), category.field, quantities[0].field, order=order,
                notes=tuple(notes),
            )  # fmt: skip
            yield strip
            yield replace(strip, kind=ChartKind.BOX)


def _propose_pairs(shape: ResultShape) -> Iterator[Chart]:
    """Yield charts of one quantity for each pair of two categories. The category with fewer values gets the colors."""
    wide, narrow = sorted(shape.categories, key=lambda column: -column.distinct)
    y = shape.quantities[0].field
    fields = tuple(column.field for column in shape.columns)
    rows = make_rows(shape.columns)
    order = _order_labels(rows, wide, y)[:MAX_BARS]
    notes = [f"{len(order)} of {wide.distinct:,} are shown"] if wide.distinct > len(order) else []
    shown_rows = [row for row in rows if row[wide.field.name] in order]
    series_rows, names, series_notes = keep_largest_series(shown_rows, wide.field, y, narrow.field, MAX_COLORS)
    names = list(narrow.order) or names
    chart = Chart(
        ChartKind.GROUPED_BARS, "", fields, tuple(series_rows), wide.field, y, narrow.field, order=tuple(order),
        series_order=tuple(names), notes=tuple(notes + series_notes),
    )  # fmt: skip
    is_additive = y.is_additive and min(shape.quantities[0].numbers, default=-1.0) >= 0
    if narrow.distinct <= (MAX_GROUPED if is_additive else MAX_COLORS):
        yield chart
    if is_additive:
        yield replace(chart, kind=ChartKind.STACKED_BARS)
    narrow_order = tuple(_order_labels(rows, narrow, y)[:MAX_BARS])
    cells = tuple(row for row in shown_rows if row[narrow.field.name] in narrow_order)
    yield replace(chart, kind=ChartKind.HEATMAP, rows=cells, series_order=narrow_order, notes=tuple(notes))


def _order_labels(rows: Sequence[ChartRow], column: ChartColumn, y: ChartField) -> list[str]:
    return list(column.order) or rank_labels(rows, column.field, y)
