"""The curve by which memories lose strength, and the rules by which they are pruned."""

from datetime import UTC, datetime, timedelta

import pytest

from everhold.maintenance.aging import AgingMemory, AgingRules, compute_strength
from everhold.maintenance.prune import PruneRules

NOW = datetime(2026, 11, 1, tzinfo=UTC)
HALF_LIFE = timedelta(days=90)
RULES = AgingRules(HALF_LIFE, exempt_importance=7 / 9)


def make_memory(days: float, importance: float = 0.4, *, pinned: bool = False, strength: float = 1.0) -> AgingMemory:
    at = NOW - timedelta(days=days)
    return AgingMemory("o", "alice", "m", importance, strength, pinned, 0, at, at, None, None)


@pytest.mark.parametrize(
    ("days", "uses", "strength"),
    [
        (0, 0, 1.0), (-5, 0, 1.0), (90, 0, 0.5), (180, 0, 0.2), (10_000, 0, 0.1),
        (90, 1, 0.7), (180, 1, 0.5), (270, 3, 0.5), (360, 7, 0.5),
    ],
)  # fmt: skip
def test_half_of_the_strength_is_left_after_a_half_life(days: int, uses: int, strength: float) -> None:
    assert compute_strength(timedelta(days=days), uses, HALF_LIFE) == strength


def test_pinned_and_important_memories_keep_their_strength() -> None:
    assert RULES.choose_strength(make_memory(90), NOW) == 0.5
    assert RULES.choose_strength(make_memory(90, pinned=True), NOW) == 1.0
    assert RULES.choose_strength(make_memory(90, importance=7 / 9), NOW) == 1.0
    assert AgingRules(None, 1.0).choose_strength(make_memory(90), NOW) == 1.0, "decay is off"
    used = make_memory(90)._replace(last_accessed=NOW)
    assert RULES.choose_strength(used, NOW) == 1.0, "a use restores it"


def test_memories_are_pruned_by_age_and_weight() -> None:
    by_age, by_weight = PruneRules(RULES, idle=timedelta(days=30)), PruneRules(RULES, weight=0.1)
    by_age_and_weight = PruneRules(RULES, idle=timedelta(days=30), weight=0.1)
    old, old_and_weak, weak = make_memory(31), make_memory(31, strength=0.2), make_memory(2, strength=0.2)
    new = make_memory(0.5, importance=0.0)
    memories = (old, old_and_weak, weak, new)
    assert [by_age.find_reason(memory, NOW) is not None for memory in memories] == [True, True, False, False]
    assert [by_weight.find_reason(memory, NOW) is not None for memory in memories] == [False, True, True, False]
    assert [by_age_and_weight.find_reason(memory, NOW) is not None for memory in memories] == [
        False,
        True,
        False,
        False,
    ]
    assert PruneRules(RULES).find_reason(old_and_weak, NOW) is None, "there is no rule"
    assert by_age.find_reason(make_memory(31, pinned=True), NOW) is None
    assert by_age.find_reason(make_memory(31, importance=1.0), NOW) is None
