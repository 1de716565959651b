"""VlConvertRenderer: Vega-Lite specifications as SVG and PNG."""

import importlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from everhold.errors import InvalidInput, MissingExtra
from everhold.ports.chart_renderer import check_specification

_VEGA_LITE = "5.20"
_MAX_SCALE = 10.0


class VlConvertRenderer:
    """Renders specifications in this process. No address and no file is read."""

    @cached_property
    def _library(self) -> Any:
        # It takes 33 MB and some hundred milliseconds, so it is imported for the first picture only.
        try:
            return importlib.import_module("vl_convert")
        except ImportError as error:
            raise MissingExtra(
                "pictures of charts need vl-convert-python, which is not installed",
                remedy="run `pip install 'everhold[ask]'`",
            ) from error

    def render_svg(self, specification: Mapping[str, Any]) -> str:
        """Return the picture as SVG text."""
        check_specification(specification)
        return str(self._render("vegalite_to_svg", specification))

    def render_png(self, specification: Mapping[str, Any], scale: float = 2.0) -> bytes:
        """Return the picture as PNG bytes."""
        if not 0 < scale <= _MAX_SCALE:
            raise InvalidInput(f"scale is {scale}", value=scale, remedy=f"pass more than 0 and at most {_MAX_SCALE:g}")
        check_specification(specification)
        return bytes(self._render("vegalite_to_png", specification, scale=scale))

    def _render(self, function: str, specification: Mapping[str, Any], **options: Any) -> Any:
        render = getattr(self._library, function)
        try:
            # An empty list of addresses lets it read none.
            return render(dict(specification), vl_version=_VEGA_LITE, allowed_base_urls=[], **options)
        except ValueError as error:
            raise InvalidInput(
                "the chart cannot be drawn", value=str(error)[:200], remedy="draw another kind of chart"
            ) from error
