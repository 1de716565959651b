"""Folders that Chroma has written: documents with the vectors of its queue and of its index files."""

import os
import pickle
import pickletools
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from everhold.importers.pickled_values import read_labels
from tests.chroma_store import open_chroma
from tests.engines import Store
from tests.import_samples import make_database, make_vector

TEXTS = [f"The gate code of allotment {number} is on the fridge" for number in range(225)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of Chroma with so many documents that most vectors are in its index files."""
    folder = tmp_path_factory.mktemp("chroma")
    client = open_chroma(folder)
    small_collection = client.create_collection("others")
    small_collection.add(
        ids=["d0"], documents=["A document of the same id"], embeddings=[make_vector("A document of the same id")]
    )
    collection = client.create_collection(
        "julep_memories", metadata={"hnsw:batch_size": 100, "hnsw:sync_threshold": 200}
    )
    for start in range(0, len(TEXTS), 100):
        texts = TEXTS[start : start + 100]
        collection.add(
            ids=[f"d{number}" for number in range(start, start + len(texts))],
            documents=texts,
            embeddings=[make_vector(text) for text in texts],
            metadatas=[{"type": "fact", "session_id": "s"} for _ in texts],
        )
    return folder


def copy_folder(source: Path, target: Path, change: Callable[[Path], bytes | None]) -> Path:
    """Copy a folder. `change` gets the content of a file and returns the content for the copy."""
    for path in (path for path in source.rglob("*") if path.is_file()):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(change(path) or path.read_bytes())
    return target


def test_vectors_of_the_queue_and_of_the_index_are_kept(sqlite_store: Store, folder: Path) -> None:
    assert list(folder.rglob("data_level0.bin"))
    engine = sqlite_store.open()
    loaded = engine.load(folder)
    assert (loaded.source, loaded.added, loaded.quarantined) == ("layered", len(TEXTS) + 1, 0)
    assert (loaded.vectors_kept, loaded.vectors_replaced, loaded.left_out) == (len(TEXTS) + 1, 0, ())
    [hit] = engine.scope().recall(TEXTS[7], k=1)
    assert (hit.memory.text, hit.memory.original_id, hit.memory.kind) == (TEXTS[7], "julep_memories/d7", "fact")
    assert engine.load(folder).added == 0


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("was-unpickled",)


def damage(name: str, data: bytes) -> Callable[[Path], bytes | None]:
    return lambda path: data if path.name == name else None


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("index_metadata.pickle", pickle.dumps(Bomb()), "it has the instruction"),
        ("index_metadata.pickle", b"junk", ""),
        ("header.bin", bytes(100), "the header of the index is damaged"),
        ("header.bin", b"x", "of another version"),
        ("data_level0.bin", b"x", "the index is cut off"),
    ],
    ids=["bomb", "junk", "zeros", "short", "cut off"],
)
def test_an_index_that_cannot_be_read_is_computed_again(
    sqlite_store: Store, folder: Path, tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    loaded = sqlite_store.open().load(copy_folder(folder, tmp_path / "copy", damage(name, data)))
    [left_out] = loaded.left_out
    assert left_out.origin == "vectors of collection julep_memories"
    assert loaded.added == len(TEXTS) + 1 == loaded.vectors_kept + left_out.rows
    assert 0 < loaded.vectors_kept < 100  # those of the queue
    assert left_out.reason.startswith("the vector could not be read and is computed again: ")
    assert reason in left_out.reason
    assert not Path("was-unpickled").exists()


def test_without_the_index_files_only_queued_vectors_are_kept(
    sqlite_store: Store, folder: Path, tmp_path: Path
) -> None:
    database = tmp_path / "chroma.sqlite3"
    database.write_bytes((folder / "chroma.sqlite3").read_bytes())
    loaded = sqlite_store.open().load(database)
    [left_out] = loaded.left_out
    assert loaded.added == len(TEXTS) + 1 == loaded.vectors_kept + left_out.rows


class PersistentData:
    """Has the attributes of the object that Chroma before version 1.0 pickled."""

    def __init__(self, labels: dict[str, int]) -> None:
        self.dimensionality = 3
        self.total_elements_added = len(labels)
        self.max_seq_id = 2**40
        self.id_to_label = labels
        self.label_to_id = {label: name for name, label in labels.items()}
        self.id_to_seq_id = dict.fromkeys(labels, 2**33)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_labels_of_older_versions_are_read(protocol: int) -> None:
    labels = {"a": 1, "b": 70_000, "ü": 2}
    data = PersistentData(labels)
    assert read_labels(pickle.dumps(data, protocol)) == labels
    assert read_labels(pickletools.optimize(pickle.dumps(data, protocol))) == labels


@pytest.mark.parametrize(
    "value", [{"id_to_label": {"a": Bomb()}}, {"id_to_label": [1]}, [1], {}, 7, {"id_to_label": {1: 2}}]
)
def test_other_pickles_have_no_labels(value: Any) -> None:
    with pytest.raises(ValueError, match=r"it does not hold labels|it has the instruction|are not numbers"):
        read_labels(pickle.dumps(value))
    assert not Path("was-unpickled").exists()


class PointStruct(BaseModel):
    """Has the fields of the points that Qdrant's local mode pickles."""

    id: Any
    vector: Any
    payload: Any


def test_points_of_mem0_are_read_without_unpickling(sqlite_store: Store, tmp_path: Path) -> None:
    payload = {"data": "Rosa builds kites", "hash": "x", "user_id": "rosa", "created_at": "2024-03-01T08:00:00+00:00"}
    vector, other_vector = make_vector(payload["data"]), make_vector("Rosa mends kites")
    cycle: dict[str, Any] = {"data": "x"}
    cycle["own"] = cycle
    points = [
        PointStruct(id="m1", vector=vector, payload=payload),
        PointStruct(id="m2", vector={"": other_vector, "bm25": None}, payload={**payload, "data": "Rosa mends kites"}),
        PointStruct(id="e1", vector=vector, payload={"data": "kites", "linked_memory_ids": ["m1"]}),
        PointStruct(id="u1", vector=[0.5], payload={"user_id": "rosa"}),
        PointStruct(id="b1", vector=None, payload={"data": Bomb()}),
        PointStruct(id="b2", vector=None, payload=cycle),
        Bomb(),
    ]
    rows = [(str(number), pickle.dumps(point)) for number, point in enumerate(points)]
    table = "CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB);"
    folder = tmp_path / "qdrant" / "collection" / "mem0"
    folder.mkdir(parents=True)
    make_database(folder / "storage.sqlite", table, {"points": [*rows, ("junk", b"junk"), ("text", "x")]})
    engine = sqlite_store.open()
    loaded = engine.load(tmp_path / "qdrant", quarantine=tmp_path / "bad.jsonl")
    assert (loaded.source, loaded.added, loaded.vectors_kept, loaded.quarantined) == ("mem0-points", 2, 2, 5)
    assert {fault.reason.partition(":")[0] for fault in loaded.faults} == {
        "the point cannot be read without unpickling it"
    }
    assert sum(row.rows for row in loaded.left_out) == 2
    memory = engine.scope(user="rosa").get("m1")
    assert (memory.text, memory.occurred_at) == ("Rosa builds kites", datetime(2024, 3, 1, 8, tzinfo=UTC))
    assert not Path("was-unpickled").exists()
