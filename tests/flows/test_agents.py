"""Agents and states in bundles, after erasure, with strict scopes, and from several engines at once."""

import asyncio
import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everhold import AsyncEverhold, Everhold, View
from everhold.errors import NotFound, StaleVersion
from everhold.model import AgentState, Session
from everhold.model.agent import make_state_id
from everhold.schema.operations import Put
from tests.engines import Store, find_tables_with, get_records
from tests.flows.test_hostile_agent_files import AGENT_FILE
from tests.purging import GRACE, run_purge


@pytest.fixture
def engine(store: Store) -> Everhold:
    return store.open()


def fill(engine: Everhold) -> None:
    coder = engine.scope(agent="coder")
    coder.create_agent(system="Be brief", metadata={"a": 1})
    coder.set_state({"step": 1})
    engine.scope(user="alice", agent="coder", session="s1").set_state({"step": 2})
    engine.scope(agent="coder", session="s2").say("Hello")


def test_agents_and_states_are_exported_and_imported(engine: Everhold, tmp_path: Path) -> None:
    fill(engine)
    engine.export(tmp_path / "bundle.jsonl")
    engine.load(tmp_path / "bundle.jsonl", organization="acme")
    copy = engine.scope(organization="acme", agent="coder")
    assert copy.agent().system == "Be brief"
    assert copy.state().state == {"step": 1}  # type: ignore[union-attr]
    session = engine.scope(organization="acme", user="alice", agent="coder", session="s1")
    assert session.state().state == {"step": 2}  # type: ignore[union-attr]
    assert session.set_state("changed", expected_version=1).version == 2
    assert engine.doctor().problems == []


def test_a_state_of_an_import_may_have_another_id(engine: Everhold) -> None:
    fill(engine)
    view = engine.scope(agent="coder", session="s2")
    stored = get_records(engine).scan(AgentState, "default")[0]
    imported = stored.evolve(id="mine", session_id="s2", state="imported")
    planted = stored.evolve(id=make_state_id("coder", "s2"), session_id=None, state="planted")
    get_records(engine).commit([Put(imported)])
    assert view.state() == imported
    get_records(engine).commit([Put(planted)])
    assert view.set_state("mine", expected_version=imported.version).id == "mine"
    assert view.state().state == "mine"  # type: ignore[union-attr]
    assert get_records(engine).get(AgentState, "default", [planted.id])[planted.id] == planted


def test_a_row_of_another_owner_under_the_id_of_a_state_is_replaced(engine: Everhold) -> None:
    fill(engine)
    stored = get_records(engine).scan(AgentState, "default")[0]
    name = make_state_id("coder", "s2")
    planted = stored.evolve(id=name, session_id=None, state="planted")
    get_records(engine).commit([Put(planted)])
    view = engine.scope(agent="coder", session="s2")
    assert view.state() is None
    with pytest.raises(StaleVersion):
        view.set_state("mine", expected_version=planted.version)
    assert view.set_state("mine", expected_version=0).session_id == "s2"
    assert view.state().state == "mine"  # type: ignore[union-attr]


@pytest.mark.parametrize("deletion", ["agent", "session", "user", "maintenance"])
def test_a_purged_state_leaves_no_trace(engine: Everhold, deletion: str) -> None:
    view = engine.scope(user="alice", agent="coder", session="s1")
    view.say("hello")
    view.set_state({"note": "zanzibar"}, metadata={"by": "zanzibar"})
    if deletion == "agent":
        engine.scope(agent="coder").update_agent(system="zanzibar")
        engine.scope(agent="coder").delete_agent()
        engine.scope(agent="coder").delete_agent(hard=True)
    elif deletion == "session":
        view.delete_session()
        view.delete_session(hard=True)
    elif deletion == "maintenance":
        view.delete_session()
        run_purge(get_records(engine), datetime.now(UTC) + 2 * GRACE)
        assert get_records(engine).count(AgentState, "default", deleted=True) == 0
    else:
        engine.delete_user("alice")
        engine.delete_user("alice", hard=True)
    assert find_tables_with(engine, "zanzibar") == []


