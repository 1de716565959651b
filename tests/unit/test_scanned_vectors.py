"""Nearest vectors by looking at every row."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold.adapters.portable import scanned_vectors
from tests.chroma_store import ChromaStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChromaStore]:
    store = ChromaStore.make(tmp_path, "chroma:///unused")
    yield store
    store.close()


@pytest.mark.parametrize("batch", [3, 8192])
def test_a_memory_of_many_chunks_does_not_crowd_out_others(
    store: ChromaStore, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanned_vectors, "_BATCH", batch)
    (long_id,) = store.add(" ".join(["tea garden"] * 2000))
    near_id, nearer_id, far_id = store.add("tea in the rain and the snow", "tea in the garden", "a violin on the plane")
    assert store.scan_nearest("tea garden", 1) == [long_id]
    assert store.scan_nearest("tea garden", 3) == [long_id, nearer_id, near_id]
    assert store.scan_nearest("tea garden", 9) == [long_id, nearer_id, near_id, far_id]
