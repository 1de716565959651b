"""Pictures of charts: every kind is drawn offline, and a specification that could do more is refused."""

import copy
import functools
import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from everhold.adapters.vl_convert import VlConvertRenderer
from everhold.adapters.vl_convert.child import draw_picture
from everhold.ask.charts import ChartKind, choose_charts
from everhold.ask.charts.specification import write_specification
from everhold.errors import InvalidInput, MissingExtra
from everhold.ports.chart_renderer import check_specification
from tests.unit.test_chart_sketch import INTENTS, TABLES, make_table

DRAWN_KINDS = [kind for kind in ChartKind if kind is not ChartKind.TABLE]


@functools.cache
def list_specifications() -> dict[ChartKind, dict[str, Any]]:
    """Return a specification of every kind."""
    specifications = {}
    for table in TABLES:
        for intent in INTENTS:
            for chart in choose_charts(table, intent, "How much was sold & <where>?"):
                specification = write_specification(chart)
                if specification is not None:
                    specifications[chart.kind] = specification
    return specifications


def test_every_kind_has_a_specification() -> None:
    assert list_specifications().keys() == set(DRAWN_KINDS)


@pytest.mark.parametrize("kind", DRAWN_KINDS, ids=str)
def test_every_kind_is_drawn(kind: ChartKind) -> None:
    # Drawn in this process, because a process for each picture would be slow.
    text = json.dumps(list_specifications()[kind])
    svg = draw_picture("svg", 1.0, text).decode()
    assert svg.startswith("<svg")
    assert "How much was sold &amp; &lt;where&gt;?" in svg
    assert "NaN" not in svg
    assert draw_picture("png", 1.0, text).startswith(b"\x89PNG")


def test_pictures_come_from_a_process_of_their_own() -> None:
    renderer = VlConvertRenderer()
    assert renderer.render_svg(list_specifications()[ChartKind.BARS]).startswith("<svg")
    small, large = (renderer.render_png(list_specifications()[ChartKind.BARS], scale) for scale in (1.0, 2.0))
    assert small.startswith(b"\x89PNG")
    assert int.from_bytes(large[16:20]) == 2 * int.from_bytes(small[16:20])


def test_a_text_that_ends_the_drawing_process_is_an_error() -> None:
    """A control character makes vl-convert abort; charts are made without them."""
    specification = copy.deepcopy(list_specifications()[ChartKind.BARS])
    specification["title"] = {"text": "a \x16 b"}
    with pytest.raises(InvalidInput, match="cannot be drawn"):
        VlConvertRenderer().render_svg(specification)


def test_control_characters_are_replaced() -> None:
    table = make_table("na\x16me orders", [["a\x00b\ufffe", 2], ["\x1b\ud800", 1]])
    specification = write_specification(choose_charts(table, INTENTS[0], "or\x07ders")[0])
    assert draw_picture("svg", 1.0, json.dumps(specification)).startswith(b"<svg")


def test_text_of_data_is_shown_and_not_run() -> None:
    table = make_table("name orders", [["<script>alert(1)</script>", 2], ["datum.x", 1], ["javascript:x", 3]])
    specification = write_specification(choose_charts(table, INTENTS[0], "orders")[0])
    assert specification is not None
    svg = VlConvertRenderer().render_svg(specification)
    assert "<script" not in svg
    assert "&lt;script&gt;" in svg
    assert "href" not in svg


def add_url(specification: dict[str, Any]) -> None:
    specification["data"] = {"url": "file:///etc/passwd"}


def add_url_beside_values(specification: dict[str, Any]) -> None:
    specification["data"]["url"] = "file:///etc/passwd"


def add_nested_data(specification: dict[str, Any]) -> None:
    specification["layer"] = [{"mark": "bar", "data": {"name": "other"}}]


def add_link(specification: dict[str, Any]) -> None:
    specification["encoding"]["href"] = {"value": "javascript:alert(1)"}


def add_image(specification: dict[str, Any]) -> None:
    specification["layer"] = [{"mark": {"type": "image"}}]


def add_image_by_name(specification: dict[str, Any]) -> None:
    specification["layer"] = [{"mark": "image"}]


def add_expression(specification: dict[str, Any]) -> None:
    specification["title"] = {"text": {"expr": "datum.x"}}


def add_transform(specification: dict[str, Any]) -> None:
    specification["transform"] = [{"calculate": "1", "as": "x"}]


def add_condition(specification: dict[str, Any]) -> None:
    specification["encoding"]["color"] = {"condition": {"test": "datum.x > 1", "value": "red"}}


def add_field_expression(specification: dict[str, Any]) -> None:
    specification["encoding"]["color"] = {"field": "a']; alert(1); ['"}


def add_schema(specification: dict[str, Any]) -> None:
    specification["$schema"] = "https://example.com/schema.json"


def add_nested_row(specification: dict[str, Any]) -> None:
    specification["data"]["values"] = [{"x": {"signal": "1"}}]


def add_many_rows(specification: dict[str, Any]) -> None:
    specification["data"]["values"] = [{"x": 1}] * 5001


@pytest.mark.parametrize(
    "change",
    [
        add_url, add_url_beside_values, add_nested_data, add_link, add_image, add_image_by_name, add_expression,
        add_transform, add_condition, add_field_expression, add_schema, add_nested_row, add_many_rows,
    ],
    ids=lambda change: change.__name__,
)  # fmt: skip
def test_specifications_that_could_read_files_or_run_code_are_refused(change: Callable[[dict[str, Any]], None]) -> None:
    specification = copy.deepcopy(list_specifications()[ChartKind.BARS])
    check_specification(specification)
    change(specification)
    for refuse in (check_specification, VlConvertRenderer().render_svg, VlConvertRenderer().render_png):
        with pytest.raises(InvalidInput):
            refuse(specification)


@pytest.mark.parametrize("scale", [0, -1, 11, float("nan")])
def test_a_scale_out_of_range_is_refused(scale: float) -> None:
    with pytest.raises(InvalidInput, match="scale"):
        VlConvertRenderer().render_png(list_specifications()[ChartKind.BARS], scale)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"everhold\[ask\]"):
        VlConvertRenderer().render_svg(list_specifications()[ChartKind.BARS])


def test_a_chart_that_takes_too_long_is_an_error() -> None:
    with pytest.raises(InvalidInput, match=r"took more than 0\.01 s"):
        VlConvertRenderer(timeout=0.01).render_svg(list_specifications()[ChartKind.BARS])


def test_a_specification_that_vega_refuses_is_an_error() -> None:
    specification = list_specifications()[ChartKind.BARS] | {"encoding": {"y": {"field": "x", "type": "no such type"}}}
    with pytest.raises(InvalidInput, match="cannot be drawn"):
        VlConvertRenderer().render_png(specification | {"layer": [{"mark": "bar", "encoding": 5}]})
