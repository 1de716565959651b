"""Write a chart as a Vega-Lite specification with inline data."""

from collections.abc import Callable, Mapping
from typing import Any

from everhold.ask.charts import composed_marks, single_marks
from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.encoding import Part
from everhold.ports.chart_renderer import check_specification

_WRITERS: Mapping[ChartKind, Callable[[Chart], Part]] = {
    ChartKind.NUMBER: single_marks.write_number,
    ChartKind.TILES: single_marks.write_tiles,
    ChartKind.BARS: single_marks.write_bars,
    ChartKind.COLUMNS: single_marks.write_columns,
    ChartKind.CHANGES: single_marks.write_changes,
    ChartKind.SHARE_BAR: single_marks.write_share_bar,
    ChartKind.DONUT: single_marks.write_donut,
    ChartKind.LINE: single_marks.write_line,
    ChartKind.AREA: single_marks.write_line,
    ChartKind.LINES: composed_marks.write_lines,
    ChartKind.LINE_FACETS: composed_marks.write_line_facets,
    ChartKind.LINE_PANELS: composed_marks.write_line_panels,
    ChartKind.BAR_PANELS: composed_marks.write_bar_panels,
    ChartKind.GROUPED_BARS: composed_marks.write_grouped_bars,
    ChartKind.STACKED_BARS: composed_marks.write_grouped_bars,
    ChartKind.HISTOGRAM: composed_marks.write_histogram,
    ChartKind.BOX: composed_marks.write_spread,
    ChartKind.STRIP: composed_marks.write_spread,
    ChartKind.SCATTER: composed_marks.write_scatter,
    ChartKind.HEATMAP: composed_marks.write_heatmap,
    ChartKind.BINNED_HEATMAP: composed_marks.write_binned_heatmap,
}


def write_specification(chart: Chart) -> dict[str, Any] | None:
    """Return the specification of a chart, or None for a table."""
    writer = _WRITERS.get(chart.kind)
    if writer is None:
        return None
    specification = writer(chart)
    check_specification(specification)
    return specification
