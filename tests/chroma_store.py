"""A store with vectors in Chroma, for tests: its records, the parts that write memories, and the vectors."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from everhold.adapters.chroma import ChromaVectors, read_address
from everhold.adapters.chroma.projection import Projection
from everhold.adapters.chroma.rows import CollectionSpace
from everhold.adapters.portable.scanned_vectors import ScannedVectors
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.model import ProjectionState, Scope
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.remember.chunks import Chunking
from everhold.remember.pipeline import WriteDeps, remember
from everhold.remember.scope_rows import ScopeRows
from everhold.schema.operations import Op, Where
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import copy_empty_file

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

DIMENSIONS = 32
MODEL = "fake"
# How long a test waits for an expected event.
SECONDS = 120.0
ALICE = Scope(organization="acme", user="alice")
WORDS = ["tea", "coffee", "rain", "snow", "train", "plane", "piano", "violin", "garden", "river", "desert", "glass"]


class CountingFallback(ScannedVectors):
    """Compares every row while Chroma is not available, and counts its searches."""

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self.searches = 0

    def find_by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        self.searches += 1
        return super().find_by_vector(space, vector, limit)


@dataclass
class ChromaStore:
    """Records, by default in a SQLite file, and each ChromaVectors that was opened on them."""

    folder: Path
    address: str
    records: Records
    write_deps: WriteDeps
    embedder: FakeEmbedder
    opened: list[ChromaVectors] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, address: str, records: Records | None = None) -> "ChromaStore":
        """Return a store with these records, or, without them, with the SQLite file in the folder."""
        if records is None:
            path = folder / "memory.db"
            records = SqliteRecords(
                SqliteOptions(path if path.exists() else copy_empty_file(path), synchronous="NORMAL")
            )
        embedder = FakeEmbedder(MODEL, DIMENSIONS)
        rows = ScopeRows(records, strict=False, timezone="UTC")
        return cls(
            folder, address, records, WriteDeps(records, Chunking(embedder, embedder), rows, 1_000_000), embedder
        )

    def open_vectors(self, *, wait: bool = True, lease_seconds: float = 30.0, batch: int = 200) -> ChromaVectors:
        """Open Chroma; with `wait`, return when it is ready to be searched."""
        vectors = ChromaVectors(
            self.records,
            CountingFallback(self.records),
            read_address(self.address),
            batch=batch,
            poll_seconds=0.05,
            lease_seconds=lease_seconds,
        )
        self.opened.append(vectors)
        vectors.follow(MODEL, DIMENSIONS)
        if wait:
            assert vectors.wait(SECONDS), vectors.find_problems()
        return vectors

    @property
    def serving_generation(self) -> int:
        """The generation that, by the records, is searched."""
        (state,) = self.records.scan(ProjectionState, None, [Where("status", Op.EQ, "serving")])
        return state.generation

    def add(self, *texts: str, scope: Scope = ALICE) -> list[str]:
        return [memory.id for start in range(0, len(texts), 1000)
                for memory in remember(self.write_deps, scope, texts[start : start + 1000])]  # fmt: skip

    def embed(self, text: str) -> Vector:
        vector = self.embedder.embed([text])[0]
        assert vector is not None
        return vector

    def find_nearest(self, vectors: ChromaVectors, text: str, limit: int = 5, scope: Scope = ALICE) -> list[str]:
        users = None if scope.user is None else (scope.user,)
        return vectors.find_by_vector(SearchSpace(scope.organization, users, MODEL), self.embed(text), limit)

    def scan_nearest(self, text: str, limit: int = 5, scope: Scope = ALICE) -> list[str]:
        users = None if scope.user is None else (scope.user,)
        space = SearchSpace(scope.organization, users, MODEL)
        return ScannedVectors(self.records).find_by_vector(space, self.embed(text), limit)

    def close(self) -> None:
        for vectors in self.opened:
            vectors.close()
        self.records.close()


def get_projection(vectors: ChromaVectors) -> Projection:
    return vectors.projection(CollectionSpace(MODEL, DIMENSIONS))


def get_generation(vectors: ChromaVectors) -> int:
    serving = get_projection(vectors).state.get_serving()
    assert serving is not None
    return serving.generation


def count_fallbacks(vectors: ChromaVectors) -> int:
    """Return how many searches used the records because Chroma was not available."""
    fallback = vectors._fallback
    assert isinstance(fallback, CountingFallback)
    return fallback.searches


def make_sentences(count: int, seed: int = 1) -> list[str]:
    rng = np.random.default_rng(seed)
    return [f"{' '.join(rng.choice(WORDS, 5))} number {number}" for number in range(count)]


def damage_file(path: Path, extent: str) -> None:
    """Cut a file to its first half if `extent` is "half"; otherwise overwrite it with zeros."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        if extent == "half":
            file.truncate(size // 2)
        else:
            file.write(b"\x00" * size)


def open_chroma(folder: Path) -> "ClientAPI":
    """Return Chroma's own client for a folder."""
    import chromadb  # slow to import, and every process of a test run collects every file

    return chromadb.PersistentClient(str(folder))
