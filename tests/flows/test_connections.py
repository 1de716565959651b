"""Connected databases: profile, questions, changed schemas, deletion, and what may be connected."""

import sqlite3
from pathlib import Path

import duckdb
import pytest

from everhold import AnswerStatus, Everhold, View
from everhold.adapters.data_engine import SandboxedProfiler
from everhold.ask.connections.address import parse_address
from everhold.errors import (
    DataUnavailable,
    InvalidInput,
    NotFound,
    QueryFailed,
    StatementRefused,
)
from everhold.model import AccessLog, Chunk, Connection, FieldMetadata, QueryPattern, TableMetadata
from everhold.ports.databases import DatabaseTables, ProfileLimits
from everhold.progress import ignore_progress
from everhold.views.data_deps import make_source_files
from tests.engines import Store, get_records

CUSTOMERS = [(1, "Ann", "Oslo"), (2, "Bob", "Bergen"), (3, "Cho", "Oslo")]
ORDERS = [(1, 1, 10.5, "2025-01-10"), (2, 2, 5, "2025-02-11"), (3, 1, 7, "2024-02-20"), (4, 3, 20, "2025-02-12")]
SECRET = "hunter2secret"


@pytest.fixture
def engine(sqlite_store: Store, tmp_path: Path) -> Everhold:
    write_sqlite(tmp_path / "shop.sqlite")
    return sqlite_store.open(blobs=str(tmp_path / "blobs"))


@pytest.fixture
def shop(engine: Everhold, tmp_path: Path) -> View:
    shop = engine.scope(project="shop")
    shop.connect("sales", f"sqlite:///{tmp_path / 'shop.sqlite'}")
    return shop


def write_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)")
        connection.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id), amount REAL, "
            "ordered_on DATE)"
        )
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", CUSTOMERS)
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", ORDERS)
    connection.close()


def write_duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE staff (id INTEGER PRIMARY KEY, name VARCHAR, office VARCHAR, salary DOUBLE)")
        connection.execute("INSERT INTO staff VALUES (1, 'Dan', 'Lisbon', 100), (2, 'Eve', 'Porto', 300)")


def run_statements(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_tables_are_profiled_like_files(engine: Everhold, tmp_path: Path) -> None:
    shop = engine.scope(project="shop")
    connected = shop.connect("sales", f"sqlite:///{tmp_path / 'shop.sqlite'}")
    assert connected.is_new
    assert [described.table.table_name for described in connected.tables] == ["customers", "orders"]
    orders = shop.describe("orders")
    assert (orders.table.row_count, orders.table.primary_key) == (4, ["id"])
    [key] = orders.table.foreign_keys
    assert (key["column"], key["to_table"], key["to_column"], key["declared"]) == (
        "customer_id",
        "customers",
        "id",
        True,
    )
    amount = orders.fields[2]
    assert (amount.minimum, amount.maximum, amount.semantic_type) == (5.0, 20.0, "measure")
    hit = shop.find_tables("who lives in Bergen?")[0]
    assert (hit.table.table_name, hit.origin, hit.source, hit.values) == (
        "customers",
        "sales",
        None,
        (("city", "Bergen"),),
    )
    assert [table.table_name for table in shop.tables(source="sales")] == ["customers", "orders"]


def test_questions_run_in_the_connected_database(shop: View) -> None:
    answer = shop.ask("total amount per city")
    assert sorted(answer.table.rows) == [(5.0, "Bergen"), (37.5, "Oslo")]
    assert shop.ask("How many orders are there in 2025?").table.rows == ((3,),)
    assert shop.ask("orders per month in 2025").table.rows == ((1, "2025-01"), (2, "2025-02"))
    assert shop.ask("and in 2024?", after="How many orders are there in 2025?").table.rows == ((1,),)
    assert shop.sql("SELECT name FROM customers WHERE city = 'Bergen'").rows == (("Bob",),)


def test_new_rows_of_the_connected_database_are_seen(shop: View, tmp_path: Path) -> None:
    assert shop.ask("How many orders are there?").table.rows == ((4,),)
    run_statements(tmp_path / "shop.sqlite", "INSERT INTO orders VALUES (5, 2, 1, '2025-03-01')")
    assert shop.ask("How many orders are there?").table.rows == ((5,),)


def test_a_database_with_a_write_ahead_log_is_read(shop: View, tmp_path: Path) -> None:
    writer = sqlite3.connect(tmp_path / "shop.sqlite", isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO orders VALUES (5, 2, 1, '2025-03-01')")
    assert (tmp_path / "shop.sqlite-wal").stat().st_size
    assert shop.sql("SELECT count(*) FROM orders").rows == ((5,),)
    writer.close()
    assert shop.sql("SELECT count(*) FROM orders").rows == ((5,),)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "SELECT * FROM sqlite_master",
        "SELECT load_extension('x')",
        "ATTACH '/tmp/x' AS x",
        "SELECT 1; DROP TABLE orders",
    ],
)
def test_only_queries_are_run(shop: View, sql: str) -> None:
    with pytest.raises(StatementRefused):
        shop.sql(sql, connection="sales")


