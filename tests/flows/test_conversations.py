"""Conversations inside a session, and messages and memories that are imported with the time they were made."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everhold import Everhold, View, clock
from everhold.errors import AlreadyExists, InvalidInput, MalformedId, NotFound
from everhold.model import Conversation, Message
from tests.engines import Store, get_records, texts

CREATED_AT = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["in_process", "redis"])
def session_engine(request: pytest.FixtureRequest, sqlite_store: Store) -> Everhold:
    if request.param == "in_process":
        return sqlite_store.open()
    server = request.getfixturevalue("valkey_server")
    server.client().flushall()
    return sqlite_store.open(sessions=server.url)


def read_messages(view: View, **options: Any) -> list[str | None]:
    return [message.text for message in view.messages(oldest_first=True, **options)]


def check_conversations(engine: Everhold) -> None:
    chat = engine.scope(user="alice", session="s1")
    chat.say("outside")
    first = chat.say("one", conversation="about tea")
    chat.say("two", conversation="about/cats")
    chat.say("three", conversation="about tea")
    assert read_messages(chat) == ["outside", "one", "two", "three"]
    assert read_messages(chat, conversation="about tea") == ["one", "three"]
    assert read_messages(chat, conversation="about/cats") == ["two"]
    assert read_messages(chat, conversation="nothing yet") == []
    page = chat.messages(conversation="about tea", limit=1)
    assert [message.text for message in page.messages] == ["three"]
    assert read_messages(chat, conversation="about tea", cursor=None) == ["one", "three"]
    second_page = chat.messages(conversation="about tea", limit=1, cursor=page.cursor)
    assert ([message.text for message in second_page.messages], second_page.cursor) == (["one"], None)
    assert [message.conversation_id for message in chat.session().history] == [
        "about tea", "about/cats", "about tea", None,
    ]  # fmt: skip
    cats, tea = chat.conversations()
    assert (cats.id, tea.id, tea.session_id, tea.started_at) == ("about/cats", "about tea", "s1", first.created_at)
    updated = chat.update_conversation("about tea", name="Tea", metadata={"mood": "calm"})
    assert chat.conversations()[1] == updated
    assert (updated.name, updated.metadata, updated.version) == ("Tea", {"mood": "calm"}, 2)


def test_a_session_has_several_conversations(session_engine: Everhold) -> None:
    check_conversations(session_engine)


def test_conversations_work_on_every_store(any_store: Store) -> None:
    engine = any_store.open()
    check_conversations(engine)
    records, chat = get_records(engine), engine.scope(user="alice", session="s1")
    assert engine.delete_session("s1", preview=True).rows == {"sessions": 1, "conversations": 2, "messages": 4}
    engine.delete_session("s1")
    assert (records.count(Conversation, "default"), records.count(Message, "default")) == (0, 0)
    engine.restore("session", "s1")
    assert read_messages(chat, conversation="about tea") == ["one", "three"]
    engine.delete_session("s1", hard=True)
    assert records.count(Conversation, "default", deleted=True) == 0


def test_a_conversation_belongs_to_one_session(engine: Everhold) -> None:
    first, second = (engine.scope(user="alice", session=name) for name in ("s1", "s2"))
    first.say("one", conversation="c")
    for view in (second, engine.scope(user="bob", session="s3")):
        with pytest.raises(AlreadyExists, match="conversation id 'c' is taken by another session"):
            view.say("two", conversation="c")
    assert second.say("retry", id="m1", conversation="d") == second.say("retry", id="m1", conversation="d")
    with pytest.raises(NotFound, match="no conversation 'c' in session 's2'"):
        second.update_conversation("c", name="mine")
    with pytest.raises(NotFound):
        engine.scope(user="bob", session="s1").conversations()
    with pytest.raises(MalformedId):
        first.say("x", conversation=" c")
    assert [conversation.id for conversation in first.conversations()] == ["c"]


def test_conversations_move_with_their_organization(store: Store, tmp_path: Any) -> None:
    engine = store.open()
    check_conversations(engine)
    engine.export(tmp_path / "bundle.jsonl")
    engine.load(tmp_path / "bundle.jsonl", organization="copy")
    copied = engine.scope(organization="copy", user="alice", session="s1")
    assert read_messages(copied, conversation="about tea") == ["one", "three"]
    assert [conversation.name for conversation in copied.conversations()] == [None, "Tea"]


def test_messages_are_imported_with_their_times(session_engine: Everhold) -> None:
    chat = session_engine.scope(user="alice", session="s1")
    first = chat.say("first", created_at=CREATED_AT)
    same_second = chat.say("second", created_at=CREATED_AT)
    third = chat.say("third", created_at=CREATED_AT + timedelta(days=1))
    assert (first.created_at, third.created_at) == (CREATED_AT, CREATED_AT + timedelta(days=1))
    assert CREATED_AT < same_second.created_at < CREATED_AT + timedelta(seconds=1)
    assert first.id < third.id < clock.make_id("msg")
    assert chat.session().session.last_active == third.created_at
    assert read_messages(chat) == ["first", "second", "third"]
    with pytest.raises(InvalidInput, match="is before the session's last message; import"):
        chat.say("too late", created_at=CREATED_AT)
    with pytest.raises(InvalidInput, match="in the future"):
        chat.say("tomorrow", created_at=clock.now() + timedelta(days=1))
    assert chat.say("now").created_at > third.created_at
    retried = chat.say("retried", id="m", created_at=clock.now())
    chat.say("later")
    assert chat.say("retried", id="m", created_at=retried.created_at - timedelta(hours=1)) == retried


def test_memories_are_imported_with_their_times(any_store: Store) -> None:
    alice = any_store.open().scope(user="alice")
    alice.remember_many(
        {"text": f"The pump of hall {number} failed", "created_at": CREATED_AT + timedelta(hours=number)}
        for number in range(30)
    )
    recent = alice.remember("The pump of hall 99 failed")
    memory = alice.list(oldest_first=True, limit=1)[0]
    assert memory.created_at == CREATED_AT < memory.updated_at
    assert memory.id < recent.id
    assert alice.list(after=clock.now() - timedelta(days=1)).memories == (recent,)
    assert recent.text in texts(alice.recall("which pump failed today?", k=1, minimum=0))
    assert texts(alice.recall("which pump failed?", as_of=CREATED_AT, minimum=0)) == ["The pump of hall 0 failed"]
    with pytest.raises(InvalidInput, match="in the future"):
        alice.remember("x", created_at=clock.now() + timedelta(hours=1))
    with pytest.raises(InvalidInput, match="'created_at' cannot be revised"):
        alice.revise(recent.id, created_at=CREATED_AT)
    assert alice.remember("Clocks differ a little", created_at=clock.now() + timedelta(seconds=20)).version == 1


def test_the_time_of_storing_counts_less_than_the_time_of_the_event(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    yesterday = clock.now() - timedelta(days=1)
    alice.remember("We had dinner at the Lua with Ana", created_at=yesterday)
    happened = alice.remember("We had dinner at the Fado with Ana", occurred_at=yesterday)
    hits = alice.recall("where did we have dinner with Ana yesterday?", minimum=0)
    assert hits[0].id == happened.id
    times = [hit.why.contributions.get("date", 0.0) for hit in hits]
    assert times[0] > 3 * times[1] > 0


def test_an_imported_statement_does_not_replace_a_later_one(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    bangkok = alice.remember("I live in Bangkok", speaker="Alice")
    lisbon = alice.remember("I live in Lisbon", speaker="Alice", created_at=CREATED_AT)
    assert texts(alice.recall("where do I live?", minimum=0)) == ["I live in Bangkok"]
    assert (alice.get(bangkok.id).superseded_by, alice.get(lisbon.id).valid_to) == (None, bangkok.created_at)


def test_imported_statements_replace_each_other_when_they_were_made(engine: Everhold) -> None:
    alice = engine.scope(user="alice")
    lisbon = alice.remember("I live in Lisbon", speaker="Alice", created_at=CREATED_AT)
    moved = CREATED_AT + timedelta(days=90)
    alice.remember("I live in Bangkok", speaker="Alice", created_at=moved)
    assert texts(alice.recall("where do I live?", minimum=0)) == ["I live in Bangkok"]
    assert alice.get(lisbon.id).valid_to == moved
