"""Write the specifications of charts with several series, panels, bins or points."""

from everhold.ask.charts.chart import Chart, ChartKind
from everhold.ask.charts.encoding import (
    HEIGHT,
    MAIN_COLOR,
    WIDTH,
    Part,
    choose_value_format,
    encode_category,
    encode_color,
    encode_quantity,
    encode_time,
    has_offset,
    has_short_labels,
    list_edges,
    list_numbers,
    list_tooltips,
    make_base,
)
from everhold.ask.charts.fields import ChartField, FieldType
from everhold.ask.charts.single_marks import name_periods

_MAX_POINTS = 120
_MAX_CELL_TEXTS = 200
_PANEL_HEIGHT = 150
_FACET_WIDTH, _FACET_HEIGHT = 200, 120
# These shades are light enough for black numbers on them.
_SHADES = ["#eef4fa", "#6fa3d3"]


def write_lines(chart: Chart) -> Part:
    """Return the specification of a chart with a line for each series."""
    x, y = chart.axes
    series = chart.series or x
    numbers = list_numbers(chart.rows, y)
    encoding = {
        "x": encode_time(x, chart.rows),
        "y": encode_quantity(y, numbers, zero=not has_offset(numbers), log=chart.is_logarithmic),
        "color": encode_color(series, chart.series_order),
        "tooltip": list_tooltips(chart.fields, chart.rows),
    }
    mark: Part = {"type": "line", "strokeWidth": 2}
    if len(chart.rows) <= _MAX_POINTS:
        mark["point"] = {"filled": True, "size": 35}
    return make_base(chart, chart.rows) | {"mark": mark, "encoding": encoding}


def write_line_facets(chart: Chart) -> Part:
    """Return the specification of a chart with a small panel for each series. All panels have the same scale."""
    x, y = chart.axes
    series = chart.series or x
    time = encode_time(x, chart.rows)
    # A small panel has room for few labels.
    time["axis"] = {"format": time["axis"]["format"], "labelOverlap": True, "grid": False, "tickCount": 3}
    facet = {
        "field": series.name, "type": "nominal", "title": None, "columns": 3, "sort": list(chart.series_order),
        "header": {"labelFontSize": 12, "labelFontWeight": "bold", "labelLimit": _FACET_WIDTH},
    }  # fmt: skip
    encoding = {
        "x": time,
        "y": encode_quantity(y, list_numbers(chart.rows, y), log=chart.is_logarithmic),
        "facet": facet,
        "tooltip": list_tooltips(chart.fields, chart.rows),
    }
    base = make_base(chart, chart.rows, _FACET_WIDTH, _FACET_HEIGHT)
    return base | {"mark": {"type": "line", "color": MAIN_COLOR}, "encoding": encoding}


def write_line_panels(chart: Chart) -> Part:
    """Return the specification of a chart with a panel for each measure, one below the other, over the same time."""
    time, *quantities = chart.fields
    panels = []
    for quantity in quantities:
        numbers = list_numbers(chart.rows, quantity)
        encoding = {
            "x": encode_time(time, chart.rows),
            "y": encode_quantity(quantity, numbers, zero=not has_offset(numbers)),
            "tooltip": list_tooltips([time, quantity], chart.rows),
        }
        mark = {"type": "line", "color": MAIN_COLOR, "point": {"filled": True, "color": MAIN_COLOR, "size": 35}}
        panels.append({"width": WIDTH, "height": _PANEL_HEIGHT, "mark": mark, "encoding": encoding})
    return _make_concat(chart, "vconcat", panels)


