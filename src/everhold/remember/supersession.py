"""Make the operations by which one memory supersedes others."""

from collections.abc import Container, Sequence
from datetime import datetime
from typing import Any

from everhold.model import Memory, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.remember.journal import make_change
from everhold.remember.link import make_relationship
from everhold.schema.operations import Operation, Patch, Put

# The fields of a memory that a supersession changes, in addition to `updated_at`.
ENDING = ("superseded_by", "superseded_at", "valid_to")


def make_ending(old: Memory, successor: Memory, now: datetime, begins: datetime) -> dict[str, Any]:
    """Return the changes that end a memory when a successor supersedes it. It ends when the successor begins."""
    # It cannot end before it began, even if the successor is valid from an earlier time.
    end = old.valid_to or max(successor.valid_from or begins, old.valid_from or begins)
    return {"superseded_by": successor.id, "superseded_at": now, "valid_to": end}


def make_supersession(
    scope: Scope,
    old_memories: Sequence[Memory],
    successor: Memory,
    now: datetime,
    *,
    begins: datetime,
    successor_is_new: bool,
    interface: str,
    run_id: str | None,
    reason: str | None = None,
    added_ids: Container[str] = (),
) -> list[Operation]:
    """Return the operations that end the old memories, link the successor to them, and journal this as one change.

    `added_ids` are the ids of memories that the same commit adds. They are added with their end, so no patch is needed.
    """
    operations: list[Operation] = []
    for old in old_memories:
        if old.id not in added_ids:
            changes = {**make_ending(old, successor, now, begins), "updated_at": now}
            operations += [
                Patch(Memory, (scope.organization, old.id), changes, version=old.version),
                Put(make_announcement(old)),
            ]
        request = {"memory": old.id, "superseded_by": successor.id}
        line = make_access_line(scope, "update", now, request, memory_id=old.id, interface=interface)
        operations += [Put(make_relationship(scope, successor.id, old.id, "supersedes", now)), Put(line)]
    ids = [*(old.id for old in old_memories), successor.id]
    before = {old.id: old.model_dump(mode="json", include=set(ENDING)) for old in old_memories}
    after = {"successor_is_new": successor_is_new}
    entry = make_change(scope, "supersede", ids, now, reason, before=before, after=after, run_id=run_id)
    return [*operations, Put(entry)]
