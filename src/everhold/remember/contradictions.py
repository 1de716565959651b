"""Find memories that contradict each other; supersede the earlier one, or list both for a person to decide.

`remember` does this when a memory is written. Contradictions remain between memories that were imported, written with
`resolve` off, or written by different agents or for different projects.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from everhold import clock
from everhold.errors import InvalidInput, NotFound, Remedy, StaleVersion, Verb, format_value
from everhold.facts.conflicts import ONE_TIME
from everhold.model import Memory, Relationship, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.scope import SHORT_TERM
from everhold.ports.records import Records
from everhold.remember.deps import WriteDeps
from everhold.remember.owners import Owner, find_related_pairs, find_undone_pairs
from everhold.remember.reading import find_event_time, format_attribute, load_statement
from everhold.remember.relate import relate
from everhold.remember.resolve import Rival, find_rival_session, find_start, is_contradicted, list_ended_attributes
from everhold.remember.supersession import make_supersession
from everhold.remember.versions import make_version_check, report_current_version
from everhold.schema.operations import Op, Patch, Put, Where

CONTRADICTS = "contradicts"
_DISMISSED = "dismissed"
_BATCH = 500


class Contradiction(NamedTuple):
    """Two memories that cannot both be true.

    `reason` says why a person must decide; it is None if the newer memory supersedes the older one.
    """

    older: Memory
    newer: Memory
    attribute: str
    reason: str | None


@dataclass(frozen=True)
class MemoryConflict:
    """Two contradicting memories that a person must decide about. `reason` says why maintenance did not decide."""

    id: str
    older: Memory
    newer: Memory
    reason: str | None
    found_at: datetime


# during maintenance


def find_contradictions(deps: WriteDeps, owner: Owner, now: datetime) -> list[Contradiction]:
    """Return the contradictions among an owner's current memories that are not listed yet."""
    undone_pairs = find_undone_pairs(deps.records, owner, "supersede")
    groups: dict[tuple[str | None, str], list[Rival]] = defaultdict(list)
    for rival in _read_rivals(deps, owner, now):
        groups[find_rival_session(rival.memory), rival.memory.namespace].append(rival)
    contradictions = [
        contradiction
        for rivals in groups.values()
        for contradiction in _compare_rivals(deps, sorted(rivals, key=_get_sort_key), undone_pairs)
    ]
    memory_ids = {memory.id for item in contradictions for memory in (item.older, item.newer)}
    listed_pairs = find_related_pairs(deps.records, owner.organization, memory_ids)
    listed_pairs |= find_undone_pairs(deps.records, owner, "relate")
    return [item for item in contradictions if frozenset((item.older.id, item.newer.id)) not in listed_pairs]


def _read_rivals(deps: WriteDeps, owner: Owner, now: datetime) -> Iterator[Rival]:
    where = [*owner.conditions, Where("attribute", Op.NE, None), Where("superseded_at", Op.EQ, None)]
    for memory in deps.records.scan(Memory, owner.organization, where):
        statement = load_statement(memory, deps.reading.zone) if memory.is_current_at(now) else None
        if statement is None or statement.attribute in ONE_TIME or memory.namespace == SHORT_TERM:
            continue
        if format_attribute(statement) == memory.attribute:
            yield Rival(memory, statement)


def _get_sort_key(rival: Rival) -> tuple[datetime, datetime, str]:
    return _find_start(rival), rival.memory.created_at, rival.memory.id


def _find_start(rival: Rival) -> datetime:
    return rival.memory.valid_from or rival.statement.valid_from or find_event_time(rival.memory)


def _compare_rivals(
    deps: WriteDeps, rivals: Sequence[Rival], undone_pairs: Collection[frozenset[str]]
) -> Iterator[Contradiction]:
    """Yield the contradictions of rivals in order of time, as if each had been written after those before it."""
    current: dict[str, dict[str, Rival]] = defaultdict(dict)
    for newer in rivals:
        for name in list_ended_attributes(newer.statement):
            for older in list(current[name].values()):
                if not is_contradicted(older.statement, newer.statement):
                    continue
                reason = _find_reason(deps, older, newer, undone_pairs)
                if reason is None:
                    del current[name][older.memory.id]
                yield Contradiction(older.memory, newer.memory, name, reason)
        current[format_attribute(newer.statement)][newer.memory.id] = newer


