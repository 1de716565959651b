"""What has changed since an index file was written, held in memory and searched exactly."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from everhold.adapters.usearch.rows import VectorRow
from everhold.ports.embedder import Vector

_FIRST_ROOM = 256


class Found(NamedTuple):
    """How near a chunk is, higher being nearer, and whose it is."""

    score: float
    owner_id: str


class Recent:
    """The memories that have changed, whose rows in the file no longer count, and their rows as they are now."""

    def __init__(self, dimensions: int) -> None:
        self.changed: set[str] = set()
        self.owners: list[str] = []
        self._at: dict[str, list[int]] = {}
        self._matrix = np.zeros((_FIRST_ROOM, dimensions), np.float32)
        self._alive = np.zeros(_FIRST_ROOM, np.bool_)

    def replace(self, memory_ids: Iterable[str], rows: Iterable[VectorRow]) -> None:
        for memory_id in memory_ids:
            self.changed.add(memory_id)
            self._alive[self._at.pop(memory_id, [])] = False
        for row in rows:
            self._append(row)

    def _append(self, row: VectorRow) -> None:
        at = len(self.owners)
        if at == len(self._alive):
            self._matrix = np.concatenate([self._matrix, np.zeros_like(self._matrix)])
            self._alive = np.concatenate([self._alive, np.zeros_like(self._alive)])
        self._matrix[at] = np.frombuffer(row.vector, "<f2")
        self._alive[at] = True
        self._at.setdefault(row.owner_id, []).append(at)
        self.owners.append(row.owner_id)

    def rows(self) -> list[VectorRow]:
        """The rows as they are now."""
        halves = self._matrix[: len(self.owners)].astype("<f2")
        return [VectorRow(self.owners[at], halves[at].tobytes()) for at in np.flatnonzero(self._alive)]

    def find_nearest(self, vector: Vector, limit: int) -> list[Found]:
        alive = np.flatnonzero(self._alive[: len(self.owners)])
        if not len(alive):
            return []
        scores = self._matrix[alive] @ vector
        best = np.argsort(-scores, kind="stable")[:limit]
        return [Found(float(scores[one]), self.owners[alive[one]]) for one in best]
