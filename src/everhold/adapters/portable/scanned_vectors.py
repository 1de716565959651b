"""Nearest vectors by reading every one of the scope's: exact, in constant memory, and slow for the very large."""

from collections.abc import Iterator, Sequence

import numpy as np

from everhold.adapters.portable.chunks import read_current_chunks
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Op, Where

_BATCH = 8192


class ScannedVectors:
    """Proposes by a pass over the chunk rows."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        best: dict[str, float] = {}
        for owners, matrix in self._batches(space, len(vector)):
            for owner, score in _first_of_each(owners, matrix @ vector, limit).items():
                best[owner] = max(score, best.get(owner, score))
            ranked = sorted(best.items(), key=lambda one: (one[1], one[0]), reverse=True)
            best = dict(ranked[:limit])
        return list(best)

    def _batches(self, space: SearchSpace, dimensions: int) -> Iterator[tuple[list[str], Vector]]:
        owners: list[str] = []
        vectors: list[bytes] = []
        fitting = Where("dimensions", Op.EQ, dimensions)
        for owner_id, vector in read_current_chunks(self._records, space, "vector", fitting):
            if len(vector) != 2 * dimensions:
                continue  # damaged; doctor reports it
            owners.append(owner_id)
            vectors.append(vector)
            if len(owners) == _BATCH:
                yield owners, _matrix(vectors, dimensions)
                owners, vectors = [], []
        if owners:
            yield owners, _matrix(vectors, dimensions)


def _first_of_each(owners: Sequence[str], scores: Vector, limit: int) -> dict[str, float]:
    """The best score of each of the best owners, of which one may have many chunks."""
    first: dict[str, float] = {}
    for at in np.argsort(-scores):
        if len(first) == limit:
            break
        first.setdefault(owners[at], float(scores[at]))
    return first


def _matrix(vectors: list[bytes], dimensions: int) -> Vector:
    return np.frombuffer(b"".join(vectors), "<f2").reshape(-1, dimensions).astype(np.float32)
