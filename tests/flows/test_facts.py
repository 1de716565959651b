"""Facts in messages are stored beside the messages, in the same commit."""

from datetime import UTC, datetime, timedelta

import pytest

from everhold import Everhold, View
from everhold.model import Change, Memory, Relationship
from tests.engines import Store, get_records, read_all_rows, texts

DAY = timedelta(days=1)


def list_facts(view: View, *, with_superseded: bool = False) -> list[Memory]:
    memories = view.list(where={"provenance.memory": {"!=": None}}, oldest_first=True, limit=500).memories
    return [memory for memory in memories if with_superseded or memory.superseded_by is None]


def read_fact_texts(view: View) -> list[str]:
    return [fact.text for fact in list_facts(view)]


def test_facts_are_extracted_from_a_message(engine: Everhold) -> None:
    chat = engine.scope(user="alice", agent="helper", project="home", session="s1")
    text = "Hi! I live in Bangkok. My sister lives in Oslo, and what a day it was."
    message = chat.remember(text, kind="conversation", speaker="Alice", trust=0.5, occurred_at=datetime.now(UTC) - DAY)
    assert (message.text, message.attribute, message.source_id) == (text, None, None)
    outside = engine.scope(user="alice", agent="helper", project="home")
    first, second = list_facts(outside)
    assert (first.text, first.kind, first.attribute) == ("Alice lives in Bangkok.", "fact", "user/lives_in")
    assert (second.text, second.attribute) == ("Alice's sister lives in Oslo.", "user's sister/lives_in")
    assert (first.user_id, first.agent_id, first.project_id, first.session_id) == ("alice", "helper", "home", None)
    assert (first.reach, first.confidence, first.trust, first.source_id) == ("agent", 0.8, 0.5, message.id)
    assert first.occurred_at == message.occurred_at
    start, end = first.provenance["span"]
    assert (first.provenance["memory"], text[start:end]) == (message.id, "I live in Bangkok")
    links = get_records(engine).scan(Relationship, "default")
    assert {(link.source_memory_id, link.target_memory_id, link.relationship_type) for link in links} == {
        (fact.id, message.id, "derived_from") for fact in (first, second)
    }
    assert texts(chat.recall("what a day it was", minimum=0.0, k=1, recipe="words")) == [text]
    assert "Alice lives in Bangkok." in texts(outside.recall("Where does Alice live?", minimum=0.0, recipe="words"))


def test_a_message_without_facts_is_stored_alone(alice: View) -> None:
    memory = alice.remember("How was your weekend?", kind="conversation", speaker="Alice")
    assert list(alice.list().memories) == [memory]


def test_times_are_those_of_the_message(alice: View) -> None:
    occurred_at = datetime(2023, 6, 14, 10, tzinfo=UTC)
    alice.remember("I moved to Lisbon last May.", kind="interaction", speaker="Alice", occurred_at=occurred_at)
    lives, moved = sorted(list_facts(alice), key=lambda fact: fact.kind, reverse=True)
    assert (lives.text, lives.kind, lives.valid_from) == (
        "Alice lives in Lisbon.",
        "fact",
        datetime(2023, 5, 1, tzinfo=UTC),
    )
    assert (moved.kind, moved.occurred_at) == ("episodic", datetime(2023, 5, 1, tzinfo=UTC))


def test_the_day_of_a_fact_is_the_day_in_the_time_zone(sqlite_store: Store) -> None:
    alice = sqlite_store.open(timezone="Asia/Bangkok").scope(user="alice")
    occurred_at = datetime(2023, 6, 14, 20, tzinfo=UTC)  # already the 15th in Bangkok
    alice.remember("I visited Kyoto yesterday.", kind="conversation", speaker="Alice", occurred_at=occurred_at)
    [fact] = list_facts(alice)
    assert fact.occurred_at == datetime(2023, 6, 13, 17, tzinfo=UTC)
    assert "14 June 2023" in fact.text


