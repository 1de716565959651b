"""Sketch a chart in a terminal with Unicode blocks."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from everhold.ask.charts.chart import Chart, ChartKind, ChartRow
from everhold.ask.charts.fields import ChartField, FieldType, format_cell, format_number
from everhold.ask.charts.terminal_text import clean_text, fit_text, measure_width

MAX_WIDTH = 100
_MIN_WIDTH = 30
_LABEL_SHARE = 0.35  # the maximum share of the width for labels
_HEIGHT = 8  # lines of a line chart
_MAX_LINES = 40
_EIGHTHS_ACROSS = " ▏▎▍▌▋▊▉█"
_EIGHTHS_UP = " ▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_DOTS = " ·•●"
_MAX_POINT_WIDTH = 8  # columns of a line chart for one point
_MAX_CELL_WIDTH = 6  # columns of a heat map for one cell


def sketch_chart(chart: Chart, width: int = 80) -> str:
    """Return a chart as lines of text, each at most `width` columns wide. Return an empty text for a table.

    A `width` below 30 counts as 30, and above 100 as 100.
    """
    sketch = _SKETCHES.get(chart.kind)
    if sketch is None or not chart.rows:
        return ""
    columns = max(_MIN_WIDTH, min(MAX_WIDTH, width))
    lines = list(sketch(chart, columns))
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"… and {len(lines) - _MAX_LINES} more lines"]
    notes = [f"({note})" for note in chart.notes]
    heading = [fit_text(chart.title, columns).rstrip()] if chart.title else []
    return "\n".join(
        [*heading, *(clean_text(line).rstrip() for line in lines), *(fit_text(n, columns).rstrip() for n in notes)]
    )


def _sketch_number(chart: Chart, width: int) -> Iterator[str]:
    y = chart.y or chart.fields[0]
    row = chart.rows[0]
    label = format_cell(row[chart.x.name], chart.x) if chart.x else y.title
    yield fit_text(f"{format_cell(row[y.name], y)}  {label}", width)


def _sketch_tiles(chart: Chart, width: int) -> Iterator[str]:
    x, y = chart.axes
    for row in chart.rows:
        yield fit_text(f"{row[x.name]}: {row[y.name]}", width)


def _sketch_bars(chart: Chart, width: int) -> Iterator[str]:
    x, y = chart.axes
    yield from draw_bars([(format_cell(row[x.name], x), _read_number(row, y)) for row in chart.rows], y, width)


def _sketch_histogram(chart: Chart, width: int) -> Iterator[str]:
    x, y = chart.axes
    ends = chart.fields[1]
    spans = [f"{format_cell(row[x.name], x)} – {format_cell(row[ends.name], ends)}" for row in chart.rows]
    yield from draw_bars(list(zip(spans, [_read_number(row, y) for row in chart.rows], strict=True)), y, width)


def _sketch_groups(chart: Chart, width: int) -> Iterator[str]:
    x, y = chart.axes
    series = chart.series or x
    if len(chart.rows) > _MAX_LINES and chart.order:
        yield from _sketch_heatmap(chart, width)
        return
    bars = [
        (f"{format_cell(row[x.name], x)} · {row[series.name]}", _read_number(row, y))
        for row in sorted(chart.rows, key=lambda row: _make_sort_key(row, chart, x, series))
    ]
    yield from draw_bars(bars, y, width)


def _make_sort_key(row: ChartRow, chart: Chart, x: ChartField, series: ChartField) -> tuple[str | int, ...]:
    """Return the sort key of a bar in groups: the position of its label, or its time, then the position of its
    series."""
    label, name = str(row[x.name]), str(row[series.name])
    first = chart.order.index(label) if label in chart.order else label
    return (first, chart.series_order.index(name) if name in chart.series_order else len(chart.series_order))


def _sketch_bar_panels(chart: Chart, width: int) -> Iterator[str]:
    label, *quantities = chart.fields
    for quantity in quantities:
        yield clean_text(quantity.label)
        bars = [(format_cell(row[label.name], label), _read_number(row, quantity)) for row in chart.rows]
        yield from draw_bars(bars, quantity, width)


def draw_bars(bars: Sequence[tuple[str, float | None]], field: ChartField, width: int) -> Iterator[str]:
    """Yield a line for each bar, with label, bar and value. Bars of negative values go from the zero to the left."""
    values = [format_number(number, field) if number is not None else "" for _, number in bars]
    numbers = [number or 0.0 for _, number in bars]
    label_width = min(int(width * _LABEL_SHARE), max(measure_width(clean_text(label)) for label, _ in bars))
    room = width - label_width - max(map(len, values)) - 2
    low, high = min(0.0, *numbers), max(0.0, *numbers)
    span = (high - low) or 1.0
    zero_column = round(-low / span * room)
    for (label, _), number, value in zip(bars, numbers, values, strict=True):
        if number < 0:
            cells = min(zero_column, round(-number / span * room))
            bar = " " * (zero_column - cells) + "█" * cells
        else:
            bar = " " * zero_column + _draw_bar(number / span * room)
        yield f"{fit_text(label, label_width)} {bar} {value}"


def _draw_bar(length: float) -> str:
    """Return a bar whose length is exact to an eighth of a column. A length above zero is always visible."""
    eighths = max(round(length * 8), 1 if length > 0 else 0)
    return "█" * (eighths // 8) + (_EIGHTHS_ACROSS[eighths % 8] if eighths % 8 else "")


def _sketch_line(chart: Chart, width: int) -> Iterator[str]:
    """Yield the lines of text that show a line chart."""
    x, y = chart.axes
    numbers = [_read_number(row, y) for row in chart.rows]
    known_numbers = [number for number in numbers if number is not None]
    if not known_numbers:
        return
    low, high = min(0.0, *known_numbers), max(0.0, *known_numbers)
    scale = [format_number(high, y), format_number(low, y)]
    margin = max(map(len, scale)) + 1
    columns = spread_points(numbers, width - margin - 1)
    for line in range(_HEIGHT, 0, -1):
        label = scale[0] if line == _HEIGHT else scale[1] if line == 1 else ""
        yield f"{label:>{margin}}│" + "".join(_draw_level(number, low, high, line) for number in columns)
    first, last = (format_cell(chart.rows[index][x.name], x) for index in (0, -1))
    gap = len(columns) - len(first) - len(last)
    yield " " * (margin + 1) + (f"{first}{' ' * gap}{last}" if gap > 0 else f"{first} – {last}")


def spread_points(numbers: Sequence[float | None], width: int) -> list[float | None]:
    """Return one value for each column. A point is repeated over several columns, or several points are averaged."""
    if len(numbers) <= width:
        repetitions = max(1, min(_MAX_POINT_WIDTH, width // len(numbers)))
        return [number for number in numbers for _ in range(repetitions)]
    means: list[float | None] = []
    for column in range(width):
        averaged = numbers[column * len(numbers) // width : (column + 1) * len(numbers) // width]
        known_numbers = [number for number in averaged if number is not None]
        means.append(statistics.fmean(known_numbers) if known_numbers else None)
    return means


def _draw_level(number: float | None, low: float, high: float, line: int) -> str:
    if number is None:
        return " "
    level = (number - low) / ((high - low) or 1.0) * _HEIGHT * 8
    eighths = max(0, min(8, round(level) - 8 * (line - 1)))
    return _EIGHTHS_UP[eighths]


def _sketch_series(chart: Chart, width: int) -> Iterator[str]:
    """Yield a small line for each series, all on the same scale, with its first and last value."""
    x, y = chart.axes
    series = chart.series or x
    moments = sorted({str(row[x.name]) for row in chart.rows})
    by_series: dict[str, dict[str, float | None]] = {}
    for row in chart.rows:
        by_series.setdefault(str(row[series.name]), {})[str(row[x.name])] = _read_number(row, y)
    names = [name for name in chart.series_order if name in by_series]
    lines = [(name, [by_series[name].get(moment) for moment in moments], y) for name in names]
    yield from _draw_small_lines(lines, width)


def _sketch_line_panels(chart: Chart, width: int) -> Iterator[str]:
    _, *quantities = chart.fields
    for field in quantities:
        yield from _draw_small_lines([(field.label, [_read_number(row, field) for row in chart.rows], field)], width)


def _draw_small_lines(lines: Sequence[tuple[str, Sequence[float | None], ChartField]], width: int) -> Iterator[str]:
    known_numbers = [number for _, numbers, _ in lines for number in numbers if number is not None]
    if not known_numbers:
        return
    low, high = min(0.0, *known_numbers), max(0.0, *known_numbers)
    label_width = min(int(width * _LABEL_SHARE), max(measure_width(clean_text(label)) for label, _, _ in lines))
    for label, numbers, field in lines:
        filled = [number for number in numbers if number is not None] or [0.0]
        ends = f"{format_number(filled[0], field)} → {format_number(filled[-1], field)}"
        room = max(8, width - label_width - len(ends) - 2)
        levels = [_draw_small(number, low, high) for number in spread_points(numbers, room)]
        yield fit_text(f"{fit_text(label, label_width)} {''.join(levels)} {ends}", width)


def _draw_small(number: float | None, low: float, high: float) -> str:
    return " " if number is None else _EIGHTHS_UP[1 + round((number - low) / ((high - low) or 1.0) * 7)]


def _sketch_heatmap(chart: Chart, width: int) -> Iterator[str]:
    x, y = chart.axes
    series = chart.series or x
    values = {(str(row[x.name]), str(row[series.name])): _read_number(row, y) for row in chart.rows}
    high = max((abs(number) for number in values.values() if number is not None), default=0.0) or 1.0
    label_width = min(int(width * _LABEL_SHARE), max(measure_width(clean_text(label)) for label in chart.order))
    cell_width = max(1, min(_MAX_CELL_WIDTH, (width - label_width - 1) // max(1, len(chart.series_order))))
    for label in chart.order:
        cells = [_choose_shade(values.get((label, name)), high) * cell_width for name in chart.series_order]
        yield fit_text(f"{fit_text(label, label_width)} {''.join(cells)}", width)
    yield fit_text(f"{' ' * label_width} {' '.join(chart.series_order)}", width)


def _choose_shade(number: float | None, high: float) -> str:
    return " " if not number else _SHADES[max(1, min(4, round(abs(number) / high * 4)))]


def _sketch_points(chart: Chart, width: int) -> Iterator[str]:
    """Yield a grid of dots. Cells with several points have larger dots."""
    x, y = chart.axes
    weight = chart.size if chart.kind == ChartKind.BINNED_HEATMAP else None
    across, up = _list_positions(chart, x), _list_positions(chart, y)
    points = [
        (x_position, y_position, (_read_number(row, weight) or 1.0) if weight else 1.0)
        for x_position, y_position, row in zip(across, up, chart.rows, strict=True)
        if x_position is not None and y_position is not None
    ]
    if not points:
        return
    left, right = min(point[0] for point in points), max(point[0] for point in points)
    low, high = min(point[1] for point in points), max(point[1] for point in points)
    columns, lines = width - 2, 2 * _HEIGHT
    counts: dict[tuple[int, int], float] = {}
    for x_position, y_position, count in points:
        column = round((x_position - left) / ((right - left) or 1.0) * (columns - 1))
        line = round((y_position - low) / ((high - low) or 1.0) * (lines - 1))
        counts[column, line] = counts.get((column, line), 0.0) + count
    largest = max(counts.values())
    yield fit_text(f"{y.label}, up to {_format_position(chart, y, up, high)}", width)
    for line in range(lines - 1, -1, -1):
        dots = (_draw_dot(counts.get((column, line), 0.0), largest) for column in range(columns))
        yield f"│{''.join(dots)}"
    ends = f"{_format_position(chart, x, across, left)} to {_format_position(chart, x, across, right)}"
    yield fit_text(f"└ {x.label}, {ends}", width)


def _list_positions(chart: Chart, field: ChartField) -> list[float | None]:
    """Return the positions of the rows along an axis: their numbers, or the ranks of their times."""
    if field.type != FieldType.TIME:
        return [_read_number(row, field) for row in chart.rows]
    ranks = {moment: float(rank) for rank, moment in enumerate(sorted({str(row[field.name]) for row in chart.rows}))}
    return [ranks[str(row[field.name])] for row in chart.rows]


def _format_position(chart: Chart, field: ChartField, positions: Sequence[float | None], position: float) -> str:
    return format_cell(chart.rows[positions.index(position)][field.name], field)


def _draw_dot(count: float, largest: float) -> str:
    """Return a dot whose size fits the count of a cell. If no cell has several points, all dots have the same size."""
    if not count:
        return " "
    return _DOTS[1 + min(2, int(2 * count / largest))] if largest > 1 else "•"


def _sketch_spread(chart: Chart, width: int) -> Iterator[str]:
    """Yield the lowest, the middle and the highest value of each category."""
    y = chart.y or chart.fields[0]
    groups: dict[str, list[float]] = {}
    for row in chart.rows:
        number = _read_number(row, y)
        if number is not None:
            groups.setdefault(str(row[chart.x.name]) if chart.x else y.title, []).append(number)
    for label, numbers in groups.items():
        figures = (min(numbers), statistics.median(numbers), max(numbers))
        low, middle, high = (format_number(number, y) for number in figures)
        yield fit_text(f"{clean_text(label)}: {low} to {high}, median {middle}", width)


def _read_number(row: ChartRow, field: ChartField) -> float | None:
    value = row.get(field.name)
    return float(value) if isinstance(value, int | float) else None


_SKETCHES: Mapping[ChartKind, Callable[[Chart, int], Iterator[str]]] = {
    ChartKind.NUMBER: _sketch_number,
    ChartKind.TILES: _sketch_tiles,
    ChartKind.BARS: _sketch_bars,
    ChartKind.COLUMNS: _sketch_bars,
    ChartKind.CHANGES: _sketch_bars,
    ChartKind.SHARE_BAR: _sketch_bars,
    ChartKind.DONUT: _sketch_bars,
    ChartKind.HISTOGRAM: _sketch_histogram,
    ChartKind.GROUPED_BARS: _sketch_groups,
    ChartKind.STACKED_BARS: _sketch_groups,
    ChartKind.BAR_PANELS: _sketch_bar_panels,
    ChartKind.LINE: _sketch_line,
    ChartKind.AREA: _sketch_line,
    ChartKind.LINES: _sketch_series,
    ChartKind.LINE_FACETS: _sketch_series,
    ChartKind.LINE_PANELS: _sketch_line_panels,
    ChartKind.HEATMAP: _sketch_heatmap,
    ChartKind.BINNED_HEATMAP: _sketch_points,
    ChartKind.SCATTER: _sketch_points,
    ChartKind.BOX: _sketch_spread,
    ChartKind.STRIP: _sketch_spread,
}
