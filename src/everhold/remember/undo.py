"""Undo the last change to a memory, or the last change of the scope."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Literal

from everhold import clock
from everhold.errors import NotFound, StaleVersion, StoreDamaged
from everhold.model import Change, Memory, Relationship, Revision, Scope, Tag
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.journalling import VALUE_KINDS, find_undo_fault
from everhold.model.memory import REPEATABLE_KINDS
from everhold.model.validation import validate_row
from everhold.ports.erasure import note_purge
from everhold.ports.records import Records
from everhold.remember.deps import WriteDeps
from everhold.remember.draft import compute_content_hash
from everhold.remember.lookup import find_by_key
from everhold.remember.revise import make_revision_operations, read_chunks_at
from everhold.remember.supersession import ENDING
from everhold.remember.versions import report_current_version
from everhold.schema.catalog import CATALOG
from everhold.schema.operations import Delete, Hide, Increment, Op, Operation, Page, Patch, Put, Unhide, Where

_PAGE = 50
# The kinds of changes that `undo` can undo one by one. Others can only be undone with their whole maintenance run.
UNDOABLE = ("revise", "supersede", "forget", "merge")


def undo(deps: WriteDeps, scope: Scope, memory_id: str | None) -> Change:
    """Undo the latest change that has not been undone, and return it."""
    change, memories = _find_latest(deps, scope, memory_id)
    fault = find_faults(deps.records, scope.organization, [change]).get(change.id)
    if fault is not None:
        raise _make_damage_error(change, fault)
    return reverse_change(deps, scope, change, memories)


def reverse_change(deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory]) -> Change:
    """Undo a change of these memories in one commit and return it as undone. Check it with `find_faults` first."""
    now = clock.make_later_time(change.created_at)
    operations = _REVERSALS[change.kind](deps, scope, change, memories, now)
    # The patch checks the version of the change, so that only one of two concurrent callers can undo it.
    undone = Patch(Change, (scope.organization, change.id), {"undone_at": now, "updated_at": now}, change.version)
    lines = [
        make_access_line(
            scope,
            "update",
            now,
            {"memory": memory.id, "undone": change.kind},
            interface=deps.interface,
            memory_id=memory.id,
        )
        for memory in memories
    ]
    announcements = [Put(make_announcement(memory, _ANNOUNCED_ACTIONS.get(change.kind, "put"))) for memory in memories]
    with report_current_version(deps.records, memories[0]) if memories else nullcontext():
        deps.records.commit([*operations, undone, *map(Put, lines), *announcements])
    return validate_row(Change, {**change.__dict__, "undone_at": now, "updated_at": now, "version": change.version + 1})


def _find_latest(deps: WriteDeps, scope: Scope, memory_id: str | None) -> tuple[Change, list[Memory]]:
    for change in _read_changes(deps, scope, memory_id):
        stored = deps.records.get(Memory, scope.organization, change.memory_ids, deleted=True)
        memories = [stored[changed_id] for changed_id in change.memory_ids if changed_id in stored]
        if can_be_undone(change, memories) and all(scope.can_read(memory) for memory in memories):
            return change, memories
        if memory_id is not None:
            break  # earlier changes of this memory cannot be undone before its latest one
    subject = f"memory {memory_id!r}" if memory_id else f"scope {scope}"
    raise NotFound(
        f"nothing to undo for {subject}",
        remedy="only revise, supersede and forget (not hard), and merges, can be undone",
    )


def can_be_undone(change: Change, memories: list[Memory]) -> bool:
    """Return whether the memories of a change still exist and have not been hidden since, for example with a session.

    For a forget, which hid them itself, it is enough that one still exists.
    """
    if change.kind == "forget" or not memories:
        return bool(memories)
    return len(memories) == len(change.memory_ids) and not memories[0].is_deleted


def _read_changes(deps: WriteDeps, scope: Scope, memory_id: str | None) -> Iterator[Change]:
    """Yield the undoable changes of a memory, or of the scope's user if there is no memory id, latest first."""
    where = [Where("undone_at", Op.EQ, None), Where("kind", Op.IN, list(UNDOABLE))]
    if memory_id is not None:
        memory_with_key = find_by_key(deps.records, scope, memory_id)
        where.append(Where("memory_ids", Op.CONTAINS, memory_id if memory_with_key is None else memory_with_key.id))
    else:
        where.append(Where("run_id", Op.EQ, None))  # callers mean the last change of their own, not one of maintenance
        if scope.user is not None:
            where.append(Where("user_id", Op.EQ, scope.user))
    after: Page | None = None
    while True:
        page = deps.records.scan(
            Change, scope.organization, where, order="created_at", descending=True, after=after, limit=_PAGE
        )
        yield from page
        if len(page) < _PAGE:
            return
        after = Page(page[-1].created_at, (scope.organization, page[-1].id))


def find_faults(records: Records, organization: str, changes: Sequence[Change]) -> dict[str, str]:
    """Return why changes cannot be undone, by change id: they lack data, or undoing them would restore other rows."""
    faults: dict[str, str] = {}
    hidden_ids: dict[str, Collection[str]] = {}
    for change in changes:
        fault = find_undo_fault(change.kind, change.memory_ids, change.before, change.after)
        if fault is not None:
            faults[change.id] = fault
        elif change.kind in ("forget", "merge"):
            hidden_ids[change.before["deletion_id"]] = change.memory_ids
    foreign = _find_foreign_deletions(records, organization, hidden_ids)
    for change in changes:
        if change.id not in faults and change.before.get("deletion_id") in foreign:
            faults[change.id] = "its deletion id belongs to another deletion"
    return faults


