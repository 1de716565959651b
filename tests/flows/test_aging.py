"""Memories that are not used lose strength and are pruned by rules; both can be undone."""

from datetime import timedelta
from typing import Any

import pytest

from everhold import Everhold, clock
from everhold.errors import InvalidSettings
from everhold.model import Change, Memory
from everhold.schema.operations import Increment
from everhold.testing.logical_hash import hash_logically
from tests.engines import Store, get_records

PRUNING_ONLY: dict[str, Any] = {"decay": False}


def remember_long_ago(engine: Everhold, text: str, days: float = 0, user: str = "alice", **fields: Any) -> str:
    """Store a memory that was last used the given number of days ago, and return its id."""
    memory = engine.scope(user=user).remember(text, **fields)
    at = clock.now() - timedelta(days=days)
    get_records(engine).commit([Increment(Memory, ("default", memory.id), {}, {"created_at": at, "updated_at": at})])
    return memory.id


def read_strengths(engine: Everhold) -> dict[str, float]:
    return {memory.id: memory.strength for memory in get_records(engine).scan(Memory, None)}


def test_unused_memories_decay_and_used_ones_recover(any_store: Store) -> None:
    engine = any_store.open(maintenance={"half_life_days": 10})
    ids = {
        "new": remember_long_ago(engine, "Alice plants tulips"),
        "old": remember_long_ago(engine, "Alice plants roses", 10),
        "pinned": remember_long_ago(engine, "Alice plants oaks", 10, pinned=True),
        "important": remember_long_ago(engine, "Alice plants elms", 10, priority=8),
        "other": remember_long_ago(engine, "Bob plants pines", 20, "bob"),
    }
    records, hash_before = get_records(engine), hash_logically(get_records(engine))
    assert engine.maintain(["decay"], dry_run=True)["decay"].counts == {"memories": 2}
    report = engine.maintain(["decay"])
    assert report["decay"].counts == {"memories": 2}
    strengths = read_strengths(engine)
    assert [strengths[ids[name]] for name in ids] == [1.0, 0.5, 1.0, 1.0, 0.2]
    assert engine.scope(user="alice").get(ids["old"]).version == 1, "callers who have read it may still revise it"
    assert report.run_id is not None

    undone = engine.undo_run(report.run_id)
    assert (undone.count, undone.skipped) == (2, ())
    assert hash_logically(records) == hash_before

    engine.maintain(["decay"])
    engine.flush()  # `get` above is a use
    assert engine.maintain(["decay"])["decay"].counts == {"memories": 1}
    assert read_strengths(engine)[ids["old"]] == 1.0
    engine.close()
    engine = any_store.open(maintenance={"decay": False})
    engine.maintain(["decay"])
    assert set(read_strengths(engine).values()) == {1.0}, "without decay, all have their full strength"


def test_a_decayed_memory_is_ranked_lower(store: Store) -> None:
    engine = store.open(maintenance={"half_life_days": 10})
    alice = engine.scope(user="alice")
    old = remember_long_ago(engine, "The spare key hangs behind the clock", 60)
    new = remember_long_ago(engine, "The spare key hangs behind the stove")
    before = {hit.memory.id: hit.score for hit in alice.recall("Where does the spare key hang?")}
    engine.maintain(["decay"])
    after = {hit.memory.id: hit.score for hit in alice.recall("Where does the spare key hang?")}
    assert after[old] < before[old]
    assert after[old] < after[new]


def test_pruning_by_age_is_undone_alone_or_with_its_run(any_store: Store) -> None:
    engine = any_store.open(maintenance={**PRUNING_ONLY, "prune_after_days": 30})
    old_ids = [remember_long_ago(engine, f"note {number}", 31) for number in range(3)]
    kept_ids = [remember_long_ago(engine, "young", 29), remember_long_ago(engine, "pinned", 99, pinned=True)]
    records, hash_before = get_records(engine), hash_logically(get_records(engine))
    alice = engine.scope(user="alice")
    assert engine.maintain(["prune"], dry_run=True)["prune"].counts == {"memories": 3}
    report = engine.maintain(["prune"])
    assert report["prune"].counts == {"memories": 3}
    assert {memory.id for memory in alice.list().memories} == set(kept_ids)

    assert alice.undo(old_ids[0]).reason == "pruned: not used"
    assert {memory.id for memory in alice.list().memories} == {*kept_ids, old_ids[0]}
    assert report.run_id is not None
    assert engine.undo_run(report.run_id).count == 2
    assert hash_logically(records) == hash_before
    assert engine.maintain(["prune"])["prune"].counts == {}, "what a person brought back is not pruned again"


def test_the_budget_keeps_the_most_important(any_store: Store) -> None:
    engine = any_store.open(maintenance={**PRUNING_ONLY, "max_memories": 3})
    low = remember_long_ago(engine, "low priority", priority=2)
    idle = remember_long_ago(engine, "default priority, idle", 9)
    used = remember_long_ago(engine, "default priority, used", 1)
    high = remember_long_ago(engine, "high priority, idle", 99, priority=9)
    pinned = remember_long_ago(engine, "low priority, pinned", 99, priority=1, pinned=True)
    bobs = remember_long_ago(engine, "of another user", 99, "bob", priority=1)
    report = engine.maintain(["prune"])
    assert set(read_strengths(engine)) == {used, high, pinned, bobs}

    assert report.run_id is not None
    engine.undo_run(report.run_id)
    assert engine.maintain(["prune"])["prune"].counts == {}
    assert set(read_strengths(engine)) == {low, idle, used, high, pinned, bobs}, (
        "a restored memory does not count against the budget"
    )


def test_the_budget_may_be_in_bytes(store: Store) -> None:
    engine = store.open(maintenance={**PRUNING_ONLY, "max_megabytes": 0.0001})
    kept_id = remember_long_ago(engine, "b" * 60, priority=4)
    for text, priority in (("a" * 60, 3), ("c" * 40, 2)):
        remember_long_ago(engine, text, priority=priority)
    engine.maintain(["prune"])
    assert set(read_strengths(engine)) == {kept_id}


def test_nothing_is_pruned_by_default(store: Store) -> None:
    engine = store.open()
    memory_id = remember_long_ago(engine, "ten years old", 3650, priority=1)
    assert engine.maintain()["prune"].counts == {}
    assert engine.scope(user="alice").get(memory_id).strength == 0.1


def test_old_runs_and_their_decay_are_dropped(store: Store) -> None:
    engine = store.open(grace_days=0)
    remember_long_ago(engine, "old", 60)
    first, second = engine.maintain(["decay"]), engine.maintain(["runs"])
    assert second["runs"].counts == {"runs": 1, "changes": 1}
    assert [run.id for run in engine.runs()] == [second.run_id]
    assert first.run_id != second.run_id
    assert get_records(engine).scan(Change, "default") == []


def test_a_purge_removes_a_memory_from_the_journal_of_decay(store: Store) -> None:
    engine = store.open()
    ids = [remember_long_ago(engine, f"note {number}", 90) for number in range(3)]
    engine.maintain(["decay"])
    engine.scope(user="alice").forget(ids[0], hard=True)
    [change] = get_records(engine).scan(Change, "default")
    assert sorted(change.memory_ids) == sorted(ids[1:])


@pytest.mark.parametrize(
    "rule", [{"half_life_days": 0}, {"prune_below": 1.5}, {"max_memories": 0}, {"exempt_priority": 11}]
)
def test_rules_out_of_bounds_are_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings, match=f"maintenance.{next(iter(rule))}"):
        Everhold.open("memory://", maintenance=rule)
