"""Memories that were merged repeatedly: a purge also removes its data from the memory that was kept last."""

from typing import Any

import pytest

from everhold import Everhold, View
from everhold.model import Change
from everhold.schema.operations import Put
from tests.damage import damage
from tests.engines import Store, find_tables_with, get_records

CANARY = "Wolfgangsheim"
TEXT = "Anna likes green tea with milk and honey in the morning at home"


def merge_twice(alice: View) -> tuple[str, str, str]:
    """Merge a first memory into a second, and that into a third; return their ids."""
    fields: dict[str, Any] = {"aliases": [CANARY, "matcha"], "tags": [CANARY.lower()], "provenance": {"by": CANARY}}
    first = alice.remember(TEXT, kind="fact", priority=2, **fields)
    second = alice.remember(TEXT + "!", kind="fact", priority=5, aliases=["sencha"], tags=["drink"])
    assert alice.merge_duplicates().count == 1
    third = alice.remember(TEXT + "!!", kind="fact", priority=9, aliases=["matcha"])
    assert alice.merge_duplicates().count == 1
    assert {CANARY, "sencha", "matcha"} == set(alice.get(third.id).aliases)
    return first.id, second.id, third.id


def test_a_purge_reaches_the_last_survivor(engine: Everhold, alice: View) -> None:
    first, second, third = merge_twice(alice)
    alice.revise(third, metadata={"checked": True})
    alice.forget(first, hard=True)
    assert find_tables_with(engine, CANARY) == []
    survivor = alice.get(third)
    assert sorted(survivor.aliases) == ["matcha", "sencha"]
    assert [entry["id"] for entry in survivor.provenance["merged"]] == [second]
    assert alice.tags_of([third]) == {third: ("drink",)}
    assert [hit.memory.id for hit in alice.recall("green tea with milk")] == [third]
    alice.undo(third)  # the revision
    assert alice.undo(third).kind == "merge"
    assert find_tables_with(engine, CANARY) == []
    assert alice.get(second).aliases == ["sencha"]


def test_a_purge_reaches_the_last_survivor_if_the_one_between_was_purged_before(engine: Everhold, alice: View) -> None:
    first, second, third = merge_twice(alice)
    alice.forget(second, hard=True)
    assert sorted(alice.get(third).aliases) == sorted([CANARY, "matcha"])
    alice.forget(first, hard=True)
    assert find_tables_with(engine, CANARY) == []
    assert (alice.get(third).aliases, alice.get(third).provenance) == (["matcha"], {})
    assert engine.doctor().problems == []


def test_a_purge_reaches_a_hidden_survivor(engine: Everhold, alice: View) -> None:
    first, _, third = merge_twice(alice)
    alice.revise(third, metadata={"checked": True})
    alice.forget(third)
    alice.forget(first, hard=True)
    assert find_tables_with(engine, CANARY) == []


def test_maintenance_takes_nothing_from_a_survivor(store: Store) -> None:
    engine = store.open(grace_days=0)
    alice = engine.scope(user="alice")
    _, second, third = merge_twice(alice)
    alice.remember("Anna needs a kettle", provenance={"memory": second})
    forgotten = alice.remember("Anna has a secret")
    alice.remember("Anna is mysterious", provenance={"memory": forgotten.id})
    alice.forget(forgotten.id)
    assert engine.maintain()["purge"].counts == {"memories": 3}
    assert {memory.text for memory in alice.list()} == {TEXT + "!!", "Anna needs a kettle"}
    survivor = alice.get(third)
    assert {CANARY, "sencha", "matcha"} == set(survivor.aliases)
    assert len(survivor.provenance["merged"]) == 2
    assert set(alice.tags_of([third])[third]) == {CANARY.lower(), "drink"}
    assert engine.doctor().problems == []


def test_merging_again_and_again_nests_nothing(engine: Everhold, alice: View) -> None:
    for number in range(25):
        alice.remember(TEXT + "!" * number, kind="fact", importance=number / 25)
        assert alice.merge_duplicates().count == min(number, 1)
    [survivor] = alice.list()
    assert len(survivor.provenance["merged"]) == 24


def test_memories_too_large_to_merge_are_not_merged(engine: Everhold, alice: View) -> None:
    nested: dict[str, Any] = {}
    for _ in range(62):
        nested = {"in": nested}
    alice.remember(TEXT, kind="fact")
    alice.remember(TEXT + "!", kind="fact", provenance=nested)
    alice.remember("Bert plays the violin in an orchestra", kind="fact")
    alice.remember("Bert plays the violin in an orchestra!", kind="fact")
    assert alice.merge_duplicates().count == 1
    assert len(alice.list()) == 3


@pytest.mark.parametrize("kind", ["merge", "merged"])
def test_a_journalled_merge_of_nothing_stops_no_purge(kind: str, engine: Everhold, alice: View) -> None:
    memory = alice.remember(TEXT)
    now = memory.created_at
    valid_change = Change(organization_id="default", id="odd", created_at=now, updated_at=now, kind="merged")
    damage(get_records(engine), Put(Change.build_unchecked({**valid_change.__dict__, "kind": kind})))
    alice.forget(memory.id, hard=True)
    assert alice.list().memories == ()