def test_a_duckdb_file_is_connected(engine: Everhold, tmp_path: Path) -> None:
    write_duckdb(tmp_path / "staff.duckdb")
    team = engine.scope(project="team")
    team.connect("staff", f"duckdb:///{tmp_path / 'staff.duckdb'}")
    assert team.ask("average salary per office").table.rows in (
        ((100.0, "Lisbon"), (300.0, "Porto")),
        ((300.0, "Porto"), (100.0, "Lisbon")),
    )
    assert team.sql("SELECT max(salary) FROM staff").rows == ((300.0,),)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_an_endless_view_is_known_by_its_columns(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "shop"
    statements = [
        "CREATE TABLE short (a INTEGER)",
        f"INSERT INTO short VALUES {', '.join(f'({number})' for number in range(500))}",
        "CREATE VIEW endless AS SELECT sum(a.a * b.a * c.a * d.a) AS n FROM short a, short b, short c, short d",
    ]
    if kind == "sqlite":
        run_statements(path, *statements)
    else:
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)
    data = DatabaseTables(parse_address(f"{kind}:///{path}"))
    profile = SandboxedProfiler().profile(data, ProfileLimits(statement_seconds=0.5), ignore_progress)
    assert [(table.name, bool(table.notes)) for table in profile.tables] == [("endless", True), ("short", False)]
    assert [column.name for column in profile.tables[0].columns] == ["n"]


def test_a_locked_duckdb_file_is_reported(engine: Everhold, tmp_path: Path) -> None:
    write_duckdb(tmp_path / "staff.duckdb")
    with duckdb.connect(str(tmp_path / "staff.duckdb")), pytest.raises(DataUnavailable, match="lock"):
        engine.scope(project="team").connect("staff", f"duckdb:///{tmp_path / 'staff.duckdb'}")


def test_a_question_runs_in_one_place(shop: View, tmp_path: Path) -> None:
    write_duckdb(tmp_path / "staff.duckdb")
    (tmp_path / "refunds.csv").write_text("refund_id,reason,paid_back\n1,damaged,3\n2,late,4\n")
    shop.connect("office", f"duckdb:///{tmp_path / 'staff.duckdb'}")
    shop.upload(str(tmp_path / "refunds.csv"))
    assert shop.ask("average salary").table.rows == ((200.0,),)
    assert shop.ask("total amount in 2025").table.rows == ((35.5,),)
    assert shop.ask("How many refunds are there?").table.rows == ((2,),)
    assert shop.sql("SELECT max(salary) FROM staff").rows == ((300.0,),)
    assert shop.sql("SELECT sum(paid_back) FROM refunds").rows == ((7,),)
    with pytest.raises(StatementRefused, match="reads tables of the uploaded files and of the connection 'sales'"):
        shop.sql("SELECT * FROM refunds JOIN orders ON refunds.refund_id = orders.id")
    for question in ("total amount per salary", "orders of customers in Lisbon", "average salary of people in Oslo"):
        answer = shop.ask(question)
        assert answer.status == AnswerStatus.CANNOT
        assert "a question runs in one database" in str(answer.not_understood[0])


def test_a_place_is_named_if_several_could_answer(shop: View, tmp_path: Path) -> None:
    write_sqlite(tmp_path / "second.sqlite")
    run_statements(tmp_path / "second.sqlite", "DELETE FROM orders WHERE id > 1")
    shop.connect("second", f"sqlite:///{tmp_path / 'second.sqlite'}")
    answer = shop.ask("How many orders are there?")
    assert "the connection 'second' could answer it too" in answer.assumptions[-1]
    assert shop.ask("How many orders are there?", connection="second").table.rows == ((1,),)
    with pytest.raises(InvalidInput, match="'sales' and the connection 'second' have these tables"):
        shop.sql("SELECT count(*) FROM orders")
    assert shop.sql("SELECT count(*) FROM orders", connection="sales").rows == ((4,),)


