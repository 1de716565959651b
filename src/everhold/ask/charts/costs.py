"""Compute the cost of a chart, which is lower if it fits better. Most weights are those of Draco and CompassQL.

The comments beside weights name the rules of Draco that they come from.
"""

from collections.abc import Mapping

from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.fields import FieldType
from everhold.ask.charts.intent import WORD_KINDS, ChartIntent

SHORT_LABEL = 12  # characters
FEW_LABELS = 7
MAX_COLORS = 10
MAX_GROUPED = 4
_NAMED_KIND = -100.0  # a chart that the question names wins if it fits at all

# The basic cost of each kind. Horizontal bars leave room for labels, so vertical bars cost more (nominal_x).
_KIND_COSTS: Mapping[ChartKind, float] = {
    ChartKind.TABLE: 40,  # only_discrete costs 30
    ChartKind.TILES: 1,
    ChartKind.COLUMNS: 3,
    ChartKind.GROUPED_BARS: 1,
    ChartKind.STACKED_BARS: 2,
    ChartKind.BAR_PANELS: 2,
    ChartKind.SHARE_BAR: 6,
    ChartKind.DONUT: 12,
    ChartKind.CHANGES: 8,
    ChartKind.AREA: 6,
    ChartKind.LINE_FACETS: 3,
    ChartKind.BOX: 4,
    ChartKind.STRIP: 5,
    ChartKind.SCATTER: 1,
    ChartKind.HEATMAP: 10,  # continuous_color
    ChartKind.BINNED_HEATMAP: 10,
}
_MANY_COLORS = 10.0  # high_cardinality_nominal_color
_LINE_OVER_CATEGORIES = 20.0  # c_d_line
_FEW_BINS, _MANY_BINS = 6.0, 10.0  # bin_low, bin_high
_CROWDED_LABELS = 20.0  # more than 50 labels side by side


def compute_cost(chart: Chart, intent: ChartIntent) -> float:
    """Return the cost of a chart for a question."""
    cost = _KIND_COSTS.get(chart.kind, 0.0) + _compute_intent_cost(chart.kind, intent) + _compute_label_cost(chart)
    if chart.series is not None and chart.kind != ChartKind.LINE_FACETS and len(chart.series_order) > MAX_COLORS:
        cost += _MANY_COLORS
    if chart.kind == ChartKind.GROUPED_BARS and len(chart.series_order) > MAX_GROUPED:
        cost += _MANY_COLORS
    if chart.kind == ChartKind.HISTOGRAM:
        cost += _FEW_BINS if len(chart.rows) <= FEW_LABELS else _MANY_BINS if len(chart.rows) > 12 else 0
    if chart.kind == ChartKind.HEATMAP and min(len(chart.order), len(chart.series_order)) > FEW_LABELS:
        cost -= 12
    return cost


def _compute_intent_cost(kind: ChartKind, intent: ChartIntent) -> float:
    """Return what the intent of the question adds to the cost of a kind of chart; negative if they fit together."""
    cost = _NAMED_KIND if kind in WORD_KINDS.get(intent.chart_word, ()) else 0.0
    if intent.is_share:
        cost += {ChartKind.SHARE_BAR: -8.0, ChartKind.DONUT: -12.5}.get(kind, 0.0)
    if intent.is_ordered:
        cost += 5.0 if kind == ChartKind.COLUMNS else 0.0  # a ranking reads from top to bottom
    if intent.is_running:
        cost += -8.0 if kind == ChartKind.AREA else 0.0
    if intent.is_change:
        cost += -10.0 if kind == ChartKind.CHANGES else 0.0
    if intent.is_correlation:
        cost += -10.0 if kind == ChartKind.SCATTER else 0.0
    if intent.is_distribution:
        cost += -3.0 if kind in (ChartKind.HISTOGRAM, ChartKind.BOX, ChartKind.STRIP) else 0.0
    return cost


def _compute_label_cost(chart: Chart) -> float:
    """Return the cost of the labels along the axis."""
    if chart.x is None or not chart.x.is_category:
        return 0.0
    if chart.kind in (ChartKind.LINE, ChartKind.LINES, ChartKind.AREA):
        return _LINE_OVER_CATEGORIES
    if chart.kind not in (ChartKind.COLUMNS, ChartKind.GROUPED_BARS, ChartKind.STACKED_BARS):
        return 0.0
    if len(chart.order) > 50:
        return _CROWDED_LABELS
    is_short = len(chart.order) <= FEW_LABELS and all(len(label) <= SHORT_LABEL for label in chart.order)
    is_vertical_best = is_short or chart.x.type == FieldType.ORDINAL
    return -4.0 if chart.kind == ChartKind.COLUMNS and is_vertical_best else 0.0
