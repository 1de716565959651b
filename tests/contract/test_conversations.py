"""Sessions, their conversations and their messages through public verbs, on every store."""

from collections.abc import Iterable

import pytest

from everhold import Everhold, Message, View
from everhold.errors import Conflict, InvalidInput, NotFound
from everhold.recall.hit import Hits
from tests.engines import Store


@pytest.fixture
def engine(any_store: Store) -> Everhold:
    return any_store.open()


@pytest.fixture
def chat(engine: Everhold) -> View:
    return engine.scope(project="garden", user="alice", agent="helper", session="s1")


def list_texts(messages: Iterable[Message]) -> list[str | None]:
    return [message.text for message in messages]


def test_a_session_is_opened_used_and_ended(engine: Everhold, chat: View) -> None:
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
    for call in (lambda: chat.say("And tulips?"), chat.open_session):
        with pytest.raises(Conflict, match=r"session 's1' has ended .*; call reopen_session\(\)"):
            call()
    archived = chat.archive_session()
    assert (archived.is_archived, archived.ended_at) == (True, ended.ended_at)
    reopened = chat.reopen_session()
    assert (reopened.is_archived, reopened.ended_at, reopened.summary) == (False, None, "Roses are pruned in March.")
    assert chat.say("And tulips?").position == 1
    assert chat.archive_session().ended_at is not None
    assert list_texts(chat.messages(oldest_first=True).messages) == ["When do I prune roses?", "And tulips?"]
    assert [session.id for session in engine.scope(project="garden").sessions()] == ["s1"]


def test_a_deleted_session_is_restored_with_its_rows(engine: Everhold, chat: View) -> None:
    chat.say("Roses need water", conversation="roses")
    chat.remember("Alice grows roses")
    chat.delete_message(chat.say("Tulips do not").id)
    preview = chat.delete_session(preview=True)
    assert (preview.preview, preview.rows["messages"], preview.rows["conversations"]) == (True, 1, 1)
    assert chat.delete_session().rows == preview.rows
    for call in (chat.messages, chat.delete_session, chat.reopen_session):
        with pytest.raises(NotFound):
            call()
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


def test_only_the_owner_of_a_session_can_delete_it(engine: Everhold) -> None:
    team = engine.scope(session="team")
    team.open_session(session_type="group")
    team.say("Who brings the tea?", sender_id="bob")
    alice = engine.scope(user="alice", session="team")
    alice.say("I do")
    for call in (alice.delete_session, alice.restore_session):
        with pytest.raises(Conflict, match="belongs to no user, and others may take part in it; use a scope without"):
            call()
    engine.scope(user="alice", session="diary").say("Dear diary")
    for dimensions in ({"user": "bob"}, {"organization": "acme"}, {"user": "alice", "agent": "spy"}):
        with pytest.raises((NotFound, Conflict)):
            engine.scope(**dimensions, session="diary").delete_session(hard=True)
    assert list_texts(engine.scope(user="alice", session="diary").messages().messages) == ["Dear diary"]
    team.delete_session()
    assert team.restore_session().session_type == "group"
    assert list_texts(team.messages(oldest_first=True).messages) == ["Who brings the tea?", "I do"]


def test_content_is_stored_unchanged_and_found_by_its_words(chat: View) -> None:
    parts = [
        {"type": "text", "text": "The pump is broken"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "pressure: 0.5 bar"}]},
    ]
    nested = {"parts": [{"text": "Call the plumber"}], "safety": [None, 1.5, {"ü": "茶"}]}
    messages = [
        chat.say(content="The cellar is flooded"),
        chat.say(role="tool", content=parts, tool_call_id="call-1", tool_returns=[{"ok": True}]),
        chat.say(role="assistant", content=nested, tool_calls=[{"id": "call-2", "arguments": {"n": 1}}]),
        chat.say("A drawing", content={"type": "svg"}, references=[{"message": "m1"}], otid="o1", group_id="g1"),
    ]
    assert [message.content for message in messages] == [[], parts, nested, {"type": "svg"}]
    assert chat.messages(oldest_first=True).messages == tuple(messages)
    assert chat.session().history[::-1] == tuple(messages)
    assert [message.text for message in messages[1:]] == [
        "The pump is broken\npressure: 0.5 bar", "Call the plumber", "A drawing"
    ]  # fmt: skip
    for question, message in (
        ("flooded cellar", messages[0]),
        ("pressure of the pump", messages[1]),
        ("plumber", messages[2]),
    ):
        assert chat.recall(question, among="message", minimum=0)[0].message == message
    assert chat.add([{"role": "assistant", "content": nested}]).messages[0].content == nested
    for arguments in ({"text": "a", "content": "b"}, {"content": 5}, {"content": {1: 2}}, {"content": ""}, {}):
        with pytest.raises(InvalidInput):
            chat.say(**arguments)


