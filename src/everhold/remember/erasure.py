"""Plan what a purge of memories must also remove: memories derived from them, and references in other rows.

The store itself deletes the rows that belong to a memory: chunks, tags, relationships, revisions. This module finds
the other rows. Facts that were extracted from a purged turn are purged too, unless they have another source. Ids and
texts of a purged memory are removed from the journal, the survivors of merges, superseded memories and the feed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from everhold.model import Change, Chunk, Memory, Outbox, Relationship, Revision, Tag
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.remember.chunks import Chunking, rewrite_chunks
from everhold.schema.catalog import get_key
from everhold.schema.operations import Delete, Op, Operation, Patch, Put, Where
from everhold.text.terms import extract_terms

_ID_BATCH = 500
# The kind of a journalled merge that can no longer be undone, because one of its memories was purged.
_FINAL_MERGE = "merged"

_MERGES = ("merge", _FINAL_MERGE)


@dataclass
class Erasure:
    """Derived memories that the caller must purge too, and the operations that remove every other trace."""

    derived: list[Memory] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


def plan_erasure(
    records: Records,
    chunking: Chunking,
    memories: Sequence[Memory],
    now: datetime,
    *,
    with_derived: bool = True,
    absorbed: Collection[str] = (),
) -> Erasure:
    """Return what must be removed together with these memories of one organization. The caller deletes the memories.

    `with_derived`: whether all derived memories are purged too, or only reflections. `absorbed` are the ids of the
    memories that a merge hid: the survivor keeps what it took from them, and memories derived from them stay.
    """
    if not memories:
        return Erasure()
    sources = [memory for memory in memories if memory.id not in absorbed]
    derived = find_derived(records, sources, only_reflections=not with_derived)
    organization = memories[0].organization_id
    purged_ids = {memory.id for memory in (*memories, *derived)}
    cleaner = _TraceCleaner(
        records, chunking, organization, frozenset(purged_ids), frozenset(purged_ids.difference(absorbed)), now
    )
    operations = [
        *cleaner.clean_sources(),
        *cleaner.clean_superseded(),
        *cleaner.clean_journal(),
        *cleaner.clean_feed(),
    ]
    return Erasure(derived, operations)


def find_absorbed(records: Records, organization: str, memories: Sequence[Memory]) -> set[str]:
    """Return the ids of the memories that are hidden because they were merged into another."""
    hidden_ids = {memory.id: memory.deletion_id for memory in memories if memory.is_deleted}
    where = [Where("kind", Op.IN, list(_MERGES)), Where("undone_at", Op.EQ, None)]
    absorbed_ids: set[str] = set()
    for kind, memory_ids, before in records.columns(Change, organization, ("kind", "memory_ids", "before"), where):
        # If a memory was restored after the merge and then deleted, its deletion id differs from that of the merge.
        merged_ids = hidden_ids.keys() & set(memory_ids[1:])
        absorbed_ids |= {
            memory_id
            for memory_id in merged_ids
            if kind == _FINAL_MERGE or hidden_ids[memory_id] == before.get("deletion_id")
        }
    return absorbed_ids


# derived memories


def find_derived(records: Records, memories: Sequence[Memory], *, only_reflections: bool = False) -> list[Memory]:
    """Return the memories of the same user whose sources are all among these memories or derived from them.

    A reflection quotes its sources, so it is returned if at least one of them is among these.
    """
    organization = memories[0].organization_id if memories else ""
    purged_memories = {memory.id: memory for memory in memories}
    derived: dict[str, Memory] = {}
    unread_ids = list(purged_memories)
    while unread_ids:
        links = list(_read_links(records, organization, "target_memory_id", unread_ids))
        candidate_ids = {source for source, _ in links} - purged_memories.keys()
        sources: dict[str, set[str]] = {}
        for source, target in _read_links(records, organization, "source_memory_id", candidate_ids):
            sources.setdefault(source, set()).add(target)
        unread_ids = []
        for memory in _read_memories(records, organization, candidate_ids):
            owners = {purged_memories[target].user_id for target in sources[memory.id] if target in purged_memories}
            is_restated = bool(memory.provenance.get("restated"))
            has_other_source = memory.pattern is None and (
                is_restated or not sources[memory.id] <= purged_memories.keys()
            )
            if (
                memory.user_id in owners
                and not has_other_source
                and (memory.pattern is not None or not only_reflections)
            ):
                purged_memories[memory.id] = derived[memory.id] = memory
                unread_ids.append(memory.id)
    return list(derived.values())


def _read_links(records: Records, organization: str, column: str, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    names = ("source_memory_id", "target_memory_id")
    for batch in _split_ids(ids):
        where = [Where(column, Op.IN, batch), Where("relationship_type", Op.EQ, "derived_from")]
        yield from (
            (str(source), str(target))
            for source, target in records.columns(Relationship, organization, names, where, deleted=True)
        )


def _read_memories(records: Records, organization: str, ids: Iterable[str]) -> Iterator[Memory]:
    for batch in _split_ids(ids):
        yield from records.get(Memory, organization, batch, deleted=True).values()


def _split_ids(ids: Iterable[str]) -> Iterator[list[str]]:
    sorted_ids = sorted(ids)  # sets have no stable order; sorting makes the batches repeatable
    for start in range(0, len(sorted_ids), _ID_BATCH):
        yield sorted_ids[start : start + _ID_BATCH]


# traces


@dataclass(frozen=True)
class _TraceCleaner:
    """Makes the operations that remove the ids and texts of purged memories from rows that stay."""

    records: Records
    chunking: Chunking
    organization: str
    purged_ids: frozenset[str]
    erased_ids: frozenset[str]
    """The ids in `purged_ids` without the absorbed ones: survivors of merges must keep nothing from these memories."""
    now: datetime

    def clean_sources(self) -> Iterator[Operation]:
        """Yield the operations that give remaining facts a remaining source instead of a purged one."""
        sources = {
            source for source, _ in _read_links(self.records, self.organization, "target_memory_id", self.purged_ids)
        }
        fact_ids = sources - self.purged_ids
        links = _read_links(self.records, self.organization, "source_memory_id", fact_ids)
        remaining_sources = {source: target for source, target in links if target not in self.purged_ids}
        for memory in _read_memories(self.records, self.organization, fact_ids):
            if memory.source_id in self.purged_ids:
                provenance = {key: value for key, value in memory.provenance.items() if key != "memory"}
                source = {"memory": remaining_sources[memory.id]} if memory.id in remaining_sources else {}
                yield self._patch(memory, {"provenance": {**provenance, **source}})

    def clean_superseded(self) -> Iterator[Operation]:
        """Yield the operations that remove a purged successor's id from superseded memories, which stay superseded."""
        for batch in _split_ids(self.purged_ids):
            where = [Where("source_memory_id", Op.IN, batch), Where("relationship_type", Op.EQ, "supersedes")]
            rows = self.records.columns(Relationship, self.organization, ("target_memory_id",), where, deleted=True)
            for memory in _read_memories(
                self.records, self.organization, {str(target_id) for (target_id,) in rows} - self.purged_ids
            ):
                if memory.superseded_by in self.purged_ids:
                    yield self._patch(memory, {"superseded_by": None})

    def clean_journal(self) -> Iterator[Operation]:
        """Yield the operations that remove purged memories from the journal and from survivors of merges."""
        columns = ("id", "kind", "memory_ids")
        rows = self.records.columns(Change, self.organization, columns, deleted=True)
        entries = [_JournalEntry(*row) for row in rows if row[1] in _MERGES or not self.purged_ids.isdisjoint(row[2])]
        survivors = _Survivors(entries)
        for entry in entries:
            if not self.purged_ids.isdisjoint(entry.memory_ids):
                yield self._clean_entry(entry, survivors)
        for memory in _read_memories(
            self.records, self.organization, survivors.find(self.erased_ids) - self.purged_ids
        ):
            yield from self._clean_survivor(memory, survivors.list_merges_into(memory.id))

    def _clean_entry(self, entry: "_JournalEntry", survivors: "_Survivors") -> Operation:
        key = (self.organization, entry.change_id)
        remaining_ids = [memory_id for memory_id in entry.memory_ids if memory_id not in self.purged_ids]
        changes: dict[str, Any] = {"memory_ids": remaining_ids, "reason": None, "updated_at": self.now}
        if entry.kind in ("forget", "decay") and remaining_ids:
            return Patch(Change, key, changes)
        if entry.kind in _MERGES and remaining_ids:
            if entry.memory_ids[0] in self.purged_ids:
                # The purged survivor may have been merged into another memory later, which then has what this merge
                # added. The entry names that memory instead, so that a later purge of the remaining ids cleans it.
                later_survivors = survivors.find([entry.memory_ids[0]]) - self.purged_ids
                changes["memory_ids"] = [*sorted(later_survivors)[:1], *remaining_ids] if later_survivors else []
            if len(changes["memory_ids"]) > 1:
                return Patch(Change, key, {**changes, **_FINAL_MERGE_CHANGES})
        return Delete(Change, key)

    def clean_feed(self) -> Iterator[Operation]:
        """Yield the operations that remove the digests of purged texts from the feed."""
        # A digest lets a reader confirm a guess of the text. Only lines with an idempotency key have a digest.
        for batch in _split_ids(self.purged_ids):
            where = [Where("idempotency_key", Op.NE, None), Where("entity_id", Op.IN, batch)]
            for line in self.records.scan(Outbox, self.organization, where):
                if line.digest is not None:
                    yield Patch(Outbox, (line.sequence,), {"digest": None})

    def _clean_survivor(self, memory: Memory, merges: Sequence[str]) -> Iterator[Operation]:
        """Yield the operations that remove what purged memories brought into a survivor, its revisions and merges."""
        brought_values = _find_merged_values(memory.provenance, self.erased_ids)
        provenance, aliases = _remove_merged_values(memory.provenance, memory.aliases, self.erased_ids)
        cleaned = validate_row(Memory, {**memory.__dict__, "provenance": provenance, "aliases": aliases})
        yield self._patch(memory, {"provenance": provenance, "aliases": aliases})
        yield from (Delete(Tag, (self.organization, memory.id, tag)) for tag in brought_values["tags"])
        where = [Where("owner_kind", Op.EQ, "memory"), Where("owner_id", Op.EQ, memory.id)]
        for revision in self.records.scan(Revision, self.organization, where, deleted=True):
            provenance_then, aliases_then = revision.value.get("provenance", {}), revision.value.get("aliases", [])
            provenance_then, aliases_then = _remove_merged_values(provenance_then, aliases_then, self.erased_ids)
            value = {**revision.value, "provenance": provenance_then, "aliases": aliases_then}
            if value != revision.value:
                yield Patch(Revision, (self.organization, revision.id), {"value": value})
        for change in self.records.get(Change, self.organization, merges, deleted=True).values():
            tags = [tag for tag in change.after.get("tags", []) if tag not in brought_values["tags"]]
            if not self._names_purged_memory(change) and tags != change.after.get("tags"):
                yield Patch(Change, get_key(change), {"after": {**change.after, "tags": tags}})
        if aliases != memory.aliases:
            yield from self._reindex(cleaned, set(memory.aliases) - set(aliases))
        yield Put(make_announcement(memory))

    def _reindex(self, memory: Memory, dropped_aliases: Collection[str]) -> Iterator[Operation]:
        """Yield the operations that rewrite the current chunks and delete past chunks with terms of dropped aliases."""
        words = {term for alias in dropped_aliases for term in extract_terms(alias)}
        where = [Where("owner_id", Op.EQ, memory.id), Where("owner_kind", Op.EQ, "memory")]
        chunks = self.records.scan(Chunk, self.organization, where)
        for chunk in chunks:
            if chunk.known_to is None or words.intersection(chunk.terms.split()):
                yield Delete(Chunk, get_key(chunk))
        current = [chunk for chunk in chunks if chunk.known_to is None]
        yield from map(Put, rewrite_chunks(memory, current, self.chunking))

    def _names_purged_memory(self, change: Change) -> bool:
        return not self.purged_ids.isdisjoint(change.memory_ids)

    def _patch(self, memory: Memory, changes: dict[str, Any]) -> Operation:
        return Patch(Memory, (self.organization, memory.id), {**changes, "updated_at": self.now})


