"""Questions about the small shop as analysts type them: implied figures, rankings, shares and changes."""

from pathlib import Path
from typing import Any

import pytest

from everhold.adapters.sqlite_files.reader import run_query
from everhold.ask.reading import QuestionReader
from tests.unit.ask_shop import TODAY, make_shop, open_shop

# The rows of a list are compared in their order, those of a set in any order; columns in any order.
QUESTIONS: dict[str, Any] = {
    # Groups without "number of" or "total".
    "orders by status": {("cancelled", 1), ("open", 1), ("paid", 4)},
    "orders per month": {("2023-11", 1), ("2024-01", 2), ("2024-02", 2), ("2024-03", 1)},
    "paid orders per month since January 2024": {("2024-01", 1), ("2024-02", 1), ("2024-03", 1)},
    "order amount by country": {("France", 94.0), ("Germany", 295.0), ("Japan", 36.0)},
    "amount by status and month in 2024": {
        ("open", "2024-01", 9.0), ("paid", "2024-01", 240.0), ("paid", "2024-02", 12.5), ("cancelled", "2024-02", 55.0),
        ("paid", "2024-03", 36.0),
    },
    "price by category": {("Books", 21.25), ("Toys", 304.0 / 3), ("Garden", 18.0)},  # the average is implied
    # Words for money that no column is called.
    "revenue by customer": {("Ann Lee", 81.5), ("Bob Roy", 295.0), ("Cara Diaz", 12.5), ("Dan Ito", 36.0)},
    "how much did customers from Germany spend in 2024?": {(295.0,)},
    "which customer spent the most?": {("Bob Roy",)},
    "which customers spent more than 80?": {("Ann Lee",), ("Bob Roy",)},
    # Rankings show the figure.
    "top 2 customers by revenue": [("Bob Roy", 295.0), ("Ann Lee", 81.5)],
    "top 2 countries by number of customers": {("France", 2), ("Germany", 2)},
    "top 2 products by price": [("Drone", 240.0), ("Robot", 55.0)],
    "total amount of orders per status, highest first": [("paid", 361.0), ("cancelled", 55.0), ("open", 9.0)],
    "which country has the most revenue?": {("Germany",)},
    "which category has the highest average price?": {("Toys",)},
    "list the two most expensive products with their price": [("Drone", 240.0), ("Robot", 55.0)],
    "which month had the most revenue?": {("2024-01", 249.0)},
    "what was our worst month for revenue?": {("2024-03", 36.0)},
    # Shares, running totals and changes.
    "share of orders by status": {("cancelled", 1 / 6), ("open", 1 / 6), ("paid", 4 / 6)},
    "what percentage of orders are paid?": {(4 / 6,)},
    "what percentage of orders are paid by country?": {("France", 2 / 3), ("Germany", 0.5), ("Japan", 1.0)},
    "running total of revenue by month in 2024": {("2024-01", 249.0), ("2024-02", 316.5), ("2024-03", 352.5)},
    "how did monthly revenue change in 2024 compared to the previous month?": {
        ("2024-01", None), ("2024-02", -181.5), ("2024-03", -31.5),
    },
    "number of orders per year and the change from the previous year": {("2023", 1, None), ("2024", 5, 4)},
    # Averages of tables and per thing, different rows.
    "average order by country": {("France", 94.0 / 3), ("Germany", 147.5), ("Japan", 36.0)},
    "average number of orders per customer": {(1.5,)},
    "how many customers had an order in 2024?": {(4,)},
    # Periods.
    "revenue in the last quarter of 2023": {(72.5,)},
    "revenue in the first half of 2024": {(352.5,)},
    "compare revenue in 2023 and 2024": {("2023", 72.5), ("2024", 352.5)},
    "compare the amount of paid and open orders": {("paid", 361.0), ("open", 9.0)},
    "customers with total order amount over 80": {("Ann Lee",), ("Bob Roy",)},
}  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite")


@pytest.fixture(scope="module")
def reader(shop: Path) -> QuestionReader:
    return open_shop(shop)


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_have_the_figures_that_an_analyst_expects(question: str, shop: Path, reader: QuestionReader) -> None:
    expected = QUESTIONS[question]
    best = reader.read(question, TODAY).best
    assert best is not None
    rows = [tuple(round_cell(cell) for cell in row) for row in run_query(shop, best.sql, seconds=60, max_rows=100)]
    expected_rows = [tuple(round_cell(cell) for cell in row) for row in expected]
    if isinstance(expected, list):
        assert [frozenset(row) for row in rows] == [frozenset(row) for row in expected_rows], best.sql
    else:
        assert {frozenset(row) for row in rows} == {frozenset(row) for row in expected_rows}, best.sql
        assert len(rows) == len(expected_rows), best.sql


def round_cell(cell: Any) -> Any:
    return round(cell, 6) if isinstance(cell, float) else cell
