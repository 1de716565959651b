"""Propose charts for results with a time: lines, areas, panels, and bars of changes."""

from collections.abc import Iterator
from dataclasses import replace

from everhold.ask.charts.chart import Chart, ChartKind, ChartRow
from everhold.ask.charts.costs import MAX_COLORS
from everhold.ask.charts.fields import ChartColumn, ChartField, FieldType
from everhold.ask.charts.intent import ChartIntent
from everhold.ask.charts.preparing import fold_measures, keep_largest_series, make_rows, rank_labels, thin_rows
from everhold.ask.charts.shape import ResultShape, can_share_axis

MEASURE = ChartField("measure", "measure", FieldType.NOMINAL)
MAX_PANELS = 3
_MAX_FACETS = 6
_MAX_TIME_BARS = 40


def propose_time_charts(shape: ResultShape, intent: ChartIntent) -> Iterator[Chart]:
    """Yield charts of quantities over time."""
    if not shape.quantities or len(shape.times) > 1:
        return
    time = shape.times[0]
    rows = [row for row in make_rows(shape.columns) if row[time.field.name] is not None]
    rows.sort(key=lambda row: str(row[time.field.name]))
    dropped = shape.row_count - len(rows)
    notes = (f"{dropped:,} rows without {time.field.title} are left out",) if dropped else ()
    for chart in _propose(shape, time, rows, intent):
        yield replace(chart, notes=notes + chart.notes)


def _propose(shape: ResultShape, time: ChartColumn, rows: list[ChartRow], intent: ChartIntent) -> Iterator[Chart]:
    """Yield the charts for a result with a time column, by the number of its categories and quantities."""
    if len(shape.categories) == 1 and len(shape.quantities) == 1:
        if _are_distinct(rows, time.field, shape.categories[0].field):
            yield from _propose_series(shape, time.field, rows)
    elif not shape.categories and _are_distinct(rows, time.field):
        if len(shape.quantities) == 1:
            yield from _propose_single(shape, time.field, rows, intent)
        elif can_share_axis(shape.quantities):
            yield _fold_lines(shape, time.field, rows)
        elif len(shape.quantities) <= MAX_PANELS:
            yield _make_panels(shape, time.field, rows)
    elif not shape.categories and len(shape.quantities) == 1:
        # With several values at the same time, the rows are events, not a series.
        drawn_rows, notes = thin_rows(rows)
        fields = tuple(column.field for column in shape.columns)
        yield Chart(
            ChartKind.SCATTER, "", fields, tuple(drawn_rows), time.field, shape.quantities[0].field, notes=tuple(notes)
        )


def _are_distinct(rows: list[ChartRow], *fields: ChartField) -> bool:
    return len({tuple(row[field.name] for field in fields) for row in rows}) == len(rows)


def _propose_single(shape: ResultShape, time: ChartField, rows: list[ChartRow], intent: ChartIntent) -> Iterator[Chart]:
    """Yield the charts that can show one quantity over time, the most suitable first."""
    quantity = shape.quantities[0]
    drawn_rows, notes = thin_rows(rows)
    line = Chart(
        ChartKind.LINE, "", tuple(column.field for column in shape.columns), tuple(drawn_rows), time, quantity.field,
        notes=tuple(notes),
    )  # fmt: skip
    bars = replace(line, kind=ChartKind.COLUMNS)
    if len(rows) < 2:
        yield bars
        return
    yield line
    numbers = quantity.numbers
    if quantity.field.is_change or any(number < 0 for number in numbers) or intent.is_change:
        yield replace(line, kind=ChartKind.CHANGES)
    # Areas begin at zero, so they are only for values that can be added up.
    if (quantity.field.is_additive or intent.is_running) and min(numbers, default=0.0) >= 0:
        yield replace(line, kind=ChartKind.AREA)
    if len(rows) <= _MAX_TIME_BARS:
        yield bars


def _propose_series(shape: ResultShape, time: ChartField, rows: list[ChartRow]) -> Iterator[Chart]:
    """Yield the charts that can show one quantity over time for each label of a category, the most suitable first."""
    series, y = shape.categories[0].field, shape.quantities[0].field
    fields = tuple(column.field for column in shape.columns)
    # There are at least two different times, because `read_shape` drops a constant time.
    series_rows, names, series_notes = keep_largest_series(rows, time, y, series, MAX_COLORS)
    drawn_rows, thin_notes = thin_rows(series_rows)
    lines = Chart(
        ChartKind.LINES, "", fields, tuple(drawn_rows), time, y, series, series_order=tuple(names),
        notes=(*series_notes, *thin_notes),
    )  # fmt: skip
    ranked = rank_labels(rows, series, y)
    facets = ranked[:_MAX_FACETS]
    facet_rows, thin_notes = thin_rows([row for row in rows if row[series.name] in facets])
    facet_notes = [f"{len(facets)} of {len(ranked):,} are shown"] if len(ranked) > len(facets) else []
    panels = replace(
        lines, kind=ChartKind.LINE_FACETS, rows=tuple(facet_rows), series_order=tuple(facets),
        notes=(*facet_notes, *thin_notes),
    )  # fmt: skip
    # If there are too many series for colors and they cannot be added up as "other", only panels are yielded.
    yield from (panels,) if len(ranked) > MAX_COLORS and not y.is_additive else (lines, panels)
    if y.is_additive and min(shape.quantities[0].numbers, default=0.0) >= 0:
        yield replace(lines, kind=ChartKind.STACKED_BARS)


def _fold_lines(shape: ResultShape, time: ChartField, rows: list[ChartRow]) -> Chart:
    value = make_folded_field(shape)
    drawn_rows, notes = thin_rows(fold_measures(rows, shape.quantities, MEASURE, value))
    titles = tuple(column.field.title for column in shape.quantities)
    return Chart(
        ChartKind.LINES, "", (time, MEASURE, value), tuple(drawn_rows), time, value, MEASURE, series_order=titles,
        notes=tuple(notes),
    )  # fmt: skip


def _make_panels(shape: ResultShape, time: ChartField, rows: list[ChartRow]) -> Chart:
    drawn_rows, notes = thin_rows(rows)
    fields = (time, *(column.field for column in shape.quantities))
    return Chart(ChartKind.LINE_PANELS, "", fields, tuple(drawn_rows), time, notes=tuple(notes))


def make_folded_field(shape: ResultShape) -> ChartField:
    """Return the field for the values of several measures that share an axis."""
    first = shape.quantities[0].field
    is_additive = all(column.field.is_additive for column in shape.quantities)
    return replace(first, name="value", title="value", is_additive=is_additive)
