"""The chart chosen for a result: every rule of the choice, and the data that each chart shows."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from everhold.ask.charts import Chart, ChartIntent, ChartKind, choose_charts, read_chart_intent
from everhold.ask.charts.fields import FieldType, make_title, name_fields, read_columns
from everhold.ask.charts.periods import Grain
from everhold.ask.charts.preparing import count_bins
from everhold.ask.charts.specification import write_specification
from everhold.ports.chart_renderer import MAX_ROWS
from everhold.ports.result_table import AnswerColumn, ResultTable

MONTHS = [date(2025, month, 1) for month in range(1, 13)]
PLAIN = ChartIntent()
LONG_NAMES = [f"a rather long name {number:02}" for number in range(60)]


def make_table(names: str, rows: Sequence[Sequence[Any]], **functions: str) -> ResultTable:
    columns = [AnswerColumn(name, function=functions.get(name, "")) for name in names.split()]
    return ResultTable(tuple(columns), tuple(map(tuple, rows)))


def choose(table: ResultTable, intent: ChartIntent = PLAIN) -> list[Chart]:
    return list(choose_charts(table, intent, "the question"))


def choose_kinds(table: ResultTable, intent: ChartIntent = PLAIN) -> list[ChartKind]:
    return [chart.kind for chart in choose(table, intent)]


def choose_best(table: ResultTable, intent: ChartIntent = PLAIN) -> Chart:
    return choose(table, intent)[0]


def specify(chart: Chart) -> dict[str, Any]:
    specification = write_specification(chart)
    assert specification is not None
    return specification


# The rules, in the order of the table of the design.


def test_a_single_value_is_a_big_number() -> None:
    chart = choose_best(make_table("count_star()", [[1234]]))
    assert chart.kind == ChartKind.NUMBER
    assert specify(chart)["data"]["values"] == [{"number": "1,234", "label": "count"}]


def test_a_labelled_value_is_a_big_number_with_its_label() -> None:
    chart = choose_best(make_table("name revenue", [["Tent", 12.5]]))
    assert specify(chart)["data"]["values"] == [{"number": "12.50", "label": "Tent · revenue"}]


def test_values_of_one_row_and_unit_are_bars() -> None:
    chart = choose_best(make_table("lowest_price average_price", [[12, 45.5]]))
    assert chart.kind == ChartKind.BARS
    assert chart.order == ("lowest price", "average price")


def test_values_of_one_row_and_different_units_are_tiles() -> None:
    chart = choose_best(make_table("orders average_delay", [[1200, 4.5]]))
    assert chart.kind == ChartKind.TILES
    units = ResultTable((AnswerColumn("price", unit="EUR"), AnswerColumn("old_price", unit="USD")), ((1, 2),))
    assert choose_best(units).kind == ChartKind.TILES


@pytest.mark.parametrize(
    "table",
    [
        make_table("name revenue", []),
        make_table("a b c d e f g", [[1, 2, 3, 4, 5, 6, 7]] * 9),
        make_table("note amount", [["long text " * 20, 1], ["more", 2]]),
        make_table("name", [["Ana"], ["Bo"], ["Cy"], ["Ana"]]),
        make_table("photo size", [[b"\x00\x01", 2], [b"\x00", 1]]),
    ],
    ids=["no rows", "too many columns", "free text", "a list of names", "bytes"],
)
def test_data_that_cannot_be_drawn_is_shown_as_a_table(table: ResultTable) -> None:
    assert choose_kinds(table) == [ChartKind.TABLE]
    assert write_specification(choose_best(table)) is None


def test_raw_numbers_are_a_histogram_and_on_request_a_box() -> None:
    table = make_table("delay", [[number % 97] for number in range(1000)])
    chart = choose_best(table)
    assert chart.kind == ChartKind.HISTOGRAM
    assert sum(int(str(row["rows"])) for row in chart.rows) == 1000
    assert choose_best(table, ChartIntent(chart_word="box")).kind == ChartKind.BOX


@pytest.mark.parametrize(
    "numbers", [[0, 100], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [-3.5, 4.5, 0], [5, 5, 5], [1e9, 1e9 + 5]]
)
def test_bins_are_about_ten_and_hold_every_number_once(numbers: list[float]) -> None:
    bins = count_bins(numbers)
    assert len(bins) <= 12
    assert sum(count for _, _, count in bins) == len(numbers)
    assert bins[0][0] <= min(numbers)
    assert bins[-1][1] >= max(numbers)
    spread_bins = count_bins([min(numbers) + (max(numbers) - min(numbers)) * step / 99 for step in range(100)])
    assert len(spread_bins) == 1 or 7 < len(spread_bins) <= 12


def test_categories_are_horizontal_bars_with_the_largest_first() -> None:
    chart = choose_best(make_table("city revenue", [[name, n] for n, name in enumerate(LONG_NAMES[:20])]))
    assert chart.kind == ChartKind.BARS
    assert chart.order == tuple(reversed(LONG_NAMES[:20]))
    encoding = specify(chart)["encoding"]
    assert encoding["y"]["field"] == "city"
    assert encoding["x"]["scale"]["zero"] is True


def test_a_raw_category_is_counted() -> None:
    chart = choose_best(make_table("status", [["open"], ["open"], ["closed"], ["open"]]))
    assert chart.kind == ChartKind.COLUMNS
    assert [(row["status"], row["count"]) for row in chart.rows] == [("open", 3), ("closed", 1)]


def test_more_than_25_categories_end_with_the_sum_of_the_others() -> None:
    table = make_table("city revenue", [[name, 100 - n] for n, name in enumerate(LONG_NAMES)], revenue="sum")
    chart = choose_best(table)
    assert len(chart.rows) == 26
    assert chart.rows[-1] == {"city": "other", "revenue": sum(range(41, 76))}
    assert chart.notes == ("'other' is the sum of 35 more",)


def test_averages_are_not_added_up() -> None:
    table = make_table("city price", [[name, n] for n, name in enumerate(LONG_NAMES)], price="avg")
    chart = choose_best(table)
    assert len(chart.rows) == 25
    assert chart.notes == ("25 of 60 are shown",)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["web", "store", "phone"], ChartKind.COLUMNS),
        (["web", "store", "a name that is too long"], ChartKind.BARS),
        ([str(n) for n in "abcdefgh"], ChartKind.BARS),
    ],
)
def test_few_short_labels_are_upright(labels: list[str], kind: ChartKind) -> None:
    assert choose_best(make_table("channel orders", [[label, n + 1] for n, label in enumerate(labels)])).kind == kind


def test_weekdays_are_upright_in_their_own_order() -> None:
    days = ["Wednesday", "Monday", "Sunday", "Tuesday", "Saturday", "Thursday", "Friday"]
    chart = choose_best(make_table("day orders", [[day, n] for n, day in enumerate(days)]))
    assert chart.kind == ChartKind.COLUMNS
    assert chart.order[0] == "Monday"
    assert chart.order[-1] == "Sunday"


def test_times_are_a_line_and_one_time_a_bar() -> None:
    table = make_table("month revenue", [[month, month.month * 10] for month in MONTHS])
    chart = choose_best(table)
    assert chart.kind == ChartKind.LINE
    assert specify(chart)["encoding"]["x"]["type"] == "temporal"
    assert choose_best(replace(table, rows=table.rows[:1])).kind == ChartKind.COLUMNS


def test_an_area_is_for_running_totals() -> None:
    table = make_table("month running_total", [[month, month.month * 10] for month in MONTHS])
    assert choose_best(table, ChartIntent(is_running=True)).kind == ChartKind.AREA
    assert choose_best(table).kind == ChartKind.LINE


def test_a_few_series_over_time_are_colored_lines() -> None:
    chart = choose_best(make_table("month channel orders", [[m, c, 5] for m in MONTHS for c in ("web", "store")]))
    assert chart.kind == ChartKind.LINES
    assert specify(chart)["encoding"]["color"]["field"] == "channel"


def test_many_series_over_time_are_ten_lines_or_six_panels() -> None:
    rows = [[month, name, n + month.month] for month in MONTHS for n, name in enumerate(LONG_NAMES[:14])]
    sum_chart = choose_best(make_table("month city revenue", rows, revenue="sum"))
    assert sum_chart.kind == ChartKind.LINES
    assert len(sum_chart.series_order) == 10
    assert sum_chart.series_order[-1] == "other"
    total = sum(float(str(row["revenue"])) for row in sum_chart.rows)
    assert total == sum(row[2] for row in rows)
    average_chart = choose_best(make_table("month city price", rows, price="avg"))
    assert average_chart.kind == ChartKind.LINE_FACETS
    assert len(average_chart.series_order) == 6


def test_two_categories_are_grouped_stacked_or_a_heat_map() -> None:
    def make_pairs(left: int, right: int, function: str) -> ResultTable:
        rows = [[f"product {a}", f"shop {b}", a + b + 1] for a in range(left) for b in range(right)]
        return make_table("product shop value", rows, value=function)

    grouped = choose_best(make_pairs(6, 3, "avg"))
    assert grouped.kind == ChartKind.GROUPED_BARS
    assert grouped.series is not None
    assert grouped.series.name == "shop"
    assert choose_best(make_pairs(3, 6, "avg")).series == replace(grouped.series, name="product", title="product")
    assert choose_best(make_pairs(9, 6, "sum")).kind == ChartKind.STACKED_BARS
    assert ChartKind.STACKED_BARS not in choose_kinds(make_pairs(9, 6, "avg"))
    assert choose_best(make_pairs(9, 8, "sum")).kind == ChartKind.HEATMAP


def test_two_raw_numbers_are_a_scatter_plot_and_many_a_binned_heat_map() -> None:
    rng = Random(1)
    rows = [[rng.random() * 1000, rng.random()] for _ in range(MAX_ROWS + 1)]
    assert choose_best(make_table("distance delay", rows[:200])).kind == ChartKind.SCATTER
    chart = choose_best(make_table("distance delay", rows))
    assert chart.kind == ChartKind.BINNED_HEATMAP
    assert len(chart.rows) <= 1600
    assert sum(int(str(row["rows"])) for row in chart.rows) == len(rows)


def test_a_third_column_of_a_scatter_plot_is_color_or_size() -> None:
    colored = choose_best(make_table("kind x y", [["ab"[n % 2], n, n * n] for n in range(40)]))
    assert colored.kind == ChartKind.SCATTER
    assert specify(colored)["encoding"]["color"]["field"] == "kind"
    sized = choose_best(make_table("x y z", [[n, n * n, n % 5] for n in range(40)]))
    assert specify(sized)["encoding"]["size"]["field"] == "z"


SHARES = make_table("category share", [["a", 0.5], ["b", 0.3], ["c", 0.2]])


def test_shares_are_one_divided_bar_and_a_donut_on_request() -> None:
    assert choose_best(SHARES, ChartIntent(is_share=True)).kind == ChartKind.SHARE_BAR
    assert ChartKind.DONUT in choose_kinds(SHARES, ChartIntent(is_share=True))
    assert ChartKind.DONUT not in choose_kinds(SHARES)
    assert choose_best(SHARES, ChartIntent(chart_word="pie")).kind == ChartKind.DONUT
    assert choose_best(make_table("category orders", [["a", 5], ["b", 3]]), ChartIntent(chart_word="pie")).kind == (
        ChartKind.DONUT
    )


@pytest.mark.parametrize(
    "table",
    [
        make_table("category share", [["a", 0.5], ["b", 0.3]]),
        make_table("category share", [[name, 0.1] for name in LONG_NAMES[:10]]),
        make_table("category share", [["a", 1.4], ["b", -0.4]]),
    ],
    ids=["part of a whole", "more than six", "negative"],
)
def test_shares_that_do_not_add_up_are_drawn_as_bars(table: ResultTable) -> None:
    for intent in (ChartIntent(is_share=True), ChartIntent(is_share=True, chart_word="pie")):
        assert choose_best(table, intent).kind in (ChartKind.BARS, ChartKind.COLUMNS)


def test_two_measures_over_time_share_an_axis_only_with_one_unit() -> None:
    rows = [[month, 1000 * month.month, month.month / 3] for month in MONTHS]
    panels = choose_best(make_table("month revenue average_delay", rows))
    assert panels.kind == ChartKind.LINE_PANELS
    assert len(specify(panels)["vconcat"]) == 2
    same_unit = choose_best(make_table("month web_orders store_orders", [[m, m.month, 2 * m.month] for m in MONTHS]))
    assert same_unit.kind == ChartKind.LINES
    assert same_unit.series_order == ("web orders", "store orders")


def test_changes_are_bars_in_the_color_of_their_sign() -> None:
    table = make_table("month revenue change", [[month, 50, (-1) ** month.month * 5] for month in MONTHS])
    chart = choose_best(table, ChartIntent(is_change=True))
    assert chart.kind == ChartKind.CHANGES
    assert chart.y is not None
    assert chart.y.name == "change"
    values = specify(chart)["data"]["values"]
    assert [row["direction"] for row in values[:2]] == ["fall", "rise"]


def test_a_ranking_keeps_the_order_of_the_statement() -> None:
    rows = [["second", 5], ["first", 9], ["third", 1]]
    chart = choose_best(make_table("name revenue", rows), ChartIntent(is_ordered=True))
    assert chart.kind == ChartKind.BARS
    assert chart.order == ("second", "first", "third")
    assert specify(chart)["encoding"]["y"]["sort"] is None


# The rules below the table.


@pytest.mark.parametrize("intent", [PLAIN, ChartIntent(is_running=True)])
def test_bars_and_areas_begin_at_zero(intent: ChartIntent) -> None:
    rows = [[month, 1000 + month.month] for month in MONTHS]
    for chart in choose(make_table("month orders", rows), intent):
        scale = specify(chart)["encoding"]["y"]["scale"]
        assert scale["zero"] is (chart.kind != ChartKind.LINE)


def test_a_line_near_zero_begins_at_zero() -> None:
    chart = choose_best(make_table("month orders", [[month, month.month] for month in MONTHS]))
    assert specify(chart)["encoding"]["y"]["scale"]["zero"] is True


def test_ids_are_never_quantities() -> None:
    table = make_table("customer_id name revenue", [[n + 1, name, n] for n, name in enumerate(LONG_NAMES[:9])])
    chart = choose_best(table)
    assert chart.x is not None
    assert chart.x.name == "name"
    id_chart = choose_best(make_table("customer_id revenue", [[n, n * 5] for n in range(9)]))
    assert id_chart.kind == ChartKind.BARS
    assert choose_kinds(make_table("order_id customer_id", [[n, n % 7] for n in range(50)])) == [ChartKind.TABLE]


def test_a_count_of_ids_is_a_quantity() -> None:
    assert choose_best(make_table("count(DISTINCT_artist_id)", [[5]])).kind == ChartKind.NUMBER


def test_years_as_numbers_are_times() -> None:
    chart = choose_best(make_table("release_year albums", [[2015 + n, n] for n in range(9)]))
    assert chart.kind == ChartKind.LINE
    assert chart.x is not None
    assert chart.x.grain == Grain.YEAR
    values = specify(chart)["data"]["values"]
    assert values[0]["release_year"] == "2015-01-01T00:00:00"


@pytest.mark.parametrize(
    ("cells", "grain"),
    [
        (["2024", "2025"], Grain.YEAR),
        (["2024-Q1", "2024-Q2"], Grain.QUARTER),
        (["2024-01", "2024-02"], Grain.MONTH),
        ([date(2024, 1, 1), date(2024, 1, 8)], Grain.DAY),
        ([datetime.fromisoformat("2024-01-01T10:00:00+02:00"), None], Grain.MINUTE),
        (["2024-01-01 10:30:00", "2024-01-02 00:00:00"], Grain.MINUTE),
    ],
)
def test_periods_are_read_as_databases_write_them(cells: list[Any], grain: Grain) -> None:
    (column,) = read_columns(make_table("period", [[cell] for cell in cells]))
    assert column.field.type == FieldType.TIME
    assert column.field.grain == grain


def test_impossible_dates_are_labels() -> None:
    (column,) = read_columns(make_table("day", [["2024-02-31"], ["2024-13-01"]]))
    assert column.field.type == FieldType.NOMINAL


def test_decimals_and_missing_values_are_drawn() -> None:
    rows = [["a", Decimal("1.5")], [None, Decimal(2)], ["c", None], ["d", float("nan")]]
    chart = choose_best(make_table("kind amount", rows))
    values = specify(chart)["data"]["values"]
    assert {row["kind"]: row["amount"] for row in values} == {"a": 1.5, "(none)": 2.0, "c": None, "d": None}


def test_first_and_last_names_make_one_label() -> None:
    names = [("Ana", "Silva"), ("Ana", "Costa"), ("Rui", "Silva"), ("Eva", "Dias"), ("Leo", "Paz"), ("Ida", "Reis")]
    rows = [[first, last, n] for n, (first, last) in enumerate(names)]
    chart = choose_best(make_table("first_name last_name revenue", rows))
    assert chart.order[0] == "Ida Reis"


def test_a_named_chart_wins_if_it_fits_and_is_explained_if_not() -> None:
    table = make_table("month revenue", [[month, month.month] for month in MONTHS])
    assert choose_best(table, ChartIntent(chart_word="bar")).kind == ChartKind.COLUMNS
    chart = choose_best(table, ChartIntent(chart_word="pie"))
    assert chart.kind == ChartKind.LINE
    assert chart.notes == ("a pie chart does not fit this result; this is a line chart",)


def test_a_log_scale_is_used_if_asked_for_and_offered_if_useful() -> None:
    rows = [[month, 2 if month.month < 12 else 10_000] for month in MONTHS]
    table = make_table("month orders", rows)
    assert choose_best(table).notes == ("values differ a thousandfold; ask for a log scale to compare them",)
    logarithmic = choose_best(table, ChartIntent(is_logarithmic=True))
    assert specify(logarithmic)["encoding"]["y"]["scale"]["type"] == "log"
    bars = choose_best(table, ChartIntent(is_logarithmic=True, chart_word="bar"))
    assert specify(bars)["encoding"]["y"]["scale"]["zero"] is True


def test_at_most_three_charts_are_kept_best_first() -> None:
    charts = choose(make_table("month orders", [[month, month.month] for month in MONTHS]))
    assert len(charts) == 3
    assert [chart.cost for chart in charts] == sorted(chart.cost for chart in charts)


def test_at_most_5000_rows_are_drawn_and_the_note_says_so() -> None:
    rows = [["ab"[n % 2], n % 977] for n in range(12_000)]
    chart = choose_best(make_table("kind delay", rows))
    assert len(specify(chart)["data"]["values"]) == MAX_ROWS
    assert "5,000 of 12,000 rows are drawn" in chart.notes


def test_the_title_is_the_restated_question_and_tooltips_show_every_field() -> None:
    chart = choose_charts(make_table("code city orders", [["A", "x", 1], ["B", "y", 2]]), PLAIN, "orders of " * 12)[0]
    specification = specify(chart)
    assert " ".join(specification["title"]["text"]) == ("Orders of " + "orders of " * 11).strip()
    assert [tooltip["title"] for tooltip in specification["encoding"]["tooltip"]] == ["code", "city", "orders"]


def test_names_of_fields_are_unique() -> None:
    assert name_fields(["a", "a_3", "a"]) == ["a", "a_3", "a_4"]


def test_names_of_columns_cannot_reach_a_specification() -> None:
    assert name_fields(["a.b['c']", "", "2 x", "A.B C", "datum.x"]) == [
        "a_b_c",
        "column_2",
        "column_3",
        "a_b_c_4",
        "datum_x",
    ]
    table = make_table("city']}<script> datum.x", [["</script>", 1], ["${7*7}", 2]])
    text = str(specify(choose_best(table))["encoding"])
    assert "datum.x" not in text.replace("'title': 'datum.x'", "")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("sum(l.unit_price)", "total unit price"),
        ("count(*)", "count"),
        ("count(DISTINCT artist_id)", "number of artists"),
        ("avg(delay)", "average delay"),
        ('"Total_Sales"', "Total Sales"),
        ("", "value"),
    ],
)
def test_titles_are_words(name: str, title: str) -> None:
    assert make_title(name) == title


@pytest.mark.parametrize(
    ("question", "intent"),
    [
        ("top 5 products by revenue", ChartIntent(is_ordered=True)),
        ("What share of revenue comes from each category?", ChartIntent(is_share=True)),
        ("running total of revenue", ChartIntent(is_running=True)),
        ("revenue growth by month", ChartIntent(is_change=True)),
        ("revenue by city as a pie chart", ChartIntent(chart_word="pie")),
        ("plot a bar chart of orders", ChartIntent(chart_word="bar")),
        ("show the line items", ChartIntent()),
        ("orders by product line in each area", ChartIntent()),
        ("which boxes are in the bar?", ChartIntent()),
        ("distribution of delays", ChartIntent(is_distribution=True)),
        ("how many catalogs on a log scale", ChartIntent(is_logarithmic=True)),
    ],
)
def test_the_intent_is_read_from_the_question(question: str, intent: ChartIntent) -> None:
    assert read_chart_intent(question) == intent