_FINAL_MERGE_CHANGES: dict[str, Any] = {"kind": _FINAL_MERGE, "before": {}, "after": {}}


class _JournalEntry(NamedTuple):
    """The columns of a change that a purge needs. The first memory of a merge is its survivor."""

    change_id: str
    kind: str
    memory_ids: list[str]


class _Survivors:
    """Looks up the survivors of merges in the journal. A survivor may have been merged into another memory later."""

    def __init__(self, entries: Iterable[_JournalEntry]) -> None:
        self._survivors: dict[str, set[str]] = {}
        self._merges: dict[str, list[str]] = {}
        for change_id, kind, memory_ids in entries:
            if kind in _MERGES and memory_ids:
                self._merges.setdefault(memory_ids[0], []).extend([change_id] if kind != _FINAL_MERGE else [])
                for memory_id in memory_ids[1:]:
                    self._survivors.setdefault(memory_id, set()).add(memory_ids[0])

    def find(self, memory_ids: Iterable[str]) -> set[str]:
        """Return the ids of all memories that these were merged into, directly or through other merges."""
        survivor_ids: set[str] = set()
        unread_ids = list(memory_ids)
        while unread_ids:
            survivors = self._survivors.get(unread_ids.pop(), set()) - survivor_ids
            survivor_ids |= survivors
            unread_ids += survivors
        return survivor_ids

    def list_merges_into(self, memory_id: str) -> list[str]:
        """Return the ids of the changes that merged other memories into this one and can be undone."""
        return self._merges.get(memory_id, [])


