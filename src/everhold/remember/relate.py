"""Relate memories to each other, and tag them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.errors import AlreadyExists, InvalidInput
from everhold.model import Memory, Relationship, Scope, Tag
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.ports.records import Records
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import make_tag
from everhold.remember.journal import make_change
from everhold.remember.link import make_relationship
from everhold.remember.lookup import require_memory
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Delete, Ensure, Op, Operation, Put, Where


@dataclass(frozen=True)
class Related:
    """A memory that was reached from another, the last relationship on the way, and the number of steps."""

    memory: Memory
    relationship: Relationship
    depth: int


def relate(
    deps: WriteDeps, scope: Scope, source: str, target: str, relationship_type: str, metadata: Mapping[str, Any]
) -> Relationship:
    """Return the relationship of this type between two memories of the scope; add it if it does not exist."""
    first, second = require_memory(deps.records, scope, source), require_memory(deps.records, scope, target)
    if first.id == second.id:
        raise InvalidInput(f"memory {first.id} cannot be related to itself", remedy="name two memories")
    now = clock.now()
    link = make_relationship(scope, first.id, second.id, relationship_type, now, metadata)
    request = {"memory": first.id, "target": second.id, "relationship": relationship_type}
    line = make_access_line(scope, "update", now, request, memory_id=first.id, interface=deps.interface)
    operations: list[Operation] = [Put(link), Put(line), Put(make_announcement(first)), Put(make_announcement(second))]
    if deps.run_id is not None:
        ids, after = [first.id, second.id], {"relationship_id": link.id}
        operations.append(Put(make_change(scope, "relate", ids, now, None, before={}, after=after, run_id=deps.run_id)))
    try:
        deps.records.commit(operations)
    except AlreadyExists:
        where = [
            Where("source_memory_id", Op.EQ, first.id),
            Where("target_memory_id", Op.EQ, second.id),
            Where("relationship_type", Op.EQ, relationship_type),
        ]
        return deps.records.scan(Relationship, scope.organization, where, limit=1)[0]
    return link


def relations(
    records: Records, scope: Scope, name: str, *, depth: int = 1, relationship_type: str | None = None
) -> list[Related]:
    """Return the memories of the scope within `depth` relationships of a memory, nearest first."""
    start = require_memory(records, scope, name)
    seen_ids, frontier_ids, related = {start.id}, [start.id], []
    for step in range(1, depth + 1):
        links = _read_links(records, scope, frontier_ids, relationship_type)
        other_ends = {link.id: _find_other_end(link, frontier_ids) for link in links}
        memories = records.get(
            Memory, scope.organization, [end for end in set(other_ends.values()) if end not in seen_ids]
        )
        frontier_ids = []
        for link in links:
            memory = memories.get(other_ends[link.id])
            if memory is not None and memory.id not in seen_ids and scope.can_read(memory):
                seen_ids.add(memory.id)
                frontier_ids.append(memory.id)
                related.append(Related(memory, link, step))
        if not frontier_ids:
            break
    return related


def _read_links(
    records: Records, scope: Scope, memory_ids: Sequence[str], relationship_type: str | None
) -> list[Relationship]:
    type_conditions = [Where("relationship_type", Op.EQ, relationship_type)] if relationship_type else []
    links_by_id = {}
    for column in ("source_memory_id", "target_memory_id"):
        for link in records.scan(
            Relationship, scope.organization, [Where(column, Op.IN, list(memory_ids)), *type_conditions]
        ):
            links_by_id[link.id] = link
    # Sorted by id, which is the order of creation, so that the path to a memory is the same on every store.
    return [links_by_id[link_id] for link_id in sorted(links_by_id)]


def _find_other_end(link: Relationship, ids: Sequence[str]) -> str:
    return link.target_memory_id if link.source_memory_id in ids else link.source_memory_id


def tag(deps: WriteDeps, scope: Scope, name: str, tags: Iterable[str]) -> None:
    """Add tags to a memory; tags that it already has are ignored."""
    memory = require_memory(deps.records, scope, name)
    now = clock.now()
    _commit_tags(deps, scope, memory, [Ensure(make_tag(memory, word.strip(), now)) for word in tags], now)


def untag(deps: WriteDeps, scope: Scope, name: str, tags: Iterable[str]) -> None:
    """Remove tags from a memory; tags that it does not have are ignored."""
    memory = require_memory(deps.records, scope, name)
    keys = [(scope.organization, memory.id, word.strip()) for word in tags]
    _commit_tags(deps, scope, memory, [Delete(Tag, key) for key in keys], clock.now())


def _commit_tags(deps: WriteDeps, scope: Scope, memory: Memory, operations: Sequence[Operation], now: datetime) -> None:
    request = {"memory": memory.id, "tags": len(operations)}
    line = make_access_line(scope, "update", now, request, memory_id=memory.id, interface=deps.interface)
    deps.records.commit([*operations, Put(line), Put(make_announcement(memory))])


def count_tags(records: Records, scope: Scope) -> dict[str, int]:
    """Return the number of the scope's memories with each tag, sorted by tag."""
    scope_ids = None
    if scope.columns:
        scope_ids = {
            memory_id
            for (memory_id,) in records.columns(Memory, scope.organization, ["id"], make_scope_conditions(scope))
        }
    counts: dict[str, int] = {}
    for memory_id, word in records.columns(Tag, scope.organization, ("memory_id", "tag")):
        if scope_ids is None or memory_id in scope_ids:
            counts[word] = counts.get(word, 0) + 1
    return dict(sorted(counts.items()))
