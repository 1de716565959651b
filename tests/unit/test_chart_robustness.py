"""Any result has an answer: hostile values, odd names and every intent make no error and no invalid picture."""

import json
from datetime import UTC, date, time, timedelta
from decimal import Decimal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everhold.ask.charts import ChartIntent, choose_charts
from everhold.ask.charts.sketch import sketch_chart
from everhold.ask.charts.specification import write_specification
from everhold.ask.charts.terminal_text import measure_width
from everhold.ask.export import write_csv
from everhold.ask.sentences import describe_result
from everhold.ports.result_table import AnswerColumn, ResultTable, ResultValue

TEXTS = st.text(max_size=12) | st.sampled_from(
    ["=1+1", "2024-02-30", "2024-05", "2024-Q3", "Monday", "\x1b[0m", "9" * 70]
)
NUMBERS = (
    st.integers(-5, 5)
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.sampled_from([0, 1e308, -1e308, 5e-324, 2**200, Decimal("NaN")])
)
TIMES = (
    st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.sampled_from([date(1, 1, 1), date(9999, 12, 31)])
)
OTHERS = st.booleans() | st.binary(max_size=3) | st.just(time(1, 2)) | st.just(timedelta(days=400))
COLUMNS = st.sampled_from(
    [TEXTS, NUMBERS, TIMES, OTHERS, st.integers(1, 12), st.integers(1990, 2030), st.sampled_from("abc")]
)
NAMES = (
    st.sampled_from(["name", "year", "month", "order_id", "revenue", "share", "change", "avg(x)", "count(*)", ""])
    | TEXTS
)
WORDS = st.sampled_from(["", "bar", "pie", "line", "area", "scatter", "histogram", "box", "strip", "heatmap", "table"])


@st.composite
def draw_tables(draw: st.DrawFn) -> ResultTable:
    row_count = draw(st.integers(0, 40))
    columns, cells = [], []
    for _ in range(draw(st.integers(1, 7))):
        values: st.SearchStrategy[ResultValue] = draw(COLUMNS)
        columns.append(AnswerColumn(draw(NAMES), function=draw(st.sampled_from(["", "", "sum", "avg"]))))
        cell_values = values | st.none() if draw(st.booleans()) else values
        cells.append(draw(st.lists(cell_values, min_size=row_count, max_size=row_count)))
    return ResultTable(tuple(columns), tuple(zip(*cells, strict=True)))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(table=draw_tables(), intent=st.builds(ChartIntent, chart_word=WORDS), title=TEXTS)
def test_any_result_has_an_answer(table: ResultTable, intent: ChartIntent, title: str) -> None:
    assert describe_result(table, intent)
    assert write_csv(table)
    charts = choose_charts(table, intent, title)
    assert 1 <= len(charts) <= 3
    for chart in charts:
        specification = write_specification(chart)
        if specification is not None:
            json.dumps(specification, allow_nan=False)
        assert all(measure_width(line) <= 80 for line in sketch_chart(chart).splitlines())
