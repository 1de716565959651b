"""`Chart`, the description of a chart, from which a specification or a sketch is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from everhold.ask.charts.fields import ChartField, ChartValue

OTHER = "other"

ChartRow = Mapping[str, ChartValue]


class ChartKind(StrEnum):
    """The kinds of charts. BARS are horizontal, COLUMNS vertical; TABLE means that no chart fits."""

    TABLE = "table"
    NUMBER = "number"
    TILES = "tiles"
    BARS = "bars"
    COLUMNS = "columns"
    GROUPED_BARS = "grouped bars"
    STACKED_BARS = "stacked bars"
    BAR_PANELS = "bar panels"
    SHARE_BAR = "share bar"
    DONUT = "donut"
    CHANGES = "changes"
    LINE = "line"
    LINES = "lines"
    LINE_FACETS = "line facets"
    LINE_PANELS = "line panels"
    AREA = "area"
    HISTOGRAM = "histogram"
    BOX = "box"
    STRIP = "strip"
    SCATTER = "scatter"
    HEATMAP = "heatmap"
    BINNED_HEATMAP = "binned heatmap"


@dataclass(frozen=True)
class Chart:
    """A chart of a result. Of several charts, the one with the lowest `cost` is the best.

    `x` is the category or the time, and `y` the measure, even if bars are horizontal. `series` splits the rows into
    colors or panels, and `size` sets the size or the shade of points. `order` and `series_order` have the labels of `x`
    and `series` in the order of drawing; they are empty for times. `fields` are all columns of the rows, which a
    tooltip shows. `notes` say what the chart leaves out.
    """

    kind: ChartKind
    title: str
    fields: tuple[ChartField, ...] = ()
    rows: tuple[ChartRow, ...] = ()
    x: ChartField | None = None
    y: ChartField | None = None
    series: ChartField | None = None
    size: ChartField | None = None
    order: tuple[str, ...] = ()
    series_order: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_logarithmic: bool = False
    cost: float = 0.0

    @property
    def axes(self) -> tuple[ChartField, ChartField]:
        """The fields `x` and `y`. Raise ValueError if the chart lacks one of them."""
        if self.x is None or self.y is None:
            raise ValueError(f"a chart of kind {self.kind} does not have two axes")
        return self.x, self.y
