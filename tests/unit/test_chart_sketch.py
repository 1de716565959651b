"""Charts drawn in a terminal: every kind, within its width, and safe to print."""

from datetime import date
from random import Random
from typing import Any

import pytest

from everhold.ask.charts import ChartIntent, ChartKind, choose_charts
from everhold.ask.charts.sketch import sketch_chart
from everhold.ask.charts.terminal_text import fit_text, measure_width
from everhold.ports.result_table import AnswerColumn, ResultTable

MONTHS = [date(2025, month, 1) for month in range(1, 13)]
RNG = Random(3)
SHOPS = [f"a shop with a rather long name {number}" for number in range(12)]


def make_table(names: str, rows: list[list[Any]], **functions: str) -> ResultTable:
    columns = [AnswerColumn(name, function=functions.get(name, "")) for name in names.split()]
    return ResultTable(tuple(columns), tuple(map(tuple, rows)))


PAIRS = [[shop, kind, RNG.randrange(1, 99)] for shop in SHOPS for kind in "abc"]
TABLES = [
    make_table("orders", [[5]]),
    make_table("orders average_delay", [[5000, 1.5]]),
    make_table("shop revenue", [[shop, number * 1e6] for number, shop in enumerate(SHOPS)]),
    make_table("shop change", [[shop, number - 5] for number, shop in enumerate(SHOPS)]),
    make_table("shop kind revenue", PAIRS, revenue="sum"),
    make_table("shop kind price", PAIRS, price="avg"),
    make_table("shop orders average_delay", [[shop, n * 1000, n / 7] for n, shop in enumerate(SHOPS)]),
    make_table("month revenue", [[month, month.month - 3] for month in MONTHS]),
    make_table("month running_total", [[month, month.month] for month in MONTHS]),
    make_table("month shop revenue", [[m, shop, m.month] for m in MONTHS for shop in SHOPS], revenue="sum"),
    make_table("month shop price", [[m, shop, m.month] for m in MONTHS for shop in SHOPS], price="avg"),
    make_table("month orders average_delay", [[m, 1000 * m.month, 1.5] for m in MONTHS]),
    make_table("delay", [[RNG.gauss(5, 3)] for _ in range(500)]),
    make_table("x y", [[RNG.random(), RNG.random() * 500] for _ in range(300)]),
    make_table("x y", [[RNG.random(), RNG.random() * 500] for _ in range(6000)]),
    make_table("kind delay", [["abc"[n % 3], RNG.random()] for n in range(300)]),
    make_table("category share", [["a", 0.6], ["b", 0.4]]),
]
INTENTS = [ChartIntent(), ChartIntent(is_share=True, is_running=True), ChartIntent(is_change=True, chart_word="strip")]


@pytest.mark.parametrize("width", [30, 79, 100])
def test_every_kind_is_drawn_within_its_width(width: int) -> None:
    kinds = set()
    for table in TABLES:
        for intent in INTENTS:
            for chart in choose_charts(table, intent, "how much of everything was sold in every shop and every month?"):
                sketch = sketch_chart(chart, width)
                assert all(measure_width(line) <= width for line in sketch.splitlines()), f"{chart.kind}\n{sketch}"
                assert bool(sketch) is (chart.kind != ChartKind.TABLE)
                kinds.add(chart.kind)
    assert kinds == set(ChartKind)


def test_the_width_stays_between_30_and_100_columns() -> None:
    chart = choose_charts(TABLES[2], ChartIntent(), "revenue")[0]
    assert max(map(measure_width, sketch_chart(chart, 5000).splitlines())) == 100
    assert max(map(measure_width, sketch_chart(chart, 1).splitlines())) == 30


def test_bars_are_as_long_as_their_values() -> None:
    table = make_table("name orders", [["all", 80], ["half", 40], ["little", 1], ["none", 0]])
    lines = sketch_chart(choose_charts(table, ChartIntent(), "")[0], 60).splitlines()
    lengths = [line.count("█") for line in lines]
    assert abs(lengths[0] - 2 * lengths[1]) <= 1
    assert "▌" in lines[2] or "▋" in lines[2]
    assert lines[3] == "none    0"


def test_falls_lie_left_of_the_zero() -> None:
    table = make_table("month change", [[MONTHS[0], 10], [MONTHS[1], -10]])
    chart = choose_charts(table, ChartIntent(is_change=True), "")[0]
    rise, fall = sketch_chart(chart, 60).splitlines()
    assert rise.index("█") == fall.rindex("█") + 1


def test_a_line_shows_its_ends_and_its_range() -> None:
    table = make_table("month orders", [[month, month.month] for month in MONTHS])
    lines = sketch_chart(choose_charts(table, ChartIntent(), "orders")[0], 60).splitlines()
    assert lines[0] == "orders"
    assert lines[1].startswith(" 12│")
    assert lines[-1].split() == ["Jan", "2025", "Dec", "2025"]


def test_labels_cannot_control_the_terminal() -> None:
    table = make_table("name orders", [["\x1b[31mred\x07\n", 2], ["\u202eevil", 1], ["日本語の名前", 3]])
    sketch = sketch_chart(choose_charts(table, ChartIntent(), "\x1b]0;title\x07")[0], 40)
    assert not set(sketch) & {"\x1b", "\x07", "\u202e"}
    assert "日本語の名前" in sketch
    assert len(sketch.splitlines()) == 4


@pytest.mark.parametrize(
    ("text", "fitted"), [("abc", "abc  "), ("abcdef", "abcd…"), ("日本語", "日本…"), ("日本語x", "日本…")]
)
def test_texts_fit_their_columns(text: str, fitted: str) -> None:
    assert fit_text(text, 5) == fitted
    assert measure_width(fit_text(text, 5)) == 5
