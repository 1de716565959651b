"""A forged backup is refused before any of its rows is stored."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard

from everhold import Everhold
from everhold.backups.history import History
from everhold.backups.manifest import Layer, Manifest, ObjectEntry, encode_document
from everhold.backups.objects import Frame, Objects
from everhold.backups.sealing import EVERYONE, NoSealing
from everhold.errors import EverholdError, InvalidInput, StoreDamaged
from everhold.model import Memory
from everhold.schema.catalog import TABLES
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.backup_deps import make_packing, open_place
from tests.engines import Store, get_records

Change = Callable[[dict[str, Any]], None]


class HostileTarget:
    """A target with one backup. Tests change the backup and write it with right checksums."""

    def __init__(self, engine: Everhold, folder: Path) -> None:
        view = engine.scope(user="alice", session="talk")
        view.remember("Alice drinks tea", tags=["drink"])
        self.folder = folder
        self.id = engine.backup(folder).id
        self.history = History(open_place(folder), make_packing())
        self.objects = Objects(self.history.place, make_packing(), NoSealing())
        self.manifest = self.history.require(self.id)

    def put_rows(self, name: str, rows: list[Any]) -> None:
        """Replace the rows of a table."""
        packed = Frame(EVERYONE, [msgpack.packb(row) for row in rows])
        self.put_layer(name, self.objects.put_pack([packed], name), len(rows))

    def put_layer(self, name: str, part: ObjectEntry, rows: int) -> None:
        entry = self.manifest.tables[name].model_copy(update={"layers": (Layer(rows=(part,)),), "rows": rows})
        self.write_manifest(self.manifest.model_copy(update={"tables": {**self.manifest.tables, name: entry}}))

    def write_manifest(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.history.write(manifest)

    def write_json(self, change: Change) -> None:
        """Change the JSON of the manifest."""
        values = json.loads(self.manifest.model_dump_json())
        change(values)
        content = encode_document(json.dumps(values).encode(), make_packing())
        self.history.place.write(f"backups/{self.id}.backup", content)

    def read_rows(self, name: str) -> list[list[Any]]:
        [layer] = self.manifest.tables[name].layers
        frames = [frame for part in layer.rows for frame in self.objects.read_pack(part, name)]
        return [row for frame in frames for row in make_packing().unpack(frame.content or b"", frame.size)]

    def change_rows(self, name: str, column: str, value: Any) -> None:
        index = TABLES[name].names.index(column)
        rows = self.read_rows(name)
        for row in rows:
            row[index] = value
        self.put_rows(name, rows)


@pytest.fixture
def hostile(sqlite_store: Store, tmp_path: Path) -> HostileTarget:
    return HostileTarget(sqlite_store.open(), tmp_path / "backups")


def assert_refused(hostile: HostileTarget, tmp_path: Path, error: type[EverholdError], message: str) -> None:
    """Fail unless a restore and a verification refuse the backup, and nothing is stored."""
    restored = tmp_path / "restored.db"
    with pytest.raises(error, match=message):
        Everhold.restore_backup(hostile.folder, restored)
    if restored.exists():
        with Everhold.open(restored, embedder=FakeEmbedder()) as engine:
            assert get_records(engine).count(Memory, None, deleted=True) == 0
    assert not Everhold.verify_backup(hostile.folder).intact


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("memories", "importance", 7.5),
        ("memories", "text", 5),
        ("memories", "created_at", "yesterday"),
        ("memories", "created_at", 2**62),
        ("memories", "metadata", "{not json"),
        ("memories", "session_id", "of another"),
        ("memories", "user_id", "nobody"),
        ("memories", "organization_id", "elsewhere"),
        ("chunks", "vector", b"short"),
        ("chunks", "owner_id", "nothing"),
        ("memory_tags", "memory_id", "nothing"),
        ("users", "id", "x" * 300),
        ("sessions", "user_id", "nobody"),
        ("outbox", "sequence", "first"),
    ],
)
def test_a_row_that_everhold_never_writes_is_refused(
    table: str, column: str, value: Any, hostile: HostileTarget, tmp_path: Path
) -> None:
    hostile.change_rows(table, column, value)
    assert_refused(hostile, tmp_path, StoreDamaged, "Everhold wrote|none of its column|missing")


@pytest.mark.parametrize(
    "rows",
    [[[1, 2]], [7], [{"id": 1}], [[None] * 2000], [[[[[[[]]]]]]]],
    ids=["short", "number", "map", "long", "deep"],
)
def test_values_that_are_not_rows_are_refused(rows: list[Any], hostile: HostileTarget, tmp_path: Path) -> None:
    hostile.put_rows("memories", rows)
    assert_refused(hostile, tmp_path, StoreDamaged, "row")


def test_the_same_row_twice_is_refused(hostile: HostileTarget, tmp_path: Path) -> None:
    hostile.put_rows("memories", hostile.read_rows("memories") * 2)
    assert_refused(hostile, tmp_path, StoreDamaged, "twice")


def test_content_that_expands_without_end_is_refused(hostile: HostileTarget, tmp_path: Path) -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(300_000_000))
    assert len(bomb) < 100_000
    entries = json.dumps([[None, None, 0, len(bomb), 1000, 1]]).encode()
    directory = make_packing().compress(entries)
    head = b"EVHPACK1" + len(directory).to_bytes(4, "little") + len(entries).to_bytes(4, "little")
    hostile.put_layer("memories", hostile.objects.put(head + directory + bomb, 1), 1)
    assert_refused(hostile, tmp_path, StoreDamaged, "bytes that it should have|holds no rows|no row")


@pytest.mark.parametrize("name", ["../../etc/passwd", "..", "a" * 63, "A" * 64, ""])
def test_a_name_that_leads_outside_the_folder_is_refused(name: str, hostile: HostileTarget, tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["tables"]["memories"]["layers"][0]["rows"][0]["sha256"] = name

    hostile.write_json(change)
    assert_refused(hostile, tmp_path, StoreDamaged, "not one that Everhold wrote")


def test_another_format_is_refused(hostile: HostileTarget, tmp_path: Path) -> None:
    hostile.write_json(lambda values: values.update(format=99))
    assert_refused(hostile, tmp_path, InvalidInput, "has format 99")


def test_an_unknown_table_or_column_is_refused(hostile: HostileTarget, tmp_path: Path) -> None:
    entry = hostile.manifest.tables["memories"]
    hostile.write_manifest(
        hostile.manifest.model_copy(update={"tables": {**hostile.manifest.tables, "passwords": entry}})
    )
    assert_refused(hostile, tmp_path, StoreDamaged, "unknown table 'passwords'")


def test_a_manifest_under_another_name_is_refused(hostile: HostileTarget, tmp_path: Path) -> None:
    source = hostile.folder / "backups" / f"{hostile.id}.backup"
    source.rename(source.with_name("bak_zzz.backup"))
    assert_refused(hostile, tmp_path, StoreDamaged, "is that of")
