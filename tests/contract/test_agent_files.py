"""Agents are copied with public verbs on every store: as clones, through files, and from Letta's files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import AlreadyExists, InvalidInput, NotFound
from everhold.model import Block, Memory, Tool
from tests.engines import Store, get_records

FIXTURES = Path(__file__).parents[1] / "fixtures" / "agents"
AGENT = {
    "id": "coder",
    "agent_type": "memgpt_agent",
    "name": "Coder",
    "description": "Writes Python",
    "system": "You write tests first. 茶",
    "topic": "the parser",
    "llm_config": {"model": "gpt-4o", "temperature": 0.5},
    "embedding_config": {"embedding_dim": 384},
    "tool_rules": [{"type": "run_first", "tool_name": "plan"}],
    "mcp_tools": ["github"],
    "config": {"max_steps": 5, "nested": {"on": True, "off": None}},
    "metadata": {"team": "core"},
}
BLOCKS = [
    {"label": "human", "value": "Alice tests parsers", "limit": 100, "description": "who", "metadata": {"a": 1}},
    {"label": "persona", "value": "", "limit": 0, "template_name": "t"},
]
TOOLS = [
    {
        "name": "run_tests",
        "description": "Runs them",
        "json_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        "source_type": "python",
        "source_code": "def run_tests(path): ...",
        "tags": ["ci"],
        "metadata": {"slow": True},
    }
]
MESSAGES = [
    {"role": "user", "text": "The parser is broken", "name": "Alice", "created_at": "2025-03-01T10:00:00+00:00"},
    {"role": "tool", "content": [{"type": "text", "text": "3 failed"}], "tool_call_id": "c1", "metadata": {"n": 3}},
]
MEMORIES = [
    {
        "text": "The parser fails on empty files",
        "kind": "result",
        "tags": ["parser", "bug"],
        "importance": 0.75,
        "confidence": 0.5,
        "key": "empty",
        "pinned": True,
        "content": {"exit": 1},
        "aliases": ["reader"],
        "provenance": {"tool": "run_tests"},
        "occurred_at": "2025-03-01T09:00:00+00:00",
        "created_at": "2025-03-01T10:00:00+00:00",
    },
    {"text": "Write the tests before the code", "kind": "plan"},
]
DOCUMENT: dict[str, Any] = {
    "everhold_agent": 1,
    "agent": AGENT,
    "blocks": BLOCKS,
    "tools": TOOLS,
    "state": {"state": {"step": 7}, "expires_at": "2999-01-01T00:00:00+00:00", "metadata": {"by": "planner"}},
    "messages": MESSAGES,
    "memories": MEMORIES,
}


@pytest.fixture
def engine(any_store: Store) -> Everhold:
    return any_store.open()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "coder.json"
    path.write_text(json.dumps(DOCUMENT), "utf-8")
    return path


def export(view: View, path: Path) -> dict[str, Any]:
    view.export_agent(path, memories=True)
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    del document["at"]
    return document


def list_texts(engine: Everhold, entity: type[Block | Tool], organization: str = "default") -> list[str]:
    rows = get_records(engine).scan(entity, organization)
    return sorted(row.value if isinstance(row, Block) else row.name for row in rows)


def test_a_file_is_imported_and_exported_as_it_was(engine: Everhold, file: Path, tmp_path: Path) -> None:
    imported = engine.scope().import_agent(file)
    counts = (imported.blocks, imported.tools, imported.messages, imported.memories, imported.has_state)
    assert (imported.agent.id, counts, imported.skipped) == ("coder", (2, 1, 2, 2, True), ())
    coder = engine.scope(agent="coder")
    assert coder.agent() == imported.agent
    assert coder.state().state == {"step": 7}  # type: ignore[union-attr]
    assert [message.text for message in coder.buffered_messages()] == ["The parser is broken", "3 failed"]
    assert coder.tags() == {"bug": 1, "parser": 1}
    memory = coder.recall("empty files", minimum=0)[0].memory
    assert coder.get("empty") == memory
    assert (memory.importance, memory.pinned, memory.content, memory.agent_id) == (0.75, True, {"exit": 1}, "coder")
    assert memory.created_at == datetime(2025, 3, 1, 10, tzinfo=UTC)
    first_export = export(coder, tmp_path / "first.json")
    parts: dict[str, Any] = {"agent": [AGENT], "blocks": BLOCKS, "tools": TOOLS, "messages": MESSAGES}
    for part, values in parts.items():
        rows = [first_export[part]] if part == "agent" else first_export[part]
        for row, value in zip(rows, values, strict=True):
            assert {name: row[name] for name in value} == value, part
    assert first_export["state"] == DOCUMENT["state"]
    engine.scope(organization="acme", agent="copy").import_agent(tmp_path / "first.json")
    second_export = export(engine.scope(organization="acme", agent="copy"), tmp_path / "second.json")
    assert second_export["agent"].pop("id") == "copy"
    assert first_export["agent"].pop("id") == "coder"
    assert second_export == first_export


def test_an_import_changes_nothing_that_exists(engine: Everhold, file: Path) -> None:
    engine.scope().import_agent(file)
    rows = [list_texts(engine, Block), list_texts(engine, Tool)]
    for view in (engine.scope(), engine.scope(agent="coder")):
        with pytest.raises(AlreadyExists, match="agent 'coder' exists, with other values"):
            view.import_agent(file)
    assert [list_texts(engine, Block), list_texts(engine, Tool)] == rows
    second = engine.scope(agent="second").import_agent(file)
    assert (second.agent.id, second.agent.name) == ("second", "Coder")
    assert list_texts(engine, Tool) == ["run_tests"]  # the same tool is linked
    assert len(list_texts(engine, Block)) == 4
    engine.scope(user="bob", agent="third").remember("Bob's")
    document = {**DOCUMENT, "agent": {**AGENT, "id": "third"}}
    file.write_text(json.dumps(document), "utf-8")
    with pytest.raises(AlreadyExists):
        engine.scope().import_agent(file)  # a file must not change an agent that exists
    assert engine.scope(agent="third").agent().is_implicit
    assert engine.scope(agent="third").import_agent(file).agent.system == AGENT["system"]
    assert engine.scope(agent="third").agent().version == 2
    engine.scope(agent="coder").delete_agent()
    with pytest.raises(AlreadyExists, match="agent 'coder' has been deleted"):
        engine.scope(agent="coder").import_agent(file)


def test_a_file_holds_nothing_of_other_users(engine: Everhold, tmp_path: Path) -> None:
    document = {**DOCUMENT, "blocks": [{"label": "human", "value": "Alice's own", "is_personal": True}]}
    path = tmp_path / "personal.json"
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(InvalidInput, match="block 'human' belongs to a user, and the scope names none; name one with"):
        engine.scope().import_agent(path)
    alice = engine.scope(user="alice", agent="coder")
    alice.import_agent(path)
    engine.scope(user="bob", agent="coder").remember("Bob's secret")
    engine.scope(agent="coder").remember("Shared by all")
    assert [block["value"] for block in export(alice, tmp_path / "alice.json")["blocks"]] == ["Alice's own"]
    bobs_export = export(engine.scope(user="bob", agent="coder"), tmp_path / "bob.json")
    assert (bobs_export["blocks"], bobs_export["messages"]) == ([], [])
    assert [memory["text"] for memory in bobs_export["memories"]] == ["Bob's secret"]
    shared_export = export(engine.scope(agent="coder"), tmp_path / "whole.json")
    assert len(alice.buffered_messages()) == 2
    assert (shared_export["blocks"], shared_export["messages"]) == ([], [])
    assert [memory["text"] for memory in shared_export["memories"]] == ["Shared by all"]
    with pytest.raises(InvalidInput, match="exists already"):
        alice.export_agent(tmp_path / "bob.json")
    assert alice.export_agent(tmp_path / "bob.json", overwrite=True).memories == 0
    assert (tmp_path / "bob.json").stat().st_mode & 0o777 == 0o600


def test_a_clone_is_independent_of_the_original(engine: Everhold, file: Path, tmp_path: Path) -> None:
    coder = engine.scope(agent="coder")
    coder.import_agent(file)
    coder.pause_agent()
    clone = coder.clone_agent("twin", name="Twin")
    assert (clone.name, clone.system, clone.status, clone.message_ids) == ("Twin", AGENT["system"], "active", [])
    twin = engine.scope(agent="twin")
    assert twin.agent() == clone
    assert (twin.state(), twin.count()) == (None, 0)
    assert len(list_texts(engine, Block)) == 4
    full_clone = coder.clone_agent("full", blocks="share", state=True, memories=True)
    assert len(list_texts(engine, Block)) == 4
    full_view = engine.scope(agent=full_clone.id)
    assert full_view.state().state == {"step": 7}  # type: ignore[union-attr]
    copied, original = export(full_view, tmp_path / "full.json"), export(coder, tmp_path / "coder2.json")
    for part in ("blocks", "tools", "state", "memories"):
        assert copied[part] == original[part]
    twin.update_agent(system="Another")
    assert coder.agent().system == AGENT["system"]
    for existing_id in ("coder", "twin"):
        with pytest.raises(AlreadyExists):
            coder.clone_agent(existing_id)
    coder.delete_agent(hard=True)
    assert export(twin, tmp_path / "twin.json")["blocks"] == original["blocks"]
    assert full_view.count() == 2
    with pytest.raises(NotFound):
        coder.clone_agent("late")


def test_a_letta_file_becomes_an_agent(engine: Everhold, tmp_path: Path) -> None:
    imported = engine.scope(user="kari").import_agent(FIXTURES / "letta.af")
    agent = imported.agent
    assert agent.id.startswith("agt_")
    assert (agent.name, agent.agent_type, agent.system) == ("Gardener", "letta_v1_agent", "You look after a garden.")
    assert (agent.description, agent.mcp_tools) == ("Knows when to water", ["weather"])
    assert agent.llm_config["model"] == "gpt-4o-mini"
    assert agent.tool_rules[0]["tool_name"] == "water"
    letta_metadata = agent.metadata["letta"]
    assert (agent.metadata["owner"], letta_metadata["tags"], letta_metadata["timezone"]) == (
        "garden team",
        ["origin:garden"],
        "Europe/Oslo",
    )
    assert "not for anyone else" not in json.dumps(letta_metadata)
    assert imported.skipped == (
        "1 sources", "tool_exec_environment_variables (may hold secrets)", "1 messages that say nothing"
    )  # fmt: skip
    view = engine.scope(user="kari", agent=agent.id)
    assert [message.role for message in view.buffered_messages()] == ["system", "assistant", "tool"]
    (session,) = view.sessions()
    messages = engine.scope(user="kari", agent=agent.id, session=session.id).messages(oldest_first=True)
    assert [message.text for message in messages] == ["You look after a garden.", "Hello", None, "the roses are wet"]
    assert view.recall("wet roses", among="message", minimum=0)[0].message.text == "the roses are wet"
    document = export(view, tmp_path / "gardener.json")
    assert [(block["label"], block["value"], block["limit"]) for block in document["blocks"]] == [
        ("human", "First name: Kari", 5000), ("persona", "I am patient.", 20000)
    ]  # fmt: skip
    water = document["tools"][1]
    assert (water["name"], water["json_schema"]["required"], water["tags"]) == ("water", ["litres"], ["garden"])
    assert water["metadata"]["letta"] == {"tool_type": "custom", "return_char_limit": 50000}


def test_an_older_letta_file_becomes_an_agent(engine: Everhold) -> None:
    imported = engine.scope(agent="sam").import_agent(FIXTURES / "letta_older.af")
    assert (imported.agent.name, imported.blocks, imported.tools, imported.messages) == ("sam", 1, 1, 2)
    sam = engine.scope(agent="sam")
    assert [message.text for message in sam.buffered_messages()] == ["Who are you?"]
    assert imported.agent.metadata == {"letta": {"tags": [{"tag": "demo"}], "version": "0.6.50"}}
    assert list_texts(engine, Block) == ["I am Sam."]
    assert get_records(engine).count(Memory, "default") == 0


def test_a_label_may_be_shared_and_personal(engine: Everhold, tmp_path: Path) -> None:
    blocks = [{"label": "human", "value": "Anyone"}, {"label": "human", "value": "Alice", "is_personal": True}]
    path = tmp_path / "two.json"
    path.write_text(json.dumps({**DOCUMENT, "blocks": blocks}), "utf-8")
    alice = engine.scope(user="alice", agent="coder")
    alice.import_agent(path)
    exported = export(alice, tmp_path / "again.json")["blocks"]
    assert sorted((block["value"], block["is_personal"]) for block in exported) == [("Alice", True), ("Anyone", False)]
    engine.scope(organization="acme", user="alice").import_agent(tmp_path / "again.json")
    everyone = export(engine.scope(agent="coder"), tmp_path / "everyone.json")
    assert [block["value"] for block in everyone["blocks"]] == ["Anyone"]
