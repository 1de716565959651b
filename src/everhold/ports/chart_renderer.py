"""The port that makes pictures of chart specifications, and the check of a specification's content."""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from everhold.errors import InvalidInput

MAX_ROWS = 5000
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

# Everything else is refused: addresses, links, images, expressions, signals and transforms, known or yet unknown.
_ALLOWED_KEYS = frozenset(
    """
    $schema align anchor axis background baseline bin color columns config cornerRadiusEnd data date domain
    domainColor dx dy encoding extent facet field filled font fontSize fontWeight format grid gridColor hconcat header
    height hours innerRadius labelAngle labelColor labelFlush labelFontSize labelFontWeight labelLimit labelOverlap
    labelPadding layer legend limit line mark median minutes month nice offset opacity order orient outerRadius
    padding point radius range scale size sort spacing stack step stroke strokeWidth subtitle subtitleColor
    subtitleFontSize subtitlePadding symbolLimit text theta tickColor tickCount tickMinStep ticks title titleColor
    titleFontSize titleFontWeight titlePadding tooltip type value values vconcat view width x x2 xOffset y y2 yOffset
    year zero
    """.split()  # noqa: SIM905
)
_ALLOWED_MARKS = frozenset({"arc", "area", "bar", "boxplot", "line", "point", "rect", "rule", "text", "tick"})
_FIELD = re.compile(r"[A-Za-z_][0-9A-Za-z_]*")
_REMEDY = "use a specification that choose_charts made"


class ChartRenderer(Protocol):
    """Makes pictures of specifications without reading a file or an address. Specifications are checked first."""

    def render_svg(self, specification: Mapping[str, Any]) -> str:
        """Return the picture as SVG text."""
        ...

    def render_png(self, specification: Mapping[str, Any], scale: float = 2.0) -> bytes:
        """Return the picture as PNG bytes, `scale` pixels per unit of the specification."""
        ...


def check_specification(specification: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a specification contains anything other than marks, encodings, styles and inline data.

    The data may be at most 5,000 flat rows, whose values are never interpreted as names or expressions.
    """
    _check_part(specification)


def _check_part(part: Any) -> None:
    if isinstance(part, list | tuple):
        for item in part:
            _check_part(item)
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key not in _ALLOWED_KEYS:
                raise InvalidInput(f"a chart specification cannot have {key!r}", value=key, remedy=_REMEDY)
            _check_entry(key, value)


def _check_entry(key: str, value: Any) -> None:
    if key == "data":
        _check_data(value)
        return
    if key == "$schema" and value != SCHEMA:
        raise InvalidInput(f"unknown schema {value!r}", value=value, remedy=f"use {SCHEMA!r}")
    if key == "field" and not (isinstance(value, str) and _FIELD.fullmatch(value)):
        raise InvalidInput(f"invalid field name {value!r}", value=value, remedy="use letters, digits and underscores")
    if key == "mark":
        kind = value.get("type") if isinstance(value, Mapping) else value
        if kind not in _ALLOWED_MARKS:
            raise InvalidInput(f"a chart cannot have marks of type {kind!r}", value=kind, remedy=_REMEDY)
    _check_part(value)


def _check_data(data: Any) -> None:
    rows = data.get("values") if isinstance(data, Mapping) and data.keys() == {"values"} else None
    if not isinstance(rows, list | tuple):
        raise InvalidInput("the data of a chart are not inline", remedy="pass rows as data.values, and nothing else")
    if len(rows) > MAX_ROWS:
        raise InvalidInput(f"a chart has {len(rows):,} rows", value=len(rows), remedy=f"pass at most {MAX_ROWS:,}")
    for row in rows:
        if not isinstance(row, Mapping) or not all(_is_cell(name, value) for name, value in row.items()):
            raise InvalidInput("a row of a chart is not flat", remedy="pass texts, numbers and None by plain names")


def _is_cell(name: Any, value: Any) -> bool:
    is_plain = value is None or isinstance(value, str | int | float)
    return is_plain and isinstance(name, str) and _FIELD.fullmatch(name) is not None
