"""What Chroma is to hold, read from the records, and what of its answers the records confirm."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import numpy as np

from everhold.adapters.chroma.search import Entry, chunk_id, owner_of
from everhold.model import Chunk, Memory, Organization
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

_BATCH = 500
_LOOKED_AT = 10_000
_TENANTS = 4


@dataclass(frozen=True)
class Place:
    """Which chunks: of one namespace and one model."""

    namespace: str
    model: str
    dimensions: int

    def collection(self, prefix: str) -> str:
        """A name that says what is in it. Equal for no two places."""
        model = re.sub(r"[^a-zA-Z0-9.]+", "-", self.model).strip("-.")[:40]
        digest = blake2b(f"{self.model}\x00{self.dimensions}".encode(), digest_size=4).hexdigest()
        return "-".join([prefix, self.namespace, *([model] if model else []), digest])

    @property
    def conditions(self) -> list[Where]:
        return [
            Where("owner_kind", Op.EQ, "memory"),
            Where("namespace", Op.EQ, self.namespace),
            Where("model", Op.EQ, self.model),
            Where("known_to", Op.EQ, None),
            Where("dimensions", Op.EQ, self.dimensions),
        ]

    def within(self, images: Sequence[str] | None) -> list[Where]:
        """The conditions, for these images only."""
        return self.conditions if images is None else [*self.conditions, Where("user_id", Op.IN, list(images))]


def organizations(records: Records) -> list[str]:
    return sorted(name for (name,) in records.columns(Organization, None, ("id",)))


def owners(records: Records, organization_id: str) -> list[str]:
    return sorted(name for (name,) in records.columns(Memory, organization_id, ("id",)))


def count(records: Records, place: Place) -> int:
    """How many entries there should be: the current chunks, without those of memories that are hidden."""
    entries = records.count(Chunk, None, place.conditions)
    hidden: dict[str, list[str]] = {}
    where = [Where("deleted_at", Op.NE, None)]
    for organization_id, memory_id in records.columns(Memory, None, ("organization_id", "id"), where, deleted=True):
        hidden.setdefault(organization_id, []).append(memory_id)
    for organization_id, memory_ids in hidden.items():
        for batch in batched(memory_ids, _BATCH):
            entries -= records.count(Chunk, organization_id, [Where("owner_id", Op.IN, batch), *place.conditions])
    return entries


def names(records: Records, place: Place, organization_id: str) -> set[str]:
    """The chunks of an organization that there should be."""
    live = set(owners(records, organization_id))
    found = records.columns(Chunk, organization_id, ("owner_id", "revision", "chunk_index"), place.conditions)
    return {chunk_id(organization_id, owner_id, *rest) for owner_id, *rest in found if owner_id in live}


def entries_of(records: Records, place: Place, organization_id: str, owner_ids: Sequence[str]) -> list[Entry]:
    """The current chunks of those of these memories that live."""
    memories = records.get(Memory, organization_id, owner_ids)
    columns = ("owner_id", "user_id", "revision", "chunk_index", "span_start", "span_end", "vector")
    where = [Where("owner_id", Op.IN, list(owner_ids)), *place.conditions]
    entries = []
    for owner_id, user_id, revision, index, start, end, vector in records.columns(
        Chunk, organization_id, columns, where
    ):
        memory = memories.get(owner_id)
        if memory is not None:
            entries.append(
                Entry(
                    chunk_id(organization_id, owner_id, revision, index),
                    np.frombuffer(vector, "<f2").astype(np.float32),
                    memory.text[start:end],
                    {**_metadata(memory), "organization_id": organization_id, "user_id": user_id, "owner_id": owner_id},
                )
            )
    return entries


def _metadata(memory: Memory) -> dict[str, str]:
    source = memory.provenance.get("source")
    return {
        "source": source if isinstance(source, str) and source else memory.source_agent or "user_input",
        "timestamp": (memory.occurred_at or memory.created_at).isoformat(),
        "session_id": memory.session_id or "",
        "type": memory.kind,
    }


def confirmed(
    records: Records, place: Place, organization_id: str, images: Sequence[str] | None, found: Iterable[str]
) -> dict[str, Vector]:
    """Those of these chunk names that the records have, now, in the organization and the images, and their vectors."""
    named = set(found)
    known: dict[str, Vector] = {}
    for batch in batched(sorted({owner_of(one) for one in named} - {""}), _BATCH):
        live = _live(records, organization_id, batch)
        columns = ("owner_id", "revision", "chunk_index", "vector")
        where = [Where("owner_id", Op.IN, batch), *place.within(images)]
        for owner_id, revision, index, vector in records.columns(Chunk, organization_id, columns, where):
            name = chunk_id(organization_id, owner_id, revision, index)
            if name in named and owner_id in live:
                known[name] = np.frombuffer(vector, "<f2").astype(np.float32)
    return known


def size(records: Records, place: Place, organization_id: str, images: Sequence[str] | None) -> int:
    """How many entries of the organization and the images there should be."""
    found = [one for (one,) in records.columns(Chunk, organization_id, ("owner_id",), place.within(images))]
    live: set[str] = set()
    for batch in batched(sorted(set(found)), _BATCH):
        live |= _live(records, organization_id, batch)
    return sum(one in live for one in found)


def _live(records: Records, organization_id: str, owner_ids: Sequence[str]) -> set[str]:
    where = [Where("id", Op.IN, list(owner_ids))]
    return {name for (name,) in records.columns(Memory, organization_id, ("id",), where)}


def sample(records: Records, place: Place, size: int) -> list[tuple[str, Entry]]:
    """Some entries that must be there, from here and there, each with its organization."""
    found: list[tuple[str, Entry]] = []
    for organization_id in organizations(records)[:_TENANTS]:
        ids = [name for (name,) in islice(records.columns(Memory, organization_id, ("id",)), _LOOKED_AT)]
        some = ids[:: max(1, len(ids) // size)][:size]
        if some:
            entries = entries_of(records, place, organization_id, some)[:size]
            found += [(organization_id, entry) for entry in entries]
    return found


def batched(items: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
