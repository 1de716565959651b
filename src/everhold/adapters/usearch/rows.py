"""Read the rows of an index from the records."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from everhold.batches import split_into_batches
from everhold.model import Chunk
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Op, Where

_BATCH = 500


@dataclass(frozen=True)
class IndexSpace:
    """The rows of one index: the vectors of a search space of one user or of a whole organization."""

    space: SearchSpace
    dimensions: int

    @property
    def file_name(self) -> str:
        """A name that is different for each space and does not reveal whose vectors these are."""
        organization_id, users, model, kind, namespace = self.space
        user = "" if users is None else f"user {users[0]}"
        parts = (organization_id, user, model, kind, namespace, str(self.dimensions))
        return blake2b("\x00".join(parts).encode(), digest_size=20).hexdigest()


class VectorRow(NamedTuple):
    """A chunk's owner, and its vector as the store has it: little-endian half-precision numbers."""

    owner_id: str
    vector: bytes


def read_all_rows(records: Records, index_space: IndexSpace) -> Iterator[VectorRow]:
    """Yield the current chunks of the live owners in the space."""
    space = index_space.space
    owners = records.columns(space.owner.entity, space.organization_id, ("id",), space.owners())
    return _read_chunks(records, index_space, [owner_id for (owner_id,) in owners])


def read_rows(records: Records, index_space: IndexSpace, owner_ids: Iterable[str]) -> Iterator[VectorRow]:
    """Yield the current chunks of the owners in `owner_ids` that belong to the space."""
    space = index_space.space
    for batch in split_into_batches(list(owner_ids), _BATCH):
        where = [Where("id", Op.IN, batch), *space.owners()]
        owners = records.columns(space.owner.entity, space.organization_id, ("id",), where)
        yield from _read_chunks(records, index_space, [owner_id for (owner_id,) in owners])


def _read_chunks(records: Records, index_space: IndexSpace, owner_ids: Sequence[str]) -> Iterator[VectorRow]:
    vector_bytes = 2 * index_space.dimensions  # a vector of another length is damaged; doctor reports it
    conditions = [*index_space.space.chunks(), Where("dimensions", Op.EQ, index_space.dimensions)]
    for batch in split_into_batches(owner_ids, _BATCH):
        where = [Where("owner_id", Op.IN, batch), *conditions]
        chunks = records.columns(Chunk, index_space.space.organization_id, ("owner_id", "vector"), where)
        yield from (
            VectorRow(owner_id, vector)
            for owner_id, vector in chunks
            if vector is not None and len(vector) == vector_bytes
        )


def split_into_blocks(rows: Iterable[VectorRow], size: int) -> Iterator[list[VectorRow]]:
    iterator = iter(rows)
    while block := list(itertools.islice(iterator, size)):
        yield block
