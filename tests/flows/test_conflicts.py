"""Newer statements supersede older ones, near-duplicates are merged, and both can be undone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from everhold import Everhold, View
from everhold.errors import UnknownField
from everhold.facts import conflicts
from everhold.model import Change, Memory, Relationship
from everhold.ports.embedder import Vector
from everhold.remember.resolve import ENDED_BY
from tests.engines import Store, get_records, read_all_rows, texts

DAY = timedelta(days=1)


def list_current_texts(view: View) -> set[str]:
    return {memory.text for memory in view.list(limit=500) if memory.superseded_by is None}


def list_changes(engine: Everhold) -> list[Change]:
    return get_records(engine).scan(Change, "default", order="created_at")


# what a memory states


@pytest.mark.parametrize(
    ("text", "fields", "attribute"),
    [
        ("I live in Bangkok", {}, "user/lives_in"),
        ("I live in Bangkok", {"speaker": "Mireille"}, "user/lives_in"),
        ("Alice lives in Bangkok", {}, "user/lives_in"),
        ("Tess lives in Bangkok", {}, "tess/lives_in"),
        ("My sister lives in Oslo", {"speaker": "Mireille"}, "user's sister/lives_in"),
        ("I moved to Lisbon last May.", {}, "user/lives_in"),
        ("The build takes four minutes", {}, None),
        ("I live in Bangkok and work at Acme", {}, None),
        ("I live in Bangkok. The neighbours keep three parrots and a loud drum kit.", {}, None),
        ("I live in Bangkok", {"kind": "conversation"}, None),
    ],
)
def test_the_attribute_is_what_a_single_statement_is_about(
    sqlite_store: Store, text: str, fields: dict[str, str], attribute: str | None
) -> None:
    alice = sqlite_store.open().scope(user="alice")
    assert alice.remember(text, **fields).attribute == attribute


def test_the_engine_sets_the_attribute_from_the_text(alice: View) -> None:
    with pytest.raises(UnknownField, match="attribute"):
        alice.remember("Anything", attribute="user/lives_in")
    memory = alice.remember("Lives in Paris", kind="fact")
    assert memory.attribute == "user/lives_in"
    assert alice.revise(memory.id, importance=1.0).attribute == "user/lives_in"
    assert alice.revise(memory.id, text="Nothing of the kind").attribute is None
    assert alice.get(memory.id).attribute is None
    alice.undo(memory.id)
    assert alice.get(memory.id).attribute == "user/lives_in"
    assert alice.supersede(memory.id, "I work at Acme").attribute == "user/works_at"


def test_a_statement_ends_only_attributes_that_the_rules_know() -> None:
    known = {(older, newer) for older, newer in conflicts._OPPOSITES | conflicts._CANCELS.keys()}
    assert known == {(older, newer) for newer, olders in ENDED_BY.items() for older in olders}


# superseding


def test_a_newer_statement_supersedes_an_older_one(engine: Everhold, alice: View) -> None:
    old = alice.remember("I live in Bangkok", kind="fact", tags=["home"])
    between = datetime.now(UTC)
    new = alice.remember("I live in Lisbon", kind="fact")
    memory = alice.get(old.id)
    assert (memory.superseded_by, memory.superseded_at, memory.valid_to) == (new.id, new.created_at, new.created_at)
    assert texts(alice.recall("live", minimum=0.0)) == ["I live in Lisbon"]
    assert texts(alice.recall("live", minimum=0.0, as_of=between)) == ["I live in Bangkok"]
    [link] = get_records(engine).scan(Relationship, "default")
    assert (link.source_memory_id, link.target_memory_id, link.relationship_type) == (new.id, old.id, "supersedes")
    [change] = list_changes(engine)
    assert (change.kind, change.reason, change.memory_ids) == ("supersede", "replaces: lives_in", [old.id, new.id])


def test_undo_restores_the_old_and_hides_the_new(engine: Everhold, alice: View) -> None:
    old = alice.remember("I live in Bangkok")
    alice.remember("I live in Lisbon")
    change = alice.undo()
    assert (change.kind, change.reason) == ("supersede", "replaces: lives_in")
    stored = alice.get(old.id)
    assert (stored.superseded_by, stored.superseded_at, stored.valid_to) == (None, None, None)
    assert [memory.text for memory in alice.list()] == ["I live in Bangkok"]
    assert texts(alice.recall("live", minimum=0.0)) == ["I live in Bangkok"]
    assert not get_records(engine).scan(Relationship, "default")
    repeated = alice.remember("I live in Lisbon")
    assert alice.get(old.id).superseded_by == repeated.id


@pytest.mark.parametrize(
    ("old", "new", "remaining"),
    [
        ("I live in Lisbon", "I lived in Bangkok in 2015", "both"),
        ("I live in Lisbon", "My sister lives in Oslo", "both"),
        ("I live in Lisbon", "I live in Lisbon, Portugal", "both"),
        ("I like coffee", "I like tea", "both"),
        ("I like coffee", "I don't like tea", "both"),
        ("I like coffee", "I don't like coffee any more", "new"),
        ("I don't like coffee", "I like coffee", "new"),
        ("I like coffee", "I hate coffee", "new"),
        ("I work at Acme", "I'm retired", "new"),
        ("I live in Bangkok", "I no longer live in Bangkok", "new"),
        ("I live in Bangkok", "I moved to Lisbon last May.", "new"),
        ("My favourite colour is green", "My favourite colour is blue", "new"),
        ("My favourite colour is green", "My favourite tea is green", "both"),
    ],
)
def test_a_statement_supersedes_only_those_that_no_longer_hold(
    sqlite_store: Store, old: str, new: str, remaining: str
) -> None:
    alice = sqlite_store.open().scope(user="alice")
    alice.remember(old)
    alice.remember(new)
    assert list_current_texts(alice) == ({new} if remaining == "new" else {old, new})


def test_one_undo_restores_all_memories_that_one_statement_ended(sqlite_store: Store) -> None:
    engine = sqlite_store.open(remember={"resolve": False})
    alice = engine.scope(user="alice")
    alice.remember_many(["I live in Bangkok", "I live in Oslo"])
    resolving_alice = sqlite_store.open().scope(user="alice")
    resolving_alice.remember("I live in Lisbon")
    assert list_current_texts(resolving_alice) == {"I live in Lisbon"}
    resolving_alice.undo()
    assert list_current_texts(resolving_alice) == {"I live in Bangkok", "I live in Oslo"}


def test_an_earlier_statement_is_history(alice: View) -> None:
    now = datetime.now(UTC)
    newer = alice.remember("I live in Lisbon", occurred_at=now - 10 * DAY)
    older = alice.remember("I live in Bangkok", occurred_at=now - 400 * DAY)
    assert older.valid_to == newer.occurred_at
    assert alice.get(older.id) == older
    assert alice.get(newer.id).superseded_by is None
    assert texts(alice.recall("live", minimum=0.0)) == ["I live in Lisbon"]
    globex = alice.remember("I work at Globex", valid_from=now - 30 * DAY)
    acme = alice.remember("I work at Acme", valid_from=now - 300 * DAY)
    assert (acme.valid_to, alice.get(globex.id).valid_to) == (globex.valid_from, None)


def test_a_statement_that_is_not_valid_now_supersedes_nothing(alice: View) -> None:
    now = datetime.now(UTC)
    alice.remember("I live in Lisbon")
    alice.remember("I live in Bangkok", valid_to=now - DAY)
    alice.remember("I live in Oslo", valid_from=now + DAY)
    assert list_current_texts(alice) == {"I live in Lisbon", "I live in Bangkok", "I live in Oslo"}


def test_scopes_do_not_leak(engine: Everhold, alice: View) -> None:
    scopes: list[dict[str, str]] = [
        {"user": "bob"},
        {"session": "s"},
        {"user": "alice", "agent": "a"},
        {"user": "alice", "project": "p"},
        {},
        {"user": "alice", "organization": "other"},
    ]
    memories = [engine.scope(**scope).remember("I live in Bangkok") for scope in scopes]
    alice.remember("I live in Lisbon")
    for scope, memory in zip(scopes, memories, strict=True):
        assert engine.scope(**scope).get(memory.id) == memory


def test_a_value_can_change_back_to_an_earlier_one(engine: Everhold, alice: View) -> None:
    first = alice.remember("I live in Bangkok")
    alice.remember("I live in Lisbon")
    repeated = alice.remember("I live in Bangkok")
    assert repeated.id != first.id
    assert list_current_texts(alice) == {"I live in Bangkok"}
    statements = ["I live in Lisbon", "I live in Bangkok", "I live in Lisbon", "I live in Bangkok", "I live in Bangkok"]
    memories = alice.remember_many(statements)
    assert list_current_texts(alice) == {"I live in Bangkok"}
    assert memories[3].id == memories[4].id != repeated.id
    assert [alice.get(memory.id) for memory in memories] == memories
    assert [memory.superseded_by for memory in memories] == [memories[1].id, memories[2].id, memories[3].id, None, None]


def test_repeating_a_statement_adds_nothing(engine: Everhold, alice: View) -> None:
    alice.remember("I live in Bangkok")
    new = alice.remember("I live in Lisbon", idempotency_key="once")
    before = read_all_rows(engine)
    assert alice.remember("I live in Lisbon", idempotency_key="once").id == new.id
    assert read_all_rows(engine) == before
    assert alice.remember("I live in Lisbon").id == new.id
    assert read_all_rows(engine)["changes"] == before["changes"]


def test_superseding_can_be_switched_off(sqlite_store: Store) -> None:
    engine = sqlite_store.open(remember={"resolve": False})
    alice = engine.scope(user="alice")
    memories = alice.remember_many(["I live in Bangkok", "I live in Lisbon"])
    assert list_current_texts(alice) == {"I live in Bangkok", "I live in Lisbon"}
    assert [memory.attribute for memory in memories] == ["user/lives_in"] * 2
    assert not list_changes(engine)


def test_a_memory_that_changes_during_the_job_is_read_again(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    old = alice.remember("I live in Bangkok")
    embedder = engine._parts.write_deps.chunking.embedder
    embed = embedder.embed
    calls_left = iter([True])

    def revise_once(pieces: Sequence[str]) -> list[Vector | None]:
        if next(calls_left, False):
            alice.revise(old.id, importance=1.0)
        return embed(pieces)

    monkeypatch.setattr(embedder, "embed", revise_once)
    new = alice.remember("I live in Lisbon")
    memory = alice.get(old.id)
    assert (memory.superseded_by, memory.importance) == (new.id, 1.0)


# near-duplicates


TEA = "Anna likes green tea with milk and honey in the morning at home"
TEA_REWORDED = TEA.replace("likes", "really likes")
SHOP = "The little shop at the corner of the market opens late in the winter"


def remember_twice(alice: View) -> tuple[Memory, Memory]:
    first = alice.remember(TEA, kind="fact", tags=["drink"], aliases=["Anni"], provenance={"from": "a"}, priority=5)
    second = alice.remember(
        TEA_REWORDED, kind="fact", tags=["anna"], aliases=["Annika"], provenance={"from": "b"}, priority=9
    )
    return first, second


def test_near_duplicates_are_merged_and_undo_separates_them(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    first, second = remember_twice(alice)
    alice.remember(TEA.replace("tea", "coffee"), kind="fact")
    preview = alice.merge_duplicates(preview=True)
    assert (preview.count, preview.preview, len(alice.list())) == (1, True, 3)
    result = alice.merge_duplicates()
    assert [(pair.kept.id, pair.merged.id) for pair in result.pairs] == [(second.id, first.id)]
    merged_memory = alice.get(second.id)
    assert merged_memory.aliases == ["Annika", "Anni"]
    merged_fields = {"aliases": ["Anni"], "tags": ["drink"]}
    assert merged_memory.provenance == {
        "from": "b",
        "merged": [{"id": first.id, "provenance": {"from": "a"}, **merged_fields}],
    }
    assert alice.tags_of([merged_memory.id])[merged_memory.id] == ("anna", "drink")
    assert list_current_texts(alice) == {TEA_REWORDED, TEA.replace("tea", "coffee")}
    assert alice.recall("anni", minimum=0.0)[0].memory.id == second.id
    assert alice.merge_duplicates().count == 0
    assert alice.undo().kind == "merge"
    separated = alice.get(second.id)
    assert (separated.aliases, separated.provenance) == (["Annika"], {"from": "b"})
    assert alice.get(first.id).text == first.text
    assert alice.tags_of([first.id, second.id]) == {first.id: ("drink",), second.id: ("anna",)}


def test_a_merge_is_logged_and_journalled(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    first, second = remember_twice(alice)
    alice.merge_duplicates()
    [change] = list_changes(engine)
    assert (change.kind, change.memory_ids) == ("merge", [second.id, first.id])
    assert {line.memory_id for line in alice.log(operation="delete")} == {first.id}
    assert engine.verify_log().intact


def test_memories_that_would_lose_something_are_not_merged(engine: Everhold) -> None:
    now = datetime.now(UTC)
    pairs: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"kind": "fact"}, {"kind": "preference"}),
        ({"speaker": "Ben"}, {"speaker": "Carla"}),
        ({"content": {"n": 1}}, {"content": {"n": 2}}),
        ({"key": "one"}, {"key": "two"}),
        ({"occurred_at": now - 9 * DAY}, {"occurred_at": now}),
        ({"valid_from": now - 9 * DAY}, {"valid_from": now - DAY}),
        ({"kind": "conversation"}, {"kind": "conversation"}),
    ]
    for number, (first, second) in enumerate(pairs):
        user = engine.scope(user=f"user-{number}")
        user.remember(SHOP, **first)
        user.remember(SHOP.replace("opens", "really opens"), **second)
        assert user.merge_duplicates().count == 0, (first, second)
    assert engine.scope().merge_duplicates().count == 0


def test_relative_dates_of_different_days_are_not_merged(engine: Everhold) -> None:
    alice, now = engine.scope(user="alice"), datetime.now(UTC)
    alice.remember("Went to the gym yesterday", kind="fact", occurred_at=now - 7 * DAY)
    alice.remember("Yesterday went to the gym", kind="fact", occurred_at=now)
    assert alice.merge_duplicates().count == 0
    alice.remember("Went yesterday to the gym", kind="fact", occurred_at=now)
    assert alice.merge_duplicates().count == 1


def test_a_merge_keeps_the_memory_that_has_a_key(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    alice.remember(TEA, kind="fact", priority=9)
    with_key = alice.remember(TEA_REWORDED, kind="fact", key="tea")
    alice.merge_duplicates()
    assert alice.get("tea").id == with_key.id
    assert list_current_texts(alice) == {TEA_REWORDED}


def test_too_many_memories_are_compared_only_with_their_neighbours(
    engine: Everhold, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = engine.scope(user="alice")
    remember_twice(alice)
    alice.remember_many([{"text": f"Word{letter} is told", "kind": "fact"} for letter in "xyz"])
    monkeypatch.setattr("everhold.remember.similar_pairs.MAX_COMPARED", 4)
    merged = alice.merge_duplicates()
    assert (merged.count, merged.exhaustive) == (1, False)
