"""Choose charts for a result: rules propose charts by the shape of the result, and the lowest cost decides."""

import statistics
from collections.abc import Iterator
from dataclasses import replace

from everhold.ask.charts.category_rules import propose_category_charts
from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.costs import compute_cost
from everhold.ask.charts.fields import read_columns
from everhold.ask.charts.intent import WORD_KINDS, ChartIntent
from everhold.ask.charts.number_rules import propose_number_charts, propose_single_row
from everhold.ask.charts.shape import ResultShape, read_shape
from everhold.ask.charts.terminal_text import clean_text
from everhold.ask.charts.time_rules import propose_time_charts
from everhold.ports.result_table import ResultTable

MAX_ALTERNATIVES = 3
# The kinds that can have a logarithmic scale. Bars and areas begin at zero, which a logarithmic scale lacks.
_LOGARITHMIC_KINDS = (ChartKind.LINE, ChartKind.LINES, ChartKind.LINE_FACETS, ChartKind.SCATTER, ChartKind.STRIP)
_WIDE_RANGE = 1000  # a value so many times the median makes the range wide


def choose_charts(table: ResultTable, intent: ChartIntent, title: str) -> tuple[Chart, ...]:
    """Return the charts that fit a result, best first, at most three. If none fits, return a table."""
    title = clean_text(title)
    shape = read_shape(read_columns(table), len(table.rows), intent)
    proposals = list(_propose(shape, intent)) if shape.is_drawable else []
    charts = [*proposals, Chart(ChartKind.TABLE, "")]
    truncation_notes = ("the result has more rows than were read",) if table.is_truncated else ()
    with_costs = [replace(chart, title=title, cost=compute_cost(chart, intent)) for chart in charts]
    ranked = sorted(with_costs, key=lambda chart: chart.cost)
    best = [replace(chart, notes=chart.notes + truncation_notes) for chart in ranked[:MAX_ALTERNATIVES]]
    best = [_choose_scale(chart, intent) for chart in best]
    return (_explain_word(best[0], intent), *best[1:])


def _propose(shape: ResultShape, intent: ChartIntent) -> Iterator[Chart]:
    if shape.row_count == 1 and not (shape.times and shape.quantities and not shape.categories):
        yield from propose_single_row(shape)
    elif shape.times:
        yield from propose_time_charts(shape, intent)
    elif shape.categories:
        yield from propose_category_charts(shape, intent)
    else:
        yield from propose_number_charts(shape)


def _explain_word(chart: Chart, intent: ChartIntent) -> Chart:
    """Add a note if the question names a kind of chart that does not fit."""
    kinds = WORD_KINDS.get(intent.chart_word, ())
    if not kinds or chart.kind in kinds:
        return chart
    return replace(
        chart,
        notes=(*chart.notes, f"a {intent.chart_word} chart does not fit this result; this is a {chart.kind} chart"),
    )


def _choose_scale(chart: Chart, intent: ChartIntent) -> Chart:
    """Use a logarithmic scale if the question asks for it, and suggest it if the values have a wide range."""
    if chart.y is None or chart.kind in (ChartKind.TABLE, ChartKind.NUMBER, ChartKind.TILES):
        return chart
    values = [value for row in chart.rows if isinstance(value := row.get(chart.y.name), int | float)]
    if len(values) < 3 or min(values) <= 0:
        return chart
    if intent.is_logarithmic and chart.kind in _LOGARITHMIC_KINDS:
        return replace(chart, is_logarithmic=True)
    if intent.is_logarithmic:
        return replace(chart, notes=(*chart.notes, "bars begin at zero, so their scale is not logarithmic"))
    if max(values) > _WIDE_RANGE * statistics.median(values):
        return replace(chart, notes=(*chart.notes, "values differ a thousandfold; ask for a log scale to compare them"))
    return chart
