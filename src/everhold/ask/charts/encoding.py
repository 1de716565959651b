"""Write the parts of a Vega-Lite specification that all kinds of charts share: data, axes, tooltips and style."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from everhold.ask.charts.chart import OTHER, Chart, ChartRow
from everhold.ask.charts.costs import FEW_LABELS, SHORT_LABEL
from everhold.ask.charts.fields import ChartField, ChartValue, FieldType
from everhold.ask.charts.periods import AXIS_FORMATS, Grain
from everhold.ask.charts.preparing import choose_step
from everhold.ports.chart_renderer import SCHEMA

Part = dict[str, Any]

MAIN_COLOR, RISE_COLOR, FALL_COLOR = "#3b6ea5", "#3b8a5a", "#c0504d"
PALETTE = ("#3b6ea5", "#e08b3e", "#3b8a5a", "#c0504d", "#7d6bb0", "#8c6d4f", "#d579a8", "#7f7f7f", "#b5a642", "#4bacc6")
OTHER_COLOR = "#bbbbbb"
WIDTH, HEIGHT = 560, 320
_TITLE_WIDTH = 72  # characters per line
_MAX_TICKS = 12
_CHARACTER_WIDTH = 7  # the width of a label's character in pixels
_MIN_SHORT_NUMBER = 1_000_000  # from here on, axes have short numbers; d3 would write the zero of smaller axes as "0k"
_CONFIG: Mapping[str, Any] = {
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {"labelLimit": 260, "labelColor": "#444444", "titleColor": "#444444", "gridColor": "#e6e6e6",
             "domainColor": "#999999", "tickColor": "#999999", "titleFontWeight": "normal", "labelFontSize": 12,
             "titleFontSize": 12, "titlePadding": 8, "labelFlush": False, "tickCount": 6},
    "legend": {"labelLimit": 220, "symbolLimit": 12, "labelFontSize": 12, "titleFontSize": 12,
               "titleFontWeight": "normal"},
    "title": {"anchor": "start", "fontSize": 15, "fontWeight": "bold", "offset": 14, "subtitleColor": "#777777",
              "subtitleFontSize": 11, "subtitlePadding": 6},
}  # fmt: skip


def make_base(chart: Chart, rows: Iterable[ChartRow], width: int = WIDTH, height: int | Part = HEIGHT) -> Part:
    """Return a specification with title, notes, data and style, but no marks."""
    title: Part = {"text": textwrap.wrap(chart.title[:1].upper() + chart.title[1:], _TITLE_WIDTH) or [""]}
    if chart.notes:
        title["subtitle"] = [f"{note[0].upper()}{note[1:]}." for note in chart.notes]
    return {
        "$schema": SCHEMA,
        "background": "white",
        "padding": 12,
        "title": title,
        "config": _CONFIG,
        "data": {"values": [write_row(row) for row in rows]},
        "width": width,
        "height": height,
    }


def write_row(row: ChartRow) -> Part:
    """Return a row with its values converted for JSON."""
    return {name: _write_value(value) for name, value in row.items()}


def _write_value(value: ChartValue) -> str | int | float | None:
    # Vega reads a date without a time of day as UTC and shows it in the local zone, so the date could shift.
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value


def list_numbers(rows: Iterable[ChartRow], field: ChartField) -> list[float]:
    return [float(value) for row in rows if isinstance(value := row.get(field.name), int | float)]


def encode_quantity(field: ChartField, numbers: Sequence[float], *, zero: bool = True, log: bool = False) -> Part:
    """Return the channel of a quantity, with an axis in short numbers.

    With `zero`, the axis includes zero; with `log`, it is logarithmic.
    """
    axis_format = choose_axis_format(field, numbers)
    axis: Part = {"format": axis_format} if axis_format else {}
    if numbers and all(number.is_integer() for number in numbers) and not field.percent:
        axis["tickMinStep"] = 1
    scale: Part = {"type": "log", "nice": True} if log else {"zero": zero, "nice": True}
    return {"field": field.name, "type": "quantitative", "title": field.label, "axis": axis, "scale": scale}


def choose_axis_format(field: ChartField, numbers: Sequence[float]) -> str:
    """Return the d3 format of an axis, or an empty text for the default."""
    if field.percent == 1:
        return ".0%"
    largest = max((abs(number) for number in numbers), default=0.0)
    return "~s" if largest >= _MIN_SHORT_NUMBER else ""


def choose_value_format(field: ChartField, numbers: Sequence[float]) -> str:
    """Return the d3 format for single values. Smaller values get more decimals."""
    if field.percent == 1:
        return ".1%"
    if all(float(number).is_integer() for number in numbers):
        return ",.0f"
    largest = max((abs(number) for number in numbers), default=0.0)
    return ",.0f" if largest >= 1000 else ",.1f" if largest >= 10 else ",.3~f"


def has_offset(numbers: Sequence[float]) -> bool:
    """Return whether the values lie so far from zero that a line from zero would look flat."""
    return bool(numbers) and min(numbers) > 0 and min(numbers) > 0.5 * max(numbers)


def encode_time(field: ChartField, rows: Sequence[ChartRow]) -> Part:
    """Return the channel of a time, with ticks only at times that occur in the rows."""
    moments = sorted({value for row in rows if isinstance(value := row.get(field.name), datetime)})
    grain = field.grain or Grain.DAY
    axis: Part = {"format": AXIS_FORMATS[grain], "grid": False}
    if grain not in (Grain.MINUTE, Grain.DAY, Grain.WEEK) or len(moments) <= _MAX_TICKS:
        step = math.ceil(len(moments) / _MAX_TICKS)
        axis["values"] = [_write_tick(moment) for moment in moments[::step]]
        axis["tickCount"] = len(axis["values"])
    axis["labelOverlap"] = "values" not in axis
    if len(moments) > FEW_LABELS:
        axis["labelAngle"] = -40 if grain != Grain.YEAR else 0
    return {"field": field.name, "type": "temporal", "title": None, "axis": axis}


def _write_tick(moment: datetime) -> Part:
    return {
        "year": moment.year, "month": moment.month, "date": moment.day, "hours": moment.hour, "minutes": moment.minute,
    }  # fmt: skip


def encode_category(field: ChartField, order: Sequence[str] | None = None, *, is_vertical: bool = False) -> Part:
    """Return the channel of labels, in the given order, or in the order of the rows."""
    axis: Part = {"grid": False, "ticks": False, "domain": False, "labelPadding": 6}
    if is_vertical:
        axis |= {"labelAngle": 0 if _fit_side_by_side(order or ()) else -40, "domain": True}
    sort = list(order) if order else None
    kind = "ordinal" if field.type == FieldType.ORDINAL else "nominal"
    return {"field": field.name, "type": kind, "title": None, "sort": sort, "axis": axis}


def _fit_side_by_side(labels: Sequence[str]) -> bool:
    return len(labels) * (_CHARACTER_WIDTH * max(map(len, labels), default=0) + 10) <= WIDTH


def has_short_labels(labels: Sequence[str]) -> bool:
    return len(labels) <= FEW_LABELS and all(len(label) <= SHORT_LABEL for label in labels)


def encode_color(field: ChartField, order: Sequence[str]) -> Part:
    """Return the channel of colors. The position of a label in `order` decides its color."""
    colors = [OTHER_COLOR if name == OTHER else PALETTE[number % len(PALETTE)] for number, name in enumerate(order)]
    scale = {"domain": list(order), "range": colors}
    return {"field": field.name, "type": "nominal", "title": field.title, "scale": scale, "sort": list(order)}


def list_tooltips(fields: Iterable[ChartField], rows: Sequence[ChartRow]) -> list[Part]:
    """Return a tooltip entry for each field."""
    tooltips = []
    for field in fields:
        tooltip: Part = {"field": field.name, "title": field.label, "type": "nominal"}
        if field.type == FieldType.TIME:
            tooltip |= {"type": "temporal", "format": AXIS_FORMATS[field.grain or Grain.DAY]}
        elif field.type == FieldType.QUANTITY:
            numbers = list_numbers(rows, field)
            tooltip |= {"type": "quantitative", "format": choose_value_format(field, numbers)}
        tooltips.append(tooltip)
    return tooltips


def list_edges(starts: Sequence[float], end: float) -> list[float]:
    """Return the edges of bins for an axis, thinned if there are many."""
    edges = [*starts, end]
    step = max(1, round(choose_step(len(edges), _MAX_TICKS)))
    return edges[::step]
