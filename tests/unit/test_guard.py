"""The guard passes queries on the listed tables and refuses everything else."""

import re

import pytest
import sqlglot
from sqlglot.errors import ParseError

from everhold import StatementRefused
from everhold.ask.guard import StatementLimits, check_statement

TABLES = ("orders", "customers", "Order Items")

ALLOWED = {
    "duckdb": [
        "SELECT count(*) FROM orders",
        "SELECT * FROM ORDERS o JOIN customers c ON o.customer = c.id LEFT JOIN \"Order Items\" i ON i.o = o.id",
        "SELECT year(d), sum(a) FILTER (WHERE b > 1) FROM orders GROUP BY 1 HAVING sum(a) > 3 ORDER BY 2 DESC LIMIT 5",
        "WITH big AS (SELECT * FROM orders WHERE a > 5), top AS (SELECT * FROM big) SELECT * FROM top, big",
        "SELECT a, rank() OVER (PARTITION BY b ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders",
        "SELECT id FROM orders INTERSECT SELECT id FROM customers EXCEPT SELECT 3",
        "SELECT * FROM customers c, LATERAL (SELECT max(a) FROM orders o WHERE o.c = c.id) AS m",
        "SELECT a FROM orders WHERE d >= DATE '2024-01-01' - INTERVAL 1 MONTH AND name ILIKE '%x%' AND b IN (1, 2)",
        "FROM orders",
    ],
    "sqlite": [
        "SELECT strftime('%Y', d) AS y, total(a) FROM orders GROUP BY y ORDER BY y",
        "SELECT name FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE customer IS NOT NULL)",
        "SELECT date(d, '+1 day'), julianday(d), a || '-' || b, CAST(a AS REAL) / 2 FROM orders",
        "SELECT CASE WHEN a > 1 THEN 'x' ELSE NULL END, coalesce(a, 0), substr(b, 1, 2) FROM orders",
    ],
    "postgres": [
        "SELECT date_trunc('month', d), count(DISTINCT a) FROM Orders GROUP BY ROLLUP (1)",
        "SELECT DISTINCT ON (a) a, b FROM orders ORDER BY a, b DESC FETCH FIRST 3 ROWS ONLY",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a), a::numeric(10, 2) FROM orders GROUP BY 2",
    ],
}  # fmt: skip

REFUSED = {
    "duckdb": [
        "", "SELECT", "DROP TABLE orders", "SELECT 1; SELECT 2", "SELECT * FROM secret", "SELECT * FROM main.orders",
        "SELECT * FROM a.main.orders", "SELECT * FROM read_text('x')", "SELECT * FROM 'x.csv'", "SELECT repeat('x', 9)",
        "SELECT main.abs(1)", "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
        "WITH orders AS (SELECT 1) SELECT * FROM orders", "WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t",
        "SELECT * FROM (WITH t AS (SELECT 1) SELECT 1) AS x, t", "SELECT 1 IN (FROM secret)",
        "SELECT * FROM orders POSITIONAL JOIN customers", "SELECT * FROM orders USING SAMPLE 3", "VALUES (1)",
        "SELECT COLUMNS('a') FROM orders", "SELECT ? FROM orders", "SELECT getvariable('x')", "SELECT 'a'::json",
        "SELECT * FROM duckdb_settings()", "PIVOT orders ON a", "DESCRIBE orders",
        "SELECT * FROM orders LIMIT (SELECT 1)",
        "SELECT 1\0", "SELECT * FROM orders AT (VERSION => 1)", "SUMMARIZE orders", "SELECT lambda x: x",
    ],
    "sqlite": [
        "PRAGMA table_info(orders)", "SELECT * FROM sqlite_master", "SELECT * FROM pragma_table_info('orders')",
        "SELECT load_extension('x')", "SELECT printf('%d', 1)", "SELECT zeroblob(9)", "ATTACH 'x' AS y",
        "SELECT * FROM orders INDEXED BY x", "SELECT * FROM json_each('[]')", "SELECT a MATCH 'x' FROM orders",
    ],
    "postgres": [
        "SELECT * FROM orders FOR UPDATE", "SELECT * INTO copied FROM orders", "SELECT pg_sleep(1)", "SELECT version()",
        "SELECT pg_catalog.abs(1)", "SELECT 'secret'::regclass", "SELECT * FROM pg_stats",
        "SELECT (orders).a FROM orders",
        "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone", "TABLE orders", "SELECT current_user",
        "SELECT * FROM \"Orders\"", "SELECT * FROM orders TABLESAMPLE SYSTEM (1)", "SELECT * FROM ONLY orders",
        "SELECT * FROM public.orders", "SELECT * FROM generate_series(1, 9)", "SELECT ROW(1, 2)",
        "SELECT 1 OPERATOR(pg_catalog.+) 1",
    ],
}  # fmt: skip


