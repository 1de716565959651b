"""Read what Chroma should contain from the records, and confirm its results with the records."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import numpy as np

from everhold.adapters.chroma.search import ChunkEntry, make_chunk_id, parse_owner_id
from everhold.batches import split_into_batches
from everhold.model import Chunk, Memory, Organization
from everhold.model.base import Entity
from everhold.model.memory import LONG_TERM
from everhold.model.searchable import SEARCHABLE, Searchable
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Op, Where

_BATCH = 500
# The owners and organizations that a sample is taken from.
_SAMPLED_OWNERS = 10_000
_SAMPLED_ORGANIZATIONS = 4


@dataclass(frozen=True)
class CollectionSpace:
    """The chunks of one collection: those of all organizations, of one kind, namespace and model."""

    model: str
    dimensions: int
    kind: str = "memory"
    namespace: str = LONG_TERM

    def make_collection_name(self, prefix: str) -> str:
        """Return a readable name that is different for each space."""
        kind = "" if self.kind == "memory" else self.kind
        parts = (self.model, str(self.dimensions), self.kind, self.namespace)
        digest = blake2b("\x00".join(parts).encode(), digest_size=4).hexdigest()
        name_parts = (prefix, kind, _shorten(self.namespace), _shorten(self.model), digest)
        return "-".join(part for part in name_parts if part)

    @property
    def owner(self) -> Searchable:
        return SEARCHABLE[self.kind]

    def chunks(self, users: tuple[str, ...] | None = None) -> list[Where]:
        """Return the conditions for the collection's chunks; with `users`, only for theirs."""
        space = SearchSpace("", users, self.model, self.kind, self.namespace)
        return [*space.chunks(), Where("dimensions", Op.EQ, self.dimensions)]

    @property
    def owners(self) -> list[Where]:
        """The conditions for the entities whose chunks are in the collection."""
        return SearchSpace("", None, self.model, self.kind, self.namespace).owners()


def list_organizations(records: Records) -> list[str]:
    return sorted(name for (name,) in records.columns(Organization, None, ("id",)))


def list_owners(records: Records, space: CollectionSpace, organization_id: str) -> list[str]:
    return sorted(name for (name,) in records.columns(space.owner.entity, organization_id, ("id",), space.owners))


def count_all(records: Records, space: CollectionSpace) -> int:
    """Return the expected number of entries: the current chunks, without those of deleted owners."""
    entries = records.count(Chunk, None, space.chunks())
    deleted_owners: dict[str, list[str]] = {}
    where = [Where("deleted_at", Op.NE, None)]
    names, entity = ("organization_id", "id"), space.owner.entity
    for organization_id, owner_id in records.columns(entity, None, names, where, deleted=True):
        deleted_owners.setdefault(organization_id, []).append(owner_id)
    for organization_id, owner_ids in deleted_owners.items():
        for batch in split_into_batches(owner_ids, _BATCH):
            entries -= records.count(Chunk, organization_id, [Where("owner_id", Op.IN, batch), *space.chunks()])
    return entries


def list_chunk_ids(records: Records, space: CollectionSpace, organization_id: str) -> set[str]:
    """Return the ids of all chunks of an organization that the collection should have."""
    live_ids = set(list_owners(records, space, organization_id))
    rows = records.columns(Chunk, organization_id, ("owner_id", "revision", "chunk_index"), space.chunks())
    return {make_chunk_id(organization_id, owner_id, *position) for owner_id, *position in rows if owner_id in live_ids}