def test_history_is_read_in_both_directions(chat: View) -> None:
    messages = [chat.say(f"line {number}", conversation="even" if number % 2 == 0 else None) for number in range(9)]
    middle = chat.messages(around=messages[4].id, limit=3)
    assert list_texts(middle) == ["line 5", "line 4", "line 3"]
    assert list_texts(chat.messages(cursor=middle.cursor, limit=2)) == ["line 2", "line 1"]
    newer = chat.messages(cursor=middle.back_cursor, oldest_first=True, limit=2)
    assert list_texts(newer) == ["line 6", "line 7"]
    assert list_texts(chat.messages(cursor=newer.back_cursor, limit=2)) == ["line 5", "line 4"]
    assert list_texts(chat.messages(cursor=newer.cursor, oldest_first=True)) == ["line 8"]
    end = chat.messages(around=messages[8].id, limit=5, oldest_first=True)
    assert (list_texts(end), end.cursor) == (["line 6", "line 7", "line 8"], None)
    assert list_texts(chat.messages(cursor=end.back_cursor, limit=1)) == ["line 5"]
    beginning = chat.messages(around=messages[0].id, limit=4)
    assert (list_texts(beginning), beginning.cursor) == (["line 2", "line 1", "line 0"], None)
    even = chat.messages(around=messages[4].id, limit=3, conversation="even")
    assert list_texts(even) == ["line 6", "line 4", "line 2"]
    chat.delete_message(messages[3].id)
    assert list_texts(chat.messages(around=messages[4].id, limit=3)) == ["line 5", "line 4", "line 2"]
    for arguments in (
        {"around": messages[3].id},
        {"around": "none"},
        {"around": messages[5].id, "conversation": "even"},
    ):
        with pytest.raises(NotFound, match="no message"):
            chat.messages(**arguments)
    with pytest.raises(InvalidInput, match="around and cursor are both given; pass one of them"):
        chat.messages(around=messages[4].id, cursor=messages[5].id)


def test_messages_are_searched_with_their_neighbours(engine: Everhold, chat: View) -> None:
    for text in ("Good morning", "Which roses should I buy?", "The red ones smell best", "Thanks", "Good night"):
        chat.say(text)
        chat.say(f"{text}, aside", conversation="aside")
    other_chat = engine.scope(project="garden", user="alice", agent="helper", session="s2")
    other_chat.say("The tractor needs fuel")
    engine.scope(user="bob", session="s3").say("Bob buys roses")
    best = chat.search_messages("which roses to buy", neighbours=1, k=20, minimum=0, where={"conversation_id": None})[0]
    assert list_texts(best.turns) == ["Good morning", "Which roses should I buy?", "The red ones smell best"]
    assert (best.message.position, best.score > 0, best.hit.kind) == (2, True, "message")
    aside = chat.search_messages("roses", conversation="aside", minimum=0, neighbours=2)[0]
    assert list_texts(aside.turns)[1:3] == ["Which roses should I buy?, aside", "The red ones smell best, aside"]
    everywhere = chat.search_messages("tractor fuel roses", neighbours=0, k=50, minimum=0)
    assert "The tractor needs fuel" in list_texts(hit.message for hit in everywhere)
    assert "Bob buys roses" not in list_texts(hit.message for hit in everywhere)
    assert all(hit.turns == (hit.message,) for hit in everywhere)
    in_session = other_chat.search_messages("roses", only="session", minimum=0)
    assert list_texts(hit.message for hit in in_session) == ["The tractor needs fuel"]
    page = chat.search_messages("roses", k=1, minimum=0)
    assert page.cursor
    assert chat.search_messages("roses", k=1, minimum=0, cursor=page.cursor)[0].message != page[0].message
    with pytest.raises(InvalidInput):
        chat.search_messages("roses", neighbours=-1)