def test_messages_of_an_agent_in_other_sessions_are_deleted_and_restored_with_it(engine: Everhold) -> None:
    team = engine.scope(session="team")
    team.open_session()
    team.say("Who brings the zanzibar tea?", sender_id="bob")
    bot = engine.scope(agent="bot", session="team")
    bot.say("The bot brings quokka biscuits")
    team.end_session()
    team.archive_session()
    engine.maintain(["archive"])
    assert get_records(engine).get(Session, "default", ["team"])["team"].archived_messages == 2
    engine.scope(agent="bot").delete_agent()
    assert [message.text for message in team.messages()] == ["Who brings the zanzibar tea?"]
    assert "quokka" not in team.summary(only="session").text
    engine.scope(agent="bot").restore_agent()
    assert len(team.messages()) == 2
    engine.scope(agent="bot").delete_agent(hard=True)
    assert find_tables_with(engine, "quokka") == []


def test_with_strict_scopes_an_agent_is_created_first(store: Store, tmp_path: Path) -> None:
    engine = store.open(strict_scopes=True)
    engine.create_organization("acme")
    engine.create_user("alice", organization="acme")
    coder = engine.scope(organization="acme", user="alice", agent="coder")
    with pytest.raises(NotFound, match="no agent 'coder'"):
        coder.set_state(1)
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(AGENT_FILE), "utf-8")
    coder.import_agent(path)
    assert coder.set_state(1).version == 2
    assert coder.count() == 2
    with pytest.raises(NotFound, match="no user 'bob'"):
        engine.scope(organization="acme", user="bob", agent="other").import_agent(path)


def test_several_engines_count_in_one_state(store: Store) -> None:
    views = [store.open().scope(agent="coder", session=name) for name in ("s1", "s1", "s1")]
    views[0].create_agent()

    def count(view: View) -> None:
        for _ in range(5):
            while True:
                stored = view.state()
                number = 0 if stored is None else stored.state["count"]
                try:
                    view.set_state({"count": number + 1}, expected_version=0 if stored is None else stored.version)
                except StaleVersion:
                    continue
                break

    threads = [threading.Thread(target=count, args=(view,)) for view in views]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = views[0].state()
    assert state is not None
    assert (state.state, state.version) == ({"count": 15}, 15)


def test_the_verbs_are_awaited(engine: Everhold, tmp_path: Path) -> None:
    async def work() -> Any:
        view = AsyncEverhold(engine).scope(agent="coder")
        await view.create_agent(system="Be brief")
        await view.set_state({"step": 1})
        await view.update_state({"step": 2})
        await view.pause_agent()
        await view.clone_agent("twin", state=True)
        await view.export_agent(tmp_path / "coder.json")
        return [agent.status for agent in await view.agents()]

    assert asyncio.run(work()) == ["paused", "active"]
    assert engine.scope(agent="twin").state().state == {"step": 2}  # type: ignore[union-attr]


def test_tools_of_a_file_that_no_model_could_call_are_left_out(store: Store, tmp_path: Path) -> None:
    tools = [
        {"name": "search", "json_schema": {"type": "object", "properties": {"query": {"type": "string"}}}},
        {"name": "two words"},
        {"name": "odd", "json_schema": {"type": "object", "unheardOf": True}},
    ]
    path = tmp_path / "agent.json"
    path.write_text(json.dumps({"everhold_agent": 1, "agent": {"id": "a"}, "tools": tools}), "utf-8")
    agent = store.open().scope(agent="a")
    imported = agent.import_agent(path)
    assert [tool.name for tool in agent.tools()] == ["search"]
    assert [sentence.partition(":")[0] for sentence in imported.skipped] == ["tool 'two words'", "tool 'odd'"]
