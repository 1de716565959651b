"""Agent files that no export writes: each is refused as a whole, and the store stays as it was."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from everhold.errors import AlreadyExists, EverholdError, InvalidInput
from everhold.model import AccessLog, LogHead
from tests.engines import Store, read_all_rows

AGENT_FILE: dict[str, Any] = {
    "everhold_agent": 1,
    "agent": {"id": "spy", "system": "Obey"},
    "blocks": [{"label": "human", "value": "Alice", "limit": 10}],
    "tools": [{"name": "send", "json_schema": {"type": "object"}}],
    "state": {"state": {"step": 1}},
    "messages": [{"role": "user", "text": "Hello"}],
    "memories": [{"text": "Roses are red"}, {"text": "Violets are blue"}],
}
LETTA_FILE: dict[str, Any] = {
    "agents": [{"id": "agent-0", "name": "Spy", "block_ids": ["block-0"], "tool_ids": [], "messages": []}],
    "blocks": [{"id": "block-0", "label": "human", "value": "Alice", "limit": 10}],
    "tools": [],
}


def change_value(path: str, value: Any, document: dict[str, Any] = AGENT_FILE) -> bytes:
    """Return a document in which one value was changed or added, at a path such as `blocks.0.limit`."""
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    part: Any = changed
    for step in parents:
        part = part[int(step)] if isinstance(part, list) else part[step]
    if isinstance(part, list):
        part.insert(int(last), value)
    else:
        part[last] = value
    return json.dumps(changed).encode()


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"#!/bin/sh\nrm -rf /\n",
    "cut short": json.dumps(AGENT_FILE).encode()[:-20],
    "a list": b"[1, 2]",
    "another object": b'{"everhold": 2, "organization": "default"}',
    "another version": change_value("everhold_agent", 2),
    "a version that is true": change_value("everhold_agent", True),
    "not a number": json.dumps(AGENT_FILE).replace('{"step": 1}', "NaN").encode(),
    "a key twice": json.dumps(AGENT_FILE).replace('"state": {', '"memories": [], "state": {', 1).encode(),
    "nested too deeply": b'{"everhold_agent": 1, "agent": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "state nested too deeply": change_value("state.state", json.loads("[" * 90 + "]" * 90)),
    "a number of 5,000 digits": json.dumps(AGENT_FILE).replace('{"step": 1}', "9" * 5_000).encode(),
    "a number of 65 bits": change_value("state.state", 2**64),
    "an infinite number": json.dumps(AGENT_FILE).replace('{"step": 1}', "1e999").encode(),
    "invalid UTF-8": json.dumps(AGENT_FILE).encode().replace(b"Obey", b"Ob\xff\xfe"),
    "a NUL": change_value("agent.system", "Obey\0"),
    "a lone surrogate": change_value("agent.system", "\ud800"),
    "a field of the engine": change_value("organization_id", "acme"),
    "rows of another table": change_value("users", [{"id": "alice", "password_hash": "x"}]),
    "an agent's version": change_value("agent.version", 99),
    "an agent that is deleted": change_value("agent.is_deleted", True),
    "an agent of another organization": change_value("agent.organization_id", "acme"),
    "an agent's id with a line break": change_value("agent.id", "spy\nadmin"),
    "an agent's id that is too long": change_value("agent.id", "x" * 256),
    "an agent's id that is not text": change_value("agent.id", ["spy"]),
    "no agent": json.dumps({name: value for name, value in AGENT_FILE.items() if name != "agent"}).encode(),
    "an agent's long text": change_value("agent.system", "x" * 1_000_001),
    "a block over its limit": change_value("blocks.0.value", "x" * 11),
    "a block of another user": change_value("blocks.0.user_id", "alice"),
    "a block with an id": change_value("blocks.0.id", "alice-block"),
    "a block with a long label": change_value("blocks.0.label", "x" * 51),
    "a block that is too long": change_value(
        "blocks.0", {"label": "long", "value": "x" * 1_000_001, "limit": 2_000_000}
    ),
    "a negative limit": change_value("blocks.0.limit", -1),
    "two blocks with one label": change_value("blocks.1", {"label": "human", "value": ""}),
    "too many blocks": change_value("blocks", [{"label": f"b{number}", "value": ""} for number in range(1_001)]),
    "two tools with one name": change_value("tools.1", {"name": "send"}),
    "a tool with an id": change_value("tools.0.id", "tol_1"),
    "a tool with a long source": change_value("tools.0.source_code", "x" * 1_000_001),
    "a tool's schema as text": change_value("tools.0.json_schema", "{}"),
    "a state of another agent": change_value("state.agent_id", "helper"),
    "a state's time without a zone": change_value("state.expires_at", "2999-01-01T00:00:00"),
    "a message of another session": change_value("messages.0.session_id", "s1"),
    "a message that says nothing": change_value("messages.1", {"role": "user"}),
    "a message of the future": change_value("messages.0.created_at", "2999-01-01T00:00:00+00:00"),
    "a memory of another user": change_value("memories.1.user_id", "alice"),
    "a memory with a hash": change_value("memories.1.hash", "AAAAAAAAAAAAAAAAAAAAAA=="),
    "a memory with the id of another": change_value("memories.1.id", "alice-memory"),
    "a memory for everyone": change_value("memories.1.reach", "organization"),
    "a blank memory": change_value("memories.2", {"text": " "}),
    "a memory of the future": change_value("memories.1.created_at", "2999-01-01T00:00:00+00:00"),
    "a memory that ends before it begins": change_value(
        "memories.2",
        {"text": "x", "valid_from": "2025-01-02T00:00:00+00:00", "valid_to": "2025-01-01T00:00:00+00:00"},
    ),
    "a memory that is too long": change_value("memories.2", {"text": "x" * 1_000_001}),
    "an importance of 2": change_value("memories.1.importance", 2),
    "too many memories": change_value("memories", [{"text": f"fact {number}"} for number in range(5_001)]),
    "two memories with one key": change_value("memories", [{"text": "one", "key": "k"}, {"text": "two", "key": "k"}]),
    "a Letta block that is not in the file": change_value("agents.0.block_ids", ["block-1"], LETTA_FILE),
    "a Letta list that is none": change_value("agents.0.block_ids", "block-0", LETTA_FILE),
    "a Letta agent that is not an object": change_value("agents.0", 5, LETTA_FILE),
    "a Letta file without agents": change_value("agents", [], LETTA_FILE),
    "two Letta agents": change_value("agents.1", {"id": "agent-1", "name": "Other"}, LETTA_FILE),
    "a Letta block over its limit": change_value("blocks.0.value", "x" * 11, LETTA_FILE),
    "a Letta block without a label": change_value("blocks.0.label", None, LETTA_FILE),
    "Letta metadata that is not an object": change_value("agents.0.metadata", [1], LETTA_FILE),
    "a Letta message without a time": change_value(
        "agents.0.messages", [{"role": "user", "content": "x", "created_at": "soon"}], LETTA_FILE
    ),
}


@pytest.fixture
def engine(store: Store) -> Everhold:
    engine = store.open()
    alice = engine.scope(user="alice", agent="helper", session="s1")
    alice.remember("Alice keeps a diary", id="alice-memory")
    alice.set_state({"mine": True})
    engine.scope(agent="helper").create_agent(system="Help")
    engine.scope(organization="acme", agent="spy").create_agent(system="Elsewhere")
    return engine


def read_rows(engine: Everhold) -> Any:
    return read_all_rows(engine, without=[AccessLog, LogHead])


def test_hostile_files_are_refused_and_change_nothing(engine: Everhold, tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    before = read_rows(engine)
    for name, content in HOSTILE.items():
        path.write_bytes(content)
        for view in (engine.scope(), engine.scope(user="bob", agent="fresh")):
            with pytest.raises((InvalidInput, AlreadyExists)) as caught:
                view.import_agent(path)
            assert len(str(caught.value)) < 1_000, name
        assert read_rows(engine) == before, name
    path.write_bytes(json.dumps(AGENT_FILE).encode())
    assert engine.scope().import_agent(path).agent.system == "Obey"
    path.write_bytes(json.dumps(LETTA_FILE).encode())
    assert engine.scope().import_agent(path).agent.name == "Spy"
    assert read_rows(engine) != before


def test_a_path_that_is_not_a_readable_file_is_refused(engine: Everhold, tmp_path: Path) -> None:
    pipe, folder, large = tmp_path / "pipe", tmp_path / "folder", tmp_path / "large"
    os.mkfifo(pipe)
    folder.mkdir()
    with large.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    before = read_rows(engine)
    for path in (pipe, folder, large, tmp_path / "missing", Path("/dev/zero"), tmp_path / "x\n" / "y"):
        with pytest.raises(EverholdError):
            engine.scope().import_agent(path)
    assert read_rows(engine) == before


def test_one_of_several_letta_agents_is_named(engine: Everhold, tmp_path: Path) -> None:
    path = tmp_path / "agents.af"
    path.write_bytes(change_value("agents.1", {"id": "agent-1", "name": "Other"}, LETTA_FILE))
    with pytest.raises(InvalidInput, match="the file has 2 agents; its agents: 'Spy', 'Other'; name one of them with"):
        engine.scope().import_agent(path)
    for source in ("Other", "agent-1"):
        assert engine.scope().import_agent(path, source=source).agent.name == "Other"
    with pytest.raises(InvalidInput, match="the file has 0 agents of the name 'Third'"):
        engine.scope().import_agent(path, source="Third")
