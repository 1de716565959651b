"""The status that `learned` shows for patterns no longer used: a table changed, or a user contradicted them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from everhold import Everhold, LearnedItem, View
from everhold.errors import StatementRefused
from everhold.model import QueryPattern
from everhold.schema.operations import Patch
from tests.engines import get_records

ORDERS = """order_id,channel,country,amount,status
1,web,Spain,20,paid
2,web,France,35,open
3,store,Spain,15,paid
"""
QUESTION = "how much moolah came from Spain"
RIGHT_SQL = "SELECT sum(amount) FROM orders WHERE country = 'Spain'"
SQL_THAT_DEFINES_A_TABLE = "WITH good AS (SELECT * FROM orders WHERE status = 'paid') SELECT sum(amount) FROM good"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Everhold]:
    with Everhold.open("memory://", blobs=str(tmp_path / "blobs")) as engine:
        yield engine


@pytest.fixture
def shop(engine: Everhold, tmp_path: Path) -> View:
    return upload(engine.scope(project="shop"), tmp_path, ORDERS)


def upload(view: View, folder: Path, content: str) -> View:
    (folder / "orders.csv").write_text(content)
    view.upload(str(folder / "orders.csv"))
    return view


def teach(view: View, question: str = QUESTION, sql: str = RIGHT_SQL) -> str:
    query = view.ask(question).query
    view.correct(query, sql=sql)
    return query


def find_pattern(view: View) -> LearnedItem:
    [pattern] = [item for item in view.learned() if item.kind == "pattern"]
    return pattern


def test_a_statement_that_defines_a_table_waits_for_its_columns(engine: Everhold, shop: View, tmp_path: Path) -> None:
    teach(shop, "amount of good orders", SQL_THAT_DEFINES_A_TABLE)
    # An older version stored the defined table as if it were a table of the data.
    key = ("default", find_pattern(shop).id)
    get_records(engine).commit([Patch(QueryPattern, key, {"fingerprint": ""})])
    assert shop.ask("amount of good orders").table.rows == ((35,),)
    upload(shop, tmp_path, ORDERS.replace("amount", "total"))
    answer = shop.ask("amount of good orders")
    assert "the answer that was confirmed is not used: orders.amount is gone" in answer.assumptions
    pattern = find_pattern(shop)
    assert (pattern.status, pattern.why) == ("quarantined", "orders.amount is gone")
    upload(shop, tmp_path, ORDERS)
    assert shop.ask("amount of good orders").table.rows == ((35,),)
    assert find_pattern(shop).status == "active"


def test_schema_changes_are_reported_before_the_next_question(shop: View, tmp_path: Path) -> None:
    teach(shop)
    for content, why in (
        (ORDERS.replace(",20,", ",twenty,").replace(",35,", ",many,"), "orders.amount was a number and is a text"),
        (ORDERS.replace("status", "state"), "its tables have changed; the next question tries it again"),
    ):
        upload(shop, tmp_path, content)
        assert {(item.status, item.why) for item in shop.learned()} == {("quarantined", why)}
    shop.ask(QUESTION)
    assert {item.status for item in shop.learned()} == {"active"}


def test_patterns_of_a_deleted_table_are_not_active(shop: View) -> None:
    teach(shop)
    shop.delete_source("orders.csv")
    why = "there is no table 'orders' any more"
    assert {(item.status, item.why) for item in shop.learned()} == {("quarantined", why)}
    shop.restore_source("orders.csv")
    assert {item.status for item in shop.learned()} == {"active"}


def test_a_second_correction_retires_all_that_the_first_one_taught(shop: View) -> None:
    query = shop.ask(QUESTION).query
    result = shop.correct(query, sql="SELECT sum(amount) FROM orders WHERE country = 'Sapin'")
    assert result.notes == ("no row has 'Sapin' as orders.country",)
    wrong_ids = {item.id for item in result.learned}
    assert {item.kind for item in result.learned} == {"pattern", "metric"}
    shop.correct(query, sql=RIGHT_SQL)
    items = shop.learned()
    assert {(item.status, item.why) for item in items if item.id in wrong_ids} == {
        ("retired", "wrong at least as often as right")
    }
    assert {item.status for item in items if item.id not in wrong_ids} == {"active"}
    assert shop.ask("moolah per channel").table.rows != ()
    shop.correct(query, sql="SELECT count(*) FROM orders WHERE country = 'Spain'")
    assert {item.losses for item in shop.learned() if item.id in wrong_ids} == {1}, "what is retired loses no more"


def test_a_lesson_that_a_second_correction_confirms_stays(shop: View) -> None:
    query = shop.ask(QUESTION).query
    result = shop.correct(query, sql="SELECT sum(amount) FROM orders WHERE country IN ('Frence', 'France')")
    assert result.notes == ("no row has 'Frence' as orders.country; did you mean 'France'?",)
    shop.correct(query, sql=RIGHT_SQL)
    assert [(item.text, item.status) for item in shop.learned() if item.kind == "alias"] == [("moolah", "active")]


@pytest.mark.parametrize("sql", ["SELECT 65", "SELECT 65 FROM orders", "WITH t AS (SELECT 65 AS n) SELECT n FROM t"])
def test_a_constant_is_not_a_correction(shop: View, sql: str) -> None:
    with pytest.raises(StatementRefused, match=r"reads no table|selects only constants"):
        shop.correct(shop.ask(QUESTION).query, sql=sql)
    assert shop.learned() == []


def test_a_statement_may_count_rows_without_naming_a_column(shop: View) -> None:
    teach(shop, "how many sales did we make", "SELECT count(1) FROM orders")
    assert shop.ask("how many sales did we make").table.rows == ((3,),)


def test_what_was_learned_on_files_is_used_in_a_database(shop: View, tmp_path: Path) -> None:
    """DuckDB divides whole numbers into fractions, SQLite does not. So the statement must be translated."""
    ratio = "SELECT country, sum(amount / order_id) FROM orders GROUP BY country"
    teach(shop, "moolah rate per country", ratio)
    rows = {(country, round(rate, 6)) for country, rate in shop.ask("moolah rate per country").table.rows}
    shop.delete_source("orders.csv")
    database = tmp_path / "orders.sqlite"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "CREATE TABLE orders (order_id INTEGER, channel TEXT, country TEXT, amount INTEGER, status TEXT)"
        )
        orders = [line.split(",") for line in ORDERS.splitlines()[1:]]
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", orders)
    shop.connect("warehouse", f"sqlite:///{database}")
    assert find_pattern(shop).status == "active"
    answer = shop.ask("moolah rate per country")
    assert {(country, round(rate, 6)) for country, rate in answer.table.rows} == rows
    shop.confirm(answer.query)
    pattern = find_pattern(shop)
    assert (pattern.status, pattern.wins, pattern.losses) == ("active", 2, 0)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE orders ADD COLUMN note TEXT")
    shop.refresh_connection("warehouse")
    assert shop.ask("moolah rate per country").table.rows == answer.table.rows
    assert find_pattern(shop).status == "active"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE orders RENAME COLUMN amount TO total")
    shop.refresh_connection("warehouse")
    notes = shop.ask("moolah rate per country").assumptions
    assert "the answer that was confirmed is not used: orders.amount is gone" in notes
    assert find_pattern(shop).why == "orders.amount is gone"
