"""Files that DuckDB opens or refuses, their addresses, and upgrades of their schema."""

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from everhold import settings, stores
from everhold.adapters.duckdb import DuckdbRecords
from everhold.adapters.duckdb import schema as duckdb_schema
from everhold.errors import (
    InvalidSettings,
    MissingExtra,
    SchemaTooNew,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from everhold.model import Memory
from everhold.schema.catalog import ENTITIES, TABLES
from everhold.schema.changes import CURRENT, VERSIONS, AddColumn, AddTable, AddUnique, Version
from everhold.schema.operations import Put
from everhold.schema.table import Column, Kind, Table, Unique
from everhold.testing.records_rows import is_same_row, make_family
from tests.unit.test_duckdb_store import LINE, add_first_memory, open_records


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "memory.duckdb"


@pytest.fixture
def records(path: Path) -> Iterator[DuckdbRecords]:
    store = open_records(path)
    yield store
    store.close()


# files that are refused


def test_a_file_that_is_not_a_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Alice, this is not a database. " * 50)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="not a DuckDB database; choose another file"):
            open_records(path)
    assert path.read_bytes() == before


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE contacts (name VARCHAR)")
    with pytest.raises(StoreDamaged, match=r"another program .*contacts.*choose another file"):
        open_records(path)
    with duckdb.connect(path) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("contacts",)]


@pytest.mark.parametrize("from_byte", [4096, 12_288])
def test_a_damaged_file_is_reported(path: Path, from_byte: int) -> None:
    with closing(open_records(path)) as records:
        add_first_memory(records)
    content = bytearray(path.read_bytes())
    content[from_byte:] = b"\x5a" * (len(content) - from_byte)
    path.write_bytes(content)
    with (
        pytest.raises(StoreDamaged, match=r"damaged .*restore it from a backup"),
        closing(open_records(path)) as records,
    ):
        records.scan(Memory, "org")


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="check that it is a file"):
        open_records(tmp_path)
    with pytest.raises(StoreUnavailable, match="does not exist; check the address"):
        open_records(tmp_path / "missing.duckdb", read_only=True)
    (tmp_path / "letter").write_text("x")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        open_records(tmp_path / "letter" / "memory.duckdb")
    assert [file.name for file in tmp_path.iterdir()] == ["letter"]


# addresses


def test_an_address_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for storage, expected_path in (
        ("duckdb:///folder/here.duckdb", tmp_path / "folder" / "here.duckdb"),
        (f"duckdb:///{tmp_path}/a%20b.duckdb", tmp_path / "a b.duckdb"),
    ):
        records, _ = stores.open_store(settings.load(storage, duckdb={"threads": 1}))
        assert records.traits.details["file"] == str(
            expected_path if "%20" in storage else expected_path.relative_to(tmp_path)
        )
        records.close()
        assert expected_path.is_file()
        records, _ = stores.open_store(settings.load(f"{storage}?mode=ro"))
        with pytest.raises(StoreReadOnly):
            records.commit([Put(LINE)])
        records.close()


@pytest.mark.parametrize("storage", ["duckdb://memories.duckdb", "duckdb://", "duckdb:///"])
def test_the_error_about_an_address_without_a_file_shows_the_right_form(storage: str) -> None:
    with pytest.raises(InvalidSettings, match=r"names no file; write duckdb:///relative or duckdb:////absolute"):
        stores.open_store(settings.load(storage))


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("everhold.adapters.duckdb")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'everhold\[duckdb\]'"):
        stores.open_store(settings.load(f"duckdb:///{tmp_path}/memory.duckdb"))


# upgrades


NOTES = Table(
    "notes",
    (Column("number", Kind.INTEGER), Column("organization_id", Kind.TEXT, width=255), Column("text", Kind.TEXT)),
    key=("number",),
    generated="number",
)
SECOND = Version(
    CURRENT + 1,
    "second",
    (
        AddColumn("memories", Column("mood", Kind.TEXT, nullable=True, width=20)),
        AddColumn("memories", Column("weight", Kind.REAL, low=0), default=0.5),
        AddColumn("memories", Column("shared", Kind.BOOLEAN), default=0),
        AddColumn("agents", Column("motto", Kind.TEXT), default="it's fine"),
        AddUnique("agents", Unique("topic", ("topic",), when="topic")),
        AddTable(NOTES),
    ),
)


def test_a_new_file_records_its_versions(records: DuckdbRecords) -> None:
    rows = records._fetch("SELECT version, name FROM schema_versions ORDER BY version", ())
    assert rows == [(version.number, version.name) for version in VERSIONS]


def test_an_older_file_is_upgraded_and_keeps_its_data(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_family("org")
    with closing(open_records(path)) as records:
        records.commit([Put(row) for row in rows.values()])
    monkeypatch.setattr(duckdb_schema, "VERSIONS", (*VERSIONS, SECOND))
    monkeypatch.setattr(duckdb_schema, "CURRENT", CURRENT + 1)
    for _ in range(2):
        with closing(open_records(path)) as records:
            (memory,) = records.scan(Memory, "org")
            assert is_same_row(memory, rows["memories"])
            assert records._fetch("SELECT mood, weight, shared FROM memories", ()) == [(None, 0.5, False)]
            assert records._fetch("SELECT motto FROM agents", ()) == [("it's fine",)]
            assert records._fetch("SELECT max(version) FROM schema_versions", ()) == [(CURRENT + 1,)]
            last_numbers = dict(records._fetch(duckdb_schema.READ_NUMBERS, ()))
            assert last_numbers == {"outbox": 0, "memory_access_logs": 1, "notes": 0}


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_records(path)) as records:
        add_first_memory(records)
    broken = Version(CURRENT + 1, "second", (*SECOND.changes, AddTable(TABLES["memories"])))
    monkeypatch.setattr(duckdb_schema, "VERSIONS", (*VERSIONS, broken))
    monkeypatch.setattr(duckdb_schema, "CURRENT", CURRENT + 1)
    with pytest.raises(StoreError, match="memories"):
        open_records(path)
    monkeypatch.undo()
    with closing(open_records(path)) as records:
        assert records.count(Memory, "org") == 1
        assert records._fetch("SELECT count(*) FROM duckdb_columns() WHERE column_name = 'mood'", ()) == [(0,)]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_file_is_refused(path: Path, read_only: bool) -> None:
    open_records(path).close()
    with duckdb.connect(path) as connection:
        connection.execute("INSERT INTO schema_versions VALUES (?, 'later', '2030-01-01')", (CURRENT + 1,))
    with pytest.raises(SchemaTooNew, match=rf"version {CURRENT + 1}, newer than {CURRENT}, .*upgrade Everhold"):
        open_records(path, read_only=read_only)


def test_every_table_has_only_columns_and_no_indexes(records: DuckdbRecords) -> None:
    for name, entity in ENTITIES.items():
        rows = records._fetch("SELECT column_name FROM duckdb_columns() WHERE table_name = ?", (name,))
        assert {column for (column,) in rows} == set(entity.model_fields)
    assert records._fetch("SELECT count(*) FROM duckdb_indexes()", ()) == [(0,)]
