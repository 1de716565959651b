"""Consolidation: duplicates, conflicts, relations and reflections, each journalled and undone with its run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everhold import Everhold, View, clock
from everhold.errors import InvalidInput, NotFound
from everhold.model import Memory, Relationship
from everhold.schema.operations import Op, Where
from everhold.testing.logical_hash import hash_logically
from tests.engines import Store, find_tables_with, get_records, ranking

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
WITHOUT_RESOLVING = {"remember": {"resolve": False}}


def make_day(number: int) -> datetime:
    return START + timedelta(days=number)


def consolidate(engine: Everhold) -> dict[str, int]:
    report = engine.maintain(["consolidate"])
    assert not report.failed, report
    return dict(report["consolidate"].counts)


def read_relations(engine: Everhold, kind: str) -> list[Relationship]:
    return get_records(engine).scan(Relationship, None, [Where("relationship_type", Op.EQ, kind)])


def list_texts(view: View, kind: str) -> list[str]:
    return [memory.text for memory in view.list(kind=kind).memories if memory.superseded_by is None]


def fill(alice: View) -> None:
    """Store memories so that every step of consolidation has something to do."""
    alice.remember("Prefers window seats on long flights", kind="preference", tags=["travel"])
    alice.remember("Prefers window seats on long flights!", kind="preference", tags=["seats"])
    alice.remember("I live in Oslo", kind="fact", created_at=make_day(0))
    alice.remember("I live in Bergen", kind="fact", created_at=make_day(9))
    for number, event in enumerate(["painted the fence", "lost a key", "won at chess"]):
        alice.remember(f"Yesterday Ingrid {event}, said Ingrid", created_at=make_day(number * 2), kind="observation")


def test_one_run_consolidates_and_one_call_undoes_it(any_store: Store) -> None:
    writer = any_store.open(**WITHOUT_RESOLVING)
    fill(writer.scope(user="alice"))
    writer.close()
    engine = any_store.open()
    alice, records = engine.scope(user="alice"), get_records(engine)
    before = hash_logically(records)
    planned = engine.maintain(["consolidate"], dry_run=True)["consolidate"].counts
    assert hash_logically(records) == before
    report = engine.maintain(["consolidate"])
    counts = report["consolidate"].counts
    assert counts == {"merges": 1, "replaced": 1, "relations": 3, "reflections": 1}
    assert dict(planned) == counts
    assert len(list_texts(alice, "preference")) == 1
    [reflection] = alice.list(kind="reflection").memories
    assert reflection.text.startswith("Ingrid came up on 3 days between 1 March 2024 and 5 March 2024: “Yesterday")
    assert {item.memory.id for item in alice.relations(reflection.id, relationship_type="derived_from")} == set(
        reflection.provenance["memories"]
    )
    assert [link.metadata["reason"] for link in read_relations(engine, "shared_name")] == 3 * ["both name Ingrid"]
    assert alice.recall("where do I live?")[0].memory.text == "I live in Bergen"
    assert consolidate(engine) == {}

    assert report.run_id is not None
    undone = engine.undo_run(report.run_id)
    assert (undone.count, undone.skipped) == (6, ())
    assert hash_logically(records) == before
    # A change that was undone is not repeated; the contradiction is listed for a person instead.
    assert consolidate(engine) == {"conflicts": 1}


# conflicts


def contradict(engine: Everhold, **fields: Any) -> tuple[Memory, Memory]:
    alice = engine.scope(user="alice")
    older = alice.remember("I live in Oslo", kind="fact", **{"created_at": make_day(0), **fields})
    return older, alice.remember("I live in Bergen", kind="fact", created_at=make_day(9))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"pinned": True}, "the older one is pinned"),
        ({"key": "home"}, "the older one has a key"),
        ({"created_at": make_day(9)}, "both are of the same time"),
    ],
)
def test_conflicts_that_only_a_person_can_decide_are_listed(
    sqlite_store: Store, fields: dict[str, Any], reason: str
) -> None:
    older, newer = contradict(sqlite_store.open(**WITHOUT_RESOLVING), **fields)
    engine = sqlite_store.open()
    assert consolidate(engine) == {"conflicts": 1}
    [conflict] = engine.scope(user="alice").conflicts()
    assert {conflict.older.id, conflict.newer.id} == {older.id, newer.id}
    assert conflict.reason == reason
    assert engine.scope(user="bob").conflicts() == []
    assert consolidate(engine) == {}


def test_agents_that_disagree_are_listed(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    for agent, town in (("a", "Oslo"), ("b", "Bergen")):
        engine.scope(user="alice", agent=agent).remember(f"I live in {town}", kind="fact")
    assert consolidate(engine) == {"conflicts": 1}
    assert [conflict.reason for conflict in engine.scope(user="alice").conflicts()] == [
        "they belong to different projects or agents"
    ]
    assert engine.scope(user="alice", agent="a").conflicts() == []


def test_a_person_resolves_a_conflict(sqlite_store: Store) -> None:
    older, newer = contradict(sqlite_store.open(**WITHOUT_RESOLVING), pinned=True)
    engine = sqlite_store.open()
    consolidate(engine)
    alice = engine.scope(user="alice")
    [conflict] = alice.conflicts()
    with pytest.raises(InvalidInput, match="not a memory of this conflict"):
        alice.resolve_conflict(conflict.id, keep="another")
    with pytest.raises(NotFound, match="no conflict"):
        engine.scope(user="bob").resolve_conflict(conflict.id)
    alice.resolve_conflict(conflict.id, keep=older.id)
    assert alice.conflicts() == []
    assert list_texts(alice, "fact") == ["I live in Oslo"]
    alice.undo()
    assert [item.newer.id for item in alice.conflicts()] == [newer.id]
    alice.resolve_conflict(conflict.id)
    assert alice.conflicts() == []
    assert len(list_texts(alice, "fact")) == 2
    assert consolidate(engine) == {}


def test_a_chain_of_changes_ends_with_the_last(sqlite_store: Store) -> None:
    alice = sqlite_store.open(**WITHOUT_RESOLVING).scope(user="alice")
    for number, town in enumerate(("Oslo", "Bergen", "Tromsø")):
        alice.remember(f"I live in {town}", kind="fact", created_at=make_day(number))
    engine = sqlite_store.open()
    assert consolidate(engine) == {"replaced": 2}
    assert list_texts(engine.scope(user="alice"), "fact") == ["I live in Tromsø"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("I like tea", "I like coffee"),
        ("I paid 20 euros", "I paid 30 euros"),
        ("I visited Oslo in May", "I visited Bergen in May"),
        ("My brother lives in Oslo", "My sister lives in Bergen"),
        ("I never ate fish in Oslo", "I ate fish in Oslo"),
    ],
)
def test_memories_that_differ_are_not_merged(sqlite_store: Store, first: str, second: str) -> None:
    engine = sqlite_store.open(**WITHOUT_RESOLVING)
    alice = engine.scope(user="alice")
    for number, text in enumerate((first, second)):
        alice.remember(text, kind="fact", created_at=make_day(number))
    engine = sqlite_store.open()
    assert not consolidate(engine).keys() & {"merges", "replaced"}
    assert len(list_texts(engine.scope(user="alice"), "fact")) == 2


def test_users_are_never_mixed(sqlite_store: Store) -> None:
    engine = sqlite_store.open(**WITHOUT_RESOLVING)
    for number, user in enumerate(("alice", "bob", "carol")):
        view = engine.scope(user=user)
        view.remember("Yesterday I saw Ingrid", created_at=make_day(number))
        view.remember(f"I live in {('Oslo', 'Bergen', 'Tromsø')[number]}", kind="fact", created_at=make_day(number))
    assert consolidate(engine) == {}


def test_consolidation_displaces_no_answer(engine: Everhold) -> None:
    """Reflections are in a separate namespace, and relations by a shared name do not change scores."""
    alice = engine.scope(user="alice")
    for number, event in enumerate(["painted the fence", "lost a key", "won at chess", "lost a glove"]):
        alice.remember(f"My neighbour Ingrid {event}", created_at=make_day(number))

    def ask() -> list[tuple[str, float]]:
        return ranking(alice.recall("My neighbour Ingrid lost a key", minimum=0, k=50, asked_at=make_day(9)))

    before = ask()
    assert consolidate(engine) == {"relations": 6, "reflections": 1}
    assert ask() == before
    [reflection] = alice.list(kind="reflection").memories
    assert alice.recall("Ingrid", namespace="reflections", minimum=0)[0].memory == reflection


# reflections


def mention(view: View, *days: int, place: str = "at the harbour") -> list[Memory]:
    return [
        view.remember(f"On walk {number} I met Ingrid {place}", kind="observation", created_at=make_day(number))
        for number in days
    ]


def test_two_days_are_not_a_pattern(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    mention(engine.scope(user="alice"), 0, 0, 1)
    consolidate(engine)
    assert list_texts(engine.scope(user="alice"), "reflection") == []


def test_a_reflection_follows_its_sources(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    memories = mention(alice, 0, 1, 2)
    consolidate(engine)
    [first] = alice.list(kind="reflection").memories
    mention(alice, 5)
    consolidate(engine)
    [second] = alice.list(kind="reflection").memories
    assert (second.id != first.id, "on 4 days" in second.text) == (True, True)
    alice.forget(memories[0].id)
    alice.forget(memories[1].id)
    consolidate(engine)
    assert alice.list(kind="reflection").memories == ()


def test_a_forgotten_reflection_is_not_written_again(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    mention(alice, 0, 1, 2)
    consolidate(engine)
    [reflection] = alice.list(kind="reflection").memories
    alice.forget(reflection.id)
    mention(alice, 3)
    consolidate(engine)
    assert alice.list(kind="reflection").memories == ()


@pytest.mark.parametrize("deletion", ["forget", "expire"])
def test_an_erased_source_takes_the_reflection_with_it(sqlite_store: Store, deletion: str) -> None:
    engine = sqlite_store.open(grace_days=0)
    alice = engine.scope(user="alice")
    mention(alice, 0, 1)
    last = alice.remember(
        "On walk 2 I met Ingrid in zanzibar", created_at=make_day(2), expires_at=clock.now() + timedelta(seconds=1)
    )
    consolidate(engine)
    assert "zanzibar" in alice.list(kind="reflection").memories[0].text
    if deletion == "forget":
        alice.forget(last.id, hard=True)
    else:
        alice.revise(last.id, expires_at=clock.now())
        engine.maintain(["expire"])
    assert find_tables_with(engine, "zanzibar") == []
    consolidate(engine)
    assert alice.list(kind="reflection").memories == ()


def test_a_reflection_on_episodes_is_deleted_with_a_message(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    for number in range(3):
        session = engine.scope(user="alice", session=f"s{number}")
        session.say(f"On walk {number} I met Ingrid in zanzibar", id=f"m{number}", created_at=make_day(number))
        session.archive_session()
    engine.maintain(["archive"])
    assert consolidate(engine)["reflections"] == 1
    alice = engine.scope(user="alice")
    [reflection] = alice.list(kind="reflection").memories
    assert reflection.provenance["quoted_messages"] == ["m0", "m1", "m2"]
    assert len(reflection.provenance["episodes"]) == 3
    alice.delete_message("m1", hard=True)
    assert alice.list(kind="reflection").memories == ()


def test_a_reflection_states_no_fact(sqlite_store: Store) -> None:
    """The text of a reflection must not supersede the memories that the reflection quotes."""
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    for number, food in enumerate(("sushi", "ramen", "udon")):
        alice.remember(f"I like {food}", kind="preference", created_at=make_day(number))
    assert consolidate(engine) == {"reflections": 1}
    [reflection] = alice.list(kind="reflection").memories
    assert reflection.attribute is None
    assert "likes came up on 3 days" in reflection.text
    assert len(list_texts(alice, "preference")) == 3


def test_consolidation_is_off_by_a_setting(sqlite_store: Store) -> None:
    fill(sqlite_store.open(**WITHOUT_RESOLVING).scope(user="alice"))
    assert consolidate(sqlite_store.open(maintenance={"consolidate": False})) == {}
    engine = sqlite_store.open(maintenance={"idle_minutes": 5})
    report = engine.maintain(["consolidate"])["consolidate"]
    assert (report.outcome, report.left) == ("unfinished", {"users": 1})
    assert consolidate(sqlite_store.open())["merges"] == 1
