"""Sessions, their conversations and their messages through public verbs, on every store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everhold import Everhold, Message, View
from everhold.errors import Conflict, InvalidInput, NotFound
from tests.engines import EVERY_STORE, make_store


@pytest.fixture(params=EVERY_STORE)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Everhold]:
    store = make_store(request.param, request, tmp_path)
    yield store.open()
    store.close()


@pytest.fixture
def chat(engine: Everhold) -> View:
    return engine.scope(project="garden", user="alice", agent="helper", session="s1")


def list_texts(messages: Iterator[Message] | tuple[Message, ...]) -> list[str | None]:
    return [message.text for message in messages]


def test_the_life_of_a_session(engine: Everhold, chat: View) -> None:
    opened = chat.open_session(title="Roses", topic="pruning", session_type="consultation", metadata={"client": "web"})
    assert (opened.project_id, opened.user_id, opened.agent_id) == ("garden", "alice", "helper")
    assert (opened.title, opened.topic, opened.session_type, opened.ended_at) == (
        "Roses",
        "pruning",
        "consultation",
        None,
    )
    chat.say("When do I prune roses?")
    assert chat.open_session(topic="roses").title == "Roses"
    ended = chat.end_session(summary="Roses are pruned in March.")
    assert (ended.summary, ended.is_archived) == ("Roses are pruned in March.", False)
    assert chat.end_session().ended_at == ended.ended_at
    for refused in (lambda: chat.say("And tulips?"), chat.open_session):
        with pytest.raises(Conflict, match=r"session 's1' has ended .*; call reopen_session\(\)"):
            refused()
    archived = chat.archive_session()
    assert (archived.is_archived, archived.ended_at) == (True, ended.ended_at)
    reopened = chat.reopen_session()
    assert (reopened.is_archived, reopened.ended_at, reopened.summary) == (False, None, "Roses are pruned in March.")
    assert chat.say("And tulips?").position == 1
    assert chat.archive_session().ended_at is not None
    assert list_texts(chat.messages(oldest_first=True).messages) == ["When do I prune roses?", "And tulips?"]
    assert [session.id for session in engine.scope(project="garden").sessions()] == ["s1"]


def test_a_deleted_session_comes_back_with_what_was_deleted(engine: Everhold, chat: View) -> None:
    chat.say("Roses need water", conversation="roses")
    chat.remember("Alice grows roses")
    chat.delete_message(chat.say("Tulips do not").id)
    preview = chat.delete_session(preview=True)
    assert (preview.preview, preview.rows["messages"], preview.rows["conversations"]) == (True, 1, 1)
    assert chat.delete_session().rows == preview.rows
    for refused in (chat.messages, chat.delete_session, chat.reopen_session):
        with pytest.raises(NotFound):
            refused()
    assert not chat.recall("roses", among=["memory", "message"], minimum=0)
    assert chat.restore_session().id == "s1"
    assert list_texts(chat.messages().messages) == ["Roses need water"]
    with pytest.raises(NotFound, match="session 's1' is not deleted"):
        chat.restore_session()
    engine.delete_user("alice")
    with pytest.raises(NotFound, match="session 's1' was deleted with its user; restore the user"):
        chat.restore_session()
    engine.restore("user", "alice")
    chat.delete_session(hard=True)
    with pytest.raises(NotFound, match="no session 's1' in this scope"):
        chat.restore_session()


def test_only_its_owner_deletes_a_session(engine: Everhold) -> None:
    team = engine.scope(session="team")
    team.open_session(session_type="group")
    team.say("Who brings the tea?", sender_id="bob")
    alice = engine.scope(user="alice", session="team")
    alice.say("I do")
    for refused in (alice.delete_session, alice.restore_session):
        with pytest.raises(Conflict, match="belongs to no user, and others may take part in it; use a scope without"):
            refused()
    engine.scope(user="alice", session="diary").say("Dear diary")
    for stranger in ({"user": "bob"}, {"organization": "acme"}, {"user": "alice", "agent": "spy"}):
        with pytest.raises((NotFound, Conflict)):
            engine.scope(**stranger, session="diary").delete_session(hard=True)
    assert list_texts(engine.scope(user="alice", session="diary").messages().messages) == ["Dear diary"]
    team.delete_session()
    assert team.restore_session().session_type == "group"
    assert list_texts(team.messages(oldest_first=True).messages) == ["Who brings the tea?", "I do"]


def test_content_is_kept_as_it_came_and_its_words_are_found(chat: View) -> None:
    parts = [
        {"type": "text", "text": "The pump is broken"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "pressure: 0.5 bar"}]},
    ]
    thing = {"parts": [{"text": "Call the plumber"}], "safety": [None, 1.5, {"ü": "茶"}]}
    said = [
        chat.say(content="The cellar is flooded"),
        chat.say(role="tool", content=parts, tool_call_id="call-1", tool_returns=[{"ok": True}]),
        chat.say(role="assistant", content=thing, tool_calls=[{"id": "call-2", "arguments": {"n": 1}}]),
        chat.say("A drawing", content={"type": "svg"}, references=[{"message": "m1"}], otid="o1", group_id="g1"),
    ]
    assert [message.content for message in said] == [[], parts, thing, {"type": "svg"}]
    assert chat.messages(oldest_first=True).messages == tuple(said)
    assert chat.session().history[::-1] == tuple(said)
    assert [message.text for message in said[1:]] == [
        "The pump is broken\npressure: 0.5 bar", "Call the plumber", "A drawing"
    ]  # fmt: skip
    for question, message in (("flooded cellar", said[0]), ("pressure of the pump", said[1]), ("plumber", said[2])):
        assert chat.recall(question, among="message", minimum=0)[0].message == message
    assert chat.add([{"role": "assistant", "content": thing}]).messages[0].content == thing
    for refused in ({"text": "a", "content": "b"}, {"content": 5}, {"content": {1: 2}}, {"content": ""}, {}):
        with pytest.raises(InvalidInput):
            chat.say(**refused)
