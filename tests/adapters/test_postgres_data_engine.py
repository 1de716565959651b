"""Statements on a PostgreSQL database: read-only, in time, by a role that may only read."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest

from everhold import DataUnavailable, QueryFailed, QueryTimeout
from everhold.adapters.data_engine import SandboxedDataEngine
from everhold.ask.connections.address import parse_address
from everhold.ask.guard import check_statement
from everhold.ports.data_engine import CheckedStatement, QueryLimits
from everhold.ports.databases import DatabaseTables
from tests.relay import relay
from tests.servers.postgres import PostgresServer
from tests.servers.shared_database import read_database_name

LIMITS = QueryLimits(seconds=120, megabytes=256)


@pytest.fixture
def engine() -> Iterator[SandboxedDataEngine]:
    engine = SandboxedDataEngine(LIMITS)
    yield engine
    engine.close()


@pytest.fixture
def data(postgres_server: PostgresServer, empty_postgres_url: str) -> DatabaseTables:
    postgres_server.create_role("data_reader")
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("CREATE TABLE orders (id int, name text, price numeric, day date)")
        connection.execute("INSERT INTO orders VALUES (1, 'a€', 1.50, '2024-02-29'), (2, NULL, 2, NULL)")
        connection.execute("CREATE TABLE owned (id int)")
        connection.execute("GRANT SELECT ON orders TO data_reader")
        connection.execute("ALTER TABLE owned OWNER TO data_reader")
        connection.execute("GRANT USAGE, CREATE ON SCHEMA public TO data_reader")
    return open_tables(postgres_server.url(read_database_name(empty_postgres_url), role="data_reader"))


def open_tables(url: str) -> DatabaseTables:
    return DatabaseTables(parse_address(url), hosts=("localhost",))


def run_unchecked(engine: SandboxedDataEngine, data: DatabaseTables, sql: str) -> object:
    return engine.run(data, CheckedStatement(sql, "postgres", frozenset(), 1000)).rows


def test_values_and_types_of_columns_are_returned(engine: SandboxedDataEngine, data: DatabaseTables) -> None:
    result = engine.run(data, check_statement("SELECT * FROM orders ORDER BY id", "postgres", ["orders"]))
    assert [str(column.type) for column in result.columns] == ["integer", "text", "decimal", "date"]
    assert result.rows == ((1, "a€", Decimal("1.50"), date(2024, 2, 29)), (2, None, Decimal(2), None))
    sql = "SELECT true, '2024-01-01 10:00+02'::timestamptz, '36 hours'::interval, '{\"a\": [1]}'::jsonb, ARRAY[1, 2]"
    row = (True, datetime(2024, 1, 1, 8, tzinfo=UTC), timedelta(hours=36), {"a": [1]}, [1, 2])
    assert run_unchecked(engine, data, sql) == (row,)


@pytest.mark.parametrize(
    ("sql", "kind", "value"),
    [
        ("'0a0e8400-e29b-41d4-a716-446655440000'::uuid", "text", "0a0e8400-e29b-41d4-a716-446655440000"),
        ("'infinity'::date", "date", "infinity"),
        ("'0044-03-15 10:00 BC'::timestamp", "timestamp", "0044-03-15 10:00:00 BC"),
        ("ARRAY['a', NULL]", "json", ["a", None]),
        ("'1.2.3.4'::inet", "unknown", "1.2.3.4"),
    ],
)
def test_values_without_a_python_type_become_texts(
    engine: SandboxedDataEngine, data: DatabaseTables, sql: str, kind: str, value: object
) -> None:
    result = engine.run(data, CheckedStatement(f"SELECT {sql}", "postgres", frozenset(), 10))
    assert (str(result.columns[0].type), result.rows) == (kind, ((value,),))


def test_results_are_not_cached_without_a_version(
    engine: SandboxedDataEngine, data: DatabaseTables, empty_postgres_url: str
) -> None:
    count = check_statement("SELECT count(*) FROM orders", "postgres", ["orders"])
    versioned = replace(data, version="1")
    assert [engine.run(source, count).rows for source in (data, versioned)] == [((2,),), ((2,),)]
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("DELETE FROM orders")
    assert [engine.run(source, count).rows for source in (data, versioned)] == [((0,),), ((2,),)]


def test_long_results_are_truncated(engine: SandboxedDataEngine, data: DatabaseTables) -> None:
    statement = CheckedStatement("SELECT generate_series(1, 3000)", "postgres", frozenset(), 1200)
    result = engine.run(data, statement)
    assert (result.row_count, result.truncated, result.rows[-1]) == (1200, True, (1200,))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO owned VALUES (1)",
        "SELECT 1; INSERT INTO owned VALUES (1)",
        "SELECT 1; COMMIT; INSERT INTO owned VALUES (1)",
        "WITH added AS (INSERT INTO owned VALUES (1) RETURNING id) SELECT * FROM added",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT * INTO copied FROM orders",
        "DO $$ BEGIN INSERT INTO owned VALUES (1); END $$",
        "SELECT lo_from_bytea(0, 'x')",
    ],
)
def test_nothing_is_written_even_by_an_owner_without_the_guard(
    engine: SandboxedDataEngine, data: DatabaseTables, empty_postgres_url: str, sql: str
) -> None:
    with pytest.raises(QueryFailed):
        run_unchecked(engine, data, sql)
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM owned").fetchall() == [(0,)]
        assert connection.execute("SELECT to_regclass('copied')").fetchall() == [(None,)]


def test_the_server_ends_a_long_query(
    engine: SandboxedDataEngine, data: DatabaseTables, empty_postgres_url: str
) -> None:
    with pytest.raises(QueryTimeout):
        engine.run(
            data, CheckedStatement("SELECT pg_sleep(60)", "postgres", frozenset(), 10), replace(LIMITS, seconds=1)
        )
    with psycopg.connect(empty_postgres_url, autocommit=True) as connection:
        active = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'data_reader' AND query LIKE '%pg_sleep%'"
        # If the server never ends the query, pytest's time limit ends the test.
        while connection.execute(active).fetchall() != [(0,)]:
            time.sleep(0.05)


def test_a_superuser_is_refused(engine: SandboxedDataEngine, empty_postgres_url: str) -> None:
    with pytest.raises(QueryFailed, match="role 'postgres' can read files of the server"):
        run_unchecked(engine, open_tables(empty_postgres_url), "SELECT 1")


def test_a_server_without_tls_is_not_used_if_the_address_requires_tls(
    engine: SandboxedDataEngine, data: DatabaseTables, postgres_server: PostgresServer
) -> None:
    with relay(postgres_server.socket) as port:
        url = f"postgresql://data_reader@localhost:{port}/{data.address.database}"
        assert run_unchecked(engine, open_tables(url), "SELECT 1") == ((1,),)
        for mode in ("require", "verify-full"):
            with pytest.raises(DataUnavailable, match="server does not support SSL, but SSL was required"):
                run_unchecked(engine, open_tables(f"{url}?sslmode={mode}"), "SELECT 1")


def test_a_server_that_does_not_answer_is_unavailable(engine: SandboxedDataEngine) -> None:
    with pytest.raises(DataUnavailable) as unavailable:
        run_unchecked(engine, open_tables("postgresql://reader:hunter2@127.0.0.1:1/none"), "SELECT 1")
    assert "hunter2" not in str(unavailable.value)


def test_the_address_is_not_shown() -> None:
    assert "hunter2" not in repr(open_tables("postgresql://reader:hunter2@127.0.0.1:1/none"))