def make_merged_entries(memory: Memory, aliases: Collection[str], tags: Collection[str]) -> list[dict[str, Any]]:
    """Return a survivor's provenance entries for a merged memory and for the memories merged into that one before.

    `aliases` and `tags` are those that the survivor did not have. The list is flat, so that each memory can be purged
    from it and repeated merges do not nest it.
    """
    earlier_entries = [
        _make_entry(
            entry["id"],
            entry.get("provenance"),
            _read_texts(entry, "aliases"),
            _read_texts(entry, "tags"),
            aliases,
            tags,
        )
        for entry in read_merged_entries(memory.provenance)
    ]
    earlier_values = {
        name: {text for entry in earlier_entries for text in _read_texts(entry, name)} for name in ("aliases", "tags")
    }
    own_provenance = {name: value for name, value in memory.provenance.items() if name != "merged"}
    return [
        _make_entry(
            memory.id,
            own_provenance,
            set(aliases) - earlier_values["aliases"],
            set(tags) - earlier_values["tags"],
            aliases,
            tags,
        ),
        *earlier_entries,
    ]


def _make_entry(
    memory_id: str,
    provenance: Any,
    own_aliases: Iterable[str],
    own_tags: Iterable[str],
    aliases: Collection[str],
    tags: Collection[str],
) -> dict[str, Any]:
    brought_values = {"aliases": sorted({*own_aliases} & {*aliases}), "tags": sorted({*own_tags} & {*tags})}
    return {
        "id": memory_id,
        "provenance": provenance,
        **{name: values for name, values in brought_values.items() if values},
    }