def _list_cases(statements: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(dialect, sql) for dialect, dialect_statements in statements.items() for sql in dialect_statements]


@pytest.mark.parametrize(("dialect", "sql"), _list_cases(ALLOWED))
def test_queries_pass(dialect: str, sql: str) -> None:
    statement = check_statement(sql, dialect, TABLES)
    assert statement.tables <= set(TABLES)
    assert check_statement(statement.sql, dialect, TABLES).tables == statement.tables


@pytest.mark.parametrize(("dialect", "sql"), _list_cases(REFUSED))
def test_everything_else_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises(StatementRefused) as caught:
        check_statement(sql, dialect, TABLES)
    assert caught.value.fact
    assert str(caught.value.remedy)


def test_statements_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    sql = "WITH t AS (COPY orders TO 'private') SELECT * FROM t"
    with pytest.raises(StatementRefused):
        check_statement(sql, "duckdb", TABLES)
    assert caplog.text == ""
    with pytest.raises(ParseError):  # another user of the parser still gets the parser's warnings
        sqlglot.parse(sql, read="duckdb")
    assert "private" in caplog.text


def test_unknown_dialects_are_refused() -> None:
    with pytest.raises(StatementRefused, match="oracle"):
        check_statement("SELECT 1", "oracle", TABLES)


@pytest.mark.parametrize(
    ("sql", "limit"),
    [
        ("SELECT id FROM orders", "LIMIT 11"),
        ("SELECT id FROM orders LIMIT 3", "LIMIT 3"),
        ("SELECT id FROM orders LIMIT 99 OFFSET 5", "LIMIT 11 OFFSET 5"),
        ("SELECT id FROM orders UNION SELECT id FROM customers", "LIMIT 11"),
        ("(SELECT id FROM orders)", "LIMIT 11"),
    ],
)
def test_the_rows_are_limited(sql: str, limit: str) -> None:
    # One row more than the limit is read, so that a longer result is noticed.
    assert check_statement(sql, "sqlite", TABLES, row_limit=10).sql.endswith(limit)


def test_comments_do_not_run() -> None:
    assert (
        check_statement("SELECT /* a */ id -- b\nFROM orders", "duckdb", TABLES).sql
        == "SELECT id FROM orders LIMIT 10001"
    )


def test_a_dot_in_a_name_does_not_name_a_schema() -> None:
    assert check_statement('SELECT a FROM "sales.orders"', "postgres", ["sales.orders"]).tables == {"sales.orders"}
    with pytest.raises(StatementRefused, match=r"no table 'sales\.orders' may be read"):
        check_statement("SELECT a FROM sales.orders", "postgres", ["sales.orders"])


def test_reserved_names_are_refused_even_if_listed() -> None:
    with pytest.raises(StatementRefused, match="pg_stats"):
        check_statement("SELECT * FROM pg_stats", "postgres", ["pg_stats"])


def test_columns_are_checked_if_known() -> None:
    columns = {"orders": ("id", "amount"), "customers": ("id", "name")}
    sql = "SELECT o.id, sum(amount) AS spent FROM orders o GROUP BY o.id ORDER BY spent"
    assert check_statement(sql, "postgres", columns).tables == {"orders"}
    with pytest.raises(StatementRefused, match="name"):
        check_statement("SELECT name FROM orders", "postgres", columns)
    with pytest.raises(StatementRefused, match="row_to_json"):
        check_statement("SELECT o.row_to_json FROM orders o", "postgres", columns)