def _find_foreign_deletions(records: Records, organization: str, hidden_ids: Mapping[str, Collection[str]]) -> set[str]:
    """Return the deletion ids that have hidden rows other than these memories and the rows that belong to them."""
    foreign_ids: set[str] = set()
    where = [Where("deletion_id", Op.IN, list(hidden_ids))]
    for entity, table in CATALOG.items() if hidden_ids else ():
        belongs_to_memories = any(reference.target == "memories" for reference in table.references)
        if table.soft and "id" in table.by_name and not belongs_to_memories:
            for row_id, deletion_id in records.columns(
                entity, organization, ("id", "deletion_id"), where, deleted=True
            ):
                if entity is not Memory or row_id not in hidden_ids[deletion_id]:
                    foreign_ids.add(deletion_id)
    return foreign_ids


def _make_damage_error(change: Change, fault: str) -> StoreDamaged:
    return StoreDamaged(
        f"change {change.id!r} cannot be undone: {fault}",
        value=change.id,
        remedy="run `everhold doctor` to find other damage",
    )


def _undo_revise(
    deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    """Return the operations that restore the earlier values as one more revision."""
    memory = memories[0]
    where = [
        Where("owner_kind", Op.EQ, "memory"),
        Where("owner_id", Op.EQ, memory.id),
        Where("revision", Op.EQ, change.before["revision"]),
    ]
    revisions = deps.records.scan(Revision, scope.organization, where, limit=1)
    if not revisions:
        # The revisions of a memory are hidden with it, so after a concurrent forget the revision seems to be missing.
        if not deps.records.get(Memory, scope.organization, [memory.id]):
            raise StaleVersion(
                f"memory {memory.id!r} was forgotten just now, so nothing was undone",
                value=memory.id,
                remedy="try again",
            )
        raise _make_damage_error(change, f"there is no revision {change.before['revision']} of memory {memory.id!r}")
    values = {**memory.__dict__, **revisions[0].value, "updated_at": now, "revision": memory.revision + 1}
    # Undoing a run restores who updated the memory before it; undoing one change is an update by the caller.
    updated_by = scope.actor if change.run_id is None else revisions[0].last_updated_by_id
    earlier_memory = validate_row(Memory, {**values, "last_updated_by_id": updated_by})
    content_hash = None if earlier_memory.kind in REPEATABLE_KINDS else compute_content_hash(earlier_memory)
    earlier_memory = validate_row(Memory, {**earlier_memory.__dict__, "hash": content_hash})
    chunks = read_chunks_at(deps, memory, revisions[0])
    return make_revision_operations(deps, memory, earlier_memory, now, "undo", earlier_chunks=chunks)


def _undo_supersede(
    deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    """Return the operations that make the old memories current again and hide the successor if the change added it."""
    *old_memories, successor = memories
    where = [
        Where("source_memory_id", Op.EQ, successor.id),
        Where("target_memory_id", Op.IN, [old.id for old in old_memories]),
        Where("relationship_type", Op.EQ, "supersedes"),
    ]
    links = deps.records.scan(Relationship, scope.organization, where)
    operations: list[Operation] = [Delete(Relationship, (scope.organization, link.id)) for link in links]
    for old in old_memories:
        before = validate_row(Memory, {**old.__dict__, **change.before[old.id]})
        changes = {name: before.__dict__[name] for name in ENDING}
        operations.append(Patch(Memory, (scope.organization, old.id), {**changes, "updated_at": now}))
    if change.after.get("successor_is_new"):
        operations.append(Hide(Memory, (scope.organization, successor.id), clock.make_id("del"), now))
    return operations


def _undo_forget(
    deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    return [Unhide(scope.organization, change.before["deletion_id"])]


def _undo_merge(
    deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    """Return the operations that restore merged memories and remove what the survivor received from them."""
    survivor = memories[0]
    return [
        *_undo_revise(deps, scope, change, memories, now),
        *[Delete(Tag, (scope.organization, survivor.id, tag)) for tag in change.after["tags"]],
        Unhide(scope.organization, change.before["deletion_id"]),
    ]


def _undo_remember(
    deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    """Return the operations that purge the memories that a run added. Hidden ones would still take up their keys."""
    return [*note_purge(), *[Delete(Memory, (scope.organization, memory.id)) for memory in memories]]


def _undo_relate(
    deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    return [Delete(Relationship, (scope.organization, change.after["relationship_id"]))]


def _undo_values(
    deps: WriteDeps, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    """Return the operations that restore the earlier values of the fields that have not changed since."""
    operations: list[Operation] = []
    for memory in memories:
        after = validate_row(Memory, {**memory.__dict__, **change.after}).__dict__
        before = validate_row(Memory, {**memory.__dict__, **change.before}).__dict__
        values = {name: before[name] for name in change.before if memory.__dict__[name] == after[name]}
        if values:
            operations.append(Increment(Memory, (scope.organization, memory.id), {}, values))
    return operations


_REVERSALS = {
    "revise": _undo_revise,
    "supersede": _undo_supersede,
    "forget": _undo_forget,
    "merge": _undo_merge,
    "remember": _undo_remember,
    "relate": _undo_relate,
    **dict.fromkeys(VALUE_KINDS, _undo_values),
}
_ANNOUNCED_ACTIONS: Mapping[str, Literal["put", "delete"]] = {"remember": "delete"}
