"""Find the nearest vectors by scanning all vectors of a scope: exact, in constant memory, slow for large scopes."""

from collections.abc import Iterator, Sequence

import numpy as np

from everhold.adapters.portable.chunks import read_current_chunks
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Op, Where

_NUMBER_BYTES = 2  # vectors are stored as half-precision numbers
_BATCH = 8192  # vectors in memory at once: 12 MB with 384 dimensions as float32


class ScannedVectors:
    """A vector index without an index: every search scans the chunk rows."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def find_by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        best: dict[str, float] = {}
        for owners, matrix in self._read_batches(space, len(vector)):
            for owner, score in _find_best_owners(owners, matrix @ vector, limit).items():
                best[owner] = max(score, best.get(owner, score))
            ranked = sorted(best.items(), key=lambda item: (item[1], item[0]), reverse=True)
            best = dict(ranked[:limit])
        return list(best)

    def _read_batches(self, space: SearchSpace, dimensions: int) -> Iterator[tuple[list[str], Vector]]:
        owners: list[str] = []
        vectors: list[bytes] = []
        with_dimensions = Where("dimensions", Op.EQ, dimensions)
        for owner_id, vector in read_current_chunks(self._records, space, "vector", with_dimensions):
            if len(vector) != _NUMBER_BYTES * dimensions:
                continue  # damaged; doctor reports it
            owners.append(owner_id)
            vectors.append(vector)
            if len(owners) == _BATCH:
                yield owners, _stack(vectors, dimensions)
                owners, vectors = [], []
        if owners:
            yield owners, _stack(vectors, dimensions)


def _find_best_owners(owners: Sequence[str], scores: Vector, limit: int) -> dict[str, float]:
    """Return the best owners with the score of their best chunk; an owner may have many chunks."""
    best: dict[str, float] = {}
    for index in np.argsort(-scores):
        if len(best) == limit:
            break
        best.setdefault(owners[index], float(scores[index]))
    return best


def _stack(vectors: list[bytes], dimensions: int) -> Vector:
    return np.frombuffer(b"".join(vectors), "<f2").reshape(-1, dimensions).astype(np.float32)
