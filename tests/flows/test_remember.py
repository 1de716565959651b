"""Storing memories: every field, duplicates, ids and keys of the caller, and retries."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import AlreadyExists, IdempotencyMismatch, InvalidInput, NotFound, UnknownField
from everhold.model import Agent, Chunk, Memory, Organization, Outbox, Project, Session, User
from everhold.remember.pipeline import BATCH
from tests.engines import Store, get_records, read_all_rows, texts

NOW = datetime.now(UTC)
FIELDS: dict[str, Any] = {
    "kind": "fact",
    "importance": 0.75,
    "confidence": 0.5,
    "occurred_at": NOW - timedelta(days=3),
    "valid_from": NOW - timedelta(days=2),
    "valid_to": NOW + timedelta(days=2),
    "expires_at": NOW + timedelta(days=9),
    "content": {"text": "ignored, since a text is given", "nested": [1, {"deep": None}], "limit": True},
    "provenance": {"file": "notes.md", "span": [0, 12]},
    "speaker": "Alice",
    "source_agent": "scribe",
    "pinned": True,
    "aliases": ["espresso", "กาแฟ"],
    "metadata": {"device": {"os": "linux"}, "references": [1.5]},
    "level": "2",
    "trust": 0.25,
    "score": 3.5,
    "key": "coffee-habit",
    "id": "mem_of-my-own",
}


def test_every_field_is_kept(engine: Everhold) -> None:
    view = engine.scope(organization="acme", project="p", user="alice", agent="bot", session="s1")
    stored = view.remember("Drinks coffee at nine", tags=["habit", "drink"], **FIELDS)
    for memory in (
        stored,
        view.get("mem_of-my-own"),
        view.list()[0],
        view.recall("coffee", minimum=0)[0].memory,
    ):
        assert {name: getattr(memory, name) for name in FIELDS} == FIELDS
        assert (memory.organization_id, memory.project_id, memory.user_id) == ("acme", "p", "alice")
        assert (memory.agent_id, memory.session_id, memory.reach) == ("bot", "s1", "agent")
        assert (memory.created_by_id, memory.text) == ("alice", "Drinks coffee at nine")
    assert view.recall("coffee", minimum=0)[0].tags == ("drink", "habit")


def test_omitted_fields_have_defaults(alice: View) -> None:
    memory = alice.get(alice.remember("Plain").id)
    assert (memory.kind, memory.priority, memory.confidence, memory.pinned) == ("observation", 5, 1.0, False)
    assert (memory.content, memory.metadata, memory.aliases, memory.provenance) == ({}, {}, [], {})
    assert memory.id.startswith("mem_")
    assert memory.created_at == memory.updated_at


@pytest.mark.parametrize("priority", range(1, 11))
def test_priority_makes_a_round_trip(sqlite_store: Store, priority: int) -> None:
    alice = sqlite_store.open().scope(user="alice")
    memory = alice.get(alice.remember("Matters", priority=priority).id)
    assert memory.priority == priority
    assert memory.importance == (priority - 1) / 9


def test_the_text_may_come_with_the_content(alice: View) -> None:
    memory = alice.remember(content={"text": "Hidden in the content", "n": 1})
    assert memory.text == "Hidden in the content"
    assert texts(alice.recall("hidden content", minimum=0)) == ["Hidden in the content"]


def test_content_alone_is_enough(alice: View) -> None:
    memory = alice.remember(content={"temperature": 21})
    assert alice.get(memory.id).content == {"temperature": 21}
    assert alice.remember(content={"temperature": 21}).id == memory.id
    assert alice.remember(content={"temperature": 22}).id != memory.id


def test_many_memories_are_stored_in_order_and_counted(alice: View) -> None:
    counts: list[int] = []
    items = [f"Fact number {n}" for n in range(40)] + [{"text": "with fields", "kind": "plan", "tags": "one"}]
    memories = alice.remember_many(iter(items), progress=counts.append)
    assert [memory.text for memory in memories] == [*(f"Fact number {n}" for n in range(40)), "with fields"]
    assert memories[-1].kind == "plan"
    assert sum(counts) == 41
    assert alice.tags() == {"one": 1}
    assert alice.remember_many([]) == []


def test_more_memories_than_a_batch_are_stored(sqlite_store: Store) -> None:
    alice = sqlite_store.open().scope(user="alice")
    memories = alice.remember_many(f"Note {n}" for n in range(BATCH + 3))
    assert len({memory.id for memory in memories}) == BATCH + 3
    assert texts(alice.recall(f"note {BATCH + 1}", k=1, minimum=0)) == [f"Note {BATCH + 1}"]


def test_one_bad_item_keeps_the_whole_batch_out(alice: View, engine: Everhold) -> None:
    alice.remember("There before")
    before = read_all_rows(engine)
    with pytest.raises(InvalidInput):
        alice.remember_many(["Good", {"text": "Bad", "confidence": 2}])
    after = read_all_rows(engine)
    assert after.pop("memory_access_logs").keys() > before.pop("memory_access_logs").keys()
    assert after == before


def test_a_write_creates_the_rows_that_its_scope_names(engine: Everhold) -> None:
    engine.scope(organization="acme", project="p", user="alice", agent="bot", session="s1").remember("First")
    records = get_records(engine)
    for entity, name in ((Organization, "acme"), (Project, "p"), (User, "alice"), (Agent, "bot"), (Session, "s1")):
        assert name in records.get(entity, "acme", [name]), entity


def test_strict_scopes_refuse_missing_rows(store: Store) -> None:
    engine = store.open(strict_scopes=True)
    with pytest.raises(NotFound, match=r"no organization 'acme'; create it first, or set strict_scopes to false"):
        engine.scope(organization="acme").remember("Nobody's")
    engine.create_user("alice", organization="acme")
    with pytest.raises(NotFound, match="no agent 'bot'"):
        engine.scope(organization="acme", user="alice", agent="bot").remember("Nobody's")
    assert engine.scope(organization="acme", user="alice").remember("Hers").user_id == "alice"


# duplicates


def test_a_duplicate_reinforces_the_existing_memory(alice: View) -> None:
    first = alice.remember("Likes green tea", kind="fact", tags=["drink"], priority=3, confidence=0.5)
    reinforced = alice.remember("  likes GREEN   tea. ", kind="fact", tags=["tea"], priority=8, confidence=0.25)
    assert reinforced.id == first.id
    assert (reinforced.text, reinforced.access_count, reinforced.priority, reinforced.confidence) == (
        "Likes green tea",
        1,
        8,
        0.5,
    )
    assert alice.get(first.id) == reinforced
    assert alice.recall("green tea", minimum=0)[0].tags == ("drink", "tea")
    assert len(alice.list()) == 1
    assert alice.remember("Likes green tea", kind="fact", priority=1).priority == 8


def test_the_same_words_in_another_scope_or_kind_are_another_memory(engine: Everhold) -> None:
    scopes = [
        {}, {"user": "a"}, {"user": "b"}, {"user": "a", "project": "p"}, {"user": "a", "agent": "x"},
        {"user": "a", "session": "s"}, {"organization": "o2", "user": "a"},
    ]  # fmt: skip
    memories = [engine.scope(**scope).remember("The same words") for scope in scopes]
    memories.append(engine.scope().remember("The same words", kind="fact"))
    assert len({memory.id for memory in memories}) == len(memories)


@pytest.mark.parametrize("kind", ["conversation", "interaction"])
def test_turns_of_a_conversation_are_never_duplicates(alice: View, kind: str) -> None:
    first, second = alice.remember("Good morning", kind=kind), alice.remember("Good morning", kind=kind)
    assert first.id != second.id
    assert len(alice.recall("good morning", recipe="words")) == 2
    assert len(alice.recall("good morning")) == 1, "recall returns only one of them"


def test_duplicates_within_one_batch_are_one(alice: View) -> None:
    items = [{"text": "Same", "tags": ["a"]}, {"text": "same.", "tags": ["b"]}, "Other", {"text": "SAME", "tags": "c"}]
    memories = alice.remember_many(items)
    assert memories[0].id == memories[1].id == memories[3].id != memories[2].id
    assert len(alice.list()) == 2
    assert alice.tags_of([memories[0].id]) == {memories[0].id: ("a", "b", "c")}


def test_synonyms_of_a_kind_are_the_same_kind(alice: View) -> None:
    first = alice.remember("Prefers tea", kind="user_preference")
    assert first.kind == "preference"
    assert alice.remember("Prefers tea", kind="preference").id == first.id
    assert len(alice.recall("tea", kind="user_preference", minimum=0)) == 1


def test_a_forgotten_text_can_be_remembered_again(alice: View) -> None:
    first = alice.remember("Now you see me")
    alice.forget(first.id)
    second = alice.remember("Now you see me")
    assert second.id != first.id
    assert [hit.memory.id for hit in alice.recall("see me", minimum=0)] == [second.id]


def test_a_superseded_text_can_be_remembered_again(alice: View) -> None:
    paris = alice.remember("Lives in Paris", kind="fact")
    alice.supersede(paris.id, "Lives in Rome")
    stored_again = alice.remember("Lives in Paris", kind="fact")
    assert "Lives in Paris" in texts(alice.recall("where does she live", minimum=0))
    assert alice.get(stored_again.id).superseded_by is None


def test_an_expired_text_can_be_remembered_again(alice: View) -> None:
    alice.remember("Parking code 1234", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    alice.remember("Door code 99", valid_to=datetime.now(UTC) - timedelta(seconds=1))
    assert texts(alice.recall("code", minimum=0)) == []
    alice.remember_many(["Parking code 1234", "Door code 99"])
    assert sorted(texts(alice.recall("code", minimum=0))) == ["Door code 99", "Parking code 1234"]


# ids and keys of the caller


def test_an_id_of_the_caller_can_be_used_only_once(alice: View, engine: Everhold) -> None:
    alice.remember("One", id="mine")
    before = read_all_rows(engine)["memories"]
    with pytest.raises(AlreadyExists):
        alice.remember("Another", id="mine")
    with pytest.raises(AlreadyExists):
        engine.scope(user="bob").remember("His", id="mine")
    assert read_all_rows(engine)["memories"] == before
    assert engine.scope(organization="other", user="alice").remember("Theirs", id="mine").id == "mine"


def test_a_key_is_unique_in_its_scope(alice: View, engine: Everhold) -> None:
    memory = alice.remember("Her city is Rome", key="city")
    assert alice.get("city").id == memory.id
    with pytest.raises(AlreadyExists):
        alice.remember("Her city is Oslo", key="city")
    bobs_memory = engine.scope(user="bob").remember("His city is Oslo", key="city")
    assert engine.scope(user="bob").get("city").id == bobs_memory.id
    with pytest.raises(NotFound):
        engine.scope().get("city")  # two memories have it: which is meant?


@pytest.mark.parametrize(
    "field",
    ["organization_id", "user_id", "project_id", "agent_id", "session_id", "is_deleted", "version", "hash",
     "access_count", "updated_at", "created_by_id", "superseded_by", "deletion_id", "revision"],
)  # fmt: skip
def test_fields_that_the_engine_sets_cannot_be_passed(sqlite_store: Store, field: str) -> None:
    """Fields cannot store a memory outside the scope."""
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    engine.scope(organization="bobs", user="bob").remember("His")
    value = {"organization_id": "bobs", "is_deleted": True, "hash": b"x" * 16, "updated_at": NOW}.get(field, "bob")
    value = 1 if field in ("version", "access_count", "revision") else value
    before = read_all_rows(engine)
    with pytest.raises(UnknownField):
        alice.remember("Sneaky", **{field: value})
    after = read_all_rows(engine)
    after.pop("memory_access_logs"), before.pop("memory_access_logs")
    assert after == before


# retries


def test_a_retry_with_the_same_key_changes_nothing(engine: Everhold, alice: View) -> None:
    for kind in ("observation", "conversation"):
        first = alice.remember("Sent once", kind=kind, tags=["x"], idempotency_key=f"request-{kind}")
        before = read_all_rows(engine)
        repeated = alice.remember("Sent once", kind=kind, tags=["x"], idempotency_key=f"request-{kind}")
        assert repeated == first
        assert read_all_rows(engine) == before


def test_a_key_used_for_something_else_is_refused(engine: Everhold, alice: View) -> None:
    alice.remember("One thing", idempotency_key="request-1")
    before = read_all_rows(engine)["memories"]
    with pytest.raises(IdempotencyMismatch, match="'request-1' was used for something else; use a new key"):
        alice.remember("Another thing", idempotency_key="request-1")
    assert read_all_rows(engine)["memories"] == before
    assert engine.scope(organization="other").remember("Another thing", idempotency_key="request-1")


def test_a_retried_batch_is_kept_once(engine: Everhold, alice: View) -> None:
    items = [{"text": f"Said {n % 3}", "kind": "conversation", "idempotency_key": f"k{n}"} for n in range(9)]
    first = alice.remember_many(items[:5])
    second = alice.remember_many(items)
    assert [memory.id for memory in second[:5]] == [memory.id for memory in first]
    assert len(alice.list()) == 9


def test_one_idempotency_key_twice_in_a_batch_stores_one_memory(alice: View) -> None:
    draft = {"text": "Said", "kind": "conversation", "idempotency_key": "k"}
    first, second = alice.remember_many([draft, draft])
    assert first.id == second.id
    assert len(alice.list()) == 1
    with pytest.raises(IdempotencyMismatch):
        alice.remember_many([{**draft, "idempotency_key": "j"}, {**draft, "text": "Other", "idempotency_key": "j"}])
    assert len(alice.list()) == 1


def test_a_retry_of_a_duplicate_does_not_reinforce_twice(alice: View) -> None:
    alice.remember("Known")
    assert alice.remember("Known", idempotency_key="k").access_count == 1
    assert alice.remember("Known", idempotency_key="k").access_count == 1


def test_a_retry_of_what_was_purged_is_refused(alice: View) -> None:
    alice.forget(alice.remember("Gone", idempotency_key="k").id, hard=True)
    with pytest.raises(NotFound, match="has been purged; use a new key"):
        alice.remember("Gone", idempotency_key="k")


def test_a_memory_and_all_its_rows_are_in_one_commit(engine: Everhold, alice: View) -> None:
    memory = alice.remember("A sentence. " * 900, tags=["long"])
    records = get_records(engine)
    chunks = [chunk for chunk in records.scan(Chunk, "default") if chunk.owner_id == memory.id]
    assert len(chunks) > 3
    assert all(chunk.vector and chunk.terms for chunk in chunks)
    assert [line.entity_id for line in records.scan(Outbox, "default")] == ["default", "alice", memory.id]
    assert [line.operation for line in alice.log()] == ["create"]
    assert records.count(Memory, "default") == 1
