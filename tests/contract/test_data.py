"""The tables of uploaded data on every store: each column is written by an upload and read back by another engine."""

import hashlib
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import Everhold, View
from everhold.model import FieldMetadata, Source, TableMetadata
from tests.engines import EVERY_STORE, get_records, make_store

_NUMBERS = itertools.count()
_TRACKED = ("id", "organization_id", "created_at", "updated_at", "created_by_id", "last_updated_by_id", "is_deleted",
            "deleted_at", "deletion_id", "version", "metadata")  # fmt: skip


@pytest.fixture(scope="module", params=EVERY_STORE)
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Everhold]]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("data")
        store = make_store(request.param, request, folder, patch)
        # Only one engine at a time may have a DuckDB file open.
        count = 1 if request.param == "duckdb" else 2
        yield [store.open(blobs=str(folder / "blobs")) for _ in range(count)]
        store.close()


@pytest.fixture
def views(engines: list[Everhold]) -> tuple[View, View]:
    """A view that writes and one that reads, of the same project."""
    organization = f"organization-{next(_NUMBERS)}"
    writer, reader = (
        engine.scope(organization=organization, project="shop", user="u1") for engine in (engines[0], engines[-1])
    )
    return writer, reader


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.executescript(
            "CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT, country TEXT);"
            "CREATE TABLE refunds(id INTEGER PRIMARY KEY, customer_id REFERENCES customers(id), weight_kg REAL,"
            "                     day TEXT);"
        )
        connection.executemany(
            "INSERT INTO customers VALUES (?, ?, ?)", [(n, f"Name {n}", ("Peru", "Chad")[n % 2]) for n in range(1, 21)]
        )
        connection.executemany(
            "INSERT INTO refunds VALUES (?, ?, ?, ?)",
            [(n, n % 20 + 1, n / 2 if n % 4 else None, f"2024-02-{n % 28 + 1:02}") for n in range(1, 41)],
        )
    connection.close()
    return tmp_path / "shop.db"


def test_every_column_of_source_is_written_and_read(views: tuple[View, View], shop: Path) -> None:
    """project_id, name, path, media_type, size, sha256, status, row_count."""
    writer, reader = views
    [file] = writer.upload(str(shop), name="Shop.db")
    [source] = reader.sources()
    assert source == file.source
    content = shop.read_bytes()
    expected = {
        "project_id": "shop",
        "name": "Shop.db",
        "path": str(shop),
        "media_type": "application/vnd.sqlite3",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "status": "ready",
        "row_count": 60,
    }
    assert set(Source.model_fields) == {*expected, *_TRACKED}
    assert {name: getattr(source, name) for name in expected} == expected
    assert (source.created_by_id, source.version, source.metadata["file_version"]) == ("u1", 1, 1)


def test_every_column_of_table_metadata_is_written_and_read(views: tuple[View, View], shop: Path) -> None:
    """project_id, source_id, connection_id, table_name, description, row_count, keys, fingerprint."""
    writer, reader = views
    [file] = writer.upload(str(shop))
    customers, refunds = reader.tables()
    foreign_key = {
        "column": "customer_id",
        "to_table": "customers",
        "to_column": "id",
        "confidence": 1.0,
        "declared": True,
    }
    expected = {
        "project_id": "shop",
        "source_id": file.source.id,
        "connection_id": None,
        "table_name": "refunds",
        "description": "refunds: 40 rows of id, customer id, weight kg, day",
        "row_count": 40,
        "primary_key": ["id"],
        "foreign_keys": [foreign_key],
        "fingerprint": file.tables[1].table.fingerprint,
    }
    assert set(TableMetadata.model_fields) == {*expected, *_TRACKED}
    assert {name: getattr(refunds, name) for name in expected} == expected
    assert refunds.fingerprint is not None
    assert refunds.fingerprint != customers.fingerprint
    assert {"content", "values", "place", "notes", "described_by"} == set(refunds.metadata)


def test_every_column_of_field_metadata_is_written_and_read(views: tuple[View, View], shop: Path) -> None:
    """project_id, table_id, name, types, description, nullable, counts, range, samples."""
    writer, reader = views
    writer.upload(str(shop))
    described = reader.describe("refunds")
    weight = described.fields[2]
    expected = {
        "project_id": "shop",
        "table_id": described.table.id,
        "name": "weight_kg",
        "data_type": "DOUBLE",
        "semantic_type": "measure",
        "description": "weight kg in kg of refunds",
        "nullable": True,
        "distinct_count": 30,
        "null_share": 0.25,
        "minimum": 0.5,
        "maximum": 19.5,
        "sample_values": [0.5, 1.0, 1.5, 2.5, 3.0, 3.5, 4.5, 5.0],
    }
    assert set(FieldMetadata.model_fields) == {*expected, *_TRACKED}
    assert {name: getattr(weight, name) for name in expected} == expected
    assert (weight.metadata["unit"], weight.metadata["position"], len(weight.metadata["quantiles"])) == ("kg", 2, 5)
    day = described.fields[3]
    assert (day.semantic_type, day.minimum, day.maximum) == ("date", "2024-02-01", "2024-02-28")


def test_an_uploaded_table_is_found_described_replaced_and_deleted(
    views: tuple[View, View], engines: list[Everhold], shop: Path, tmp_path: Path
) -> None:
    writer, reader = views
    writer.upload(str(shop))
    assert reader.find_tables("which table has refunds?")[0].table.table_name == "refunds"
    writer.update_description("customers", "Everyone in the loyalty programme")
    assert reader.find_tables("loyalty programme")[0].table.table_name == "customers"
    (tmp_path / "shop.csv").write_text("a,b\n1,2\n")
    writer.upload(str(tmp_path / "shop.csv"), name="shop.db")
    assert [table.table_name for table in reader.tables()] == ["shop"]
    assert [hit.table.table_name for hit in reader.find_tables("refunds")] in ([], ["shop"])
    writer.delete_source("shop.db")
    assert not reader.tables()
    writer.restore_source("shop.db")
    assert [source.status for source in reader.sources(every_version=True)] == ["ready", "replaced"]
    writer.delete_source("shop.db", hard=True)
    organization = reader.scope.organization
    for entity in (Source, TableMetadata, FieldMetadata):
        assert get_records(engines[-1]).count(entity, organization, deleted=True) == 0