def read_entries(
    records: Records, space: CollectionSpace, organization_id: str, owner_ids: Sequence[str]
) -> list[ChunkEntry]:
    """Return the current chunks of these owners, without deleted owners."""
    live_owners = records.get(space.owner.entity, organization_id, owner_ids)
    columns = ("owner_id", "user_id", "revision", "chunk_index", "span_start", "span_end", "vector")
    where = [Where("owner_id", Op.IN, list(owner_ids)), *space.chunks()]
    entries = []
    for owner_id, user_id, revision, index, start, end, vector in records.columns(
        Chunk, organization_id, columns, where
    ):
        owner = live_owners.get(owner_id)
        if owner is not None:
            entries.append(
                ChunkEntry(
                    make_chunk_id(organization_id, owner_id, revision, index),
                    np.frombuffer(vector, "<f2").astype(np.float32),
                    space.owner.text(owner)[start:end],
                    {
                        **_make_metadata(space, owner),
                        "organization_id": organization_id,
                        "user_id": user_id,
                        "owner_id": owner_id,
                    },
                )
            )
    return entries


def _make_metadata(space: CollectionSpace, owner: Entity) -> dict[str, str]:
    source = (space.owner.get_value(owner, "provenance") or {}).get("source")
    if not isinstance(source, str) or not source:
        source = owner.source_agent if isinstance(owner, Memory) else None
    return {
        "source": source or "user_input",
        "timestamp": (space.owner.get_value(owner, "occurred_at") or owner.created_at).isoformat(),
        "session_id": space.owner.get_value(owner, "session_id") or "",
        "type": space.owner.get_value(owner, "kind") or space.kind,
    }


def _shorten(name: str) -> str:
    """Return the beginning of a name, with only the characters that Chroma allows."""
    return re.sub(r"[^a-zA-Z0-9.]+", "-", name).strip("-.")[:40]


def confirm_chunks(
    records: Records, space: CollectionSpace, organization_id: str, users: tuple[str, ...] | None, ids: Iterable[str]
) -> dict[str, Vector]:
    """Return the vectors of those chunks in `ids` that the organization and the users still have, by chunk id."""
    entry_ids = set(ids)
    vectors: dict[str, Vector] = {}
    for batch in split_into_batches(sorted({parse_owner_id(entry_id) for entry_id in entry_ids} - {""}), _BATCH):
        live_ids = _find_live(records, space, organization_id, batch)
        columns = ("owner_id", "revision", "chunk_index", "vector")
        where = [Where("owner_id", Op.IN, batch), *space.chunks(users)]
        for owner_id, revision, index, vector in records.columns(Chunk, organization_id, columns, where):
            entry_id = make_chunk_id(organization_id, owner_id, revision, index)
            if entry_id in entry_ids and owner_id in live_ids:
                vectors[entry_id] = np.frombuffer(vector, "<f2").astype(np.float32)
    return vectors


def count_entries(
    records: Records, space: CollectionSpace, organization_id: str, users: tuple[str, ...] | None
) -> Counter[str]:
    """Return the expected number of entries of each owner of the organization and the users."""
    entries = Counter(
        owner_id for (owner_id,) in records.columns(Chunk, organization_id, ("owner_id",), space.chunks(users))
    )
    live_ids: set[str] = set()
    for batch in split_into_batches(sorted(entries), _BATCH):
        live_ids |= _find_live(records, space, organization_id, batch)
    return Counter({owner_id: count for owner_id, count in entries.items() if owner_id in live_ids})


def _find_live(records: Records, space: CollectionSpace, organization_id: str, owner_ids: Sequence[str]) -> set[str]:
    where = [Where("id", Op.IN, list(owner_ids))]
    return {name for (name,) in records.columns(space.owner.entity, organization_id, ("id",), where)}


def read_sample(records: Records, space: CollectionSpace, size: int) -> list[tuple[str, ChunkEntry]]:
    """Return some entries that the collection must have, from several organizations, each with its organization."""
    sample: list[tuple[str, ChunkEntry]] = []
    for organization_id in list_organizations(records)[:_SAMPLED_ORGANIZATIONS]:
        rows = records.columns(space.owner.entity, organization_id, ("id",), space.owners)
        ids = [name for (name,) in islice(rows, _SAMPLED_OWNERS)]
        sampled_ids = ids[:: max(1, len(ids) // size)][:size]
        if sampled_ids:
            entries = read_entries(records, space, organization_id, sampled_ids)[:size]
            sample += [(organization_id, entry) for entry in entries]
    return sample
