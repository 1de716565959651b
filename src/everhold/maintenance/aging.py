"""The aging of memories: the curve of their strength, and the memories that neither decay nor are pruned by age.

    strength = 2 ^ −(idle time ÷ (half-life × (1 + log2(1 + uses)))), rounded to tenths, at least 0.1

The idle time begins when a memory was stored, changed or used, whichever is latest. A use is a recall, a `get` or
storing the same memory again. So a use restores the full strength, and each doubling of the number of uses makes the
half-life longer by its original length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp2, log2
from typing import NamedTuple

from everhold.model import Memory
from everhold.ports.records import Records

MIN_STRENGTH = 0.1
# Strengths are rounded to this many digits, so that a memory is written only a few times while it decays.
_DIGITS = 1


class AgingMemory(NamedTuple):
    """The fields of a memory that decide how it ages. The names are those of `Memory`."""

    organization_id: str
    user_id: str | None
    id: str
    importance: float
    strength: float
    pinned: bool
    access_count: int
    created_at: datetime
    updated_at: datetime
    last_accessed: datetime | None
    superseded_at: datetime | None

    @property
    def used_at(self) -> datetime:
        """When the memory was last stored, changed or used."""
        latest = max(self.created_at, self.updated_at)
        return latest if self.last_accessed is None else max(latest, self.last_accessed)

    @property
    def weight(self) -> float:
        """The importance times the strength, by which a memory is pruned."""
        return self.importance * self.strength


@dataclass(frozen=True)
class AgingRules:
    """The half-life of a strength, or None if nothing decays, and the importance at which memories become exempt."""

    half_life: timedelta | None
    exempt_importance: float

    def is_exempt(self, memory: AgingMemory) -> bool:
        """Return whether a memory is pinned or important enough, so that it neither decays nor is pruned by age."""
        return memory.pinned or memory.importance >= self.exempt_importance

    def choose_strength(self, memory: AgingMemory, now: datetime) -> float:
        """Return the strength that a memory should have now."""
        if self.half_life is None or self.is_exempt(memory):
            return 1.0
        return compute_strength(now - memory.used_at, memory.access_count, self.half_life)


def compute_strength(idle: timedelta, access_count: int, half_life: timedelta) -> float:
    """Return the strength of a memory after an idle time, by the formula in the docstring of this module."""
    half_lives = max(idle / half_life, 0.0) / (1 + log2(1 + access_count))
    return max(MIN_STRENGTH, round(exp2(-half_lives), _DIGITS))


def read_aging_memories(records: Records, organization: str | None) -> Iterator[AgingMemory]:
    """Yield the live memories of an organization, or of all, with the fields that decide how they age."""
    return map(AgingMemory._make, records.columns(Memory, organization, AgingMemory._fields))


def make_aging_memory(memory: Memory) -> AgingMemory:
    """Return the fields of a memory that decide how it ages."""
    return AgingMemory(*(memory.__dict__[name] for name in AgingMemory._fields))
