"""Read from a question what a chart should show: a ranking, a share, a trend, or the kind of chart that it names."""

import re
from dataclasses import dataclass

from everhold.ask.charts.chart import ChartKind
from everhold.ask.frame import QueryFrame

_DRAWING = r"(?:chart|graph|plot|diagram)s?"
# The words for each kind of chart. Some count only before "chart", "graph", "plot" or "diagram".
_CHART_WORDS = {
    "histogram": r"histograms?",
    "scatter": rf"scatter ?{_DRAWING}?",
    "donut": r"do(?:ugh)?nuts?",
    "pie": rf"pie(?: {_DRAWING})?",
    "heatmap": r"heat ?maps?",
    "box": rf"box(?:[ -]?and[ -]?whiskers?)?[ -]?{_DRAWING}",
    "strip": rf"strip {_DRAWING}",
    "area": rf"area {_DRAWING}",
    "line": rf"line {_DRAWING}|as (?:a )?lines?\b",
    "bar": rf"(?:bar|column) {_DRAWING}|as (?:bars|columns)\b",
    "table": r"as a table",
}
_SHARE = re.compile(r"\b(share|percent(age)?|proportion|fraction|breakdown|make ?up)\b|%")
_TREND = re.compile(
    r"\b(trend|over time|develop(ed|ment)?|evol(ve[ds]?|ution)|monthly|weekly|daily|yearly|quarterly)\b"
)
_RUNNING = re.compile(r"\b(cumulative(ly)?|running|year to date|ytd|so far)\b")
_CHANGE = re.compile(
    r"\b(growth|grew|change[ds]?|period over period|month over month|year over year|yoy|mom|"
    r"(compared (to|with)|vs\.?|versus|than) (the )?(last|previous|prior|month|quarter|year|week))\b"
)
_RANK = re.compile(r"\b(top|bottom|best|worst|most|least|highest|lowest|largest|smallest|biggest|first)\b")
_DISTRIBUTION = re.compile(r"\b(distribut(ion|ed)|spread|histogram|outliers?)\b")
_CORRELATION = re.compile(r"\b(correlat(e[ds]?|ion)|relationship|depends? on|against)\b")
_LOGARITHMIC = re.compile(r"\blog(arithmic)?[ -](scale|axis)\b")

WORD_KINDS: dict[str, tuple[ChartKind, ...]] = {
    "bar": (
        ChartKind.BARS, ChartKind.COLUMNS, ChartKind.GROUPED_BARS, ChartKind.STACKED_BARS, ChartKind.CHANGES,
        ChartKind.BAR_PANELS,
    ),
    "line": (ChartKind.LINE, ChartKind.LINES, ChartKind.LINE_PANELS, ChartKind.LINE_FACETS),
    "area": (ChartKind.AREA,),
    "pie": (ChartKind.DONUT,),
    "donut": (ChartKind.DONUT,),
    "scatter": (ChartKind.SCATTER, ChartKind.BINNED_HEATMAP),
    "histogram": (ChartKind.HISTOGRAM,),
    "box": (ChartKind.BOX,),
    "strip": (ChartKind.STRIP,),
    "heatmap": (ChartKind.HEATMAP, ChartKind.BINNED_HEATMAP),
    "table": (ChartKind.TABLE,),
}  # fmt: skip


@dataclass(frozen=True)
class ChartIntent:
    """The features of a question that decide which chart fits its result.

    `is_ordered` says that the order of the rows is part of the answer. `chart_word` is the kind of chart that the
    question names, or empty.
    """

    is_ordered: bool = False
    is_share: bool = False
    is_trend: bool = False
    is_running: bool = False
    is_change: bool = False
    is_distribution: bool = False
    is_correlation: bool = False
    is_logarithmic: bool = False
    chart_word: str = ""


def read_chart_intent(question: str, frame: QueryFrame | None = None) -> ChartIntent:
    """Return the intent of a question, read from its words and, if there is one, from its frame."""
    text = re.sub(r"\s+", " ", question.lower())
    windows = {str(expression.window) for expression in frame.select} if frame else set()
    return ChartIntent(
        is_ordered=bool(frame.order) if frame else bool(_RANK.search(text)),
        is_share="share" in windows or bool(_SHARE.search(text)),
        is_trend=bool(_TREND.search(text)),
        is_running="running" in windows or bool(_RUNNING.search(text)),
        is_change="change" in windows or bool(_CHANGE.search(text)),
        is_distribution=bool(_DISTRIBUTION.search(text)),
        is_correlation=bool(_CORRELATION.search(text)),
        is_logarithmic=bool(_LOGARITHMIC.search(text)),
        chart_word=find_chart_word(text),
    )


def find_chart_word(question: str) -> str:
    """Return the kind of chart that a question names, or an empty text."""
    text = question.lower()
    return next((word for word, pattern in _CHART_WORDS.items() if re.search(rf"\b(?:{pattern})(?!\w)", text)), "")
