"""Databases reached through ADBC drivers: the same questions, limits and refusals as for built-in connections."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import Everhold, View
from everhold.adapters.data_engine import SandboxedDataEngine
from everhold.ask.connections.address import parse_address
from everhold.errors import DataUnavailable, InvalidInput, MissingExtra, QueryFailed, StatementRefused
from everhold.ports.data_engine import CheckedStatement
from everhold.ports.databases import DatabaseTables
from tests.adapters.test_postgres_connections import url
from tests.connection_samples import find_wrong_answers
from tests.exhaustive import choose_size

__all__ = ["url"]  # a fixture

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), amount REAL,
  ordered_on DATE);
CREATE VIEW large AS SELECT * FROM orders WHERE amount > 6;
INSERT INTO customers VALUES (1, 'Ann', 'Oslo'), (2, 'Bob', 'Bergen'), (3, 'Cho', NULL);
INSERT INTO orders VALUES (1, 1, 10.5, '2025-01-10'), (2, 2, 5, '2025-02-11'), (3, 1, 7, '2024-02-20');
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[View]:
    settings = {"hosts": ["localhost"], "drivers": ["adbc+sqlite", "adbc+postgresql", "adbc+nonesuch"]}
    with Everhold.open(str(tmp_path / "memories.db"), connections=settings) as engine:
        yield engine.scope(project="shop")


@pytest.fixture
def shop_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(SHOP)
    connection.close()
    return path


def test_a_sqlite_file_answers_questions_through_adbc(shop: View, shop_file: Path) -> None:
    connected = shop.connect("sales", f"adbc+sqlite:///{shop_file}")
    assert (connected.connection.kind, connected.connection.dialect, connected.notes) == ("adbc", "sqlite", ())
    assert [described.table.table_name for described in connected.tables] == ["customers", "large", "orders"]
    assert shop.describe("orders").table.foreign_keys[0]["to_table"] == "customers"
    assert sorted(shop.ask("total amount per city").table.rows) == [(5.0, "Bergen"), (17.5, "Oslo")]
    assert shop.sql("SELECT name, city FROM customers WHERE id = 3").rows == (("Cho", None),)
    assert shop.ask("How many orders are there in 2025?").table.rows == ((2,),)


def test_postgresql_answers_questions_through_adbc(shop: View, url: str) -> None:
    connected = shop.connect("shop", f"adbc+{url}")
    assert (connected.connection.kind, connected.connection.dialect, connected.notes) == ("adbc", "postgres", ())
    assert {key["to_table"] for key in shop.describe("order_items").table.foreign_keys} == {"orders", "products"}
    assert find_wrong_answers(shop, step=choose_size(10, 1)) == []


def run_unguarded(url: str, sql: str) -> tuple[tuple[object, ...], ...]:
    """Return the rows of a statement that the guard has not checked."""
    data = DatabaseTables(parse_address(url, ["adbc+postgresql", "adbc+sqlite"]), hosts=("localhost",))
    engine = SandboxedDataEngine()
    try:
        return engine.run(data, CheckedStatement(sql, data.dialect, frozenset(), 100)).rows
    finally:
        engine.close()


def test_values_of_postgresql_types_are_converted(url: str) -> None:
    sql = (
        "SELECT 1.5::numeric, true, '5b1d3e50-0000-0000-0000-000000000000'::uuid, '{\"a\": 1}'::json, DATE '2025-01-02'"
    )
    [row] = run_unguarded(f"adbc+{url}", sql)
    assert tuple(map(str, row)) == ("1.5", "True", "5b1d3e50-0000-0000-0000-000000000000", '{"a": 1}', "2025-01-02")


def test_a_statement_that_bypasses_the_guard_still_cannot_write_or_read_files(url: str, shop_file: Path) -> None:
    for sql in ("WITH w AS (DELETE FROM orders RETURNING 1) SELECT * FROM w", "CREATE TABLE x (a int)"):
        with pytest.raises(QueryFailed):
            run_unguarded(f"adbc+{url}", sql)
    for sql in ("DELETE FROM orders", "ATTACH '/etc/passwd' AS other", "CREATE TABLE x (a int)"):
        with pytest.raises(QueryFailed):
            run_unguarded(f"adbc+sqlite:///{shop_file}", sql)
    assert run_unguarded(f"adbc+sqlite:///{shop_file}", "SELECT count(*) FROM orders") == ((3,),)


def test_statements_pass_the_guard(shop: View, shop_file: Path) -> None:
    shop.connect("sales", f"adbc+sqlite:///{shop_file}")
    for sql in ("DELETE FROM orders", "SELECT load_extension('x')", "SELECT * FROM sqlite_master"):
        with pytest.raises(StatementRefused):
            shop.sql(sql)


def test_a_superuser_is_refused(shop: View, empty_postgres_url: str) -> None:
    with pytest.raises(QueryFailed, match="role 'postgres' can read files of the server"):
        shop.connect("shop", f"adbc+{empty_postgres_url}")


def test_errors_say_what_is_wrong(shop: View, url: str, shop_file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataUnavailable, match="cannot be read"):
        shop.connect("gone", f"adbc+sqlite:///{tmp_path / 'gone.sqlite'}")
    with pytest.raises(DataUnavailable, match="cannot be reached"):
        shop.connect("dead", "adbc+postgresql://r@127.0.0.1:9/shop")
    with pytest.raises(MissingExtra, match="adbc-driver-nonesuch"):
        shop.connect("none", "adbc+nonesuch://localhost/x")
    with pytest.raises(InvalidInput, match=r"no connection to 'adbc\+mysql' databases"):
        shop.connect("none", "adbc+mysql://localhost/x")
    shop.connect("sales", f"adbc+sqlite:///{shop_file}")
    with sqlite3.connect(shop_file) as connection:
        connection.execute("ALTER TABLE orders RENAME COLUMN amount TO total")
    connection.close()
    with pytest.raises(QueryFailed, match="no such column"):
        shop.sql("SELECT sum(amount) FROM orders")
    assert shop.refresh_connection("sales").changes[0].table in ("large", "orders")


def test_files_and_hosts_are_allowed_as_for_built_in_connections(tmp_path: Path, shop_file: Path, url: str) -> None:
    settings = {"drivers": ["adbc"], "folders": [str(tmp_path / "shared")]}
    with Everhold.open(str(tmp_path / "other.db"), connections=settings) as engine:
        view = engine.scope(project="shop")
        for address in (f"adbc+sqlite:///{shop_file}", f"adbc+sqlite:///{tmp_path / 'other.db'}", f"adbc+{url}"):
            with pytest.raises(InvalidInput):
                view.connect("x", address)
        assert view.connections() == []
