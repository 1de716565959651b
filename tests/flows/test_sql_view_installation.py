"""Installing SQL views, listing and removing them: what they leave out, and what they survive."""

import asyncio
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everhold import AsyncEverhold, Everhold, clock, settings, stores
from everhold.adapters.duckdb import schema as duckdb_schema
from everhold.adapters.sqlite import schema as sqlite_schema
from everhold.errors import AlreadyExists, InvalidInput, NotFound, StoreReadOnly
from everhold.ports.sql_views import ViewDefinition
from everhold.schema.changes import CURRENT, VERSIONS, AddColumn, Version
from everhold.schema.legacy_views.declarations import AbsentColumn
from everhold.schema.legacy_views.presets import PRESETS, find_preset
from everhold.schema.statements import SqlStatement
from everhold.schema.table import Column, Kind
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store, get_parts, get_records, make_store
from tests.flows.legacy_data import EXPECTED
from tests.flows.legacy_database import SQL_STORES, Report

# All tests of views run in one process, because those on PostgreSQL share a database.
pytestmark = pytest.mark.xdist_group("sql views")
HOSTILE = """o'*/ --";\\%s"""


@pytest.fixture(params=SQL_STORES)
def sql_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = make_store(request.param, request, tmp_path)
    yield store
    store.close()
    if store.name == "postgres":  # its tables are emptied for the next test, but its views are not
        engine = store.open()
        for preset in engine.list_views():
            if preset.views:
                engine.remove_views(preset.preset)
        engine.close()


@pytest.fixture
def file_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = make_store("sqlite", request, tmp_path)
    yield store
    store.close()


def read_ids(engine: Everhold, preset: str, view: str, column: str = "id") -> list[Any]:
    """Return the values of a column of an installed view, while the engine is open."""
    [installed] = [view_set for view_set in engine.list_views() if view_set.preset == preset]
    schema = f'"{installed.schema}".' if installed.schema else ""
    sql = f'SELECT "{column}" FROM {schema}"{installed.views[view]}" ORDER BY 1'
    records: Any = get_records(engine)
    rows = records.ask([(sql, ())])[0] if records.traits.name == "postgres" else records.query(sql, ())
    return [value for (value,) in rows]


def list_definitions(engine: Everhold) -> list[tuple[Any, ...]]:
    views = get_parts(engine).find_sql_views()
    assert views is not None
    return [tuple(view) for view in views.list_views()]


class TestRows:
    def test_the_view_shows_only_rows_that_recall_finds(self, sql_store: Store) -> None:
        engine = sql_store.open()
        alice = engine.scope(user="alice")
        now = clock.now()
        alice.remember("Alice drinks tea", id="kept", tags=["t"])
        alice.remember("Alice drinks water", id="forgotten", tags=["t"])
        alice.remember("Alice plays chess", id="purged", tags=["t"])
        alice.remember("Alice swims", id="expired", tags=["t"], expires_at=now - timedelta(seconds=1))
        alice.remember("Alice will fly", id="future", tags=["t"], valid_from=now + timedelta(days=1))
        alice.remember("Alice lives in Rome", id="replaced", tags=["t"])
        alice.relate("kept", "replaced")
        alice.supersede("replaced", "Alice lives in Oslo", id="replacement")
        alice.forget("forgotten")
        alice.forget("purged", hard=True)
        engine.scope(user="bob").remember("Bob cooks", id="of bob")
        engine.scope(user="bob", session="b").say("Hello", id="said by bob")
        engine.delete_user("bob")
        engine.install_views("s2")
        engine.install_views("s4")
        assert read_ids(engine, "julep", "memory_facts") == ["kept", "replacement"]
        assert read_ids(engine, "memory_orchestrator", "memory_entries", "memory_id") == ["kept", "replacement"]
        assert read_ids(engine, "memory_orchestrator", "memory_tags", "memory_id") == ["kept"]
        assert read_ids(engine, "memory_orchestrator", "memory_relationships", "source_memory_id") == []
        assert read_ids(engine, "memory_orchestrator", "vector_embeddings", "memory_id") == ["kept", "replacement"]
        assert read_ids(engine, "memory_orchestrator", "user_profiles", "user_id") == ["alice"]
        assert read_ids(engine, "julep", "messages") == []
        engine.restore("user", "bob")
        assert read_ids(engine, "julep", "memory_facts") == ["kept", "of bob", "replacement"]
        assert read_ids(engine, "julep", "conversations") == ["b"]

    def test_a_system_with_one_tenant_shows_one_organization(self, sql_store: Store) -> None:
        engine = sql_store.open()
        for organization in ("default", "acme", HOSTILE):
            engine.scope(organization=organization, user="u").remember("Something", id=f"of {organization[:4]}")
        engine.install_views("s4")
        assert read_ids(engine, "julep", "memory_facts") == ["of defa"]
        assert engine.install_views("s4", organization="acme").organization == "acme"
        assert read_ids(engine, "julep", "memory_facts") == ["of acme"]
        assert engine.install_views("s4", organization=HOSTILE).organization == HOSTILE
        assert read_ids(engine, "julep", "memory_facts") == ["of o'*/"]
        assert [preset.state for preset in engine.list_views() if preset.views] == ["installed"]
        engine.install_views("s3")
        assert read_ids(engine, "agentmem", "memories") == ["of acme", "of defa", "of o'*/"]
        engine.install_views("s3", organization="acme")
        assert read_ids(engine, "agentmem", "organizations") == ["acme"]

    def test_a_turn_that_is_a_message_and_a_memory_is_shown_once(self, sql_store: Store) -> None:
        engine = sql_store.open()
        chat = engine.scope(user="alice", session="s")
        chat.say("Hello", id="message")
        chat.remember("Hello", kind="conversation", id="memory")
        chat.say("Goodbye", id="last")
        engine.install_views("s2")
        assert read_ids(engine, "memory_orchestrator", "memory_entries", "memory_id") == ["last", "memory"]


