"""The vectors of one place in a usearch index, in memory or mapped from a file.

An index is shaped for one of two searches. For an exact one the graph is as thin as usearch makes it, because nobody
walks it: such an index is written as fast as its vectors are. For an approximate one the graph is an HNSW graph, which
takes about a millisecond per vector to build and is walked in a few.
"""

import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.usearch.recent import Found
from everhold.adapters.usearch.rows import Row, blocks
from everhold.ports.embedder import Vector

_READ_AT_ONCE = 2048
_THREADS = max(1, (os.cpu_count() or 2) // 2)


@dataclass(frozen=True)
class Shape:
    """How an index is searched, and usearch's numbers for it. `together` are added by one call, which lets no other
    thread of Python run: about ten milliseconds' worth, so that recalls go on meanwhile."""

    exact: bool
    connectivity: int
    expansion_add: int
    expansion_search: int
    together: int


EXACT = Shape(exact=True, connectivity=2, expansion_add=1, expansion_search=1, together=1024)
GRAPH = Shape(exact=False, connectivity=16, expansion_add=128, expansion_search=256, together=8)


class Interrupted(Exception):
    """Building was told to stop. Never leaves this package."""


class Owners:
    """Whose vector each key is: ids in the order of the keys, one a line, mapped rather than loaded."""

    def __init__(self, content: bytes | mmap.mmap) -> None:
        self._content = content
        self._ends = np.flatnonzero(np.frombuffer(content, np.uint8) == ord("\n"))

    @classmethod
    def of(cls, owner_ids: Sequence[str]) -> "Owners":
        return cls("".join(f"{one}\n" for one in owner_ids).encode())

    @classmethod
    def mapped(cls, path: Path) -> "Owners":
        with path.open("rb") as file:
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, key: int) -> str:
        """The owner, or nothing if what stood here has gone."""
        start = int(self._ends[key - 1]) + 1 if key else 0
        return self._content[start : int(self._ends[key])].decode()

    def all(self) -> list[str]:
        return self.content.decode().splitlines()

    @property
    def content(self) -> bytes:
        return bytes(self._content[:])


@dataclass(frozen=True)
class Base:
    """An index and whose its vectors are; `generation` names its files, if it has any. Nothing is ever changed in it:
    what changes makes another."""

    shape: Shape
    index: Any
    owners: Owners
    generation: str | None = None

    @property
    def size(self) -> int:
        return len(self.owners)

    def nearest(self, vector: Vector, limit: int, without: set[str]) -> list[Found]:
        """The chunks nearest to a vector, none of them of these memories; more are asked for until enough are left."""
        wanted = min(self.size, limit)
        while True:
            matches = self.index.search(vector, wanted, exact=self.shape.exact, threads=1)
            named = ((self.owners[int(key)], distance) for key, distance in zip(*_pair(matches), strict=True))
            found = [Found(1.0 - float(distance), one) for one, distance in named if one and one not in without]
            if len(found) >= limit or wanted == self.size:
                return found[:limit]
            wanted = min(self.size, 2 * wanted)


def _pair(matches: Any) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    return matches.keys, matches.distances


def empty_index(shape: Shape, dimensions: int) -> Any:
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


def build(shape: Shape, dimensions: int, rows: Iterable[Row], stopped: Callable[[], bool]) -> Base:
    """An index of these rows, in memory."""
    index = empty_index(shape, dimensions)
    owners = _add(index, shape, 0, dimensions, rows, stopped)
    return Base(shape, index, Owners.of(owners))


def extend(
    index: Any, base: Base, dimensions: int, gone: set[str], rows: Iterable[Row], stopped: Callable[[], bool]
) -> Base:
    """The base with rows added to `index`, which holds the same vectors and may be changed, and with the rows of
    `gone` owned by nobody."""
    kept = ["" if one in gone else one for one in base.owners.all()]
    added = _add(index, base.shape, len(kept), dimensions, rows, stopped)
    return Base(base.shape, index, Owners.of(kept + added))


def _add(
    index: Any, shape: Shape, first: int, dimensions: int, rows: Iterable[Row], stopped: Callable[[], bool]
) -> list[str]:
    owners: list[str] = []
    for block in blocks(rows, _READ_AT_ONCE):
        keys = np.arange(first + len(owners), first + len(owners) + len(block), dtype=np.uint64)
        matrix = np.frombuffer(b"".join(row.vector for row in block), "<f2").reshape(-1, dimensions)
        for start in range(0, len(block), shape.together):
            if stopped():
                raise Interrupted
            some = slice(start, start + shape.together)
            index.add(keys[some], matrix[some], threads=_THREADS)
        owners += [row.owner_id for row in block]
    return owners
