"""The guard of statements: it allows plain SELECTs from known tables and refuses everything else."""

import pytest

from everhold.ask.guard import check_statement
from everhold.errors import StatementRefused

TABLES = ("orders", "customers")
ALLOWED = [
    "SELECT * FROM orders",
    "SELECT count(*) FROM orders WHERE amount > 3 AND status IN ('a', 'b')",
    "SELECT c.name, sum(o.amount) FROM orders AS o JOIN customers AS c ON o.id = c.id GROUP BY c.name",
    "SELECT status FROM orders GROUP BY status HAVING count(*) > 1",
    "SELECT name FROM customers WHERE id NOT IN (SELECT id FROM orders) ORDER BY name DESC LIMIT 3",
    "SELECT name FROM customers INTERSECT SELECT name FROM orders",
    "WITH big AS (SELECT * FROM orders WHERE amount > 9) SELECT count(*) FROM big",
    "SELECT sum(sum(amount)) OVER (ORDER BY day) FROM orders GROUP BY day",
    "SELECT CASE WHEN amount > 3 THEN 'x' ELSE 'y' END FROM orders",
]
REFUSED = [
    "",
    ";",
    "nonsense",
    "SELECT",
    "SELECT * FROM orders; DROP TABLE orders",
    "SELECT 1; SELECT 2",
    "DROP TABLE orders",
    "DELETE FROM orders",
    "INSERT INTO orders VALUES (1)",
    "UPDATE orders SET amount = 0",
    "CREATE TABLE x AS SELECT * FROM orders",
    "ATTACH DATABASE 'x' AS y",
    "PRAGMA table_info(orders)",
    "VACUUM",
    "EXPLAIN SELECT * FROM orders",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM main.orders",
    "SELECT * FROM other.orders",
    "SELECT * FROM unknown",
    "SELECT * FROM orders WHERE id IN (SELECT id FROM secrets)",
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd') FROM orders",
    "SELECT writefile('x', 'y') FROM orders",
    "SELECT randomblob(1000000000) FROM orders",
    "SELECT zeroblob(1000000000) FROM orders",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT * FROM json_each('[1]')",
    "SELECT * FROM pragma_table_info('orders')",
    "SELECT name FROM customers UNION SELECT sql FROM sqlite_master",
    "SELECT * FROM orders WHERE EXISTS (SELECT 1 FROM sqlite_schema)",
    "SELECT (SELECT group_concat(sql) FROM sqlite_master) FROM orders",
    "SELECT * FROM orders INDEXED BY x",
    "BEGIN",
    "COMMIT",
    "REPLACE INTO orders VALUES (1)",
    "SELECT ?1 FROM orders",
    "SELECT " + "(" * 400 + "1" + ")" * 400 + " FROM orders",
    "SELECT '" + "x" * 200_000 + "' FROM orders",
]


@pytest.mark.parametrize("sql", ALLOWED)
def test_a_plain_select_is_allowed(sql: str) -> None:
    assert check_statement(sql, "sqlite", TABLES).sql(dialect="sqlite")


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[:40])
def test_everything_else_is_refused(sql: str) -> None:
    with pytest.raises(StatementRefused):
        check_statement(sql, "sqlite", TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM 'file.parquet'",
        "COPY orders TO 'x'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '1TB'",
        "SELECT getenv('HOME') FROM orders",
        "SELECT * FROM glob('*')",
        "SELECT * INTO x FROM orders",
    ],
)
def test_what_duckdb_offers_is_refused(sql: str) -> None:
    with pytest.raises(StatementRefused):
        check_statement(sql, "duckdb", TABLES)


@pytest.mark.parametrize("sql", ["SELECT pg_sleep(9)", "SELECT * FROM orders FOR UPDATE", "DO $$ BEGIN END $$"])
def test_what_postgresql_offers_is_refused(sql: str) -> None:
    with pytest.raises(StatementRefused):
        check_statement(sql, "postgres", TABLES)


def test_a_refusal_names_the_tables() -> None:
    with pytest.raises(StatementRefused, match="no table 'order'; use one of: customers, orders"):
        check_statement('SELECT * FROM "order"', "sqlite", TABLES)
