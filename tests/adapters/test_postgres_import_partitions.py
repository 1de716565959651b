"""PostgreSQL: imported memories are in the partitions of their original times."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everhold import Everhold
from everhold.adapters.postgres import PostgresOptions, PostgresRecords, partitions
from everhold.adapters.postgres.connection import connect
from everhold.adapters.postgres.partitions import add_partitions, list_partitions
from everhold.importers.ids import decode_id
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store
from tests.servers.postgres import PostgresServer

# All tests run in one process, because they share a database that takes seconds to prepare.
pytestmark = pytest.mark.xdist_group("partitions")


def make_mem0_export(folder: Path) -> Path:
    def make_item(name: str, text: str, **times: Any) -> dict[str, Any]:
        return {"id": name, "memory": text, "user_id": "olga", "hash": "0", **times}

    items = [
        make_item("m-1", "Olga climbs on Thursdays", created_at="2024-02-29T23:59:59.999999+00:00"),
        make_item("m-2", "Olga rents a garage", created_at="2024-03-01T00:00:00+00:00"),
        make_item("line\nbreak", "Olga owns a kayak", created_at="2023-07-01T07:00:00+07:00"),
        make_item("m-4", "Olga was born in spring"),
    ]
    path = folder / "mem0.json"
    path.write_text(json.dumps({"results": items}))
    return path


def find_partitions(url: str) -> dict[str, str]:
    """Return the partition of each memory."""
    with psycopg.connect(url) as session:
        return dict(session.execute("SELECT id, trim('\"' FROM tableoid::regclass::text) FROM memories").fetchall())


def test_an_import_creates_the_partitions_of_its_times(
    postgres_server: PostgresServer, empty_postgres_url: str, tmp_path: Path
) -> None:
    postgres_server.create_role("application")
    url = empty_postgres_url.replace("postgres@", "application@")
    store = Store("postgres", url)
    engine = store.open(postgres={"partitions": "month", "row_security": True, "owner_url": empty_postgres_url})
    path = make_mem0_export(tmp_path)
    engine.load(path, dry_run=True)
    with psycopg.connect(empty_postgres_url) as session:
        assert len(list_partitions(session, "memories")) == 4  # three for the coming months, and the default partition
    assert engine.load(path).added == 4
    assert {decode_id(name): partition for name, partition in find_partitions(empty_postgres_url).items()} == {
        "m-1": "memories@2024-02_2024-03",
        "m-2": "memories@2024-03_2024-04",
        "line\nbreak": "memories@2023-07_2023-08",
        "m-4": "memories@default",
    }
    with psycopg.connect(url) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute('SELECT * FROM "memories@2024-03_2024-04"')
    olga = engine.scope(user="olga")
    assert [olga.get(name).text for name in ("m-1", "m-4")] == ["Olga climbs on Thursdays", "Olga was born in spring"]
    assert engine.load(path).added == 0
    engine.maintain()
    assert engine.doctor().problems == []
    store.close()


@pytest.mark.parametrize("way", ["bundle", "move"])
def test_bundles_and_moves_create_partitions_too(empty_postgres_url: str, tmp_path: Path, way: str) -> None:
    with Everhold.open(tmp_path / "first.db", embedder=FakeEmbedder()) as source:
        planted = datetime(2024, 3, 9, tzinfo=UTC)
        memory = source.scope(user="ann").remember("Ann planted a fig", created_at=planted)
        source.export(tmp_path / "bundle.jsonl")
    if way == "move":
        Everhold.move(tmp_path / "first.db", empty_postgres_url, postgres={"partitions": "month"})
    else:
        store = Store("postgres", empty_postgres_url)
        store.open(postgres={"partitions": "month"}).load(tmp_path / "bundle.jsonl")
        store.close()
    assert find_partitions(empty_postgres_url) == {memory.id: "memories@2024-03_2024-04"}


def test_partitions_for_old_times_do_not_overlap_and_keep_to_the_limit(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_month(year: int, number: int) -> datetime:
        return datetime(year, number, 1, tzinfo=UTC)

    options = PostgresOptions(empty_postgres_url, partitions="quarter")
    PostgresRecords(options).close()
    with connect(options) as connection:
        initial_count = len(list_partitions(connection, "memories"))
        add_partitions(connection, "memories", [make_month(2024, 5)], PostgresOptions("", partitions="month"), None)
        add_partitions(
            connection, "memories", [make_month(2024, 6), make_month(2024, 4), make_month(2023, 12)], options, None
        )
        new_partitions = [
            name for name in list_partitions(connection, "memories") if "@202" in name and name < "memories@2025"
        ]
        assert new_partitions == [
            "memories@2023-10_2024-01", "memories@2024-04_2024-05", "memories@2024-05_2024-06",
            "memories@2024-06_2024-07",
        ]  # fmt: skip
        # Five partitions may be added, four of which exist by now; the default partition does not count.
        monkeypatch.setattr(partitions, "_MAX_PARTITIONS", initial_count - 1 + 5)
        add_partitions(connection, "memories", [make_month(year, 1) for year in range(1970, 2020)], options, None)
        assert [name for name in list_partitions(connection, "memories") if name < "memories@2023"] == [
            "memories@2019-01_2019-04"
        ]
