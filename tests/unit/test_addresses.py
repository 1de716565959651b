"""Addresses of stores: what they may contain; an invalid address is refused before anything is opened."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, settings, stores
from everhold.adapters.address import FileAddress, TableAddress, read_file, read_table
from everhold.adapters.duckdb import DuckdbOptions, DuckdbRecords
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.errors import InvalidSettings, MissingExtra


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("dynamodb://eu-west-1/tbl?endpont=http://127.0.0.1", "takes no parameter 'endpont'; did you mean 'endpoint'"),
        ("dynamodb://eu-west-1/tbl?mode=ro", "dynamodb:// takes no parameter 'mode'; choose from endpoint"),
        ("sqlite:///x.db?mod=ro", "sqlite:// takes no parameter 'mod'; did you mean 'mode'"),
        ("sqlite:///x.db?mode=zz", "mode=zz is not a way to open x.db; write mode=ro to only read, or leave it out"),
        ("sqlite:///x.db?mode", "mode= is not a way to open x.db"),
        ("sqlite:///x.db?mode=ro&mode=ro", "'mode' is in the address twice; leave one out"),
        ("sqlite:///x.db#mode=ro", "has a #, which ends an address; write it as %23"),
        ("sqlite:///x%00.db", "has a zero byte"),
        ("sqlite://[/x.db", "is not an address; correct"),
        ("duckdb:///x.db?read_only=1", "duckdb:// takes no parameter 'read_only'; choose from mode"),
        ("duckdb:///x.db?mode=rw", "mode=rw is not a way to open x.db"),
        ("memory://?x=1", "memory:// takes no parameter 'x'; leave it out"),
    ],
)
def test_an_invalid_address_is_refused_and_no_file_is_created(folder: Path, storage: str, words: str) -> None:
    with pytest.raises(InvalidSettings, match=words.replace("?", r"\?")):
        stores.open_store(settings.load(storage))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("dynamodb:///tbl", "dynamodb:///tbl names no region; write dynamodb://eu-west-1/memories"),
        ("dynamodb://eu-west-1", "names no table; write dynamodb://eu-west-1/memories"),
        ("dynamodb://eu-west-1/ab", "eu-west-1/ab names no table; .*a name of 3 to 255 letters, digits, _ . or -"),
        (
            "dynamodb://eu-west-1/tbl?endpoint=notaurl",
            "endpoint 'notaurl' is not an address; write it as http://localhost",
        ),
        ("dynamodb://eu-west-1/tbl?endpoint=", "endpoint '' is not an address"),
        ("dynamodb://eu-west-1/tbl?endpoint=http://h:port", "endpoint 'http://h:port' is not an address"),
        ("dynamodb://eu-west-1/tbl?endpoint=ftp://u:s3cret@h", r"endpoint 'ftp://u:\*\*\*@h' is not an address"),
    ],
)
def test_the_missing_part_of_a_dynamodb_address_is_named(storage: str, words: str) -> None:
    with pytest.raises(InvalidSettings, match=words):
        stores.open_store(settings.load(storage))


def test_an_endpoint_in_the_settings_is_checked_too() -> None:
    with pytest.raises(InvalidSettings, match="endpoint 'notaurl' is not an address"):
        stores.open_store(settings.load("dynamodb://eu-west-1/memories", dynamodb={"endpoint": "notaurl"}))


def test_valid_addresses_are_read() -> None:
    assert read_file("a?b#c.db") == FileAddress(Path("a?b#c.db"), False)
    assert read_file("sqlite:////tmp/a%3Fb%23c.db?mode=ro") == FileAddress(Path("/tmp/a?b#c.db"), True)
    assert read_table("dynamodb://eu-west-1/a.b-c_") == TableAddress("eu-west-1", "a.b-c_", None)
    address = "dynamodb://eu-west-1/tbl?endpoint=http://localhost:8000"
    assert read_table(address, "http://other") == TableAddress("eu-west-1", "tbl", "http://localhost:8000")
    assert read_table("dynamodb://eu-west-1/tbl", "http://other").endpoint == "http://other"


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize("name", ["storage", "vectors", "sessions", "blobs"])
def test_the_error_says_that_an_address_is_empty(name: str, empty: str) -> None:
    with pytest.raises(InvalidSettings, match=f"setting {name}: the address is empty .*; write one"):
        settings.load(**{name: empty})


def test_the_error_says_that_the_address_to_move_from_is_empty(folder: Path) -> None:
    with pytest.raises(InvalidSettings, match="setting storage: the address is empty"):
        Everhold.move("", "b.db")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", ["", "?mode=ro"])
def test_the_error_about_a_file_of_another_store_says_how_to_open_it(folder: Path, mode: str) -> None:
    SqliteRecords(SqliteOptions(Path("everhold.db"))).close()
    DuckdbRecords(DuckdbOptions(Path("everhold.duckdb"))).close()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InvalidSettings, match=r"everhold.db is a SQLite file; open it as sqlite:///everhold.db"):
        stores.open_store(settings.load(f"duckdb:///everhold.db{mode}"))
    with pytest.raises(InvalidSettings, match=r"duckdb is a DuckDB file; open it as duckdb:///everhold.duckdb"):
        stores.open_store(settings.load(f"sqlite:///everhold.duckdb{mode}"))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("blobs", "error", "words"),
    [
        ("nosuch://x", InvalidSettings, "blobs cannot be stored at nosuch://.*; use a folder or an fsspec address"),
        ("s3://bucket/blobs", MissingExtra, "blobs at s3:// need another package"),
    ],
)
def test_blobs_are_checked_when_a_store_opens(folder: Path, blobs: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        stores.open_store(settings.load("x.db", blobs=blobs))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("options", [{"blobs": "folder"}, {"blobs": "memory://blobs"}])
def test_opening_a_store_does_not_contact_the_place_of_its_blobs(folder: Path, options: dict[str, Any]) -> None:
    records, candidates = stores.open_store(settings.load("memory://", **options))
    with closing(records):
        candidates.close()
    assert list(folder.iterdir()) == []


def test_vectors_take_no_parameters() -> None:
    with pytest.raises(InvalidSettings, match="chroma:// takes no parameter 'prefix'; leave it out"):
        stores.open_store(settings.load("memory://", vectors="chroma:///folder?prefix=x"))
