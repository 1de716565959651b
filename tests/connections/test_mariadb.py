"""A connected MariaDB: everyday questions, users, limits, changed schemas, and statements that try to escape."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.escape_seeds import MUTATIONS, SEEDS
from benchmarks.sql_escapes import LIMITS, EscapeWorld, attack, build_world, prepare_mysql
from everhold import Everhold, View
from everhold.adapters.data_engine import SandboxedDataEngine, SandboxedProfiler
from everhold.ask.connections.address import parse_address
from everhold.errors import DataUnavailable, QueryFailed, QueryTimeout, StatementRefused
from everhold.ports.data_engine import CheckedStatement
from everhold.ports.databases import DatabaseTables, ProfileLimits
from everhold.progress import ignore_progress
from tests.connection_samples import TABLES, find_wrong_answers
from tests.servers.mariadb import MariadbServer


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with MariadbServer() as server:
        server.execute("CREATE DATABASE shop")
        server.execute(*TABLES, database="shop")
        yield server


@pytest.fixture
def url(server: MariadbServer) -> str:
    return server.create_reader("shop_reader", "shop")


@pytest.fixture
def shop(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[View]:
    monkeypatch.setenv("SHOP_URL", url)
    with Everhold.open(str(tmp_path / "memories.db"), connections={"hosts": ["localhost"]}) as engine:
        yield engine.scope(project="shop")


@pytest.fixture
def engine() -> Iterator[SandboxedDataEngine]:
    engine = SandboxedDataEngine(LIMITS, cache_megabytes=0)
    yield engine
    engine.close()


def make_tables(url: str) -> DatabaseTables:
    return DatabaseTables(parse_address(url), hosts=("localhost",))


def test_everyday_questions_are_answered(shop: View) -> None:
    connected = shop.connect("shop", url_env="SHOP_URL")
    assert (connected.connection.server.partition(" ")[0], connected.notes) == ("MariaDB", ())
    assert {key["to_table"] for key in shop.describe("order_items").table.foreign_keys} == {"orders", "products"}
    assert find_wrong_answers(shop) == []


def test_statements_in_the_dialect_of_mariadb_run(shop: View) -> None:
    shop.connect("shop", url_env="SHOP_URL")
    result = shop.sql("SELECT DATE_FORMAT(ordered_on, '%Y-%m') AS `month`, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1")
    assert result.rows[0] == ("2024-12", 1)
    assert shop.sql("SELECT IF(vip, 'yes', 'no'), name FROM customers WHERE name = 'Dan O\\'Hara'").rows == (
        ("yes", "Dan O'Hara"),
    )


def test_schema_changes_are_reported(shop: View, server: MariadbServer) -> None:
    server.execute("CREATE TABLE shelves (id int PRIMARY KEY, hall text)", database="shop")
    shop.connect("shop", url_env="SHOP_URL")
    server.execute("ALTER TABLE shelves CHANGE hall room text", database="shop")
    [change] = shop.refresh_connection("shop").changes
    assert (change.table, change.added, change.removed) == ("shelves", ("room text",), ("hall text",))
    server.execute("DROP TABLE shelves", database="shop")


def test_a_user_that_reaches_files_is_refused(
    server: MariadbServer, shop: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", server.create_reader("filer", "shop"))
    server.execute("GRANT FILE ON *.* TO filer")
    with pytest.raises(QueryFailed, match="role 'filer@%' can read files of the server"):
        shop.connect("shop", url_env="SHOP_URL")


def test_a_user_with_write_access_is_noted_and_its_writes_are_refused(
    server: MariadbServer, shop: View, engine: SandboxedDataEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.create_reader("writer", "shop")
    monkeypatch.setenv("SHOP_URL", address)
    server.execute("GRANT ALL ON shop.* TO writer")
    [note] = shop.connect("shop", url_env="SHOP_URL").notes
    assert "'writer@%' may also ALTER" in note
    for statement in ("DELETE FROM orders", "DROP TABLE orders", "CREATE TABLE copied (a int)"):
        with pytest.raises(StatementRefused):
            shop.sql(statement)
        unchecked = CheckedStatement(statement, "mysql", frozenset(), 10)
        with pytest.raises(QueryFailed, match="READ ONLY transaction"):
            engine.run(make_tables(address), unchecked)


def test_the_server_ends_a_long_query(engine: SandboxedDataEngine, server: MariadbServer, url: str) -> None:
    sleeping = CheckedStatement("SELECT SLEEP(60)", "mysql", frozenset(), 10)
    with pytest.raises(QueryTimeout):
        engine.run(make_tables(url), sleeping, replace(LIMITS, seconds=1))
    with server.connect() as connection, connection.cursor() as cursor:
        count_running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"
        # If the query never ends, the time limit of pytest ends the test.
        while cursor.execute(count_running) and cursor.fetchall() != ((0,),):
            pass


def test_a_wrong_password_is_reported_and_not_shown(engine: SandboxedDataEngine, url: str) -> None:
    wrong_url = url.replace("reader-of-the-test", "hunter2secret")
    with pytest.raises(DataUnavailable, match=r"refuses the login .*Access denied") as caught:
        engine.run(make_tables(wrong_url), CheckedStatement("SELECT 1", "mysql", frozenset(), 10))
    assert "check the user and the password" in str(caught.value)
    assert "hunter2secret" not in str(caught.value)


def test_large_tables_are_sampled(server: MariadbServer, url: str) -> None:
    server.execute(
        "CREATE TABLE events AS SELECT seq AS id, seq % 7 AS kind FROM seq_1_to_60000", "ANALYZE TABLE events",
        database="shop",
    )  # fmt: skip
    profile = SandboxedProfiler().profile(make_tables(url), ProfileLimits(sample_rows=1000), ignore_progress)
    [events] = [table for table in profile.tables if table.name == "events"]
    assert 50_000 < events.row_count < 70_000
    assert "statistics are those of 1,000 of about" in events.notes[0]
    server.execute("DROP TABLE events", database="shop")


@pytest.fixture(scope="module")
def attacked_world(server: MariadbServer) -> Iterator[EscapeWorld]:
    with build_world("mysql", prepare_mysql(server)) as world:
        yield world


def test_the_guard_refuses_statements_that_would_escape(
    attacked_world: EscapeWorld, engine: SandboxedDataEngine
) -> None:
    # The last two seeds only take long, and the guard lets them pass.
    outcome = attack(engine, attacked_world, SEEDS["mysql"][:-2], 20, guarded=True)
    assert outcome.escapes == []
    assert outcome.passed_guard <= 2 * len(MUTATIONS), "only statements that select nothing but constants may pass"


def test_the_server_and_the_sandbox_hold_without_the_guard(
    attacked_world: EscapeWorld, engine: SandboxedDataEngine
) -> None:
    outcome = attack(engine, attacked_world, SEEDS["mysql"], 1, guarded=False)
    assert outcome.escapes == []
    assert outcome.longest_seconds <= LIMITS.seconds + 1