def test_a_refresh_notices_what_changed(engine: Everhold, shop: View, tmp_path: Path) -> None:
    shop.update_description("orders", "What was bought")
    shop.update_description("customers", "home town", field="city")
    ids_before = {table.table_name: table.id for table in shop.tables()}
    assert shop.refresh_connection("sales").changes == ()
    run_statements(
        tmp_path / "shop.sqlite",
        "ALTER TABLE orders RENAME COLUMN amount TO price",
        "CREATE TABLE shops (id INTEGER PRIMARY KEY, street TEXT)",
        "INSERT INTO shops VALUES (1, 'Storgata')",
    )
    with pytest.raises(QueryFailed, match=r"read them again with refresh_connection\(\)"):
        shop.ask("total amount per city")
    refreshed = shop.refresh_connection("sales")
    assert [
        (difference.table, difference.kind, difference.added, difference.removed) for difference in refreshed.changes
    ] == [
        ("orders", "changed", ("price REAL",), ("amount REAL",)),
        ("shops", "added", (), ()),
    ]
    assert sorted(shop.ask("total price per city").table.rows) == [(5.0, "Bergen"), (37.5, "Oslo")]
    assert shop.describe("orders").table.description == "What was bought"
    assert [field.name for field in shop.describe("orders").fields] == ["id", "customer_id", "price", "ordered_on"]
    assert shop.describe("customers").fields[2].description == "home town"
    ids_after = {table.table_name: table.id for table in shop.tables()}
    assert ids_before.items() <= ids_after.items()
    assert shop.find_tables("Storgata")[0].table.table_name == "shops"
    run_statements(tmp_path / "shop.sqlite", "DROP TABLE shops")
    [removal] = shop.refresh_connection("sales").changes
    assert (removal.table, removal.kind) == ("shops", "removed")
    assert not [hit for hit in shop.find_tables("shops in a street") if hit.table.table_name == "shops"]
    owners = {
        row.owner_id for row in get_records(engine).scan(Chunk, "default") if row.owner_kind in ("table", "field")
    }
    described_ids = {
        row.id for entity in (TableMetadata, FieldMetadata) for row in get_records(engine).scan(entity, "default")
    }
    assert owners == described_ids


def test_a_connection_is_deleted_and_restored(engine: Everhold, shop: View, tmp_path: Path) -> None:
    assert shop.delete_connection("sales", preview=True).rows["table_metadata"] == 2
    shop.delete_connection("sales")
    assert not shop.connections()
    assert not shop.find_tables("orders")
    with pytest.raises(NotFound, match="no tables"):
        shop.ask("How many orders are there?")
    assert shop.restore_connection("sales").name == "sales"
    assert shop.ask("How many orders are there?").table.rows == ((4,),)
    connection_id = shop.connections()[0].id
    shop.delete_connection("sales", hard=True)
    records = get_records(engine)
    for entity in (Connection, TableMetadata, FieldMetadata):
        assert not records.count(entity, "default", deleted=True)
    files = make_source_files(engine._parts.settings, records)
    assert not list(files.blobs.list_addresses(f"default\n{connection_id}"))
    assert (tmp_path / "shop.sqlite").exists()


def test_a_name_that_is_in_use_leads_to_the_new_address(shop: View, tmp_path: Path) -> None:
    write_duckdb(tmp_path / "staff.duckdb")
    connected = shop.connect("sales", f"duckdb:///{tmp_path / 'staff.duckdb'}")
    assert not connected.is_new
    assert {change.kind for change in connected.changes} == {"added", "removed"}
    assert [connection.kind for connection in shop.connections()] == ["duckdb"]
    assert shop.ask("average salary").table.rows == ((200.0,),)


def test_other_scopes_see_nothing(engine: Everhold, shop: View) -> None:
    for stranger in (engine.scope(project="other"), engine.scope(user="eve"), engine.scope(organization="acme")):
        assert not stranger.connections()
        with pytest.raises(NotFound):
            stranger.sql("SELECT * FROM orders", connection="sales")
        with pytest.raises(NotFound):
            stranger.refresh_connection("sales")
        with pytest.raises(NotFound):
            stranger.delete_connection("sales", hard=True)


