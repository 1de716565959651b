"""Prune memories by age, by relevance and by a budget of size. Without one of these rules, nothing is pruned.

A pruned memory is hidden like a forgotten one: it is journalled, and can be brought back until the grace period has
passed. Pinned memories are never pruned. What a person has brought back is not pruned again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from everhold.batches import split_into_batches
from everhold.maintenance.aging import AgingMemory, AgingRules, read_aging_memories, take_aging
from everhold.model import Memory, Organization
from everhold.ports.records import Records
from everhold.schema.operations import Operation

# A memory is not judged by its relevance before it had a day to be used.
_SETTLING = timedelta(days=1)

# The operations that hide a memory, of which the reason is stored.
Hide = Callable[[Memory, datetime, str], list[Operation]]


@dataclass(frozen=True)
class PruneRules:
    """What is pruned: memories idle for longer than `idle`, with less weight than `weight`, or beyond a budget.

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
        """Return why a memory is pruned by itself, or None if it stays."""
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
    return sum(len(found) for _, found in _find_prunable(records, rules, now, find_undone))


def prune(work: PruneWork) -> None:
    """Hide the memories that the rules prune, each as a change of its own, so that each can be brought back alone."""
    for organization, reasons in _find_prunable(work.records, work.rules, work.now, work.find_undone):
        for ids in split_into_batches(list(reasons), work.batch):
            stored = work.records.get(Memory, organization, ids)
            memories = [stored[name] for name in ids if name in stored and _is_unused(stored[name], work.now)]
            operations = [work.hide(memory, work.now, reasons[memory.id]) for memory in memories]
            if not work.try_commit([operation for part in operations for operation in part]):
                # Another writer changed a memory of the batch. It stays until the next run, and the others go.
                for part in operations:
                    work.try_commit(part)
            work.add(len(ids))


def _is_unused(memory: Memory, now: datetime) -> bool:
    """Return whether a memory has been neither used nor pinned since it was chosen."""
    return not memory.pinned and take_aging(memory).used_at <= now


def _find_prunable(
    records: Records, rules: PruneRules, now: datetime, find_undone: Callable[[str], Collection[str]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each organization with memories to prune, and the reason for each of those."""
    if rules.is_off:
        return
    for (organization,) in list(records.columns(Organization, None, ("id",))):
        undone = find_undone(organization)
        reasons: dict[str, str] = {}
        staying: dict[str | None, list[AgingMemory]] = {}
        for memory in read_aging_memories(records, organization):
            if memory.id in undone:  # not in the budget either: a more important memory would have to go for it
                continue
            reason = rules.find_reason(memory, now)
            if reason is not None:
                reasons[memory.id] = reason
            elif rules.has_budget:
                staying.setdefault(memory.user_id, []).append(memory)
        sizes = _read_sizes(records, organization) if rules.max_bytes is not None else {}
        for memories in staying.values():
            for memory in _find_excess(rules, memories, sizes):
                reasons[memory.id] = "pruned: over the budget"
        if reasons:
            yield organization, reasons


def _find_excess(rules: PruneRules, memories: Sequence[AgingMemory], sizes: Mapping[str, int]) -> Iterator[AgingMemory]:
    """Yield the memories of one user that are over the budget, the least worth keeping first."""
    count = len(memories) - (rules.max_memories if rules.max_memories is not None else len(memories))
    size = sum(sizes[memory.id] for memory in memories) - rules.max_bytes if rules.max_bytes is not None else 0
    for memory in sorted(memories, key=_rank):
        if count <= 0 and size <= 0:
            return
        if not memory.pinned:
            yield memory
            count -= 1
            size -= sizes.get(memory.id, 0)


def _rank(memory: AgingMemory) -> tuple[bool, float, float, datetime, str]:
    """Return the order in which memories go: superseded ones, then by priority, strength and last use."""
    return (memory.superseded_at is None, memory.importance, memory.strength, memory.used_at, memory.id)


def _read_sizes(records: Records, organization: str) -> dict[str, int]:
    """Return the bytes of each memory's text."""
    return {name: len(text.encode()) for name, text in records.columns(Memory, organization, ("id", "text"))}