def test_a_fact_replaces_an_older_one_until_undo(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    for number, city in enumerate(("Bangkok", "Lisbon")):
        chat = engine.scope(user="alice", session=f"s{number}")
        chat.remember(f"By the way, I live in {city}.", kind="conversation", speaker="Alice")
    assert read_fact_texts(alice) == ["Alice lives in Lisbon."]
    between = list_facts(alice)[0].created_at - timedelta(microseconds=1)
    assert "Alice lives in Bangkok." in texts(alice.recall("Alice lives", minimum=0.0, as_of=between, recipe="words"))
    assert "Alice lives in Bangkok." not in texts(alice.recall("Alice lives", minimum=0.0, recipe="words"))
    [change] = get_records(engine).scan(Change, "default")
    assert (change.kind, change.reason) == ("supersede", "replaces: lives_in")
    alice.undo()
    assert read_fact_texts(alice) == ["Alice lives in Bangkok."]
    assert len(alice.list(kind="conversation")) == 2, "the message itself does not change"


@pytest.mark.parametrize(
    ("before", "after", "remaining"),
    [
        ("My favourite colour is green.", "My favourite colour is blue.", ["Alice has the favourite colour blue."]),
        ("My birthday is 3 May.", "Sorry, my birthday is 4 May.", ["Alice has a birthday on 4 May."]),
        ("Call me Ace.", "Call me Bex.", ["Alice is called Bex."]),
        ("I like coffee.", "I hate coffee.", ["Alice dislikes coffee."]),
    ],
)
def test_a_fact_about_the_same_thing_replaces_the_older_one(
    sqlite_store: Store, before: str, after: str, remaining: list[str]
) -> None:
    alice = sqlite_store.open().scope(user="alice")
    for text in (before, after):
        alice.remember(text, kind="conversation", speaker="Alice")
    assert read_fact_texts(alice) == remaining


def test_a_sentence_replaces_a_fact(alice: View) -> None:
    alice.remember("I live in Bangkok.", kind="conversation", speaker="Alice")
    new = alice.remember("Alice lives in Lisbon", kind="fact")
    [old] = list_facts(alice, with_superseded=True)
    assert old.superseded_by == new.id


def test_another_employer_does_not_hide_the_job(alice: View) -> None:
    job = alice.remember("I work as a nurse at Acme")
    alice.remember("I left Acme and started at Globex")
    assert alice.get(job.id).superseded_by is None
    alice.remember("I work as a teacher at Globex")
    assert alice.get(job.id).superseded_by is not None


def test_repeating_a_statement_reinforces_the_fact(alice: View) -> None:
    for _ in range(2):
        alice.remember("I live in Bangkok.", kind="conversation", speaker="Alice")
    [fact] = list_facts(alice)
    assert fact.access_count == 1
    assert len(alice.list(kind="conversation")) == 2


def test_a_retry_adds_nothing_twice(engine: Everhold, alice: View) -> None:
    draft = {
        "text": "I live in Bangkok. I like tea.",
        "kind": "conversation",
        "speaker": "Alice",
        "idempotency_key": "k",
    }
    message = alice.remember(**draft)
    before = read_all_rows(engine)
    assert alice.remember(**draft).id == message.id
    assert [memory.id for memory in alice.remember_many([draft, draft])] == [message.id] * 2
    assert read_all_rows(engine) == before


def test_facts_of_many_messages_are_stored_at_once(engine: Everhold, alice: View) -> None:
    items = [
        {"text": text, "kind": "conversation", "speaker": speaker}
        for speaker, text in [
            ("Alice", "I live in Bangkok."),
            ("Bob", "I live in Oslo."),
            ("Alice", "I live in Lisbon now. I like tea."),
            ("Bob", "That sounds great!"),
            ("assistant", "I live in the cloud."),
            ("Alice", "I live in Bangkok."),
        ]
    ]
    memories = alice.remember_many(items)
    assert [memory.text for memory in memories] == [item["text"] for item in items]
    assert sorted(read_fact_texts(alice)) == ["Alice likes tea.", "Alice lives in Bangkok.", "Bob lives in Oslo."]
    assert len(list_facts(alice, with_superseded=True)) == 5
    sources = {fact.provenance["memory"] for fact in list_facts(alice) if fact.text == "Alice lives in Bangkok."}
    assert sources == {memories[5].id}


def test_older_messages_imported_later_become_history(alice: View) -> None:
    now = datetime.now(UTC)
    for city, days in (("Lisbon", 10), ("Bangkok", 400)):
        alice.remember(f"I live in {city}.", kind="conversation", speaker="Alice", occurred_at=now - days * DAY)
    ends = {fact.text: (fact.valid_to, fact.superseded_by) for fact in list_facts(alice)}
    assert ends == {"Alice lives in Lisbon.": (None, None), "Alice lives in Bangkok.": (now - 10 * DAY, None)}


def test_facts_belong_to_the_owner_of_the_message(engine: Everhold) -> None:
    draft = {"text": "I live in Bangkok.", "kind": "conversation", "speaker": "Alice"}
    engine.scope(user="bob", session="s").remember(**draft)
    engine.scope(session="alone").remember(**draft)
    engine.scope(user="alice").remember("I live in Lisbon.", kind="conversation", speaker="Alice")
    assert read_fact_texts(engine.scope(user="bob")) == ["Alice lives in Bangkok."]
    assert read_fact_texts(engine.scope(user="alice")) == ["Alice lives in Lisbon."]
    [fact] = list_facts(engine.scope(session="alone"))
    assert (fact.session_id, fact.reach) == ("alone", "session")


def test_extraction_can_be_switched_off(sqlite_store: Store) -> None:
    alice = sqlite_store.open(remember={"extract": False}).scope(user="alice")
    alice.remember("I live in Bangkok.", kind="conversation", speaker="Alice")
    assert len(alice.list()) == 1


def test_a_document_is_not_read(sqlite_store: Store) -> None:
    alice = sqlite_store.open().scope(user="alice")
    alice.remember("I live in Bangkok. " + "It rains. " * 3000, kind="conversation", speaker="Alice")
    assert not list_facts(alice)
