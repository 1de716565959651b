"""Statements are read back as frames, where a frame can say them."""

import pytest

from everhold.ask.learning.frames import read_frame
from everhold.ask.reading import QuestionReader
from everhold.ask.sql import write_sql
from everhold.ask.wording.frames import describe_frame
from tests.unit.ask_shop import make_shop, open_shop


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> QuestionReader:
    return open_shop(make_shop(tmp_path_factory.mktemp("shop") / "shop.sqlite"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM customers",
        "SELECT * FROM customers WHERE age BETWEEN 20 AND 30",
        "SELECT COUNT(*) FROM orders WHERE status = 'paid' AND amount > 50",
        "SELECT DISTINCT city FROM customers WHERE country IN ('France', 'Japan') ORDER BY city ASC",
        "SELECT country, COUNT(DISTINCT city) FROM customers GROUP BY country",
        "SELECT title FROM products WHERE title LIKE '%o%' ORDER BY price DESC LIMIT 2",
    ],
)
def test_a_plain_statement_is_written_the_same_again(reader: QuestionReader, sql: str) -> None:
    frame = read_frame(reader.schema, sql, "sqlite")
    assert frame is not None
    assert read_frame(reader.schema, write_sql(reader.schema, frame), "sqlite") == frame
    assert describe_frame(reader.schema, frame)


def test_a_join_is_found_again(reader: QuestionReader) -> None:
    sql = (
        "SELECT c.name, SUM(o.amount) AS total FROM customers AS c JOIN orders AS o ON o.customer_id = c.customer_id "
        "GROUP BY c.name"
    )
    frame = read_frame(reader.schema, sql, "sqlite")
    assert frame is not None
    assert '"orders"."customer_id" = "customers"."customer_id"' in write_sql(reader.schema, frame)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM customers WHERE age = (SELECT MAX(age) FROM customers)",
        "SELECT SUM(price * num_in_stock) FROM products",
        "SELECT name FROM customers WHERE age > 20 OR city = 'Paris'",
        "SELECT name FROM customers UNION SELECT title FROM products",
        "SELECT a.name FROM customers AS a JOIN customers AS b ON a.city = b.city",
        "SELECT city FROM customers GROUP BY city HAVING COUNT(*) > 1",
        "not SQL (",
    ],
)
def test_other_statements_have_no_frame(reader: QuestionReader, sql: str) -> None:
    assert read_frame(reader.schema, sql, "sqlite") is None