def test_recent_messages_are_those_of_the_agent(engine: Everhold) -> None:
    for number in range(3):
        for user, agent in (("alice", "helper"), ("alice", "critic"), ("bob", "helper")):
            name = f"{user}-{agent}-{number}"
            engine.scope(user=user, agent=agent, session=name).say(name)
    everything = engine.scope()
    assert list_texts(everything.recent_messages("helper", 3)) == ["bob-helper-2", "alice-helper-2", "bob-helper-1"]
    assert list_texts(engine.scope(agent="critic").recent_messages(n=2)) == ["alice-critic-2", "alice-critic-1"]
    assert list_texts(engine.scope(user="alice", session="x").recent_messages("helper")) == [
        "alice-helper-2", "alice-helper-1", "alice-helper-0"
    ]  # fmt: skip
    assert engine.scope(agent="critic").recent_messages("helper") == []
    engine.delete_user("bob")
    assert list_texts(everything.recent_messages("helper", 2)) == ["alice-helper-2", "alice-helper-1"]
    assert len(everything.recent_messages(n=100)) == 6


def test_recent_messages_puts_back_only_the_sessions_that_it_needs(engine: Everhold) -> None:
    def say(session: str, user: str | None, count: int) -> View:
        view = engine.scope(user=user, session=session)
        for number in range(count):
            view.say(f"{session}-{number}")
        return view

    def list_archived() -> set[str]:
        return {session.id for session in engine.scope().sessions() if session.archived_messages}

    say("group", None, 1)
    for session, user in (("s1", "alice"), ("s2", "alice"), ("s3", "alice"), ("group", "carol"), ("s4", "bob")):
        say(session, user, 2).archive_session()
    assert engine.maintain(["archive"])["archive"].counts["sessions"] == 5
    alice = say("s5", "alice", 1)
    assert list_texts(alice.recent_messages(n=1)) == ["s5-0"]
    assert len(list_archived()) == 5
    assert list_texts(alice.recent_messages(n=4)) == ["s5-0", "s3-1", "s3-0", "s2-1"]
    assert list_archived() == {"s1", "group", "s4"}
    assert list_texts(engine.scope(user="carol").recent_messages()) == ["group-1", "group-0"]
    assert list_archived() == {"s1", "s4"}
    assert len(alice.recent_messages(n=50)) == 7
    assert engine.scope(organization="acme").recent_messages() == []
    assert list_archived() == {"s4"}


def list_message_ids(hits: Hits) -> list[str]:
    """Return the ids of the messages that were found, or that are the source of a memory that was found."""
    message_ids: list[str] = []
    for hit in hits:
        message_ids += [hit.id] if hit.kind == "message" else hit.memory.message_ids
    return message_ids


def test_a_message_that_is_also_a_memory_is_one_hit(engine: Everhold) -> None:
    chat = engine.scope(user="alice", session="s1")
    added = chat.add([{"text": "I live in Lisbon and my sister lives in Porto.", "name": "Alice", "id": "m1"}, "Hello"])
    assert len(added.memories) >= 2
    chat.say("The heating is loud", id="m2")
    chat.remember("The heating is loud")
    for recipe in ("hybrid", "words", "meaning"):
        for question in ("Where does Alice live?", "Porto", "is the heating loud?"):
            hits = chat.recall(question, among=["memory", "message"], minimum=0, k=50, recipe=recipe)
            assert list_message_ids(hits).count("m1") == 1
        assert len(chat.recall("Where does Alice live?", minimum=0, k=50, recipe=recipe)) > len(added.memories)
    heating_hits = chat.recall("heating", among=["memory", "message"], minimum=0, k=50)
    assert [hit.text for hit in heating_hits].count("The heating is loud") == 1
    message_ids: list[str] = []
    cursor = None
    while not message_ids or cursor:
        hits = chat.recall("Lisbon", among=["memory", "message"], minimum=0, k=1, cursor=cursor)
        message_ids += list_message_ids(hits)
        cursor = hits.cursor
    assert message_ids.count("m1") == 1


