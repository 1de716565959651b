"""A connected PostgreSQL database: everyday questions (also through SQLAlchemy), large tables and roles."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from everhold import Everhold, View
from everhold.adapters.data_engine import SandboxedProfiler
from everhold.ask.connections.address import parse_address
from everhold.errors import DataUnavailable, InvalidInput, MissingExtra, QueryFailed, StatementRefused
from everhold.ports.databases import DatabaseProfile, DatabaseTables, ProfileLimits
from everhold.progress import ignore_progress
from tests.connection_samples import TABLES, find_wrong_answers
from tests.exhaustive import choose_size
from tests.servers.postgres import PostgresServer
from tests.servers.shared_database import read_database_name


@pytest.fixture
def url(postgres_server: PostgresServer, empty_postgres_url: str) -> str:
    """The address of a database with a shop, for a role that may only read."""
    postgres_server.create_role("shop_reader")
    with psycopg.connect(empty_postgres_url) as connection:
        for statement in TABLES:
            connection.execute(statement)
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO shop_reader")
    return postgres_server.url(read_database_name(empty_postgres_url), role="shop_reader")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[View]:
    settings = {"hosts": ["localhost"], "drivers": ["postgresql+psycopg"]}
    with Everhold.open(str(tmp_path / "memories.db"), connections=settings) as engine:
        yield engine.scope(project="shop")


def profile_database(url: str, **limits: float) -> DatabaseProfile:
    data = DatabaseTables(parse_address(url), hosts=("localhost",))
    return SandboxedProfiler().profile(data, ProfileLimits(**limits), ignore_progress)  # type: ignore[arg-type]


def test_everyday_questions_are_answered(shop: View, url: str) -> None:
    connected = shop.connect("shop", url)
    assert connected.notes == ()
    assert {key["to_table"] for key in shop.describe("order_items").table.foreign_keys} == {"orders", "products"}
    assert find_wrong_answers(shop, step=choose_size(3, 1)) == []


def test_everyday_questions_are_answered_through_sqlalchemy(shop: View, url: str) -> None:
    connected = shop.connect("shop", url.replace("postgresql://", "postgresql+psycopg://"))
    assert (connected.connection.kind, connected.connection.dialect) == ("sqlalchemy", "postgres")
    assert find_wrong_answers(shop, step=choose_size(10, 1)) == []
    with pytest.raises(StatementRefused):
        shop.sql("SELECT pg_read_file('/etc/passwd')")


def test_a_wrong_password_is_named_and_not_shown(
    shop: View, url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres_server.require_password("locked_reader", "right")
    for scheme in ("postgresql", "postgresql+psycopg"):
        wrong_url = f"{scheme}://{url.partition('://')[2].replace('shop_reader', 'locked_reader:hunter2secret')}"
        monkeypatch.setenv("SHOP_URL", wrong_url)
        with pytest.raises(DataUnavailable, match="password authentication failed") as caught:
            shop.connect("shop", url_env="SHOP_URL")
        assert "check the user and the password" in str(caught.value)
        assert "hunter2" not in repr(caught.value) + str(caught.value)
    assert shop.connections() == []


@pytest.mark.parametrize(
    ("driver", "module"), [("mssql+pymssql", "pymssql"), ("mysql+mysqldb", "MySQLdb"), ("nonesuch", "nonesuch")]
)
def test_a_driver_that_is_not_installed_is_named(driver: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_URL", f"{driver}://reader:hunter2secret@example.com/shop")
    with Everhold.open("memory://", connections={"drivers": [driver]}) as engine:
        shop = engine.scope(project="shop")
        with pytest.raises(MissingExtra, match=f"the module '{module}' is not installed") as caught:
            shop.connect("shop", url_env="SHOP_URL")
    assert "hunter2" not in repr(caught.value) + str(caught.value)
    assert "everhold[" not in str(caught.value), "no extra has it"


def test_a_superuser_is_refused(shop: View, empty_postgres_url: str) -> None:
    with pytest.raises(QueryFailed, match="role 'postgres' can read files of the server"):
        shop.connect("shop", empty_postgres_url)
    assert not shop.connections()


def test_a_role_with_write_access_is_noted_and_its_writes_are_refused(
    shop: View, url: str, empty_postgres_url: str
) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("GRANT INSERT, DELETE ON orders TO shop_reader")
    [note] = shop.connect("shop", url).notes
    assert "role 'shop_reader' can also write, for example to 'orders'" in note
    with pytest.raises(StatementRefused):
        shop.sql("DELETE FROM orders")


def test_tables_that_may_not_be_read_are_left_out(shop: View, url: str, empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("REVOKE SELECT ON customers FROM shop_reader")
    assert [described.table.table_name for described in shop.connect("shop", url).tables] == [
        "order_items",
        "orders",
        "products",
    ]
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM shop_reader")
    with pytest.raises(InvalidInput, match="'shop' shows no table"):
        shop.refresh_connection("shop")


def test_tables_of_another_schema_are_read(shop: View, url: str, empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute('CREATE SCHEMA "Sales 2025"')
        connection.execute('SET search_path = "Sales 2025"')
        connection.execute('CREATE TABLE "Big ""Deals"" of us" (id int PRIMARY KEY, "Größe (kg)" float, at date)')
        connection.execute('INSERT INTO "Big ""Deals"" of us" VALUES (1, 2.5, NULL), (2, 4, NULL)')
        connection.execute('GRANT USAGE ON SCHEMA "Sales 2025" TO shop_reader')
        connection.execute('GRANT SELECT ON ALL TABLES IN SCHEMA "Sales 2025" TO shop_reader')
    shop.connect("deals", url, schema="Sales 2025")
    assert [table.table_name for table in shop.tables()] == ['Big "Deals" of us']
    assert shop.describe('Big "Deals" of us').fields[1].metadata["unit"] == "kg"
    assert shop.ask("How many big deals are there?").table.rows == ((2,),)
    assert shop.sql('SELECT sum("Größe (kg)") FROM "Big ""Deals"" of us"').rows == ((6.5,),)
    with pytest.raises(StatementRefused):
        shop.sql("SELECT * FROM public.orders")


def test_large_tables_are_sampled(url: str, empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute(
            "CREATE TABLE events AS SELECT i AS id, i % 7 AS kind, 'user ' || (i % 5000) AS who, now() AS at "
            "FROM generate_series(1, 60000) AS t(i)"
        )
        connection.execute("CREATE VIEW endless AS SELECT id, pg_sleep(1)::text AS waited FROM events")
        connection.execute("GRANT SELECT ON events, endless TO shop_reader")
        connection.execute("ANALYZE events")
    profiles = {table.name: table for table in profile_database(url, statement_seconds=0.5, sample_rows=1000).tables}
    events = profiles["events"]
    assert 55_000 < events.row_count < 65_000
    assert events.notes == (f"statistics are those of 1,000 of about {events.row_count:,} rows",)
    identifier, kind, actor, _ = events.columns
    assert identifier.distinct_count == events.row_count
    assert (len(kind.values), kind.distinct_count) == (7, 8), "the profile does not know whether there are more values"
    assert 1000 < actor.distinct_count <= events.row_count
    assert profiles["endless"].notes[0] == "not sampled: reading it takes longer than 0.5 s"
    assert [column.name for column in profiles["endless"].columns] == ["id", "waited"]


def test_tables_without_time_left_keep_their_columns(url: str) -> None:
    database_profile = profile_database(url, statement_seconds=0.0)
    assert {table.name for table in database_profile.tables} == {"customers", "products", "orders", "order_items"}
    assert all("there was no time left" in table.notes[0] for table in database_profile.tables)