COLUMNS = {"orders": ("id", "amount", 'a"b'), "customers": ("id", "name")}


@pytest.mark.parametrize(
    "sql",
    [
        # PostgreSQL calls a function by this notation; an alias of the same name must not make it a column.
        "SELECT o.row_to_json, amount AS row_to_json FROM orders o",
        "SELECT o.row_to_json FROM orders o, (SELECT id AS row_to_json FROM customers) AS c",
        "SELECT o.name FROM orders o, customers c",
        "SELECT x.id FROM orders o",
        "SELECT o.f FROM orders o WHERE EXISTS (SELECT id FROM (SELECT id AS f FROM customers) AS o)",
    ],
)
def test_a_column_is_refused_if_the_table_before_the_dot_lacks_it(sql: str) -> None:
    with pytest.raises(StatementRefused):
        check_statement(sql, "postgres", COLUMNS)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT o.id, c.name FROM orders o JOIN customers AS c ON c.id = o.id ORDER BY o.amount",
        "SELECT id, (SELECT max(o.amount) FROM orders o WHERE o.id = customers.id) AS best FROM customers",
        "WITH t AS (SELECT id AS k FROM orders) SELECT t.k, u.s FROM t, (SELECT sum(amount) AS s FROM orders) u",
        "SELECT x.a FROM orders AS x(a, b)",
        "SELECT o.* FROM orders o",
        "SELECT id, count(*) AS orders FROM orders GROUP BY id ORDER BY orders DESC",
        'SELECT o."a""b" AS total FROM orders o',
    ],
)
def test_columns_of_tables_aliases_and_subqueries_pass(sql: str) -> None:
    check_statement(sql, "duckdb", COLUMNS)


def test_a_backslash_before_a_quote_is_refused_where_a_server_may_read_it_otherwise() -> None:
    # With standard_conforming_strings off, the first text would end at the third quote, and the rest would run.
    sql = "SELECT id FROM orders WHERE amount IN ('\\', ' UNION SELECT secret FROM hidden -- ')"
    with pytest.raises(StatementRefused, match="a backslash stands before a quote"):
        check_statement(sql, "postgres", COLUMNS)
    # For Redshift, the parser writes a quote inside a text with a backslash before it.
    with pytest.raises(StatementRefused, match="a backslash stands before a quote"):
        check_statement("SELECT id FROM orders WHERE amount = 'x'' y'", "redshift", COLUMNS)
    check_statement("SELECT id FROM orders WHERE amount LIKE 'a\\d%'", "postgres", COLUMNS)
    check_statement(sql, "sqlite", COLUMNS)


@pytest.mark.parametrize("name", ['x"" FROM hidden --', "x\\", "x' y", "x`y", "x] y", "x\ny"])
def test_aliases_with_quotes_are_refused(name: str) -> None:
    with pytest.raises(StatementRefused, match="a name has a quote"):
        check_statement(f'SELECT amount AS "{name}" FROM orders', "duckdb", COLUMNS)


@pytest.mark.parametrize(
    "unit", ["JOIN orders ", "LEFT JOIN orders ", "NATURAL JOIN orders ", "CROSS JOIN orders AS ", "JOIN orders AS ON ",
             "JOIN orders AS a(ON) ", 'JOIN "ON" ', "JOIN orders AS USING ", "STRAIGHT_JOIN orders "],
)  # fmt: skip
def test_joins_that_the_parser_would_never_finish_are_refused(unit: str) -> None:
    # The parser tries each join without a condition in two ways, so it would not end on 100 of them.
    for head in ("SELECT ", "SELECT id FROM orders "):
        with pytest.raises(StatementRefused):
            check_statement(head + unit * 100, "duckdb", COLUMNS)


def test_many_joins_with_conditions_pass() -> None:
    joins = " ".join(f"JOIN orders o{number} ON o{number}.id = orders.id" for number in range(16))
    check_statement(f"SELECT orders.id FROM orders {joins}", "duckdb", COLUMNS)


