"""Metrics: what a confirmed statement computes becomes a measure that questions of other shapes use."""

from pathlib import Path

import pytest

from everhold.ask.formulas import Formula, is_expression
from everhold.ask.frame import Function
from everhold.ask.lessons import Lessons, TaughtMetric
from everhold.ask.results import Rows
from everhold.ask.schema import ColumnRef
from tests.unit.ask_shop import make_shop
from tests.unit.taught_shop import TaughtShop

JOINS = """FROM order_items JOIN products ON products.product_id = order_items.product_id
  JOIN orders ON orders.order_id = order_items.order_id JOIN customers ON customers.customer_id = orders.customer_id"""
# Each customer pays a tenth less, so no column has these sums.
TAUGHT_STATEMENTS = {
    "turnover by country": f"""SELECT customers.country, sum(products.price * order_items.quantity * 0.9) {JOINS}
        GROUP BY customers.country""",
    "fill grade per category": """SELECT category_name, 1.0 * sum(num_in_stock) / count(*) FROM products p
        JOIN product_categories c ON p.category_id = c.category_id GROUP BY category_name""",
    "reach by country": """SELECT country, count(DISTINCT o.customer_id) FROM orders o
        JOIN customers c ON c.customer_id = o.customer_id GROUP BY country""",
    "safe income by country": """SELECT country, sum(amount * 0.8) FROM orders o
        JOIN customers c ON c.customer_id = o.customer_id WHERE status = 'paid' GROUP BY country""",
}
MEANINGS = {
    "turnover": "sum(products.price * order_items.quantity * 0.9)",
    "fill grade": "1.0 * sum(products.num_in_stock) / count(*)",
    "reach": "count(DISTINCT orders.customer_id)",
    "safe income": "sum(CASE WHEN orders.status = 'paid' THEN orders.amount * 0.8 END)",
}
# Questions of other shapes, with rows that were computed by hand.
EXPECTED_ROWS: dict[str, Rows] = {
    "turnover": [(382.5,)],
    "turnover of Books": [(76.5,)],
    "turnover of paid orders": [(324.9,)],
    "turnover by category in 2024": [(11.25, "Books"), (273.6, "Toys"), (32.4, "Garden")],
    "which customer has the highest turnover": [("Bob Roy",)],
    "which country has the lowest turnover": [("Japan",)],
    "top 2 products by turnover": [(216.0, "Drone"), (54.0, "Atlas")],
    "countries with turnover over 50": [("France",), ("Germany",)],
    "maximum turnover in Berlin": [(216.0,)],
    "fill grade of Toys": [(11.333333333333334,)],
    "which category has the highest fill grade": [("Books",)],
    "categories with fill grade over 10": [("Books",), ("Toys",)],
    "reach per year": [(1, "2023"), (4, "2024")],
    "safe income of Berlin": [(192.0,)],
}


@pytest.fixture(scope="module")
def taught_shop(tmp_path_factory: pytest.TempPathFactory) -> TaughtShop:
    shop = TaughtShop(make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite"))
    for question, sql in TAUGHT_STATEMENTS.items():
        shop.teach(question, sql)
    return shop


@pytest.fixture
def shop(tmp_path: Path) -> TaughtShop:
    return TaughtShop(make_shop(tmp_path / "shop.sqlite"))


def test_metrics_are_found_in_what_statements_compute(taught_shop: TaughtShop) -> None:
    assert {metric.phrase: metric.formula.text for metric in taught_shop.memory.lessons.metrics} == MEANINGS


@pytest.mark.parametrize("question", EXPECTED_ROWS)
def test_a_metric_is_used_for_other_questions(taught_shop: TaughtShop, question: str) -> None:
    rows = taught_shop.ask(question)
    assert rows is not None
    rounded = [tuple(round(cell, 6) if isinstance(cell, float) else cell for cell in row) for row in rows]
    expected = [
        tuple(round(cell, 6) if isinstance(cell, float) else cell for cell in row) for row in EXPECTED_ROWS[question]
    ]
    assert sorted(rounded, key=str) == sorted(expected, key=str)


def test_a_reading_says_what_a_metric_means(taught_shop: TaughtShop) -> None:
    reading = taught_shop.read("turnover of Books")
    assert reading is not None
    assert reading.restatement == "the turnover of order items where the product category is Books"
    assert reading.assumptions == (f"'turnover' means {MEANINGS['turnover']}",)


def test_the_confirmed_question_itself_is_restated_by_its_metric(taught_shop: TaughtShop) -> None:
    reading = taught_shop.read("turnover by country")
    assert reading is not None
    assert (reading.restatement, reading.is_confirmed) == ("the turnover per country", True)


def test_a_figure_with_a_value_of_the_question_is_not_a_metric(shop: TaughtShop) -> None:
    """The next question of this kind has another value, so only a pattern can be learned."""
    sql = "SELECT city, sum(CASE WHEN country = 'France' THEN age ELSE 0 END) * 2 FROM customers GROUP BY city"
    teaching = shop.teach("zing of France by city", sql)
    assert (len(teaching.patterns), teaching.lessons) == (1, ())


def test_the_name_of_a_column_is_not_a_metric(shop: TaughtShop) -> None:
    shop.teach("age by country", "SELECT country, max(age) * 2 FROM customers GROUP BY country")
    assert shop.memory.lessons.metrics == ()


def test_a_metric_that_would_break_a_confirmed_question_is_not_learned(shop: TaughtShop) -> None:
    by_country = "SELECT country, sum(age) FROM customers GROUP BY country"
    shop.teach("zing by country", by_country)
    shop.teach("zing by city", "SELECT city, sum(age * 2) FROM customers GROUP BY city")
    assert [metric.formula.text for metric in shop.memory.lessons.metrics] == ["sum(customers.age)"]
    assert sorted(shop.ask("zing by country") or []) == sorted(shop.gate.run(by_country) or [])
    assert shop.ask("zing of Japan") == [(45,)]


def test_a_corrected_metric_replaces_the_one_of_the_same_name(shop: TaughtShop) -> None:
    for factor in (2, 3):
        shop.teach("zing by country", f"SELECT country, sum(age * {factor}) FROM customers GROUP BY country")
    [metric] = shop.memory.lessons.metrics
    assert metric.formula.text == "sum(customers.age * 3)"
    assert shop.ask("zing of Japan") == [(135,)]


NO_EXPRESSIONS = (
    "1) FROM customers --",
    "(SELECT max(age) FROM customers)",
    '"customers"."city"',
    "sum(age), 2",
    "sum(age) FROM customers",
    "sum(",
)


def test_a_formula_is_one_expression_of_its_columns() -> None:
    columns = (ColumnRef("customers", "age"),)
    assert is_expression(Formula('SUM("customers"."age") / 2', "sqlite", columns))
    for sql in NO_EXPRESSIONS:
        assert not is_expression(Formula(sql, "sqlite", columns)), sql


def test_a_metric_about_columns_that_are_gone_is_ignored(shop: TaughtShop) -> None:
    missing_column = ColumnRef("customers", "gone")
    metric = TaughtMetric(
        "", "zing", "customers", Formula('"customers"."gone" * 2', "sqlite", (missing_column,), Function.SUM)
    )
    assert shop.context.reader.teach(Lessons(metrics=(metric,))).schema.metrics == ()