class TestInstalling:
    def test_installing_twice_changes_nothing(self, sql_store: Store) -> None:
        engine = sql_store.open()
        first = engine.install_views("s2")
        before = list_definitions(engine)
        views: Any = get_parts(engine).find_sql_views()
        view_class = type(views)
        calls: list[object] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(view_class, "replace_views", lambda *arguments: calls.append(arguments))
            assert engine.install_views("memory-orchestrator") == first
        assert not calls
        assert list_definitions(engine) == before
        assert len(before) == len(first.views) == len(EXPECTED["memory_orchestrator"])

    def test_other_arguments_replace_the_views(self, sql_store: Store) -> None:
        engine = sql_store.open()
        engine.install_views("julep")
        installed = engine.install_views("julep", prefix="old_")
        assert set(installed.views.values()) == {"old_conversations", "old_messages", "old_memory_facts"}
        assert {name for _, name, _ in list_definitions(engine)} == set(installed.views.values())

    def test_removing_leaves_nothing(self, sql_store: Store) -> None:
        engine = sql_store.open()
        before = [preset.state for preset in engine.list_views()]
        for preset in PRESETS:
            engine.install_views(preset)
        assert engine.remove_views("s2").views == {}
        assert [preset.preset for preset in engine.list_views() if preset.views] == [
            "agentic_memory", "agent_lifecycle", "agentmem", "julep",
        ]  # fmt: skip
        for preset in set(PRESETS) - {"memory_orchestrator"}:
            engine.remove_views(preset)
        assert [preset.state for preset in engine.list_views()] == before
        assert list_definitions(engine) == []
        records: Any = get_records(engine)
        if sql_store.name != "sqlite":
            sql = "SELECT schema_name FROM information_schema.schemata"
            rows = records.ask([(sql, ())])[0] if sql_store.name == "postgres" else records.query(sql, ())
            assert not {name for (name,) in rows} & PRESETS.keys()
        with pytest.raises(NotFound, match="'julep' are not installed; list_views"):
            engine.remove_views("julep")

    def test_views_survive_reopening_and_maintenance(self, sql_store: Store) -> None:
        engine = sql_store.open(grace_days=0)
        alice = engine.scope(user="alice")
        alice.remember("Alice drinks tea", id="kept")
        alice.remember("Alice plays chess", id="purged")
        engine.install_views("s4")
        before = list_definitions(engine)
        alice.forget("purged", hard=True)
        engine.maintain()  # rewrites the files of SQLite and DuckDB
        engine.close()
        engine = sql_store.open()
        assert list_definitions(engine) == before
        assert read_ids(engine, "julep", "memory_facts") == ["kept"]
        assert engine.doctor().parts["SQL views"] == "julep (installed)"
        assert engine.doctor().problems == []

    def test_a_move_does_not_copy_views(self, file_store: Store, tmp_path: Path) -> None:
        engine = file_store.open()
        engine.scope(user="alice").remember("Alice drinks tea", id="kept")
        engine.install_views("s4")
        engine.close()
        target = tmp_path / "moved.db"
        Everhold.move(file_store.storage, target)
        records, candidates = stores.open_store(settings.load(target))
        views = stores.make_sql_views(settings.load(target), records)
        assert views is not None
        assert views.list_views() == []
        candidates.close()
        records.close()


