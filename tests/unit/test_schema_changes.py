"""Changes of the schema: an upgraded store has the schema of a new one, and no data is lost."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from everhold.adapters.sqlite import SqliteRecords, words
from everhold.adapters.sqlite import schema as sqlite_schema
from everhold.adapters.sqlite.connection import SqliteOptions
from everhold.adapters.sqlite.dialect import SQLITE
from everhold.errors import SchemaTooNew
from everhold.model import Memory, Outbox
from everhold.model.base import Row
from everhold.schema import catalog, freeze
from everhold.schema.catalog import CATALOG, TABLES, get_table
from everhold.schema.changes import (
    CURRENT,
    VERSIONS,
    AddColumn,
    AddLookup,
    AddTable,
    AddUnique,
    SchemaChange,
    Version,
    apply_change,
    decode_table,
    encode_table,
)
from everhold.schema.operations import Put
from everhold.schema.sql import create_indexes, create_table
from everhold.schema.table import Column, Kind, Lookup, Reference, Table, Unique, derive_columns
from everhold.testing.records_rows import is_same_row, make_family, make_full_row

Shape = dict[str, Any]

NOTES = Table(
    "notes",
    (
        Column("organization_id", Kind.TEXT, width=255),
        Column("id", Kind.TEXT, width=255),
        Column("memory_id", Kind.TEXT, nullable=True, width=255),
        Column("share", Kind.REAL, low=0, high=1),
        Column("tone", Kind.TEXT, one_of=("kind", "plain")),
    ),
    lookups=(Lookup(("tone",)),),
    uniques=(Unique("memory", ("memory_id",), when="memory_id"),),
    references=(
        Reference(("organization_id",), "organizations"),
        Reference(("memory_id",), "memories", on_delete="set_null"),
    ),
)
CHANGES: tuple[SchemaChange, ...] = (
    AddColumn("memories", Column("mood", Kind.TEXT, nullable=True, width=20)),
    AddColumn("memories", Column("weight", Kind.REAL, low=0), default=0.5),
    AddColumn("memories", Column("shared", Kind.BOOLEAN), default=0),
    AddColumn("agents", Column("motto", Kind.TEXT), default="it's fine"),
    AddLookup("memories", Lookup(("mood",))),
    AddUnique("agents", Unique("topic", ("topic",), when="topic")),
    AddTable(NOTES),
)


def apply_changes(changes: tuple[SchemaChange, ...]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for version in VERSIONS:
        for change in version.changes:
            tables = apply_change(tables, change)
    for change in changes:
        tables = apply_change(tables, change)
    return tables


def test_all_changes_applied_to_an_empty_store_give_the_catalog() -> None:
    tables = apply_changes(())
    assert tables.keys() == TABLES.keys()
    for name, table in TABLES.items():
        columns = {column.name: column for column in tables[name].columns}
        assert columns == table.by_name, name
        assert replace(tables[name], columns=table.columns) == table, (
            f"{name} has changed: run python -m everhold.schema.freeze, or append a Version after a release"
        )


def test_versions_are_numbered_without_a_gap() -> None:
    assert [version.number for version in VERSIONS] == list(range(1, CURRENT + 1))


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_table_survives_json(table: Table) -> None:
    assert decode_table(json.loads(json.dumps(encode_table(table)))) == table


@pytest.mark.parametrize("entity", CATALOG, ids=lambda entity: entity.__name__)
def test_a_catalogued_table_has_what_its_rules_mention(entity: Any) -> None:
    table = CATALOG[entity]
    assert table.columns == derive_columns(entity)
    mentioned = {
        *table.key,
        *(name for rule in (*table.lookups, *table.uniques, *table.references) for name in rule.columns),
    }
    assert mentioned <= table.by_name.keys()
    for reference in table.references:
        target = TABLES[reference.target]
        assert set(reference.target_columns) <= target.by_name.keys()
        assert reference.on_delete == "cascade" or all(table.by_name[name].nullable for name in reference.columns)


def test_tables_of_dependent_rows_come_later_in_the_catalog() -> None:
    """Soft deletion goes through the catalog once, from the first table to the last."""
    positions = {name: index for index, name in enumerate(TABLES)}
    for table in TABLES.values():
        for reference in table.references:
            if table.soft and reference.on_delete == "cascade":
                assert positions[reference.target] < positions[table.name], (table.name, reference)


def test_a_reference_that_is_emptied_breaks_no_unique_rule() -> None:
    """Otherwise a row could not be purged while two other rows refer to it."""
    for table in TABLES.values():
        for reference in table.references:
            for unique in table.uniques:
                if reference.on_delete == "set_null" and set(reference.columns) & set(unique.columns):
                    assert unique.when in reference.columns, (table.name, unique)


def read_shape(connection: sqlite3.Connection) -> Shape:
    """Return the tables and indexes of a database by definition, independent of the order of their creation."""
    shape: Shape = {}
    for (name,) in connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    ):
        columns = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
        keys = connection.execute(f'PRAGMA foreign_key_list("{name}")').fetchall()
        shape[name] = {
            "columns": sorted((column, kind, required, in_key) for _, column, kind, required, _, in_key in columns),
            "indexes": sorted(_list_indexes(connection, name)),
            "references": sorted(
                (target, column, target_column, action) for _, _, target, column, target_column, _, action, _ in keys
            ),
        }
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name")
    shape["triggers"] = triggers.fetchall()
    return shape


def _list_indexes(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    for _, name, unique, _, partial in connection.execute(f'PRAGMA index_list("{table}")').fetchall():
        columns = tuple(str(row[2]) for row in connection.execute(f'PRAGMA index_info("{name}")'))
        rows = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
        yield name, unique, partial, columns, str(rows)


def create_tables(tables: dict[str, Table], path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    for table in tables.values():
        connection.execute(create_table(table, SQLITE))
        for statement in create_indexes(table, SQLITE):
            connection.execute(statement)
    for table in tables.values():
        for statement in sqlite_schema.create_rule_triggers(table):
            connection.execute(statement)
    return connection


def test_an_upgraded_file_is_like_a_new_one_and_keeps_its_data(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    records = SqliteRecords(SqliteOptions(path=path))
    rows = make_family("org")
    records.commit([Put(row) for row in rows.values()])
    records.close()

    second = Version(CURRENT + 1, "second", CHANGES)
    with closing(sqlite3.connect(path)) as upgraded_store, upgraded_store:
        sqlite_schema.upgrade(upgraded_store, CURRENT, (*VERSIONS, second))
        upgraded = read_shape(upgraded_store)
        assert upgraded_store.execute("SELECT mood, weight, shared FROM memories").fetchall() == [(None, 0.5, 0)]
        assert upgraded_store.execute("SELECT motto FROM agents").fetchall() == [("it's fine",)]
        assert upgraded_store.execute("SELECT max(version) FROM schema_versions").fetchone() == (CURRENT + 1,)

    with closing(create_tables(apply_changes(CHANGES), tmp_path / "new.db")) as new_store:
        expected = read_shape(new_store)
    # The tables of SQLite's full-text index are not in the catalog.
    upgraded = {name: shape for name, shape in upgraded.items() if name in expected}
    upgraded["triggers"] = [trigger for trigger in upgraded["triggers"] if "_words_" not in trigger[0]]
    assert upgraded == expected


def test_the_rules_of_an_added_table_hold(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    records = SqliteRecords(SqliteOptions(path=path))
    records.commit([Put(row) for row in make_family("org").values()])
    records.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        sqlite_schema.upgrade(connection, CURRENT, (*VERSIONS, Version(CURRENT + 1, "second", CHANGES)))
        insert = "INSERT INTO notes (organization_id, id, memory_id, share, tone) VALUES (?, ?, ?, ?, ?)"
        connection.execute(insert, ("org", "n", "one", 0.5, "kind"))
        for wrong_row in (
            ("nowhere", "x", None, 0.5, "kind"),
            ("org", "x", "nowhere", 0.5, "kind"),
            ("org", "x", None, 1.5, "kind"),
            ("org", "x", None, 0.5, "rude"),
            ("org", "x", "one", 0.5, "kind"),
            ("org", "n", None, 0.5, "kind"),
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(insert, wrong_row)
        connection.execute("DELETE FROM memories")
        assert connection.execute("SELECT memory_id FROM notes").fetchall() == [(None,)]


def test_an_older_file_is_upgraded_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.db"
    records = SqliteRecords(SqliteOptions(path=path))
    rows = make_family("org")
    records.commit([Put(row) for row in rows.values()])
    records.close()
    monkeypatch.setattr(sqlite_schema, "VERSIONS", (*VERSIONS, Version(CURRENT + 1, "second", CHANGES)))
    monkeypatch.setattr(sqlite_schema, "CURRENT", CURRENT + 1)
    for _ in range(2):
        records = SqliteRecords(SqliteOptions(path=path))
        (memory,) = records.scan(Memory, "org")
        assert is_same_row(memory, rows["memories"])
        records.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version, name FROM schema_versions ORDER BY version").fetchall() == [
            *((version.number, version.name) for version in VERSIONS),
            (CURRENT + 1, "second"),
        ]


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.db"
    SqliteRecords(SqliteOptions(path=path)).close()
    with closing(sqlite3.connect(path)) as connection:
        before = read_shape(connection)
    broken = Version(CURRENT + 1, "second", (*CHANGES, AddTable(catalog.TABLES["memories"])))
    monkeypatch.setattr(sqlite_schema, "VERSIONS", (*VERSIONS, broken))
    monkeypatch.setattr(sqlite_schema, "CURRENT", CURRENT + 1)
    with pytest.raises(Exception, match="memories"):
        SqliteRecords(SqliteOptions(path=path))
    with closing(sqlite3.connect(path)) as connection:
        assert read_shape(connection) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_file_is_refused_untouched(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "newer.db"
    SqliteRecords(SqliteOptions(path=path)).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO schema_versions (version, name, applied_at) VALUES (?, 'later', 0)", (CURRENT + 1,)
        )
    with pytest.raises(SchemaTooNew, match=rf"schema version {CURRENT + 1}, newer than {CURRENT}, .*upgrade Everhold"):
        SqliteRecords(SqliteOptions(path=path, read_only=read_only))


# a store of an older version, with every entity filled

ADDED_COLUMNS: dict[str, tuple[AddColumn, ...]] = {
    "memories": (
        AddColumn("memories", TABLES["memories"].by_name["attribute"]),
        AddColumn("memories", TABLES["memories"].by_name["pinned"], default=0),
    ),
    "messages": (AddColumn("messages", TABLES["messages"].by_name["otid"]),),
}
LATER_TABLE = "query_runs"


def make_older_tables() -> dict[str, Table]:
    """Return the current tables without one table, some columns and their lookups, and one unique rule."""
    tables = {name: table for name, table in TABLES.items() if name != LATER_TABLE}
    for name, additions in ADDED_COLUMNS.items():
        added_columns = {addition.column.name for addition in additions}
        table = tables[name]
        tables[name] = replace(
            table,
            columns=tuple(column for column in table.columns if column.name not in added_columns),
            lookups=tuple(lookup for lookup in table.lookups if not added_columns & set(lookup.columns)),
        )
    tables["users"] = replace(tables["users"], uniques=())
    return tables


def list_changes_since_older() -> tuple[SchemaChange, ...]:
    columns = [addition for additions in ADDED_COLUMNS.values() for addition in additions]
    lookups = [
        AddLookup(name, lookup)
        for name, table in make_older_tables().items()
        for lookup in TABLES[name].lookups
        if lookup not in table.lookups
    ]
    uniques = [AddUnique("users", unique) for unique in TABLES["users"].uniques]
    return (*columns, *lookups, *uniques, AddTable(TABLES[LATER_TABLE]))


def make_rows_of_every_entity() -> list[Row]:
    """Return filled rows of two organizations, parents first."""
    families = {("org", "one"): 0, ("org", "two"): 1, ("other", "one"): 2}
    rows: dict[tuple[str, str, str], Row] = {}
    for (organization, name), variant in families.items():
        for table, row in make_family(organization, name, variant).items():
            rows.setdefault((table, organization, "" if table == "organizations" else name), row)
    return [*rows.values(), *(make_full_row(Outbox, "org", f"line-{number}", number) for number in range(3))]


def make_older_file(path: Path, source: Path) -> None:
    """Copy a current file into one with the older tables only."""
    tables = make_older_tables()
    with closing(create_tables(tables, path)) as connection:
        connection.execute("ATTACH ? AS source", (str(source),))
        for name, table in tables.items():
            names = ", ".join(f'"{column}"' for column in table.names)
            connection.execute(f'INSERT INTO main."{name}" ({names}) SELECT {names} FROM source."{name}"')
        for statement in (*words.TABLES, *words.create_triggers()):
            connection.execute(statement)
        connection.commit()


def upgrade_row(row: Row) -> Row:
    """Return a row as it is after an upgrade: the added columns hold their defaults."""
    name = get_table(type(row)).name
    added = {addition.column.name: addition.default for addition in ADDED_COLUMNS.get(name, ())}
    pinned = {"pinned": False} if "pinned" in added else {}
    return row.model_copy(update={**added, **pinned})


def test_a_store_of_an_older_version_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, source = tmp_path / "older.db", tmp_path / "source.db"
    rows = make_rows_of_every_entity()
    with closing(SqliteRecords(SqliteOptions(path=source))) as records:
        records.commit([Put(row) for row in rows])
    with closing(sqlite3.connect(source)) as connection:
        new_shape = read_shape(connection)
    make_older_file(path, source)
    first = Version(1, "older", tuple(AddTable(table) for table in make_older_tables().values()))
    monkeypatch.setattr(sqlite_schema, "VERSIONS", (first, Version(2, "current", list_changes_since_older())))
    monkeypatch.setattr(sqlite_schema, "CURRENT", 2)
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        for row in rows:
            if get_table(type(row)).name != LATER_TABLE:
                stored = records.scan(type(row), None, deleted=True)
                assert any(is_same_row(stored_row, upgrade_row(row)) for stored_row in stored), row
        assert records.find_problems() == []
        records.commit([Put(row) for row in rows if get_table(type(row)).name == LATER_TABLE])
    with closing(sqlite3.connect(path)) as connection:
        assert read_shape(connection) == new_shape


def test_the_first_version_is_written_by_the_command() -> None:
    assert freeze.PATH.read_text("utf-8") == freeze.render_first_tables(), "run python -m everhold.schema.freeze"


def test_no_name_is_used_twice_in_the_catalog() -> None:
    statements = [statement for table in TABLES.values() for statement in create_indexes(table, SQLITE)]
    names = [statement.split('"')[1] for statement in statements]
    assert len(names) == len(set(names))
    assert all(len(name) < 63 for name in names)
