"""VlConvertRenderer: Vega-Lite specifications as SVG and PNG."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from everhold.errors import InvalidInput, MissingExtra
from everhold.ports.chart_renderer import check_specification

_MAX_SCALE = 10.0
_CHILD = "everhold.adapters.vl_convert.child"
_REMEDY = "draw another kind of chart, or fewer rows"


class VlConvertRenderer:
    """Renders each specification in a process of its own, which ends after `timeout` seconds."""

    def __init__(self, timeout: float = 30.0) -> None:
        self._timeout = timeout

    def render_svg(self, specification: Mapping[str, Any]) -> str:
        """Return the picture as SVG text."""
        return self._render("svg", specification, 1.0).decode()

    def render_png(self, specification: Mapping[str, Any], scale: float = 2.0) -> bytes:
        """Return the picture as PNG bytes."""
        if not 0 < scale <= _MAX_SCALE:
            raise InvalidInput(f"scale is {scale}", value=scale, remedy=f"pass more than 0 and at most {_MAX_SCALE:g}")
        return self._render("png", specification, scale)

    def _render(self, kind: str, specification: Mapping[str, Any], scale: float) -> bytes:
        check_specification(specification)
        if importlib.util.find_spec("vl_convert") is None:
            raise MissingExtra(
                "pictures of charts need vl-convert-python, which is not installed",
                remedy="run `pip install 'everhold[ask]'`",
            )
        command = [sys.executable, "-I", "-m", _CHILD, kind, str(scale)]
        text = json.dumps(specification, allow_nan=False).encode()
        try:
            process = subprocess.run(command, input=text, capture_output=True, timeout=self._timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise InvalidInput(f"drawing the chart took more than {self._timeout:g} s", remedy=_REMEDY) from error
        if process.returncode != 0:
            raise InvalidInput(f"the chart cannot be drawn (exit code {process.returncode})", remedy=_REMEDY)
        return process.stdout