class TestOutdated:
    def test_maintenance_renews_outdated_views(self, sql_store: Store) -> None:
        engine = sql_store.open()
        engine.scope(user="alice").remember("Alice drinks tea", id="kept")
        engine.install_views("s4", prefix="old_", organization="default")
        views: Any = get_parts(engine).find_sql_views()
        first, _, third = views.list_views()
        stale = ViewDefinition(first.schema, first.name, first.name, "SELECT 1 AS id", first.note + " ")
        views.replace_views([third], [stale])  # one is missing and one has changed
        assert len(views.list_views()) == 2
        assert [preset.state for preset in engine.list_views() if preset.views] == ["outdated"]
        assert engine.doctor().problems == [
            "the SQL views of preset 'julep' are outdated; run `everhold views install julep`"
        ]
        assert engine.maintain(["views"], dry_run=True)["views"].counts == {"presets": 1}
        assert engine.maintain(["views"])["views"].counts == {"presets": 1}
        assert engine.maintain(["views"])["views"].counts == {}
        [installed] = [preset for preset in engine.list_views() if preset.views]
        assert (installed.state, installed.views["memory_facts"]) == ("installed", "old_memory_facts")
        assert read_ids(engine, "julep", "memory_facts") == ["kept"]
        assert engine.doctor().problems == []

    def test_maintenance_replaces_nothing_of_others(self, file_store: Store) -> None:
        engine = file_store.open()
        engine.install_views("s4")
        with sqlite3.connect(file_store.storage) as connection:
            connection.execute("DROP VIEW memory_facts")
            connection.execute("CREATE VIEW memory_facts AS SELECT 'mine' AS id")
        connection.close()
        report = engine.maintain(["views"])["views"]
        assert report.outcome == "failed"
        assert "'memory_facts'" in str(report.error)
        assert Report(file_store).query("SELECT id FROM memory_facts") == [{"id": "mine"}]

    @pytest.mark.parametrize("name", ["sqlite", "duckdb"])
    def test_an_upgrade_of_the_schema_does_not_break_views(
        self, name: str, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        store = make_store(name, request, tmp_path)
        engine = store.open()
        engine.scope(user="alice").remember("Alice drinks tea", id="kept")
        for preset in PRESETS:
            engine.install_views(preset)
        records: Any = get_records(engine)
        added = [
            AddColumn(table, Column("mood", Kind.TEXT, nullable=True)) for table in ("memories", "messages", "users")
        ]
        versions = (*VERSIONS, Version(CURRENT + 1, "moods", added))
        if name == "sqlite":
            records._write(lambda writer: sqlite_schema.upgrade(writer, CURRENT, versions))
        else:
            with records._database, records._database.cursor() as cursor:
                duckdb_schema.upgrade(cursor, CURRENT, versions)
        assert read_ids(engine, "julep", "memory_facts") == ["kept"]
        assert read_ids(engine, "agentmem", "users") == ["alice"]
        records.run_schema_statements([SqlStatement("DELETE FROM schema_versions WHERE version > ?", [CURRENT])])
        store.close()


class TestRefusals:
    def test_names_of_other_tables_are_refused(self, file_store: Store) -> None:
        engine = file_store.open()
        with sqlite3.connect(file_store.storage) as connection:
            connection.execute("CREATE TABLE memory_facts (id)")
        connection.close()
        with pytest.raises(AlreadyExists, match=r"'memory_facts'.*; pass prefix"):
            engine.install_views("s4")
        assert list_definitions(engine) == []
        assert engine.install_views("s4", prefix="julep_").views["memory_facts"] == "julep_memory_facts"

    def test_a_note_that_was_edited_is_not_ours(self, file_store: Store) -> None:
        engine = file_store.open()
        engine.install_views("s4")
        engine.remove_views("s4")
        with sqlite3.connect(file_store.storage) as connection:
            connection.execute("CREATE VIEW memory_facts AS /* everhold view {nonsense */ SELECT 1")
        connection.close()
        assert {preset.state for preset in engine.list_views()} == {"not installed"}
        with pytest.raises(AlreadyExists):
            engine.install_views("s4")

    def test_wrong_arguments_are_refused(self, sql_store: Store) -> None:
        engine = sql_store.open()
        with pytest.raises(InvalidInput, match="no preset 's9' of views; use one of agentic_memory"):
            engine.install_views("s9")
        with pytest.raises(InvalidInput, match="did you mean 'agentmem'"):
            engine.remove_views("agentmen")
        for name in ("a b", "", "1a", "pg_x", "x" * 41, 'a"b'):
            with pytest.raises(InvalidInput, match="prefix is"):
                engine.install_views("s4", prefix=name)
        if sql_store.name == "sqlite":
            with pytest.raises(InvalidInput, match="has no schemas; pass prefix instead"):
                engine.install_views("s4", schema="x")
        else:
            assert engine.install_views("s4", schema="Reports").schema == "Reports"
            with pytest.raises(AlreadyExists, match="pass prefix or schema"):
                engine.install_views("s3", schema=get_parts(engine).find_sql_views().read_table_schema())  # type: ignore[union-attr]
        assert list(engine.list_views())[3].state == "not installed"

    def test_stores_without_sql_are_refused(self) -> None:
        with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
            for call in (lambda: engine.install_views("s4"), engine.list_views, lambda: engine.remove_views("s4")):
                with pytest.raises(InvalidInput, match="kind 'in_memory' cannot have SQL views; use SQLite") as caught:
                    call()
                assert caught.value.value == "in_memory"
            assert engine.maintain(["views"])["views"].counts == {}

    def test_a_read_only_store_takes_no_views_but_writes_a_script(self, file_store: Store) -> None:
        file_store.open().close()
        engine = file_store.open(storage=f"sqlite:///{file_store.storage}?mode=ro")
        with pytest.raises(StoreReadOnly):
            engine.install_views("s4")
        assert "TEMP VIEW" in engine.write_view_script("s4")


def test_the_verbs_are_awaited(tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncEverhold.open(tmp_path / "a.db", embedder=FakeEmbedder()) as engine:
            assert (await engine.install_views("s4")).state == "installed"
            assert len(await engine.list_views()) == len(PRESETS)
            assert (await engine.remove_views("s4")).state == "not installed"

    asyncio.run(use())


def test_a_script_needs_no_installation_on_sqlite(file_store: Store) -> None:
    engine = file_store.open()
    engine.scope(organization="acme", user="u").remember("Something", id="m")
    report = Report(file_store, engine.write_view_script("s3", organization="acme"))
    assert report.query("SELECT id, organization_id FROM memories") == [{"id": "m", "organization_id": "acme"}]


def test_declarations_are_complete() -> None:
    assert {preset.name: {view.name for view in preset.views} for preset in PRESETS.values()} == {
        preset: set(views) for preset, views in EXPECTED.items()
    }
    for preset in PRESETS.values():
        assert find_preset(preset.alias.upper()) is preset
        for view in preset.views:
            assert all(tuple(rows.columns) == view.columns for rows in view.rows), view.name


def test_the_document_lists_every_view_and_what_is_null() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sql-views.md").read_text("utf-8")
    for preset in PRESETS.values():
        assert f"`{preset.name}`" in page
        assert f"`{preset.alias}`" in page
        for view in preset.views:
            columns = ", ".join(f"`{name}`" for name in view.columns)
            assert f"| `{view.name}` | " in page
            assert columns in page, view.name
            for name, source in view.rows[0].columns.items():
                assert not isinstance(source, AbsentColumn) or f"`{view.name}.{name}`" in page, name
