"""Undoing the last change to a memory, or the last change of the scope."""

from datetime import datetime

from recollect import clock
from recollect.errors import NotFound
from recollect.model import Change, Memory, Relationship, Scope
from recollect.model.access import access_line
from recollect.model.announcement import announcement
from recollect.model.memory import REPEATABLE_KINDS
from recollect.model.validation import checked
from recollect.remember.draft import content_hash
from recollect.remember.pipeline import Keeper
from recollect.remember.revise import later_than, revision_operations
from recollect.schema.operations import Delete, Hide, Op, Operation, Patch, Put, Unhide, Where


def undo(keeper: Keeper, scope: Scope, memory_id: str | None) -> Change:
    """Takes back the latest change that has not been taken back, and says which it was."""
    change, memories = _latest(keeper, scope, memory_id)
    now = later_than(change.created_at)
    operations = _REVERSALS[change.kind](keeper, scope, change, memories, now)
    undone = Patch(Change, (scope.organization, change.id), {"undone_at": now, "updated_at": now}, change.version)
    lines = [
        access_line(scope, "update", now, {"memory": memory.id, "undone": change.kind}, memory_id=memory.id)
        for memory in memories
    ]
    keeper.records.commit([*operations, undone, *map(Put, lines), *[Put(announcement(one)) for one in memories]])
    return checked(Change, {**change.__dict__, "undone_at": now, "updated_at": now, "version": change.version + 1})


def _latest(keeper: Keeper, scope: Scope, memory_id: str | None) -> tuple[Change, list[Memory]]:
    where = [Where("undone_at", Op.EQ, None)]
    if memory_id is not None:
        where.append(Where("memory_ids", Op.CONTAINS, memory_id))
    if scope.user is not None:
        where.append(Where("user_id", Op.EQ, scope.user))
    for change in keeper.records.scan(Change, scope.organization, where, order="created_at", descending=True, limit=50):
        found = keeper.records.get(Memory, scope.organization, change.memory_ids, deleted=True)
        memories = [found[one] for one in change.memory_ids if one in found]
        if change.kind in _REVERSALS and memories and all(scope.covers(memory) for memory in memories):
            return change, memories
    about = f"memory {memory_id!r}" if memory_id else f"scope {scope}"
    raise NotFound(f"nothing to undo for {about}; only revise, supersede and forget (not hard) can be undone")


def _unrevise(keeper: Keeper, scope: Scope, change: Change, memories: list[Memory], now: datetime) -> list[Operation]:
    """Puts the earlier values back as one more revision."""
    memory = memories[0]
    values = {**memory.__dict__, **change.before, "updated_at": now, "revision": memory.revision + 1}
    earlier = checked(Memory, {**values, "last_updated_by_id": scope.actor})
    if earlier.kind not in REPEATABLE_KINDS:
        earlier = checked(Memory, {**earlier.__dict__, "hash": content_hash(earlier)})
    return revision_operations(keeper, memory, earlier, now, "undo")


def _unsupersede(
    keeper: Keeper, scope: Scope, change: Change, memories: list[Memory], now: datetime
) -> list[Operation]:
    old, heir = memories[0], memories[-1]
    before = checked(Memory, {**old.__dict__, **change.before})
    fields = ("superseded_by", "superseded_at", "valid_to")
    changes = {name: before.__dict__[name] for name in fields}
    where = [
        Where("source_memory_id", Op.EQ, heir.id),
        Where("target_memory_id", Op.EQ, old.id),
        Where("relationship_type", Op.EQ, "supersedes"),
    ]
    links = keeper.records.scan(Relationship, scope.organization, where)
    operations: list[Operation] = [
        Patch(Memory, (scope.organization, old.id), {**changes, "updated_at": now}),
        *[Delete(Relationship, (scope.organization, link.id)) for link in links],
    ]
    if change.after.get("heir_is_new"):
        operations.append(Hide(Memory, (scope.organization, heir.id), clock.make_id("del"), now))
    return operations


def _unforget(keeper: Keeper, scope: Scope, change: Change, memories: list[Memory], now: datetime) -> list[Operation]:
    return [Unhide(scope.organization, change.before["deletion_id"])]


_REVERSALS = {"revise": _unrevise, "supersede": _unsupersede, "forget": _unforget}
