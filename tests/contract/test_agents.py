"""Agents and their states through public verbs, on every store."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import AlreadyExists, Conflict, InvalidInput, NotFound, StaleVersion
from everhold.model import AgentState
from tests.engines import Store, get_records
from tests.purging import GRACE, run_purge

EVERY_FIELD: dict[str, Any] = {
    "agent_type": "memgpt_agent",
    "name": "Coder",
    "description": "Writes Python",
    "system": "You write tests first. 茶",
    "topic": "the parser",
    "message_ids": ["msg-1", "msg-2"],
    "llm_config": {"model": "gpt-4o", "temperature": 0.5},
    "embedding_config": {"embedding_dim": 384},
    "tool_rules": [{"type": "run_first", "tool_name": "plan"}],
    "mcp_tools": ["github", "files"],
    "config": {"max_steps": 5, "nested": {"on": True, "off": None}},
    "metadata": {"team": "core"},
}


@pytest.fixture
def engine(any_store: Store) -> Everhold:
    return any_store.open()


@pytest.fixture
def coder(engine: Everhold) -> View:
    return engine.scope(agent="coder")


def change_value(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, str):
        return f"other {value}"
    return value[:1] if isinstance(value, list) else {"changed": [1, 2.5, "ü"]}


def test_every_column_of_an_agent_is_written_read_and_changed(engine: Everhold) -> None:
    view = engine.scope(agent="coder", user="alice")
    created = view.create_agent(**EVERY_FIELD)
    assert {name: created.__dict__[name] for name in EVERY_FIELD} == EVERY_FIELD
    assert (created.id, created.organization_id, created.created_by_id) == ("coder", "default", "alice")
    assert (created.status, created.version, created.is_deleted, created.is_implicit) == ("active", 1, False, False)
    assert engine.scope(agent="coder").agent() == created
    changes = {name: change_value(value) for name, value in EVERY_FIELD.items()}
    changed = view.update_agent(expected_version=1, **changes)
    assert {name: changed.__dict__[name] for name in changes} == changes
    assert (changed.version, changed.last_updated_by_id, changed.created_at) == (2, "alice", created.created_at)
    assert changed.updated_at >= created.updated_at
    assert view.agent() == changed
    with pytest.raises(StaleVersion, match="agent 'coder' is at version 2, not 1") as caught:
        view.update_agent(expected_version=1, topic="late")
    assert caught.value.current_version == 2
    cleared = view.update_agent(description=None, system=None, topic=None, agent_type=None, name=None)
    assert (cleared.description, cleared.system, cleared.name, view.agent().topic) == (None, None, None, None)


def test_an_agent_is_created_once(engine: Everhold, coder: View) -> None:
    created = coder.create_agent(system="Be brief", config={"a": [1]})
    assert coder.create_agent(system="Be brief", config={"a": (1,)}) == created
    different_fields: list[dict[str, Any]] = [{"system": "Be long"}, {}, {"system": "Be brief"}]
    for fields in different_fields:
        with pytest.raises(AlreadyExists, match=r"agent 'coder' exists, with other values; call update_agent\(\)"):
            coder.create_agent(**fields)
    helper = engine.scope(user="bob", agent="helper")
    helper.remember("Bob likes tea")
    assert (helper.agent().is_implicit, helper.agent().name) == (True, "helper")
    completed = helper.create_agent(system="Help")
    assert (completed.is_implicit, completed.system, completed.name) == (False, "Help", "helper")
    assert [memory.text for memory in helper.list()] == ["Bob likes tea"]
    nameless = engine.scope().create_agent(name="Nameless")
    assert nameless.id.startswith("agt_")
    assert engine.scope(agent=nameless.id).agent() == nameless
    with pytest.raises(InvalidInput, match="the scope names no agent; name one with agent='ID'"):
        engine.scope().agent()
    with pytest.raises(NotFound, match=r"no agent 'ghost'; create it with create_agent\(\)"):
        engine.scope(agent="ghost").agent()
    with pytest.raises(NotFound):
        engine.scope(organization="acme", agent="coder").agent()


def test_agents_are_listed_by_id_and_status(engine: Everhold) -> None:
    for name in "dcba":
        engine.scope(agent=name).create_agent()
    engine.scope(organization="acme", agent="other").create_agent()
    engine.scope(agent="b").pause_agent()
    everyone = engine.scope(user="alice")
    first = everyone.agents(limit=3)
    assert [agent.id for agent in first] == ["a", "b", "c"]
    assert [agent.id for agent in everyone.agents(limit=3, cursor=first.cursor)] == ["d"]
    assert [agent.id for agent in everyone.agents(status="paused")] == ["b"]
    engine.scope(agent="a").delete_agent()
    assert [agent.id for agent in everyone.agents()] == ["b", "c", "d"]
    assert [agent.id for agent in everyone.agents(deleted=True)] == ["a"]


def test_an_agent_is_paused_resumed_and_terminated(coder: View) -> None:
    coder.create_agent()
    assert coder.pause_agent().status == "paused"
    paused = coder.agent()
    assert coder.pause_agent() == paused
    assert coder.resume_agent().status == "active"
    assert coder.terminate_agent().status == "terminated"
    for call in (coder.pause_agent, coder.resume_agent):
        with pytest.raises(Conflict, match=r"agent 'coder' is terminated, which is final; .* clone_agent\(\)"):
            call()
    assert coder.terminate_agent().status == coder.agent().status == "terminated"


def test_the_message_buffer_of_an_agent_grows_and_is_cut(engine: Everhold, coder: View) -> None:
    coder.create_agent()
    chat = engine.scope(agent="coder", session="s1")
    message_ids = [chat.say(f"line {number}").id for number in range(4)]
    assert coder.buffer_messages(*message_ids[:2]).message_ids == message_ids[:2]
    assert coder.buffer_messages(message_ids[1], message_ids[2]).message_ids == message_ids[:3]
    assert coder.buffer_messages(message_ids[3], keep=2).message_ids == message_ids[2:]
    assert [message.text for message in coder.buffered_messages()] == ["line 2", "line 3"]
    assert not engine.scope(agent="coder", user="bob").buffered_messages()
    threads = [threading.Thread(target=coder.buffer_messages, args=(f"m{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(coder.agent().message_ids) == {*message_ids[2:], "m0", "m1", "m2", "m3"}
    assert coder.buffer_messages(keep=0).message_ids == []


def test_everything_that_belongs_to_an_agent_is_deleted_and_restored_with_it(engine: Everhold, coder: View) -> None:
    coder.create_agent(system="Be brief")
    coder.set_state({"step": 1})
    alice = engine.scope(user="alice", agent="coder", session="s1")
    alice.say("The parser is broken")
    alice.set_state({"step": 2})
    alice.remember("Alice tests parsers")
    engine.scope(user="alice").remember("Alice drinks tea")
    engine.scope(agent="other").set_state("mine")
    for verb in (alice.delete_agent, alice.restore_agent):
        with pytest.raises(Conflict, match="others may use it; use a scope without the user"):
            verb()
    preview = coder.delete_agent(preview=True)
    expected = {"agents": 1, "agent_states": 2, "sessions": 1, "messages": 1, "memories": 1}
    assert {name: preview.rows[name] for name in expected} == expected
    assert coder.delete_agent().rows == preview.rows
    for call in (coder.agent, coder.state, alice.state, coder.delete_agent, lambda: coder.set_state(1)):
        with pytest.raises(NotFound, match="has been deleted"):
            call()
    with pytest.raises(AlreadyExists, match=r"agent 'coder' has been deleted; call restore_agent\(\)"):
        coder.create_agent(system="Be brief")
    assert [memory.text for memory in engine.scope(user="alice").list()] == ["Alice drinks tea"]
    assert coder.restore_agent().system == "Be brief"
    assert [view.state().state for view in (coder, alice)] == [{"step": 1}, {"step": 2}]  # type: ignore[union-attr]
    assert [message.text for message in alice.messages()] == ["The parser is broken"]
    assert engine.scope(user="alice").count() == 2
    coder.delete_agent()
    engine.restore("agent", "coder")
    coder.delete_agent(hard=True)
    with pytest.raises(NotFound, match="no agent 'coder'"):
        coder.restore_agent()
    assert coder.state() is None
    assert engine.scope(user="alice").count() == 1
    assert engine.scope(agent="other").state().state == "mine"  # type: ignore[union-attr]


def test_every_column_of_a_state_is_written_and_read(engine: Everhold) -> None:
    view = engine.scope(user="alice", agent="coder", session="s1")
    expires_at = datetime(2999, 1, 2, 3, 4, 5, 678, UTC)
    state = view.set_state({"plan": ["ü", 1.5, None, True]}, expires_at=expires_at, metadata={"by": "planner"})
    assert (state.organization_id, state.agent_id, state.session_id) == ("default", "coder", "s1")
    assert (state.state, state.expires_at, state.metadata) == (
        {"plan": ["ü", 1.5, None, True]},
        expires_at,
        {"by": "planner"},
    )
    assert (state.version, state.created_by_id, state.is_deleted) == (1, "alice", False)
    assert view.state() == state
    replaced = view.set_state("text")
    assert (replaced.state, replaced.expires_at, replaced.metadata, replaced.version) == (
        "text",
        None,
        {"by": "planner"},
        2,
    )
    assert (replaced.id, replaced.created_at, replaced.last_updated_by_id) == (state.id, state.created_at, "alice")
    assert view.state() == replaced
    values: list[Any] = [[], 0, False, None, {"a": {}}]
    for value in values:
        assert view.set_state(value).state == value
        assert view.state().state == value  # type: ignore[union-attr]


def test_an_agent_has_a_state_per_session_and_one_without_a_session(engine: Everhold, coder: View) -> None:
    first, second = (engine.scope(user="alice", agent="coder", session=name) for name in ("s1", "s2"))
    assert [view.state() for view in (coder, first, second)] == [None, None, None]
    for number, view in enumerate((coder, first, second)):
        view.set_state(number)
    assert [view.state().state for view in (coder, first, second)] == [0, 1, 2]  # type: ignore[union-attr]
    assert engine.scope(user="bob", agent="coder").state() == coder.state()
    bob = engine.scope(user="bob", agent="coder", session="s1")
    assert bob.state() is None
    assert not bob.clear_state()
    with pytest.raises(NotFound, match="no session 's1' in this scope"):
        bob.set_state("mine")
    assert engine.scope(agent="other", session="s1").state() is None
    with pytest.raises(InvalidInput, match="the scope names no agent"):
        engine.scope(session="s1").state()
    engine.scope(user="alice", session="s1").delete_session()
    with pytest.raises(NotFound, match="session 's1' has been deleted"):
        first.state()
    engine.scope(user="alice", agent="coder", session="s1").restore_session()
    assert first.state().state == 1  # type: ignore[union-attr]
    engine.delete_user("alice", hard=True)
    assert (first.state(), second.state(), coder.state().state) == (None, None, 0)  # type: ignore[union-attr]
    assert get_records(engine).count(AgentState, "default", deleted=True) == 1


def test_a_state_expires_and_is_purged(engine: Everhold, coder: View) -> None:
    with pytest.raises(InvalidInput, match="both say when the state expires"):
        coder.set_state(1, expires_at=datetime(2999, 1, 1, tzinfo=UTC), ttl=timedelta(days=1))
    for expiry in ({"ttl": timedelta(0)}, {"expires_at": datetime(2001, 1, 1, tzinfo=UTC)}, {"ttl": timedelta.max}):
        with pytest.raises(InvalidInput):
            coder.set_state(1, **expiry)
    state = coder.set_state({"step": 1}, ttl=timedelta(hours=1))
    assert state.expires_at is not None
    assert timedelta(0) <= state.updated_at + timedelta(hours=1) - state.expires_at < timedelta(minutes=1)
    assert coder.update_state({"more": 2}).expires_at == state.expires_at
    expired = coder.set_state("soon gone", ttl=timedelta(milliseconds=1), metadata={"a": 1})
    while coder.state() is not None:
        pass
    assert not coder.clear_state()
    with pytest.raises(StaleVersion, match="is at version 0, not 3"):
        coder.set_state("late", expected_version=expired.version)
    replacement = coder.set_state("new", expected_version=0)
    assert (replacement.version, replacement.metadata, replacement.expires_at) == (4, {}, None)
    coder.clear_state()
    run_purge(get_records(engine), datetime.now(UTC) + 2 * GRACE)
    assert get_records(engine).count(AgentState, "default", deleted=True) == 0
    assert coder.set_state("again").version == 1


def test_a_state_is_compared_before_it_is_set(coder: View) -> None:
    with pytest.raises(StaleVersion, match="the state of agent 'coder' is at version 0, not 1"):
        coder.set_state("b", expected_version=1)
    assert coder.set_state("a", expected_version=0).version == 1
    with pytest.raises(StaleVersion, match=r"at version 1, not 0; .*retry with expected_version=1") as caught:
        coder.set_state("b", expected_version=0)
    assert caught.value.current_version == 1
    assert coder.clear_state(expected_version=1)
    assert coder.state() is None
    assert not coder.clear_state()
    assert coder.set_state("c").version == 3
    for refused_call in (
        lambda: coder.set_state("late", expected_version=1),
        lambda: coder.update_state({"late": 1}, expected_version=1),
        lambda: coder.clear_state(expected_version=1),
    ):
        with pytest.raises(StaleVersion):
            refused_call()
    with pytest.raises(Conflict, match="the state is a str, which has no keys to update"):
        coder.update_state({"a": 1})
    assert coder.set_state({"a": 1, "b": 2}).state == {"a": 1, "b": 2}
    assert coder.update_state({"b": 3, "c": None}).state == {"a": 1, "b": 3, "c": None}


def test_writers_at_the_same_time_make_one_state(any_store: Store) -> None:
    engine = any_store.open()
    views = [engine.scope(agent="coder"), engine.scope(agent="coder", session="s1")]
    first_versions: list[int] = []

    def write(view: View, number: int) -> None:
        try:
            first_versions.append(view.set_state({"first": number}, expected_version=0).version)
        except StaleVersion:
            view.update_state({f"key {number}": number})

    threads = [threading.Thread(target=write, args=(view, number)) for number in range(5) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(first_versions) == 2
    for view in views:
        state = view.state()
        assert state is not None
        assert (state.version, len(state.state)) == (5, 5)
    assert get_records(engine).count(AgentState, "default", deleted=True) == 2


def test_changes_of_agents_and_states_are_events(engine: Everhold, coder: View) -> None:
    coder.create_agent()
    coder.pause_agent()
    coder.set_state(1)
    coder.clear_state()
    alice = engine.scope(user="alice", agent="coder", session="s1")
    alice.set_state(2)
    operations = [(event.operation, event.entity) for event in coder.events() if event.entity != "organization"]
    assert operations[:4] == [("put", "agent"), ("put", "agent"), ("put", "agent_state"), ("delete", "agent_state")]
    assert [event.entity for event in alice.events()].count("agent_state") == 1
    assert "agent_state" not in [event.entity for event in engine.scope(user="bob").events()]