def _find_reason(deps: WriteDeps, older: Rival, newer: Rival, undone_pairs: Collection[frozenset[str]]) -> str | None:
    """Return why a person must decide between two memories, or None if the newer one replaces the other."""
    old, new = older.memory, newer.memory
    if (old.project_id, old.agent_id) != (new.project_id, new.agent_id):
        return "they belong to different projects or agents"
    if _find_start(older) == _find_start(newer):
        return "both are of the same time"
    reasons = {
        "the older one is pinned": old.pinned,
        "the older one has a key": old.has_own_key,
        "the newer one is less certain": new.confidence < old.confidence or new.trust < old.trust,
        "replacing the older one was undone": frozenset((old.id, new.id)) in undone_pairs,
        "the setting remember.resolve is off": not deps.reading.resolve,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def settle(deps: WriteDeps, owner: Owner, contradiction: Contradiction) -> None:
    """Let the newer memory supersede the older one, or list both for a person.

    Raise StaleVersion if the content of one has changed since it was compared.
    """
    older, newer, attribute, reason = contradiction
    older, newer = _read_again(deps.records, older), _read_again(deps.records, newer)
    if reason is not None:
        relate(deps, owner.scope, newer.id, older.id, CONTRADICTS, {"reason": reason, "attribute": attribute})
    else:
        _supersede(deps, owner.scope, older, newer, f"replaces: {attribute}")


def _read_again(records: Records, memory: Memory) -> Memory:
    """Return a memory at its current version; raise StaleVersion if it was revised, superseded or forgotten."""
    # Its version may have increased without a change of its text, for example because it superseded another memory.
    stored = records.get(Memory, memory.organization_id, [memory.id]).get(memory.id)
    if stored is None or stored.revision != memory.revision or stored.superseded_at != memory.superseded_at:
        raise StaleVersion(f"memory {memory.id!r} was changed by another writer", value=memory.id, remedy="try again")
    return stored


def _supersede(deps: WriteDeps, scope: Scope, old: Memory, successor: Memory, reason: str) -> None:
    now = clock.make_later_time(max(old.updated_at, successor.updated_at))
    operations = make_supersession(
        scope,
        [old],
        successor,
        now,
        begins=find_start(successor),
        successor_is_new=False,
        interface=deps.interface,
        reason=reason,
        run_id=deps.run_id,
    )
    # If the successor was revised after the comparison, it may say something else, and the commit must fail.
    deps.records.commit([*make_version_check(successor, successor.version, now), *operations])


# for a person


def list_conflicts(records: Records, scope: Scope, limit: int) -> list[MemoryConflict]:
    """Return the latest `limit` listed conflicts between memories that the scope may read, latest first."""
    conflicts: list[MemoryConflict] = []
    links = records.scan(Relationship, scope.organization, [Where("relationship_type", Op.EQ, CONTRADICTS)])
    links.sort(key=lambda link: (link.created_at, link.id), reverse=True)
    for start in range(0, len(links), _BATCH):
        conflicts += _read_conflicts(records, scope, links[start : start + _BATCH])
        if len(conflicts) >= limit:
            break
    return conflicts[:limit]


def _read_conflicts(records: Records, scope: Scope, links: Sequence[Relationship]) -> Iterator[MemoryConflict]:
    memory_ids = sorted({memory_id for link in links for memory_id in (link.source_memory_id, link.target_memory_id)})
    now = clock.now()
    memories = {
        memory.id: memory
        for memory in (records.get(Memory, scope.organization, memory_ids) if memory_ids else {}).values()
        if scope.can_read(memory) and memory.is_current_at(now)
    }
    for link in links:
        newer, older = memories.get(link.source_memory_id), memories.get(link.target_memory_id)
        if newer is not None and older is not None and not link.metadata.get(_DISMISSED):
            reason = link.metadata.get("reason")
            yield MemoryConflict(link.id, older, newer, reason if isinstance(reason, str) else None, link.created_at)


def resolve_conflict(deps: WriteDeps, scope: Scope, conflict_id: str, keep: str | None) -> MemoryConflict:
    """End a conflict: the memory `keep` supersedes the other; if it is None, both stay and are not listed again."""
    link = deps.records.get(Relationship, scope.organization, [conflict_id]).get(conflict_id)
    conflicts = list(_read_conflicts(deps.records, scope, [link])) if link is not None else []
    if link is None or link.relationship_type != CONTRADICTS or not conflicts:
        raise NotFound(
            f"no conflict {conflict_id!r} in scope {scope}",
            value=conflict_id,
            remedy=Remedy("{} lists them", Verb("conflicts")),
        )
    [conflict] = conflicts
    opponents = {conflict.older.id: conflict.newer, conflict.newer.id: conflict.older}
    if keep is not None and keep not in opponents:
        raise InvalidInput(
            f"keep is {format_value(keep)}, which is not a memory of this conflict",
            value=keep,
            remedy=f"pass {' or '.join(opponents)}",
        )
    if keep is not None:
        superseded_memory = opponents[keep]
        successor = opponents[superseded_memory.id]
        with report_current_version(deps.records, superseded_memory):
            _supersede(deps, scope, superseded_memory, successor, "conflict resolved")
        return conflict
    now = clock.now()
    request = {"memory": conflict.newer.id, "target": conflict.older.id, "conflict": _DISMISSED}
    changes = {"metadata": {**link.metadata, _DISMISSED: True}, "updated_at": now}
    deps.records.commit(
        [
            Patch(Relationship, (scope.organization, link.id), changes, link.version),
            Put(make_access_line(scope, "update", now, request, interface=deps.interface, memory_id=conflict.newer.id)),
            Put(make_announcement(conflict.newer)),
        ]
    )
    return conflict
