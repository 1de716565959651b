"""The vectors that have changed since an index file was written, in memory and searched exactly."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from everhold.adapters.usearch.rows import VectorRow
from everhold.ports.embedder import Vector

_FIRST_CAPACITY = 256  # rows; the capacity doubles when they are full


class NearChunk(NamedTuple):
    """A chunk's owner and its similarity to the query; higher is nearer."""

    score: float
    owner_id: str


class Recent:
    """The current rows of owners that have changed since the file was written. Their rows in the file are ignored."""

    def __init__(self, dimensions: int) -> None:
        self.changed: set[str] = set()
        self.owners: list[str] = []
        self._indexes: dict[str, list[int]] = {}
        self._matrix = np.zeros((_FIRST_CAPACITY, dimensions), np.float32)
        self._alive = np.zeros(_FIRST_CAPACITY, np.bool_)

    def replace(self, owner_ids: Iterable[str], rows: Iterable[VectorRow]) -> None:
        """Replace all rows of these owners by `rows`."""
        for owner_id in owner_ids:
            self.changed.add(owner_id)
            self._alive[self._indexes.pop(owner_id, [])] = False
        for row in rows:
            self._append(row)

    def _append(self, row: VectorRow) -> None:
        index = len(self.owners)
        if index == len(self._alive):
            self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self._alive = np.concatenate([self._alive, np.zeros_like(self._alive)])
        self._matrix[index] = np.frombuffer(row.vector, "<f2")
        self._alive[index] = True
        self._indexes.setdefault(row.owner_id, []).append(index)
        self.owners.append(row.owner_id)

    def list_rows(self) -> list[VectorRow]:
        """Return the current rows."""
        vectors = self._matrix[: len(self.owners)].astype("<f2")
        return [VectorRow(self.owners[index], vectors[index].tobytes()) for index in np.flatnonzero(self._alive)]

    def find_nearest(self, vector: Vector, limit: int) -> list[NearChunk]:
        alive_rows = np.flatnonzero(self._alive[: len(self.owners)])
        if not len(alive_rows):
            return []
        scores = self._matrix[alive_rows] @ vector
        positions = np.argsort(-scores, kind="stable")[:limit]
        return [NearChunk(float(scores[index]), self.owners[alive_rows[index]]) for index in positions]
