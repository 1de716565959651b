"""Write the specifications of charts with one series: numbers, bars, shares, changes and lines."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from everhold.ask.charts.chart import Chart, ChartKind, ChartRow
from everhold.ask.charts.encoding import (
    FALL_COLOR,
    MAIN_COLOR,
    RISE_COLOR,
    WIDTH,
    Part,
    choose_value_format,
    encode_category,
    encode_color,
    encode_quantity,
    encode_time,
    has_offset,
    list_numbers,
    list_tooltips,
    make_base,
)
from everhold.ask.charts.fields import ChartField, FieldType, format_cell
from everhold.ask.charts.periods import Grain, format_time

_BAR_STEP = 26  # pixels per horizontal bar
_COLUMN_STEP = 85  # pixels per vertical bar, as long as there is room
_MAX_POINTS = 60  # a line with more points has no dots
_MAX_VALUE_LABELS = 13  # if there are more vertical bars, they have no numbers above them
_MIN_SHARE_LABEL = 0.05  # a smaller share has no room for a number
_TEXT_COLOR = "#333333"


def write_number(chart: Chart) -> Part:
    """Return the specification of one big number, with the label of its row and its name below."""
    y = chart.y or chart.fields[0]
    row = chart.rows[0]
    label = format_cell(row[chart.x.name], chart.x) if chart.x else ""
    texts = {"number": format_cell(row[y.name], y), "label": f"{label} · {y.title}" if label else y.title}
    marks = [
        {"mark": {"type": "text", "fontSize": 54, "fontWeight": "bold", "color": MAIN_COLOR, "dy": -8},
         "encoding": {"text": {"field": "number", "type": "nominal"}}},
        {"mark": {"type": "text", "fontSize": 15, "color": "#666666", "dy": 38},
         "encoding": {"text": {"field": "label", "type": "nominal"}}},
    ]  # fmt: skip
    return make_base(chart, [texts], height=130) | {"layer": marks}


def write_tiles(chart: Chart) -> Part:
    """Return the specification of a row of numbers, each with its name below."""
    x, y = chart.axes
    axis = {"field": x.name, "type": "nominal", "axis": None, "sort": None, "title": None}
    marks = [
        {"mark": {"type": "text", "fontSize": 28, "fontWeight": "bold", "color": MAIN_COLOR, "dy": -6},
         "encoding": {"text": {"field": y.name, "type": "nominal"}}},
        {"mark": {"type": "text", "fontSize": 13, "color": "#666666", "dy": 24, "limit": 170},
         "encoding": {"text": {"field": x.name, "type": "nominal"}}},
    ]  # fmt: skip
    base = make_base(chart, chart.rows, height=90)
    return base | {"width": {"step": 180}, "encoding": {"x": axis}, "layer": marks}


def write_bars(chart: Chart) -> Part:
    """Return the specification of horizontal bars in the order of the rows, each with its value at its end."""
    x, y = chart.axes
    numbers = list_numbers(chart.rows, y)
    encoding = {
        "y": encode_category(x),
        "x": encode_quantity(y, numbers),
        "tooltip": list_tooltips(chart.fields, chart.rows),
    }
    layers: list[Part] = [{"mark": {"type": "bar", "color": MAIN_COLOR, "cornerRadiusEnd": 2}}]
    if min(numbers, default=0.0) >= 0:
        mark = {"type": "text", "align": "left", "baseline": "middle", "dx": 4, "color": _TEXT_COLOR}
        layers.append({"mark": mark, "encoding": {"text": _encode_value_text(y, numbers)}})
    return make_base(chart, chart.rows, height={"step": _BAR_STEP}) | {"encoding": encoding, "layer": layers}


def _encode_value_text(field: ChartField, numbers: Sequence[float]) -> Part:
    return {"field": field.name, "type": "quantitative", "format": choose_value_format(field, numbers)}


def write_columns(chart: Chart) -> Part:
    """Return the specification of vertical bars in the order of the rows."""
    chart_x, y = chart.axes
    x, rows = name_periods(chart_x, chart.rows)
    numbers = list_numbers(rows, y)
    labels = [str(row[x.name]) for row in rows]
    encoding = {
        "x": encode_category(x, labels, is_vertical=True),
        "y": encode_quantity(y, numbers),
        "tooltip": list_tooltips(chart.fields, rows),
    }
    layers: list[Part] = [{"mark": {"type": "bar", "color": MAIN_COLOR, "cornerRadiusEnd": 2}}]
    if min(numbers, default=0.0) >= 0 and len(rows) <= _MAX_VALUE_LABELS:
        mark = {"type": "text", "baseline": "bottom", "dy": -3, "color": _TEXT_COLOR}
        layers.append({"mark": mark, "encoding": {"text": _encode_value_text(y, numbers)}})
    width = min(WIDTH, max(280, _COLUMN_STEP * len(rows)))
    return make_base(chart, rows, width) | {"encoding": encoding, "layer": layers}


def name_periods(field: ChartField, rows: Sequence[ChartRow]) -> tuple[ChartField, list[ChartRow]]:
    """Return a field and rows with labels such as "Mar 2024" in place of times. Other fields are not changed.

    Bars need labels, because on an axis of time they would be thin lines.
    """
    if field.type != FieldType.TIME:
        return field, list(rows)
    name = f"{field.name}_label"
    label = ChartField(name, field.title, FieldType.ORDINAL)
    grain = field.grain or Grain.DAY
    labelled_rows: list[ChartRow] = []
    for row in rows:
        moment = row[field.name]
        labelled_rows.append({**row, name: format_time(moment, grain) if isinstance(moment, datetime) else str(moment)})
    return label, labelled_rows


def write_changes(chart: Chart) -> Part:
    """Return the specification of vertical bars of changes, in one color for rises and another for falls."""
    chart_x, y = chart.axes
    x, labelled_rows = name_periods(chart_x, chart.rows)
    rows = [
        {**row, "direction": "rise" if number >= 0 else "fall"}
        for row in labelled_rows
        if isinstance(number := row[y.name], int | float)
    ]
    color = {
        "field": "direction", "type": "nominal", "title": None,
        "scale": {"domain": ["rise", "fall"], "range": [RISE_COLOR, FALL_COLOR]},
    }  # fmt: skip
    encoding = {
        "x": encode_category(x, [str(row[x.name]) for row in rows], is_vertical=True),
        "y": encode_quantity(y, list_numbers(rows, y)),
        "color": color,
        "tooltip": list_tooltips(chart.fields, rows),
    }
    return make_base(chart, rows) | {"mark": {"type": "bar", "cornerRadiusEnd": 2}, "encoding": encoding}


def _compute_shares(chart: Chart) -> list[dict[str, Any]]:
    """Return the rows as parts of a whole, each with its start, end and middle from 0 to 1, and its share as text."""
    x, y = chart.axes
    total = sum(list_numbers(chart.rows, y))
    parts, end = [], 0.0
    for row in chart.rows:
        number = row[y.name]
        share = float(number) / total if isinstance(number, int | float) and total else 0.0
        text = f"{share:.1%}" if share >= _MIN_SHARE_LABEL else ""
        parts.append(
            {x.name: row[x.name], y.name: number, "start": end, "end": end + share, "middle": end + share / 2,
             "share_text": text}
        )  # fmt: skip
        end += share
    return parts


def write_share_bar(chart: Chart) -> Part:
    """Return the specification of one bar of 100 %, divided into parts."""
    x, y = chart.axes
    parts = _compute_shares(chart)
    span = {
        "field": "start", "type": "quantitative", "title": None, "axis": {"format": ".0%"},
        "scale": {"domain": [0, 1], "nice": False},
    }  # fmt: skip
    color = encode_color(x, chart.order) | {"legend": {"orient": "bottom", "columns": 3, "title": None}}
    layers = [
        {"mark": {"type": "bar", "stroke": "white"},
         "encoding": {"x": span, "x2": {"field": "end"}, "color": color, "tooltip": list_tooltips([x, y], parts)}},
        {"mark": {"type": "text", "color": "white", "fontWeight": "bold"},
         "encoding": {"x": span | {"field": "middle"}, "text": {"field": "share_text", "type": "nominal"}}},
    ]  # fmt: skip
    return make_base(chart, parts, height=70) | {"layer": layers}


def write_donut(chart: Chart) -> Part:
    """Return the specification of a ring, divided into parts, clockwise from the top."""
    x, y = chart.axes
    parts = [{**part, "place": number} for number, part in enumerate(_compute_shares(chart))]
    encoding = {
        "theta": {"field": y.name, "type": "quantitative", "stack": True},
        "order": {"field": "place", "type": "quantitative"},
        "color": encode_color(x, chart.order),
        "tooltip": list_tooltips([x, y], parts),
    }
    layers = [
        {"mark": {"type": "arc", "innerRadius": 75, "outerRadius": 130, "stroke": "white"}},
        {"mark": {"type": "text", "radius": 152, "color": _TEXT_COLOR},
         "encoding": {"text": {"field": "share_text", "type": "nominal"}, "color": {"value": _TEXT_COLOR}}},
    ]  # fmt: skip
    return make_base(chart, parts, width=330, height=330) | {"encoding": encoding, "layer": layers}


def write_line(chart: Chart) -> Part:
    """Return the specification of a line or an area over time. An area begins at zero."""
    x, y = chart.axes
    numbers = list_numbers(chart.rows, y)
    is_area = chart.kind == ChartKind.AREA
    zero = is_area or not has_offset(numbers)
    is_time = x.type == FieldType.TIME
    encoding = {
        "x": encode_time(x, chart.rows) if is_time else encode_category(x, chart.order, is_vertical=True),
        "y": encode_quantity(y, numbers, zero=zero, log=chart.is_logarithmic),
        "tooltip": list_tooltips(chart.fields, chart.rows),
    }
    mark: Part = {"type": "line", "color": MAIN_COLOR, "strokeWidth": 2}
    if len(chart.rows) <= _MAX_POINTS:
        mark["point"] = {"filled": True, "color": MAIN_COLOR, "size": 40}
    if is_area:
        mark = {"type": "area", "color": MAIN_COLOR, "opacity": 0.55, "line": {"color": MAIN_COLOR}}
    return make_base(chart, chart.rows) | {"mark": mark, "encoding": encoding}
