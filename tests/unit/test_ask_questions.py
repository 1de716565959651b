"""Questions about a small shop, each with the rows that its SQL must return."""

from pathlib import Path
from typing import Any

import pytest

from everhold.adapters.sqlite_files.reader import run_query
from everhold.ask.guard import check_statement
from everhold.ask.reading import QuestionReader
from tests.unit.ask_shop import TODAY, make_shop, open_shop

TABLES = ("customers", "product_categories", "products", "orders", "order_items")
BY_NAME = [("Ann Lee",), ("Bob Roy",), ("Cara Diaz",), ("Dan Ito",), ("Eve Kim",)]

# A list is compared in its order, anything else in any order.
QUESTIONS: dict[str, Any] = {
    "How many customers are there?": {(5,)},
    "List the names of all customers.": set(BY_NAME),
    "Show the name and age of customers from France.": {("Ann Lee", 34), ("Cara Diaz", 27)},
    "Which customers live in Berlin?": {("Bob Roy",), ("Eve Kim",)},
    "What is the average age of customers?": {(36.8,)},
    "What are the minimum, maximum and average price of products?": {(9.0, 240.0, 60.75)},
    "How many different countries are there?": {(3,)},
    "List the distinct cities of customers.": {("Paris",), ("Berlin",), ("Lyon",), ("Osaka",)},
    "Show the names of customers older than 40.": {("Bob Roy",), ("Dan Ito",)},
    "Show customers with age between 30 and 50.": {("Ann Lee",), ("Dan Ito",)},
    "What are the titles of products that cost more than 20?": {("Atlas",), ("Robot",), ("Drone",)},
    "Which products have a price above the average?": {("Drone",)},
    "List the titles of products sorted by price in descending order.": [
        ("Drone",), ("Robot",), ("Atlas",), ("Spade",), ("Novel",), ("Puzzle",),
    ],
    "Sort the titles of products by price.": [
        ("Puzzle",), ("Novel",), ("Spade",), ("Atlas",), ("Robot",), ("Drone",),
    ],
    "Show the three cheapest products.": [("Puzzle",), ("Novel",), ("Spade",)],
    "What is the title of the most expensive product?": {("Drone",)},
    "Who is the oldest customer?": {("Bob Roy",)},
    "How many customers are there in each country?": {(2, "France"), (2, "Germany"), (1, "Japan")},
    "What is the average age of customers for each country?": {(30.5, "France"), (39.0, "Germany"), (45.0, "Japan")},
    "Show the countries with more than 1 customer.": {("France",), ("Germany",)},
    "How many orders does each customer have?": {(2, "Ann Lee"), (2, "Bob Roy"), (1, "Cara Diaz"), (1, "Dan Ito")},
    "What are the names of customers with at least 2 orders?": {("Ann Lee",), ("Bob Roy",)},
    "How many customers have more than one order?": {(2,)},
    "Which customers have no orders?": {("Eve Kim",)},
    "How many customers never placed an order?": {(1,)},
    "What is the total amount of orders?": {(425.0,)},
    "What is the total amount of orders for each status?": {(55.0, "cancelled"), (9.0, "open"), (361.0, "paid")},
    "Show the total amount of orders by month.": {
        (72.5, "2023-11"), (249.0, "2024-01"), (67.5, "2024-02"), (36.0, "2024-03"),
    },
    "How many orders were placed in 2024?": {(5,)},
    "How many orders were placed last month?": {(2,)},
    "How many orders were placed in January 2024?": {(2,)},
    "How many orders were placed in Q4 2023?": {(1,)},
    "Show the ids of orders after 2024-02-01.": {(4,), (5,), (6,)},
    "Show the ids of orders before 2024.": {(1,)},
    "Show the ids of orders that are paid.": {(1,), (3,), (4,), (6,)},
    "How many orders are not paid?": {(2,)},
    "How many orders are paid or open?": {(5,)},
    "What are the titles of products in the category Toys?": {("Robot",), ("Puzzle",), ("Drone",)},
    "How many products are in each category?": {(2, "Books"), (3, "Toys"), (1, "Garden")},
    "Which category has the most products?": {("Toys",)},
    "Which category has the fewest products?": {("Garden",)},
    "Which country has the fewest orders?": {("Japan",)},
    "List the names of customers who ordered Novel.": {("Ann Lee",), ("Cara Diaz",)},
    "What products have titles starting with 'R'?": {("Robot",)},
    "Which products contain 'ov' in their title?": {("Novel",)},
    "Show the title of products whose title ends with 'zle'.": {("Puzzle",)},
    "Which products have more than 20 in stock?": {("Novel",), ("Puzzle",)},
    "Show customers from France or Japan.": {("Ann Lee",), ("Cara Diaz",), ("Dan Ito",)},
    "Which country has both customers older than 30 and customers younger than 30?": {("France",), ("Germany",)},
    "Which products are discontinued?": {("Robot",)},
    "What is the share of amount for each status?": (
        (pytest.approx(55 / 425), "cancelled"), (pytest.approx(9 / 425), "open"), (pytest.approx(361 / 425), "paid"),
    ),
    "Show the running total of amount by month.": {
        (72.5, "2023-11"), (321.5, "2024-01"), (389.0, "2024-02"), (425.0, "2024-03"),
    },
    "Show the change in amount by month.": {
        (None, "2023-11"), (176.5, "2024-01"), (-181.5, "2024-02"), (-31.5, "2024-03"),
    },
    "How many French customers are there?": {(2,)},
    "What is the sum of quantity for each product?": {
        (2, "Atlas"), (2, "Novel"), (1, "Robot"), (1, "Puzzle"), (2, "Spade"), (1, "Drone"),
    },
    "Show the name of the customer with the highest amount of order.": {("Bob Roy",)},
    "How many customers are 27 years old?": {(2,)},
    "Which customers are not from France?": {("Bob Roy",), ("Dan Ito",), ("Eve Kim",)},
    "What is the highest price?": {(240.0,)},
    "Count the products with a price of at least 18.": {(4,)},
    "What is the average price of products for each category with more than 1 product?": (
        (21.25, "Books"), (pytest.approx(304 / 3), "Toys"),
    ),
    "How many orders does the oldest customer have?": {(2,)},
    "Which custmers live in Berlin?": {("Bob Roy",), ("Eve Kim",)},
}  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite")


@pytest.fixture(scope="module")
def reader(shop: Path) -> QuestionReader:
    return open_shop(shop)


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_returns_its_rows(shop: Path, reader: QuestionReader, question: str) -> None:
    best = reader.read(question, TODAY).best
    assert best is not None
    statement = check_statement(best.sql, "sqlite", TABLES)
    rows = run_query(shop, statement.sql, seconds=60, max_rows=100)
    expected = QUESTIONS[question]
    if isinstance(expected, list):
        assert rows == expected, best.sql
    else:
        assert len(rows) == len(expected), best.sql
        assert all(any(row == expected_row for expected_row in expected) for row in rows), best.sql
