"""Reduce the strength of unused memories, and restore the strength of used ones.

The strength is the share of a memory's importance that counts for ranking; the importance itself does not change.
Nothing is deleted. The curve is in `maintenance/aging.py`. Each change of a strength is journalled, so that it can be
undone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from everhold.batches import split_into_batches
from everhold.maintenance.aging import AgingMemory, AgingRules, read_aging_memories
from everhold.maintenance.deleting import delete_in_batches
from everhold.model import Change, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.memory import Memory
from everhold.ports.records import Records
from everhold.schema.operations import Increment, Op, Operation, Put, Where

# A memory's new strength and its announcement; undoing adds a line in the access log.
_OPERATIONS_PER_MEMORY = 3
_OTHER_OPERATIONS = 4  # the journal's entry, a line in the access log, the lease and the mark of an undo

# Makes the journal's entry of a change of these memories, with the values before and after it.
Journal = Callable[[Scope, str, Sequence[str], datetime, dict[str, Any], dict[str, Any]], Change]


@dataclass(frozen=True)
class DecayWork:
    """The input of a decay. Each batch is one call of `commit`, followed by one call of `add` with its size."""

    records: Records
    rules: AgingRules
    now: datetime
    commit: Callable[[Sequence[Operation]], None]
    add: Callable[[int], None]
    journal: Journal
    interface: str = "library"
    batch: int = 500

    @property
    def batch_size(self) -> int:
        """The number of memories in a batch: at most `batch`, and no more than one commit can take."""
        limit = self.records.traits.commit_limit - _OTHER_OPERATIONS
        return max(1, min(self.batch, limit // _OPERATIONS_PER_MEMORY))


class _StrengthChange(NamedTuple):
    """A change of the strength that is the same for several memories of one user."""

    organization_id: str
    user_id: str | None
    before: float
    after: float


def count_decaying(records: Records, rules: AgingRules, now: datetime) -> int:
    """Return the number of memories whose strength differs from what it should be at `now`."""
    return sum(1 for _ in _find_changing(records, rules, now))


def decay(work: DecayWork) -> None:
    """Give every memory the strength that it should have now."""
    ids_by_change: dict[_StrengthChange, list[str]] = {}
    for memory, strength in _find_changing(work.records, work.rules, work.now):
        change = _StrengthChange(memory.organization_id, memory.user_id, memory.strength, strength)
        ids_by_change.setdefault(change, []).append(memory.id)
    for change, ids in ids_by_change.items():
        for batch in split_into_batches(ids, work.batch_size):
            memories = work.records.get(Memory, change.organization_id, batch)
            if memories:
                work.commit(_make_operations(work, change, list(memories.values())))
            work.add(len(batch))


def _find_changing(records: Records, rules: AgingRules, now: datetime) -> Iterator[tuple[AgingMemory, float]]:
    for memory in read_aging_memories(records, None):
        if memory.superseded_at is None:  # superseded memories are not ranked
            strength = rules.choose_strength(memory, now)
            if strength != memory.strength:
                yield memory, strength


def _make_operations(work: DecayWork, change: _StrengthChange, memories: Sequence[Memory]) -> list[Operation]:
    scope = Scope(organization=change.organization_id, user=change.user_id)
    before, after = {"strength": change.before}, {"strength": change.after}
    entry = work.journal(scope, "decay", [memory.id for memory in memories], work.now, before, after)
    request = {"decayed": len(memories), "run": entry.run_id, **after}
    operations: list[Operation] = [
        Put(entry),
        Put(make_access_line(scope, "update", work.now, request, interface=work.interface)),
    ]
    for memory in memories:
        # An increment leaves the version as it is, so that a caller who has read the memory can still revise it.
        key = (memory.organization_id, memory.id)
        operations += [Increment(Memory, key, {}, after), Put(make_announcement(memory))]
    return operations


def count_old_entries(records: Records, before: datetime) -> int:
    """Return how many journal entries of decay were written before a time."""
    return records.count(Change, None, _make_old_conditions(before))


def drop_old_entries(
    records: Records,
    before: datetime,
    commit: Callable[[Sequence[Operation]], None],
    add: Callable[[int], None],
    *,
    batch: int,
) -> None:
    """Delete the journal entries of decay that were written before a time, because the journal would grow forever."""
    keys = records.columns(Change, None, ("organization_id", "id"), _make_old_conditions(before))
    delete_in_batches(Change, keys, commit, add, batch=batch)


def _make_old_conditions(before: datetime) -> list[Where]:
    return [Where("kind", Op.EQ, "decay"), Where("created_at", Op.LE, before)]
