"""The rows an index is made of, read from the records."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from everhold.model import Chunk
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Op, Where

_BATCH = 500


@dataclass(frozen=True)
class Place:
    """What one index holds: the vectors of a search space of one user, or of the whole organization."""

    space: SearchSpace
    dimensions: int

    @property
    def file_name(self) -> str:
        """A name that tells nobody whose vectors these are. Equal for no two places."""
        organization_id, users, model, kind, namespace = self.space
        user = "" if users is None else f"user {users[0]}"
        parts = (organization_id, user, model, kind, namespace, str(self.dimensions))
        return blake2b("\x00".join(parts).encode(), digest_size=20).hexdigest()


class Row(NamedTuple):
    """A chunk's owner, and its vector as the store has it: little-endian half-precision numbers."""

    owner_id: str
    vector: bytes


def all_rows(records: Records, place: Place) -> Iterator[Row]:
    """Yield the current chunks of the place's live owners."""
    space = place.space
    owners = records.columns(space.owner.entity, space.organization_id, ("id",), space.owners())
    return _chunks(records, place, [owner_id for (owner_id,) in owners])


def rows_of(records: Records, place: Place, owner_ids: Iterable[str]) -> Iterator[Row]:
    """Yield the current chunks of those of these owners that live in the place."""
    space = place.space
    for batch in batched(list(owner_ids), _BATCH):
        where = [Where("id", Op.IN, batch), *space.owners()]
        owners = records.columns(space.owner.entity, space.organization_id, ("id",), where)
        yield from _chunks(records, place, [owner_id for (owner_id,) in owners])


def _chunks(records: Records, place: Place, owner_ids: Sequence[str]) -> Iterator[Row]:
    size = 2 * place.dimensions  # a vector of another length is damaged; doctor reports it
    fitting = [*place.space.chunks(), Where("dimensions", Op.EQ, place.dimensions)]
    for batch in batched(owner_ids, _BATCH):
        where = [Where("owner_id", Op.IN, batch), *fitting]
        chunks = records.columns(Chunk, place.space.organization_id, ("owner_id", "vector"), where)
        yield from (Row(owner_id, vector) for owner_id, vector in chunks if vector is not None and len(vector) == size)


def batched(items: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def blocks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    rest = iter(rows)
    while block := list(itertools.islice(rest, size)):
        yield block