@pytest.mark.parametrize(
    ("dialect", "sql", "is_repeatable"),
    [
        ("duckdb", "SELECT id FROM orders WHERE d = '2024-01-01'", True),
        ("duckdb", "SELECT id FROM orders WHERE d = current_date", False),
        ("duckdb", "SELECT now()", False),
        ("duckdb", "SELECT age(d) FROM orders", False),
        ("duckdb", "SELECT age(d, e) FROM orders", True),
        ("postgres", "SELECT id FROM orders WHERE d > now() - INTERVAL '1 day'", False),
        ("sqlite", "SELECT date('Now')", False),
        ("sqlite", "SELECT julianday()", False),
        ("sqlite", "SELECT strftime('%Y', 'now')", False),
        ("sqlite", "SELECT date(d, '+1 day') FROM orders", True),
    ],
)
def test_a_statement_that_depends_on_the_time_is_not_repeatable(dialect: str, sql: str, is_repeatable: bool) -> None:
    assert check_statement(sql, dialect, TABLES).is_repeatable is is_repeatable


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "a, " * 8000 + "a FROM orders",
        "SELECT " + "(" * 60 + "1" + ")" * 60,
        "SELECT " + "- " * 4000 + "1",
        "SELECT 1 WHERE " + " OR ".join("a = 1" for _ in range(500)),
        "SELECT 1 FROM orders" + " JOIN orders USING (id)" * 30,
        " UNION ".join(["SELECT 1"] * 40),
    ],
)
def test_size_is_limited(sql: str) -> None:
    with pytest.raises(StatementRefused):
        check_statement(sql, "duckdb", TABLES)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT sum(id FROM orders", "not valid sqlite SQL at line 1, character 15; check the SQL there"),
        ("SELECT id\nFROM orders ORDER 3", "at line 2, character 19"),
        ("SELECT id FROM orders\nWHERE name = 'Ann", "a quote at line 2, character 14 is not closed"),
        ("SELECT amuont FROM orders", "no column 'amuont' in the tables of this statement; did you mean 'amount'"),
        ("SELECT id FROM ordres", "no table 'ordres' may be read; did you mean 'orders'"),
        ("SELECT Spain FROM orders", "check its name; write texts in single quotes"),
    ],
)
def test_a_refusal_says_where_and_what_is_meant(sql: str, message: str) -> None:
    with pytest.raises(StatementRefused, match=re.escape(message)) as caught:
        check_statement(sql, "sqlite", {"orders": ["id", "name", "amount"]})
    assert "Ann" not in str(caught.value)


def test_limits_can_be_chosen() -> None:
    with pytest.raises(StatementRefused, match="joins"):
        check_statement(
            "SELECT 1 FROM orders JOIN customers USING (id)", "duckdb", TABLES, limits=StatementLimits(joins=0)
        )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT LOAD_FILE('/etc/passwd')",
        "SELECT SLEEP(5)",
        "SELECT @@version",
        "SELECT @a := id FROM orders",
        "SELECT id FROM orders INTO OUTFILE '/tmp/x'",
        "SELECT * FROM mysql.user",
        "SELECT id FROM Orders",
        "SELECT id FROM orders LOCK IN SHARE MODE",
        "/*!50000 DELETE FROM orders */",
    ],
)
def test_mysql_statements_are_refused(sql: str) -> None:
    with pytest.raises(StatementRefused):
        check_statement(sql, "mysql", {"orders": ["id", "name"]})


def test_mysql_statements_are_written_without_comments_and_with_escaped_texts() -> None:
    sql = "SELECT ID, YEAR(name) /*!50000 , SLEEP(5) */ FROM `orders` WHERE name = 'a\\'; DROP TABLE x -- ' # x"
    checked = check_statement(sql, "mysql", {"orders": ["id", "name"]}).sql
    assert checked == "SELECT ID, YEAR(name) FROM `orders` WHERE name = 'a''; DROP TABLE x -- ' LIMIT 10001"