def write_bar_panels(chart: Chart) -> Part:
    """Return the specification of panels of bars, one for each measure, side by side. Only the first has labels."""
    label, *quantities = chart.fields
    panels = []
    for number, quantity in enumerate(quantities):
        numbers = list_numbers(chart.rows, quantity)
        y = encode_category(label, chart.order)
        if number:
            y["axis"] = None
        text = {"field": quantity.name, "type": "quantitative", "format": choose_value_format(quantity, numbers)}
        layers = [
            {"mark": {"type": "bar", "color": MAIN_COLOR, "cornerRadiusEnd": 2}},
            {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": {"text": text}},
        ]
        encoding = {"x": encode_quantity(quantity, numbers), "y": y, "tooltip": list_tooltips(chart.fields, chart.rows)}
        width = WIDTH // len(quantities)
        panels.append({"width": width, "height": {"step": 24}, "encoding": encoding, "layer": layers})
    return _make_concat(chart, "hconcat", panels)


def _make_concat(chart: Chart, direction: str, panels: list[Part]) -> Part:
    base = make_base(chart, chart.rows)
    del base["width"], base["height"]
    return base | {direction: panels, "spacing": 24}


def write_grouped_bars(chart: Chart) -> Part:
    """Return the specification of bars of several series, side by side or stacked.

    The bars are vertical if the labels are times, or few and short.
    """
    chart_x, y = chart.axes
    x, rows = name_periods(chart_x, chart.rows)
    series = chart.series or x
    is_time = chart_x.type == FieldType.TIME
    order = list(dict.fromkeys(str(row[x.name]) for row in rows)) if is_time else list(chart.order)
    is_vertical = is_time or has_short_labels(order) or x.type == FieldType.ORDINAL
    is_stacked = chart.kind == ChartKind.STACKED_BARS
    label = encode_category(x, order, is_vertical=is_vertical)
    quantity = encode_quantity(y, list_numbers(rows, y)) | {"stack": "zero" if is_stacked else None}
    encoding: Part = {"x" if is_vertical else "y": label, "y" if is_vertical else "x": quantity}
    if is_stacked:
        # The stacked colors are in the order of the legend, with the first at the bottom.
        positions = {name: index for index, name in enumerate(chart.series_order)}
        rows = [{**row, "place": positions.get(str(row[series.name]), len(positions))} for row in rows]
        encoding["order"] = {"field": "place", "type": "quantitative"}
    else:
        offset = {"field": series.name, "type": "nominal", "sort": list(chart.series_order)}
        encoding["xOffset" if is_vertical else "yOffset"] = offset
    encoding |= {"color": encode_color(series, chart.series_order), "tooltip": list_tooltips(chart.fields, rows)}
    rows_per_label = 1 if is_stacked else len(chart.series_order)
    height: int | Part = HEIGHT if is_vertical else max(120, len(order) * max(24, 14 * rows_per_label))
    return make_base(chart, rows, height=height) | {"mark": {"type": "bar"}, "encoding": encoding}


def write_histogram(chart: Chart) -> Part:
    """Return the specification of a histogram, with ticks at the edges of the bins."""
    x, y = chart.axes
    starts = list_numbers(chart.rows, x)
    ends = list_numbers(chart.rows, chart.fields[1])
    span = encode_quantity(x, starts, zero=False) | {"bin": "binned"}
    span["axis"]["values"] = list_edges(starts, ends[-1])
    span["scale"] = {"domain": [starts[0], ends[-1]], "nice": False}
    encoding = {
        "x": span,
        "x2": {"field": "bin_end"},
        "y": encode_quantity(y, list_numbers(chart.rows, y)),
        "tooltip": list_tooltips(chart.fields, chart.rows),
    }
    return make_base(chart, chart.rows) | {"mark": {"type": "bar", "color": MAIN_COLOR}, "encoding": encoding}


def write_spread(chart: Chart) -> Part:
    """Return the specification of a box plot or a strip of ticks for each category, or for all rows together."""
    y = chart.y or chart.fields[0]
    numbers = list_numbers(chart.rows, y)
    encoding: Part = {"x": encode_quantity(y, numbers, zero=not has_offset(numbers), log=chart.is_logarithmic)}
    if chart.x is not None:
        encoding["y"] = encode_category(chart.x, chart.order)
    if chart.kind == ChartKind.BOX:
        mark: Part = {"type": "boxplot", "extent": 1.5, "color": MAIN_COLOR, "median": {"color": "white"}, "size": 18}
    else:
        mark = {"type": "tick", "color": MAIN_COLOR, "opacity": 0.5}
        encoding["tooltip"] = list_tooltips(chart.fields, chart.rows)
    height: int | Part = {"step": 30} if chart.x is not None else 80
    return make_base(chart, chart.rows, height=height) | {"mark": mark, "encoding": encoding}


def write_scatter(chart: Chart) -> Part:
    """Return the specification of a scatter plot with a point for each row."""
    x, y = chart.axes
    encoding: Part = {
        "x": _encode_position(x, chart),
        "y": _encode_position(y, chart, log=chart.is_logarithmic),
        "tooltip": list_tooltips(chart.fields, chart.rows),
    }
    if chart.series is not None:
        encoding["color"] = encode_color(chart.series, chart.series_order)
    if chart.size is not None:
        encoding["size"] = {"field": chart.size.name, "type": "quantitative", "title": chart.size.label}
    mark: Part = {"type": "point", "filled": True, "opacity": 0.6}
    if chart.series is None:
        mark["color"] = MAIN_COLOR
    return make_base(chart, chart.rows) | {"mark": mark, "encoding": encoding}


def _encode_position(field: ChartField, chart: Chart, *, log: bool = False) -> Part:
    if field.type == FieldType.TIME:
        return encode_time(field, chart.rows)
    numbers = list_numbers(chart.rows, field)
    return encode_quantity(field, numbers, zero=not has_offset(numbers), log=log)


def write_heatmap(chart: Chart) -> Part:
    """Return the specification of a grid of two categories. Larger values are darker, and shown if there is room."""
    x, y = chart.axes
    series = chart.series or x
    numbers = list_numbers(chart.rows, y)
    grid = {
        "y": encode_category(x, chart.order),
        "x": encode_category(series, chart.series_order, is_vertical=True) | {"title": series.title},
    }
    color = {
        "field": y.name, "type": "quantitative", "title": y.label, "scale": {"range": _SHADES},
        "legend": {"format": choose_value_format(y, numbers)},
    }  # fmt: skip
    tooltip = list_tooltips(chart.fields, chart.rows)
    layers: list[Part] = [{"mark": {"type": "rect"}, "encoding": {"color": color, "tooltip": tooltip}}]
    if len(chart.rows) <= _MAX_CELL_TEXTS:
        text = {"field": y.name, "type": "quantitative", "format": choose_value_format(y, numbers)}
        layers.append({"mark": {"type": "text", "fontSize": 10}, "encoding": {"text": text}})
    return make_base(chart, chart.rows, height={"step": 24}) | {"encoding": grid, "layer": layers}


def write_binned_heatmap(chart: Chart) -> Part:
    """Return the specification of a grid of two quantities. Cells with more rows are darker."""
    x, y = chart.axes
    count = chart.size or y
    span_x = encode_quantity(x, list_numbers(chart.rows, x), zero=False) | {"bin": "binned"}
    span_y = encode_quantity(y, list_numbers(chart.rows, y), zero=False) | {"bin": "binned"}
    encoding = {
        "x": span_x,
        "x2": {"field": "x_end"},
        "y": span_y,
        "y2": {"field": "y_end"},
        "color": {
            "field": count.name, "type": "quantitative", "title": count.title, "scale": {"range": _SHADES},
        },
        "tooltip": list_tooltips(chart.fields, chart.rows),
    }  # fmt: skip
    return make_base(chart, chart.rows) | {"mark": {"type": "rect"}, "encoding": encoding}