def read_merged_entries(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the valid entries of merges in a provenance. Callers may have written anything else there."""
    entries = provenance.get("merged")
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


def _is_purged(memory_id: Any, purged_ids: Collection[str]) -> bool:
    return isinstance(memory_id, str) and memory_id in purged_ids


def _read_texts(entry: Mapping[str, Any], name: str) -> list[str]:
    values = entry.get(name)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _find_merged_values(provenance: Mapping[str, Any], purged_ids: Collection[str]) -> dict[str, set[str]]:
    """Return the aliases and tags that only purged memories brought into a merge."""
    entries = read_merged_entries(provenance)
    brought_values: dict[str, set[str]] = {}
    for name in ("aliases", "tags"):
        purged_values = {value for entry in entries if entry["id"] in purged_ids for value in _read_texts(entry, name)}
        remaining_values = {
            value for entry in entries if entry["id"] not in purged_ids for value in _read_texts(entry, name)
        }
        brought_values[name] = purged_values - remaining_values
    return brought_values


def _remove_merged_values(
    provenance: dict[str, Any], aliases: Sequence[str], purged_ids: Collection[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return a survivor's provenance and aliases without those that only purged memories brought."""
    brought_aliases = _find_merged_values(provenance, purged_ids)["aliases"]
    remaining_entries = [
        {**entry, "provenance": _remove_merged_values(entry["provenance"], (), purged_ids)[0]}
        if isinstance(entry.get("provenance"), dict)
        else entry
        for entry in read_merged_entries(provenance)
        if entry["id"] not in purged_ids
    ]
    other_values = {
        name: value
        for name, value in provenance.items()
        if name != "merged" and not (name == "memory" and _is_purged(value, purged_ids))
    }
    return {**other_values, "merged": remaining_entries} if remaining_entries else other_values, [
        alias for alias in aliases if alias not in brought_aliases
    ]