def test_a_group_chat_names_each_sender(engine: Everhold) -> None:
    team = engine.scope(session="team")
    team.open_session(session_type="group", title="The move")
    team.say("I rent the van", sender_id="bob")
    team.say("I bring the boxes", sender_id="u-17", name="Carol")
    team.say("Noted", role="assistant", sender_id="helper")
    assert [(message.sender_id, message.name) for message in team.messages(oldest_first=True)] == [
        ("bob", "bob"), ("u-17", "Carol"), ("helper", "helper")
    ]  # fmt: skip
    assert {message.user_id for message in team.messages()} == {None}
    assert team.recall("What does Carol bring?", among="message", minimum=0)[0].message.sender_id == "u-17"
    assert not engine.scope(user="alice").recall("van", among="message", minimum=0)


def test_a_project_has_several_sessions_of_role_based_messages(engine: Everhold) -> None:
    for number, role in enumerate(("system", "user", "assistant", "tool")):
        chat = engine.scope(project="sales", user="alice", session=f"chat-{number % 2}")
        chat.say(f"line {number}", role=role, references=[{"source": "q3.csv", "row": number}])
    engine.scope(project="other", user="alice", session="chat-9").say("elsewhere")
    project = engine.scope(project="sales", user="alice")
    assert [session.id for session in project.sessions()] == ["chat-1", "chat-0"]
    assert [(message.role, message.references[0]["row"]) for message in project.recent_messages()] == [
        ("tool", 3), ("assistant", 2), ("user", 1), ("system", 0)
    ]  # fmt: skip


def test_every_field_of_a_session_is_kept(engine: Everhold) -> None:
    chat = engine.scope(user="alice", session="call-7")
    opened = chat.open_session(session_type="voice", metadata={"device": {"os": "x"}}, context={"state": "greeting"})
    chat.remember("Alice wants the kitchen light on", kind="context")
    ended = chat.end_session(summary="Light")
    chat.archive_session()
    [stored] = engine.scope(user="alice").sessions()
    fields = (stored.id, stored.user_id, stored.session_type, stored.metadata, stored.summary, stored.is_archived)
    assert fields == ("call-7", "alice", "voice", {"device": {"os": "x"}}, "Light", True)
    assert stored.created_at == opened.created_at < stored.updated_at
    assert (stored.ended_at, stored.context) == (ended.ended_at, {"state": "greeting"})
    rows = engine.delete_session("call-7", hard=True).rows
    assert (rows["sessions"], rows["memories"]) == (1, 1)
    assert not engine.scope(user="alice").list()


def test_a_conversation_holds_its_messages(engine: Everhold) -> None:
    chat = engine.scope(session="s1")
    messages = [
        chat.say(text, conversation=name, metadata={"n": text}) for text, name in (("a", "x"), ("b", "y"), ("c", "x"))
    ]
    chat.update_conversation("x", name="First", metadata={"topic": "tea"})
    assert [(row.id, row.session_id, row.metadata) for row in chat.conversations()] == [
        ("y", "s1", {}), ("x", "s1", {"topic": "tea"})
    ]  # fmt: skip
    assert chat.messages(conversation="x", oldest_first=True).messages == (messages[0], messages[2])
    assert messages[0].created_at < messages[1].created_at < messages[2].created_at
    assert messages[2].metadata == {"n": "c"}
    assert chat.delete_session(hard=True).rows == {"sessions": 1, "conversations": 2, "messages": 3}
    assert chat.say("d", conversation="x").position == 0
