"""A hard forget also removes derived memories and all traces in the journal, in other rows and in files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import NotFound
from everhold.model import Change, Counter, Memory, Outbox
from tests.engines import Store, find_tables_with, get_records, make_store

CANARY = "Wolfgangsheim"


def read_texts(view: View) -> set[str]:
    return {memory.text for memory in view.list(limit=200)}


def test_facts_of_a_turn_are_purged_with_it(engine: Everhold, alice: View) -> None:
    turn = alice.remember(f"I live in {CANARY} and I have a cat.", kind="conversation", speaker="Alice")
    facts = [memory for memory in alice.list() if memory.id != turn.id]
    assert facts, "the turn tells something"
    preview = alice.forget_where(where={"id": turn.id}, hard=True, preview=True)
    fact_ids = {fact.id for fact in facts}
    assert {memory.id for memory in preview.derived} == fact_ids
    assert len(alice.list()) == 1 + len(facts)
    alice.forget(turn.id, hard=True)
    assert alice.list().memories == ()
    assert find_tables_with(engine, CANARY) == []
    lines = [line.request for line in alice.log() if line.operation == "delete"]
    assert {line["memory"] for line in lines if line.get("derived")} == fact_ids
    assert engine.verify_log().intact


def test_a_fact_with_another_source_stays_without_the_trace(engine: Everhold, alice: View) -> None:
    first = alice.remember("I live in Osaka.", kind="conversation", speaker="Alice")
    second = alice.remember("I live in Osaka. The weather is fine.", kind="conversation", speaker="Alice")
    [fact] = [memory for memory in alice.list() if memory.id not in (first.id, second.id)]
    assert fact.provenance["memory"] == first.id
    alice.forget(first.id, hard=True)
    assert alice.get(fact.id).provenance["memory"] == second.id
    alice.forget(second.id, hard=True)
    assert alice.list().memories == ()


def test_a_fact_that_was_also_stated_directly_stays(engine: Everhold, alice: View) -> None:
    turn = alice.remember("I live in Osaka.", kind="conversation", speaker="Alice")
    [fact] = [memory for memory in alice.list() if memory.id != turn.id]
    stated = alice.remember(fact.text, kind=fact.kind, speaker=fact.speaker)
    if stated.id == fact.id:
        alice.forget(turn.id, hard=True)
        assert fact.id in {memory.id for memory in alice.list()}
        assert "memory" not in alice.get(fact.id).provenance


def test_memories_of_another_user_are_not_purged(engine: Everhold, alice: View) -> None:
    note = alice.remember("A note of Alice")
    bob = engine.scope(user="bob")
    bobs_note = bob.remember("A note of Bob", provenance={"memory": note.id})
    everyone = engine.scope()
    everyone.relate(bobs_note.id, note.id, "derived_from")
    alice.forget(note.id, hard=True)
    assert bob.get(bobs_note.id).provenance == {}


@pytest.mark.parametrize("deletion", ["forget", "maintain", "session", "project", "user"])
def test_every_way_to_purge_leaves_no_trace(store: Store, deletion: str) -> None:
    engine = store.open(grace_days=0)
    view = engine.scope(user="alice", project="house", session="monday")
    turn = view.remember(f"I live in {CANARY}.", kind="conversation", speaker="Alice", idempotency_key="k")
    view.revise(turn.id, metadata={"seen": True}, reason=f"moved to {CANARY}")
    match deletion:
        case "forget":
            view.forget(turn.id, hard=True)
        case "maintain":
            view.forget(turn.id)
            engine.maintain()
        case "session":
            engine.delete_session("monday", hard=True)
        case "project":
            engine.delete_project("house", hard=True)
        case "user":
            engine.delete_user("alice", hard=True)
    assert find_tables_with(engine, CANARY) == []
    assert engine.scope(user="alice").list().memories == ()
    assert get_records(engine).count(Change, "default") == 0
    assert all(line.digest is None for line in get_records(engine).scan(Outbox, "default"))


def test_a_purged_organization_leaves_no_key_and_no_digest(engine: Everhold) -> None:
    view = engine.scope(organization="acme", user="alice")
    view.remember("A short secret", idempotency_key=CANARY)
    engine.delete_organization("acme", hard=True)
    assert find_tables_with(engine, CANARY) == []
    assert all(line.digest is None for line in get_records(engine).scan(Outbox, None))
    assert view.remember("Something else", idempotency_key=CANARY).text == "Something else"


def test_an_expired_turn_leaves_its_facts(store: Store) -> None:
    engine = store.open(grace_days=0)
    alice = engine.scope(user="alice")
    past = datetime(2020, 1, 2, tzinfo=UTC)
    turn = alice.remember("I live in Osaka.", kind="conversation", speaker="Alice")
    alice.revise(turn.id, expires_at=past)
    engine.maintain()
    [fact] = alice.list()
    assert "memory" not in fact.provenance


def test_a_merged_memory_loses_what_came_from_a_purged_one(engine: Everhold, alice: View) -> None:
    text = "Anna likes green tea with milk and honey in the morning at home"
    fields: dict[str, Any] = {"aliases": [CANARY, "matcha"], "tags": [CANARY.lower()], "provenance": {"by": CANARY}}
    merged = alice.remember(text, kind="fact", priority=5, **fields)
    text = text.replace("likes", "really likes")
    memory = alice.remember(text, kind="fact", priority=9, aliases=["matcha"], tags=["drink"])
    assert alice.merge_duplicates().count == 1
    alice.revise(memory.id, metadata={"checked": True})
    assert CANARY in alice.get(memory.id).aliases
    alice.forget(merged.id, hard=True)
    survivor = alice.get(memory.id)
    assert (survivor.aliases, survivor.provenance) == (["matcha"], {})
    assert alice.tags_of([memory.id]) == {memory.id: ("drink",)}
    assert find_tables_with(engine, CANARY) == []
    assert [hit.memory.id for hit in alice.recall("matcha green tea")] == [memory.id]


def test_a_superseded_memory_no_longer_names_its_successor(engine: Everhold, alice: View) -> None:
    old = alice.remember("Works at Acme")
    successor = alice.supersede(old.id, f"Works at {CANARY}")
    alice.forget(successor.id, hard=True)
    stored = get_records(engine).get(Memory, "default", [old.id])[old.id]
    assert (stored.superseded_by, stored.superseded_at is not None) == (None, True)
    assert find_tables_with(engine, CANARY) == find_tables_with(engine, successor.id + "!") == []


def test_a_purged_idempotency_key_says_so(engine: Everhold, alice: View) -> None:
    memory = alice.remember("Once", idempotency_key="k")
    alice.forget(memory.id, hard=True)
    with pytest.raises(NotFound, match="has been purged"):
        alice.remember("Once", idempotency_key="k")


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_no_byte_is_left_in_the_files(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store = make_store(name, request, tmp_path)
    engine = store.open()
    alice = engine.scope(user="alice", session="s1")
    for number in range(30):
        alice.remember(f"Other things, number {number}", tags=["other"])
        alice.remember(f"I live in {CANARY} street {number}.", kind="conversation", speaker="Alice", tags=["secret"])
    revised = alice.remember(f"Meets {CANARY} on Friday", tags=["secret"])
    alice.revise(revised.id, text=f"Meets {CANARY} on Monday", reason=f"{CANARY} called")
    alice.say(f"{CANARY} again", role="user")
    assert count_hits(tmp_path)
    alice.forget_where(tags="secret", hard=True)
    engine.delete_session("s1", hard=True)
    engine.maintain()
    assert find_tables_with(engine, CANARY) == []
    assert count_hits(tmp_path) == {}
    counters = {counter.name: counter.value for counter in get_records(engine).scan(Counter, None)}
    assert counters["purges"] == counters["purges cleaned from files"] > 0
    engine.close()
    assert count_hits(tmp_path) == {}


def count_hits(folder: Path) -> dict[str, int]:
    contents = {path.name: path.read_bytes().lower() for path in folder.rglob("*") if path.is_file()}
    return {name: count for name, content in contents.items() if (count := content.count(CANARY.lower().encode()))}
