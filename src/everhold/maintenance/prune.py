"""Prune memories by age, by weight and by a budget. If the settings have none of these rules, nothing is pruned.

A pruned memory is hidden like a forgotten one: the change is journalled and can be undone until the grace period has
passed. Pinned memories are never pruned, and a memory whose pruning was undone is not pruned again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from everhold.batches import split_into_batches
from everhold.maintenance.aging import AgingMemory, AgingRules, make_aging_memory, read_aging_memories
from everhold.model import Memory, Organization
from everhold.ports.records import Records
from everhold.schema.operations import Operation

# A memory is not pruned by its weight within a day after it was stored, changed or used.
_SETTLING = timedelta(days=1)

# Returns the operations that hide a memory and store the reason.
Hide = Callable[[Memory, datetime, str], list[Operation]]


@dataclass(frozen=True)
class PruneRules:
    """The rules: prune memories idle for longer than `idle`, with less weight than `weight`, or over a budget.

    If both `idle` and `weight` are set, a memory must meet both. The budgets are per user: a number of memories, and a
    number of bytes of their texts.
    """

    aging: AgingRules
    idle: timedelta | None = None
    weight: float | None = None
    max_memories: int | None = None
    max_bytes: int | None = None

    @property
    def has_budget(self) -> bool:
        return self.max_memories is not None or self.max_bytes is not None

    @property
    def is_off(self) -> bool:
        return self.idle is None and self.weight is None and not self.has_budget

    def find_reason(self, memory: AgingMemory, now: datetime) -> str | None:
        """Return why a memory is pruned by its age or weight, or None if it is not."""
        if (self.idle is None and self.weight is None) or self.aging.is_exempt(memory):
            return None
        idle = now - memory.used_at
        if self.idle is not None and idle <= self.idle:
            return None
        if self.weight is not None and (memory.weight >= self.weight or idle <= _SETTLING):
            return None
        return "pruned: not used" if self.weight is None else "pruned: little weight"


@dataclass(frozen=True)
class PruneWork:
    """The input of a pruning.

    `try_commit` returns False if a memory has changed since it was read. `find_undone` returns the ids of an
    organization's memories whose pruning was undone; they stay.
    """

    records: Records
    rules: PruneRules
    now: datetime
    try_commit: Callable[[Sequence[Operation]], bool]
    add: Callable[[int], None]
    hide: Hide
    find_undone: Callable[[str], Collection[str]]
    batch: int = 100


def count_prunable(
    records: Records, rules: PruneRules, now: datetime, find_undone: Callable[[str], Collection[str]]
) -> int:
    """Return how many memories pruning would hide now."""
    return sum(len(memories) for _, memories in _find_prunable(records, rules, now, find_undone))


def prune(work: PruneWork) -> None:
    """Hide the memories that the rules select. Each one is a separate change, which can be undone by itself."""
    for organization, reasons in _find_prunable(work.records, work.rules, work.now, work.find_undone):
        for ids in split_into_batches(list(reasons), work.batch):
            stored = work.records.get(Memory, organization, ids)
            live_memories = [stored[memory_id] for memory_id in ids if memory_id in stored]
            unused_memories = [memory for memory in live_memories if _is_unused(memory, work.now)]
            operations_by_memory = [work.hide(memory, work.now, reasons[memory.id]) for memory in unused_memories]
            if not work.try_commit([operation for operations in operations_by_memory for operation in operations]):
                # Another writer changed a memory of the batch. Commit each memory by itself; the changed one fails
                # again and stays until the next run.
                for operations in operations_by_memory:
                    work.try_commit(operations)
            work.add(len(ids))


def _is_unused(memory: Memory, now: datetime) -> bool:
    """Return whether a memory has been neither used nor pinned since it was chosen."""
    return not memory.pinned and make_aging_memory(memory).used_at <= now


def _find_prunable(
    records: Records, rules: PruneRules, now: datetime, find_undone: Callable[[str], Collection[str]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each organization that has memories to prune, with the reason for each memory by its id."""
    if rules.is_off:
        return
    for (organization,) in list(records.columns(Organization, None, ("id",))):
        undone_ids = find_undone(organization)
        reasons: dict[str, str] = {}
        remaining: dict[str | None, list[AgingMemory]] = {}
        for memory in read_aging_memories(records, organization):
            # A memory whose pruning was undone does not count towards the budget: otherwise a more important memory
            # would be pruned in its place.
            if memory.id in undone_ids:
                continue
            reason = rules.find_reason(memory, now)
            if reason is not None:
                reasons[memory.id] = reason
            elif rules.has_budget:
                remaining.setdefault(memory.user_id, []).append(memory)
        sizes = _read_sizes(records, organization) if rules.max_bytes is not None else {}
        for memories in remaining.values():
            for memory in _find_excess(rules, memories, sizes):
                reasons[memory.id] = "pruned: over the budget"
        if reasons:
            yield organization, reasons


def _find_excess(rules: PruneRules, memories: Sequence[AgingMemory], sizes: Mapping[str, int]) -> Iterator[AgingMemory]:
    """Yield the memories of one user that exceed the budget, in the order of `_rank`.

    A memory that was deleted before its size was read has none.
    """
    excess_count = excess_bytes = 0
    if rules.max_memories is not None:
        excess_count = len(memories) - rules.max_memories
    if rules.max_bytes is not None:
        excess_bytes = sum(sizes.get(memory.id, 0) for memory in memories) - rules.max_bytes
    for memory in sorted(memories, key=_rank):
        if excess_count <= 0 and excess_bytes <= 0:
            return
        if not memory.pinned:
            yield memory
            excess_count -= 1
            excess_bytes -= sizes.get(memory.id, 0)


def _rank(memory: AgingMemory) -> tuple[bool, float, float, datetime, str]:
    """Return the sort key of the order of pruning: superseded memories first, then by importance, strength and use."""
    return (memory.superseded_at is None, memory.importance, memory.strength, memory.used_at, memory.id)


def _read_sizes(records: Records, organization: str) -> dict[str, int]:
    """Return the bytes of each memory's text."""
    rows = records.columns(Memory, organization, ("id", "text"))
    return {memory_id: len(text.encode()) for memory_id, text in rows}
