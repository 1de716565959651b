"""Choose charts for results by rules, write them as Vega-Lite specifications, and sketch them in a terminal."""

from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.choosing import choose_charts
from everhold.ask.charts.intent import ChartIntent, read_chart_intent

__all__ = ["Chart", "ChartIntent", "ChartKind", "choose_charts", "read_chart_intent"]
