"""The rows an index is made of, read from the records."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from everhold.model import Chunk, Memory
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

_BATCH = 500


@dataclass(frozen=True)
class Place:
    """Whose vectors, of which model: one image of an organization, or with no image all of it."""

    organization_id: str
    image: str | None
    model: str
    dimensions: int

    @property
    def file_name(self) -> str:
        """A name that tells nobody whose vectors these are. Equal for no two places."""
        image = "" if self.image is None else f"image {self.image}"
        parts = (self.organization_id, image, self.model, str(self.dimensions))
        return blake2b("\x00".join(parts).encode(), digest_size=20).hexdigest()

    def holds(self, image: str) -> bool:
        return self.image is None or self.image == image


class Row(NamedTuple):
    """A chunk's memory, and its vector as the store has it: little-endian half-precision numbers."""

    owner_id: str
    vector: bytes


def all_rows(records: Records, place: Place) -> Iterator[Row]:
    """The current chunks of the place's live memories."""
    where = [] if place.image is None else [Where("user_id", Op.EQ, place.image or None)]
    found = records.columns(Memory, place.organization_id, ("id",), where)
    return _chunks(records, place, [memory_id for (memory_id,) in found])


def rows_of(records: Records, place: Place, memory_ids: Iterable[str]) -> Iterator[Row]:
    """The current chunks of those of these memories that live in the place."""
    for batch in batched(list(memory_ids), _BATCH):
        where = [Where("id", Op.IN, batch)]
        found = records.columns(Memory, place.organization_id, ("id", "user_id"), where)
        yield from _chunks(records, place, [memory_id for memory_id, user_id in found if place.holds(user_id or "")])


def _chunks(records: Records, place: Place, owner_ids: Sequence[str]) -> Iterator[Row]:
    for batch in batched(owner_ids, _BATCH):
        where = [
            Where("owner_id", Op.IN, batch),
            Where("owner_kind", Op.EQ, "memory"),
            Where("namespace", Op.EQ, "long-term"),
            Where("model", Op.EQ, place.model),
            Where("known_to", Op.EQ, None),
            Where("dimensions", Op.EQ, place.dimensions),
        ]
        found = records.columns(Chunk, place.organization_id, ("owner_id", "vector"), where)
        size = 2 * place.dimensions  # a vector of another length is damaged; doctor reports it
        yield from (Row(owner_id, vector) for owner_id, vector in found if vector is not None and len(vector) == size)


def batched(items: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def blocks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    rest = iter(rows)
    while block := list(itertools.islice(rest, size)):
        yield block
