"""Messages of a session are stored and read again, from the cache if it is current and otherwise from the records."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from everhold import AsyncEverhold, Everhold, View, clock
from everhold.errors import AlreadyExists, Conflict, InvalidInput, MalformedId, NotFound, UnknownField
from everhold.model import Agent, Message, Session
from everhold.ports.session_cache import SessionKey
from everhold.schema.operations import Hide, Patch, Put, Unhide
from tests.engines import Store, fetch_all_pages, get_records
from tests.flows.session_stores import SESSION_KEY, is_from_cache, mark_cached_session, read_cached, read_messages

Open = Callable[..., Everhold]


@pytest.fixture(params=["in_process", "redis"])
def open_engine(request: pytest.FixtureRequest, sqlite_store: Store) -> Open:
    """A function that opens engines on one SQLite file, all with the same kind of session cache."""
    options: dict[str, Any] = {}
    if request.param == "redis":
        server = request.getfixturevalue("valkey_server")
        server.client().flushall()
        options["sessions"] = server.url
    return lambda **settings: sqlite_store.open(**{**options, **settings})


@pytest.fixture
def session_engine(open_engine: Open) -> Everhold:
    return open_engine()


@pytest.fixture
def chat(session_engine: Everhold) -> View:
    return session_engine.scope(user="alice", session="s1")


def test_messages_are_stored_and_read_in_both_orders(chat: View) -> None:
    hello = chat.say("Hello", metadata={"client": "web"})
    answer = chat.say("Hello, Alice", role="assistant", model="m-1", name="helper")
    assert [hello.position, answer.position] == [0, 1]
    assert (hello.role, hello.session_id, hello.user_id) == ("user", "s1", "alice")
    assert chat.messages().messages == (answer, hello)
    assert chat.messages(oldest_first=True).messages == (hello, answer)
    working = chat.session()
    assert working.last_message == answer
    assert working.history == (answer, hello)
    assert (working.user, working.last_active) == ("alice", answer.created_at)
    assert working.session == read_session_row(chat)


def read_session_row(view: View) -> Session:
    return view._parts.records.get(Session, "default", ["s1"])["s1"]


def test_every_field_of_a_message_is_kept_as_it_came(open_engine: Open) -> None:
    fields = {"content": [{"type": "image", "url": "x"}, {"n": 1.5, "deep": [None, {"ü": "茶"}]}],
           "tool_calls": [{"id": 1}], "tool_returns": ["x"], "references": [{"a": "b"}],
           "model": "m", "name": "n", "tool_call_id": "t",
           "step_id": "st", "otid": "o", "group_id": "g", "sender_id": "bob", "id": "own-id",
           "metadata": {"k": [1]}}  # fmt: skip
    for engine in (open_engine(), open_engine()):
        view = engine.scope(session="s1")
        if not view.sessions():
            view.say(role="tool", conversation="c", **fields)
        for message in (view.messages()[0], view.session().last_message):
            assert message is not None
            assert {name: message.__dict__[name] for name in fields} == fields
            assert (message.role, message.text, message.conversation_id) == ("tool", None, "c")


def test_messages_are_read_in_pages(session_engine: Everhold, chat: View) -> None:
    for number in range(130):
        chat.say(f"{number}")
    expected = [f"{number}" for number in range(130)]
    for limit in (1, 7, 30, 99, 100, 101, 130, 1000):
        pages = fetch_all_pages(lambda cursor, limit=limit: chat.messages(limit=limit, cursor=cursor))
        assert [message.text for page in pages for message in page.messages] == expected[::-1]
        pages = fetch_all_pages(
            lambda cursor, limit=limit: chat.messages(limit=limit, cursor=cursor, oldest_first=True)
        )
        assert [message.text for page in pages for message in page.messages] == expected
    assert [message.text for message in chat.session().history] == expected[:29:-1]
    assert len(read_cached(session_engine).history) == 100


def test_a_short_session_is_read_in_pages(chat: View) -> None:
    expected = [f"{number}" for number in range(20)]
    for text in expected:
        chat.say(text)
    for limit in (1, 6, 19, 20, 21):
        pages = fetch_all_pages(lambda cursor, limit=limit: chat.messages(limit=limit, cursor=cursor))
        assert [message.text for page in pages for message in page.messages] == expected[::-1]
        pages = fetch_all_pages(
            lambda cursor, limit=limit: chat.messages(limit=limit, cursor=cursor, oldest_first=True)
        )
        assert [message.text for page in pages for message in page.messages] == expected


def test_the_last_messages_come_from_the_cache(session_engine: Everhold, chat: View) -> None:
    chat.say("Tea")
    assert mark_cached_session(session_engine)
    assert is_from_cache(chat)
    chat.say("Rain")  # the next message is added to the cached ones
    assert [message.text == "Tea" for message in chat.messages()] == [False, False]
    chat.update_session(topic="Weather")
    assert [message.text == "Tea" for message in chat.messages()] == [False, False]
    assert chat.session().topic == "Weather"


def test_the_cache_is_ignored_if_the_session_has_changed(session_engine: Everhold, chat: View) -> None:
    chat.say("Tea")
    assert mark_cached_session(session_engine)
    get_records(session_engine).commit(
        [Patch(Session, ("default", "s1"), {"topic": "Rain", "updated_at": clock.now()})]
    )
    assert not is_from_cache(chat)
    assert chat.session().topic == "Rain"


def test_two_engines_see_each_others_words_at_once(open_engine: Open) -> None:
    first, second = (open_engine().scope(user="alice", session="s1") for _ in range(2))
    expected = []
    for number in range(10):
        for view in (first, second):
            expected.append(view.say(f"{number}").text)
            assert read_messages(first) == read_messages(second) == expected
    first.update_session(topic="Tea", context={"state": "active"})
    assert (second.session().topic, second.session().state) == ("Tea", "active")
    second.end_session()
    with pytest.raises(Conflict):
        first.say("more")


def test_a_deleted_session_vanishes_at_once_from_every_engine(open_engine: Open) -> None:
    engines = [open_engine(), open_engine()]
    first, second = (engine.scope(user="alice", session="s1") for engine in engines)
    first.say("Tea")
    assert read_messages(second) == ["Tea"]
    engines[0].delete_session("s1")
    assert read_cached(engines[0]) is None
    for view in (first, second):
        assert view.sessions() == []
        for verb in (view.messages, view.session, view.end_session):
            with pytest.raises(NotFound, match="session 's1' has been deleted; restore it or use another id"):
                verb()
        with pytest.raises(NotFound, match="has been deleted"):
            view.say("more")
        with pytest.raises(NotFound, match="has been deleted"):
            view.update_session(topic="x")
    engines[1].restore("session", "s1")
    assert read_messages(first) == read_messages(second) == ["Tea"]
    engines[1].delete_session("s1", hard=True)
    for view in (first, second):
        with pytest.raises(NotFound, match="no session 's1' in this scope"):
            view.messages()
    second.say("Again")
    assert read_messages(first) == read_messages(second) == ["Again"]
    assert second.messages()[0].position == 0


@pytest.mark.parametrize("kind", ["user", "project", "organization"])
def test_a_session_is_deleted_with_its_owner(open_engine: Open, kind: str) -> None:
    engines = [open_engine(), open_engine()]
    scope = {"organization": "acme", "user": "alice", "project": "p", "session": "s1"}
    first, second = (engine.scope(**scope) for engine in engines)
    first.say("Tea")
    assert read_messages(second) == ["Tea"]
    name = {"user": "alice", "project": "p", "organization": "acme"}[kind]
    arguments = {} if kind == "organization" else {"organization": "acme"}
    getattr(engines[0], f"delete_{kind}")(name, **arguments)
    assert read_cached(engines[0], SessionKey("acme", "s1")) is None
    for view in (first, second):
        with pytest.raises(NotFound):
            view.messages()
    engines[0].restore(kind, name, organization="acme")
    assert read_messages(first) == read_messages(second) == ["Tea"]


def test_organizations_share_nothing(open_engine: Open) -> None:
    engine = open_engine()
    views = [engine.scope(organization=name, session="s1") for name in ("acme", "acme:session", "{acme}", "ACME")]
    for number, view in enumerate(views):
        view.say(f"of {number}")
        view.update_session(topic=f"topic {number}")
    for number, view in enumerate(views):
        assert read_messages(view) == [f"of {number}"]
        assert view.session().topic == f"topic {number}"
        assert [session.organization_id for session in view.sessions()] == [view.scope.organization]
    engine.delete_session("s1", organization="acme")
    for number, view in enumerate(views[1:], 1):
        assert read_messages(view) == [f"of {number}"]


def test_a_session_is_its_users_own(session_engine: Everhold) -> None:
    chat = session_engine.scope(user="alice", project="q", agent="helper", session="s1")
    chat.say("Tea")
    for scope in ({"user": "bob"}, {"project": "p"}, {"user": "alice", "project": "p"}, {"agent": "critic"}):
        stranger = session_engine.scope(**scope, session="s1")
        for verb in (stranger.messages, stranger.session, stranger.end_session, lambda view=stranger: view.say("Mine")):
            with pytest.raises(NotFound, match="no session 's1' in this scope; a session begins when"):
                verb()
        assert stranger.sessions() == []
    assert read_messages(chat) == read_messages(session_engine.scope(session="s1")) == ["Tea"]


def test_each_agent_reads_its_own_messages_of_a_session(session_engine: Everhold, chat: View) -> None:
    helper, critic = (session_engine.scope(user="alice", agent=name, session="s1") for name in ("helper", "critic"))
    chat.say("Tea?")
    helper.say("Yes", role="assistant")
    critic.say("Why?", role="assistant")
    assert read_messages(chat) == ["Tea?", "Yes", "Why?"]
    assert (read_messages(helper), read_messages(critic)) == (["Yes"], ["Why?"])
    assert helper.session().last_message == helper.messages()[0]
    assert mark_cached_session(session_engine)
    assert is_from_cache(chat)
    for number in range(120):
        chat.say(f"{number}")
    assert read_messages(helper, limit=5) == ["Yes"]
    assert [message.text for message in helper.session().history] == ["Yes"]


def test_deleting_an_agent_hides_its_messages(open_engine: Open) -> None:
    """Deleting an agent hides its messages in sessions of others, whose rows do not change."""
    first, second = open_engine(), open_engine()
    chat, second_chat = (engine.scope(user="alice", session="s1") for engine in (first, second))
    chat.say("Tea?")
    first.scope(user="alice", agent="helper", session="s1").say("Yes", role="assistant")
    assert read_messages(chat) == read_messages(second_chat) == ["Tea?", "Yes"]
    key = ("default", "helper")
    get_records(first).commit([Hide(Agent, key, "deletion", clock.now())])
    assert read_messages(chat) == read_messages(second_chat) == ["Tea?"]
    chat.say("Anyone?")
    assert read_messages(chat) == read_messages(second_chat) == ["Tea?", "Anyone?"]
    get_records(first).commit([Unhide("default", "deletion")])
    assert read_messages(chat) == read_messages(second_chat) == ["Tea?", "Yes", "Anyone?"]


def test_a_session_is_changed(chat: View) -> None:
    chat.update_session(topic="Tea", context={"scope": "technical", "state": "active", "client": "web"}, title="T")
    chat.say("Hello")
    working = chat.session()
    assert (working.topic, working.scope, working.state, working.client) == ("Tea", "technical", "active", "web")
    changed = chat.update_session(context={"state": "idle"}, summary="Short", topic=None)
    assert changed == chat.session().session == read_session_row(chat)
    assert (changed.context, changed.summary, changed.topic, changed.title) == ({"state": "idle"}, "Short", None, "T")
    assert read_messages(chat) == ["Hello"]


def test_changing_a_returned_message_does_not_change_the_store(chat: View) -> None:
    message = chat.say("Hello", metadata={"a": 1})
    message.metadata["a"] = 2
    chat.session().context["x"] = 1
    chat.messages()[0].metadata.clear()
    assert chat.messages()[0].metadata == {"a": 1}
    assert chat.session().context == {}


def test_an_ended_session_takes_no_messages(chat: View) -> None:
    chat.say("Hello")
    ended = chat.end_session()
    assert ended.ended_at is not None
    assert chat.end_session() == ended == chat.session().session
    assert read_messages(chat) == ["Hello"]
    with pytest.raises(Conflict, match="session 's1' has ended"):
        chat.say("more")


def test_sessions_are_listed_by_their_last_activity(session_engine: Everhold) -> None:
    alice = session_engine.scope(user="alice")
    for name in ("s1", "s2", "s3", "s1"):
        session_engine.scope(user="alice", session=name).say("Hello")
    session_engine.scope(user="bob", session="s4").say("Hello")
    assert [session.id for session in alice.sessions()] == ["s1", "s3", "s2"]
    assert [session.id for session in alice.sessions(limit=1)] == ["s1"]
    assert [session.id for session in session_engine.scope().sessions()] == ["s4", "s1", "s3", "s2"]


@pytest.mark.parametrize(
    ("verb", "error", "message"),
    [
        (lambda view: view.say(), InvalidInput, "says nothing"),
        (lambda view: view.say("x", position=3), UnknownField, "say takes no argument 'position'"),
        (lambda view: view.say("x", modle="m"), UnknownField, "did you mean 'model'"),
        (lambda view: view.say("x", role=""), InvalidInput, "role"),
        (lambda view: view.say("x", id="a\nb"), MalformedId, "malformed"),
        (lambda view: view.say("x" * 1_000_001), InvalidInput, "over the limit of 1,000,000"),
        (lambda view: view.say("\x00"), InvalidInput, "NUL"),
        (lambda view: view.update_session(user_id="bob"), UnknownField, "update_session takes no argument 'user_id'"),
        (lambda view: view.update_session(context="x"), InvalidInput, "context"),
        (lambda view: view.messages(limit=0), InvalidInput, "limit is 0"),
        (lambda view: view.messages(cursor="msg_unknown"), InvalidInput, "invalid cursor"),
        (lambda view: view.messages(cursor="a b"), InvalidInput, "invalid cursor"),
        (lambda view: view.sessions(limit=0), InvalidInput, "limit is 0"),
        (lambda view: view.say("x", id="taken"), AlreadyExists, "'taken' is taken"),
    ],
)
def test_invalid_calls_are_refused(
    chat: View, verb: Callable[[View], Any], error: type[Exception], message: str
) -> None:
    chat.say("Hello", id="taken")
    with pytest.raises(error, match=message):
        verb(chat)
    assert read_messages(chat) == ["Hello"]


def test_a_cursor_of_another_session_is_refused(session_engine: Everhold, chat: View) -> None:
    chat.say("Hello")
    other_message = session_engine.scope(user="alice", session="s2").say("Hi")
    with pytest.raises(InvalidInput, match="invalid cursor"):
        chat.messages(cursor=other_message.id)


def test_a_scope_without_a_session_is_refused(session_engine: Everhold) -> None:
    view = session_engine.scope(user="alice")
    for verb in (view.messages, view.session, view.end_session, view.update_session, lambda: view.say("x")):
        with pytest.raises(InvalidInput, match="names no session"):
            verb()


def test_a_session_that_has_not_begun_is_not_found(session_engine: Everhold, chat: View) -> None:
    for verb in (chat.messages, chat.session, chat.end_session):
        with pytest.raises(NotFound, match="no session 's1' in this scope; a session begins when"):
            verb()
    assert read_cached(session_engine) is None


def test_strict_scopes_refuse_a_missing_session(open_engine: Open) -> None:
    with pytest.raises(NotFound, match="create it first"):
        open_engine(strict_scopes=True).scope(session="s1").say("Hello")


def test_the_log_tells_who_spoke_but_not_what(chat: View) -> None:
    message = chat.say("A secret")
    chat.messages()
    with pytest.raises(UnknownField):
        chat.say("x", nothing=1)
    lines = chat.log()
    assert [(line.operation, line.success) for line in lines] == [("create", False), ("read", True), ("create", True)]
    assert lines[-1].request == {"message": message.id, "role": "user", "session": "s1"}
    assert "secret" not in str(lines)


def test_maintenance_removes_deleted_rows_from_the_index(open_engine: Open) -> None:
    first, second = open_engine(), open_engine()
    first.scope(session="s1").say("Tea")
    first.scope(session="s2").say("Rain")
    get_records(second).commit([Hide(Session, ("default", "s1"), "deletion", clock.now())])
    assert read_cached(first) is not None
    first.maintain()
    assert read_cached(first) is None
    assert first._parts.session_deps.cache.list_active("default") == {"s2"}


def test_doctor_tells_where_sessions_are(session_engine: Everhold, chat: View) -> None:
    chat.say("Tea")
    report = session_engine.doctor()
    assert report.problems == []
    assert report.parts["sessions"].startswith(("in process (", "Redis at 127.0.0.1:"))
    assert "MB" in report.parts["sessions"]


def test_the_verbs_can_be_awaited(open_engine: Open) -> None:
    async def talk() -> list[str | None]:
        engine = AsyncEverhold(open_engine())
        view = engine.scope(user="alice", session="s1")
        await asyncio.gather(*(view.say(f"{number}") for number in range(10)))
        await view.update_session(topic="Tea")
        assert (await view.session()).topic == "Tea"
        return [message.text for message in await view.messages()]

    assert sorted(asyncio.run(talk())) == [f"{number}" for number in range(10)]


def test_many_speakers_at_once_lose_no_message(store: Store) -> None:
    """On every store, each message gets its own position, none is lost, and later messages have later times."""
    engines = [store.open(), store.open()]

    def speak(name: str, view: View) -> None:
        for number in range(8):
            view.say(f"{name} {number}")
            view.messages(limit=5)

    with ThreadPoolExecutor(4) as pool:
        views = [(name, engines[number % 2].scope(session="s1")) for number, name in enumerate("abcd")]
        for future in [pool.submit(speak, name, view) for name, view in views]:
            future.result()
    for engine in engines:
        messages = engine.scope(session="s1").messages(oldest_first=True).messages
        assert [message.position for message in messages] == list(range(32))
        assert [message.created_at for message in messages] == sorted({message.created_at for message in messages})
        for name in "abcd":
            assert [message.text for message in messages if message.text.startswith(name)] == [
                f"{name} {number}" for number in range(8)
            ]


def test_imported_messages_keep_their_positions(session_engine: Everhold, chat: View) -> None:
    """Imported messages may have positions in another order than their times, or no positions."""
    first = chat.say("0")
    common = {
        "organization_id": "default",
        "session_id": "s1",
        "user_id": "alice",
        "role": "user",
        "updated_at": clock.now(),
    }
    positions = [7, 3, None]
    get_records(session_engine).commit(
        [
            Put(Message(id=f"m{number}", text=f"from elsewhere {number}", position=position,
                        created_at=first.created_at.replace(year=2020 + number), **common))
            for number, position in enumerate(positions)
        ]
    )  # fmt: skip
    assert [chat.say("next").position, chat.say("next").position] == [1, 2]
    assert [chat.say("next").position, chat.say("next").position] == [8, 9]


def test_positions_of_hidden_messages_are_not_reused(session_engine: Everhold, chat: View) -> None:
    helper = session_engine.scope(user="alice", agent="helper", session="s1")
    chat.say("0")
    helper.say("1")
    get_records(session_engine).commit([Hide(Agent, ("default", "helper"), "deletion", clock.now())])
    assert chat.say("2").position == 2
    get_records(session_engine).commit([Unhide("default", "deletion")])
    assert read_messages(chat) == ["0", "1", "2"]


def test_the_settings_decide_how_many_messages_are_cached(open_engine: Open) -> None:
    engine = open_engine(redis={"history": 3})
    view = engine.scope(session="s1")
    for number in range(6):
        view.say(f"{number}")
    assert [message.text for message in view.session().history] == ["5", "4", "3"]
    assert read_messages(view) == [f"{number}" for number in range(6)]
    assert len(read_cached(engine, SESSION_KEY).history) == 3