def test_a_failed_connection_leaves_nothing_behind(engine: Everhold, shop: View, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes((tmp_path / "shop.sqlite").read_bytes()[:100] + b"x" * 5000)
    empty = tmp_path / "empty.sqlite"
    sqlite3.connect(empty).close()
    for path in (damaged, empty, tmp_path / "missing.sqlite"):
        with pytest.raises((DataUnavailable, InvalidInput, QueryFailed)):
            shop.connect("other", f"sqlite:///{path}")
        with pytest.raises((DataUnavailable, InvalidInput, QueryFailed)):
            shop.connect("sales", f"sqlite:///{path}")
    assert [connection.name for connection in shop.connections()] == ["sales"]
    assert shop.ask("How many orders are there?").table.rows == ((4,),)


# What may be connected


def test_a_password_is_not_stored_without_a_master_key(shop: View) -> None:
    with pytest.raises(InvalidInput, match="no secret is stored; set a master key") as caught:
        shop.connect("db", f"postgresql://reader:{SECRET}@example.com/shop")
    assert SECRET not in str(caught.value)


def test_only_the_name_of_a_variable_is_stored(
    engine: Everhold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALES_URL", f"sqlite:///{tmp_path / 'shop.sqlite'}")
    shop = engine.scope(project="shop")
    shop.connect("sales", url_env="SALES_URL")
    assert shop.connections()[0].address == "$SALES_URL"
    [row] = get_records(engine).scan(Connection, "default")
    assert (row.dsn, row.options["url_env"]) == (b"", "SALES_URL")
    assert shop.ask("How many orders are there?").table.rows == ((4,),)
    monkeypatch.delenv("SALES_URL")
    with pytest.raises(DataUnavailable, match="variable 'SALES_URL' is not set"):
        shop.ask("How many orders are there?")


def test_secrets_are_shown_nowhere(
    engine: Everhold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SALES_URL", f"postgresql://reader:{SECRET}@127.0.0.1:1/shop")
    monkeypatch.setenv("NO_URL", SECRET)
    shop = engine.scope(project="shop")
    caplog.set_level("DEBUG")
    for variable in ("SALES_URL", "NO_URL"):
        with pytest.raises((InvalidInput, DataUnavailable)) as caught:
            shop.connect("sales", url_env=variable)
        assert SECRET not in f"{caught.value!s}{caught.value!r}{caught.value.value}"
    shop.remember("something")
    engine.export(str(tmp_path / "bundle.jsonl"))
    assert SECRET not in (tmp_path / "bundle.jsonl").read_text()
    assert SECRET not in caplog.text
    lines = get_records(engine).scan(AccessLog, "default")
    assert any(not line.success for line in lines)
    assert SECRET not in "".join(line.model_dump_json() for line in lines)


def test_variables_of_settings_and_others_are_refused(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sqlite_store.open(connections={"variables": "SHOP_*"})
    for name in ("EVERHOLD_STORAGE", "DATABASE_URL"):
        monkeypatch.setenv(name, "sqlite:///x.db")
        with pytest.raises(InvalidInput, match="may not hold the address of a connection"):
            engine.scope(project="shop").connect("sales", url_env=name)


def test_the_store_itself_is_not_connected(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    path = Path(engine.settings.storage.partition("://")[2] or engine.settings.storage)
    link = tmp_path / "link.sqlite"
    link.symlink_to(path if path.is_absolute() else Path("/") / path)
    for address in (engine.settings.storage, f"sqlite:///{link}"):
        url = address if "://" in address else f"sqlite:///{address}"
        with pytest.raises(InvalidInput, match="the store itself cannot be connected"):
            engine.scope(project="shop").connect("own", url)


def test_only_files_in_allowed_folders_are_connected(sqlite_store: Store, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    write_sqlite(tmp_path / "open" / "shop.sqlite")
    write_sqlite(tmp_path / "shop.sqlite")
    shop = sqlite_store.open(connections={"folders": [str(tmp_path / "open")]}).scope(project="shop")
    shop.connect("sales", f"sqlite:///{tmp_path / 'open' / 'shop.sqlite'}")
    for path in (tmp_path / "shop.sqlite", tmp_path / "open" / ".." / "shop.sqlite"):
        with pytest.raises(InvalidInput, match="in no folder that may be connected"):
            shop.connect("other", f"sqlite:///{path}")


def test_an_exported_connection_is_imported_and_needs_no_secret(
    engine: Everhold, shop: View, sqlite_store: Store, tmp_path: Path
) -> None:
    engine.export(str(tmp_path / "bundle.jsonl"))
    with Everhold.open(str(tmp_path / "copy.db"), blobs=str(tmp_path / "other")) as copy:
        copy.load(str(tmp_path / "bundle.jsonl"))
        view = copy.scope(project="shop")
        assert [connection.name for connection in view.connections()] == ["sales"]
        assert view.sql("SELECT count(*) FROM orders").rows == ((4,),)
        assert view.refresh_connection("sales").changes == ()
        assert view.ask("total amount per city").table.rows


def test_statements_learned_for_a_connection_are_in_its_dialect(engine: Everhold, shop: View) -> None:
    answer = shop.ask("orders of Ann")
    sql = """
        SELECT strftime('%Y', ordered_on), amount FROM orders JOIN customers ON customer_id = customers.id
        WHERE name = 'Ann' ORDER BY orders.id
    """
    shop.correct(answer.query, sql=sql)
    [pattern] = get_records(engine).scan(QueryPattern, "default")
    assert pattern.dialect == "sqlite"
    assert shop.ask("orders of Ann").table.rows == (("2025", 10.5), ("2024", 7.0))
    assert shop.ask("orders of Bob").table.rows == (("2025", 5.0),)
