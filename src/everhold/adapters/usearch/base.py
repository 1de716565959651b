"""The vectors of one search space in a usearch index, in memory or mapped from a file.

An index is built for one of two kinds of search. An exact search compares all vectors, so its graph is minimal and
building takes little longer than copying the vectors. An approximate search uses an HNSW graph, which takes about a
millisecond per vector to build and answers in a few milliseconds.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.usearch.recent import NearChunk
from everhold.adapters.usearch.rows import VectorRow, split_into_blocks
from everhold.ports.embedder import Vector

_READ_BATCH = 2048  # rows in one matrix
_THREADS = max(1, (os.cpu_count() or 2) // 2)


@dataclass(frozen=True)
class Shape:
    """The search method of an index, and usearch's parameters for it.

    A call adds `batch` vectors and has the GIL for about ten milliseconds; recalls can run between calls.
    """

    is_exact: bool
    connectivity: int
    expansion_add: int
    expansion_search: int
    batch: int


EXACT = Shape(is_exact=True, connectivity=2, expansion_add=1, expansion_search=1, batch=1024)
GRAPH = Shape(is_exact=False, connectivity=16, expansion_add=128, expansion_search=256, batch=8)


class BuildStopped(Exception):
    """Building was stopped. It is always caught in this package."""


class Owners:
    """The owner of each key: ids in the order of the keys, one per line, mapped from a file."""

    def __init__(self, content: bytes | mmap.mmap) -> None:
        self._content = content
        self._ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n"))

    @classmethod
    def from_ids(cls, owner_ids: Sequence[str]) -> "Owners":
        return cls("".join(f"{owner_id}\n" for owner_id in owner_ids).encode())

    @classmethod
    def map_file(cls, path: Path) -> "Owners":
        with path.open("rb") as file:
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, key: int) -> str:
        """Return the id of the owner; empty if it has been deleted."""
        start = int(self._ends[key - 1]) + 1 if key else 0
        return self._content[start : int(self._ends[key])].decode()

    def list_ids(self) -> list[str]:
        return self.content.decode().splitlines()

    @property
    def content(self) -> bytes:
        return bytes(self._content[:])


@dataclass(frozen=True)
class Base:
    """An immutable index and the owners of its vectors. `generation` is part of its file names, if it is saved."""

    shape: Shape
    index: Any
    owners: Owners
    generation: str | None = None

    @property
    def size(self) -> int:
        return len(self.owners)

    def find_nearest(self, vector: Vector, limit: int, excluded_owners: set[str]) -> list[NearChunk]:
        """Return the nearest chunks, except those of the excluded owners. Search for more until enough remain."""
        count = min(self.size, limit)
        while True:
            matches = self.index.search(vector, count, exact=self.shape.is_exact, threads=1)
            keys: NDArray[np.uint64] = matches.keys
            distances: NDArray[np.float32] = matches.distances
            owned_distances = ((self.owners[int(key)], distance) for key, distance in zip(keys, distances, strict=True))
            nearest = [
                NearChunk(1.0 - float(distance), owner_id)
                for owner_id, distance in owned_distances
                if owner_id and owner_id not in excluded_owners
            ]
            if len(nearest) >= limit or count == self.size:
                return nearest[:limit]
            count = min(self.size, 2 * count)


def make_empty_index(shape: Shape, dimensions: int) -> Any:
    from usearch.index import Index

    return Index(
        ndim=dimensions,
        metric="ip",
        dtype="f16",
        connectivity=shape.connectivity,
        expansion_add=shape.expansion_add,
        expansion_search=shape.expansion_search,
        enable_key_lookups=False,
    )


def build(shape: Shape, dimensions: int, rows: Iterable[VectorRow], is_stopped: Callable[[], bool]) -> Base:
    """Build an index of these rows in memory."""
    index = make_empty_index(shape, dimensions)
    owners = _add_rows(index, shape, 0, dimensions, rows, is_stopped)
    return Base(shape, index, Owners.from_ids(owners))


def extend(
    index: Any,
    base: Base,
    dimensions: int,
    replaced_owners: set[str],
    rows: Iterable[VectorRow],
    is_stopped: Callable[[], bool],
) -> Base:
    """Return the base with these rows added and the rows of the replaced owners deleted.

    `index` is a copy of the base's index that may be changed.
    """
    owners = ["" if owner_id in replaced_owners else owner_id for owner_id in base.owners.list_ids()]
    added_owners = _add_rows(index, base.shape, len(owners), dimensions, rows, is_stopped)
    return Base(base.shape, index, Owners.from_ids(owners + added_owners))


def _add_rows(
    index: Any, shape: Shape, first_key: int, dimensions: int, rows: Iterable[VectorRow], is_stopped: Callable[[], bool]
) -> list[str]:
    owners: list[str] = []
    for block in split_into_blocks(rows, _READ_BATCH):
        keys = np.arange(first_key + len(owners), first_key + len(owners) + len(block), dtype=np.uint64)
        matrix = np.frombuffer(b"".join(row.vector for row in block), "<f2").reshape(-1, dimensions)
        for start in range(0, len(block), shape.batch):
            if is_stopped():
                raise BuildStopped
            span = slice(start, start + shape.batch)
            index.add(keys[span], matrix[span], threads=_THREADS)
        owners += [row.owner_id for row in block]
    return owners
