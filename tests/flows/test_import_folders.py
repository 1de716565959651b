"""Folders and archives that hold the files of several systems, and tables in files of other kinds."""

import json
import zipfile
from pathlib import Path

import pytest

from everhold import Everhold
from everhold.errors import InvalidInput
from tests import import_samples as samples
from tests.engines import Store

ENTRY = {"memory_id": "mem-1", "session_id": "s-9", "memory_type": "context", "content": {"text": "Hugo keeps bees"},
         "created_at": "2024-03-01T08:00:00"}  # fmt: skip
DUMP = r"""SET client_encoding = 'UTF8';
COPY public.memory_entries (memory_id, session_id, memory_type, content, created_at, is_active) FROM stdin;
mem-1	\N	context	{"text": "Hugo keeps\\tbees"}	2024-03-01 08:00:00	t
\.
COPY public.memory_tags (tag_id, memory_id, tag) FROM stdin;
1	mem-1	bees
\.
"""


@pytest.fixture
def engine(sqlite_store: Store) -> Everhold:
    return sqlite_store.open()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def test_a_data_folder_of_several_systems_is_imported(engine: Everhold, folder: Path) -> None:
    for make in (samples.session_memory, samples.contextual, samples.jarvis, samples.unified_database, samples.letta):
        make(folder)
    (folder / "agent.log").write_text("started")
    loaded = engine.load(folder)
    assert loaded.source == "session-memory, contextual, jarvis, unified-database, letta"
    assert [row.reason for row in loaded.left_out] == ["agent.log is not a file of a known system"]
    assert engine.scope(user="eve").recall("parking level")[0].memory.text == "Eve parks on level four"
    assert len(engine.scope(user="alice", session="s-kitchen").messages()) == 2
    assert engine.scope(agent="agent-0").agent().name == "clockwork"
    assert engine.load(folder).added == 0
    assert engine.load(folder, source="jarvis").existing == 2


def test_an_archive_of_several_systems_is_imported(engine: Everhold, folder: Path) -> None:
    samples.jarvis(folder), samples.contextual(folder), samples.session_memory(folder)
    path = folder.parent / "backup.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"data/{file.name}")
    loaded = engine.load(path)
    assert (loaded.source, loaded.quarantined) == ("contextual, jarvis", 0)
    [reason] = [row.reason for row in loaded.left_out]
    assert reason == "data/session_memory.db is a database in an archive; unpack it, and import the folder"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(folder / "session_memory.db", "session_memory.db")
    with pytest.raises(InvalidInput, match=r"session_memory\.db is a database in an archive; unpack it"):
        engine.load(path)


def test_files_in_any_order_keep_the_owners_of_sessions(engine: Everhold, folder: Path) -> None:
    context = {"context_id": "ctx-1", "session_id": "s-1", "context_data": "Bob tunes the piano"}
    samples.make_json(folder / "a.json", [context])
    samples.make_json(folder / "b.json", [{"session_id": "s-1", "user_id": "alice", "session_summary": "Music"}])
    loaded = engine.load(folder)
    assert (loaded.source, loaded.added, loaded.quarantined) == ("voice-mapping", 2, 0)
    assert engine.scope(user="alice", session="s-1").session().session.summary == "Music"
    assert engine.scope(user="alice").get("ctx-1").session_id == "s-1"


def test_tables_of_the_orchestrator_may_be_in_files_of_several_kinds(engine: Everhold, folder: Path) -> None:
    samples.make_json(folder / "memory_entries.json", [ENTRY])
    (folder / "memory_tags.jsonl").write_text(json.dumps({"memory_id": "mem-1", "tag": "bees"}))
    (folder / "public.sessions.csv").write_text("session_id,user_id,session_type\ns-9,hugo,task\n")
    assert engine.load(folder).added == 2
    assert engine.scope(user="hugo").tags() == {"bees": 1}


@pytest.mark.parametrize(("name", "rows"), [("memory_entries.json", [ENTRY]), ("rows.json", [ENTRY])])
def test_a_single_table_of_the_orchestrator_is_recognised(
    engine: Everhold, folder: Path, name: str, rows: list[object]
) -> None:
    assert engine.load(samples.make_json(folder / name, rows)).source == "orchestrator"
    assert engine.scope().get("mem-1").text == "Hugo keeps bees"


def test_a_dump_of_postgresql_is_imported(engine: Everhold, folder: Path) -> None:
    (folder / "dump.sql").write_text(DUMP)
    assert engine.load(folder / "dump.sql").added == 1
    assert engine.scope().get("mem-1").text == "Hugo keeps\tbees"
    assert engine.scope().tags() == {"bees": 1}


def test_requests_to_the_orchestrator_and_its_replies_are_imported(engine: Everhold, folder: Path) -> None:
    payload = {"memory_type": "context", "content": {"text": "Hugo keeps bees"}, "metadata": {"agent_id": "hive"}}
    common = {"request_id": "req-0a1b2c3d", "timestamp": "2024-03-01T08:00:00"}
    lines = [
        {"action": "create", "session_id": "s-9", "payload": payload, **common},
        {"status": "success", "action": "create", "data": {"memory_id": "mem-0a1b2c3d"}, **common},
        {"action": "add_memory", "data": {"content": "Hugo sells honey", "memory_type": "fact", "parent_id": "x"}},
        {"status": "success", "action": "search", "data": {"results": [{**ENTRY, "similarity": 0.8}]}},
        {"action": "delete", "payload": {"memory_id": "mem-9"}},
    ]
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    loaded = engine.load(path)
    # The reply to the search has the memory of the first request.
    assert (loaded.source, loaded.added, loaded.existing) == ("orchestrator-messages", 2, 1)
    assert {row.reason for row in loaded.left_out} == {
        "a reply without memories", "a request to delete stores nothing",
    }  # fmt: skip
    memory = engine.scope().get("mem-0a1b2c3d")
    assert (memory.source_agent, memory.session_id, memory.text) == ("hive", "s-9", "Hugo keeps bees")
    assert memory.occurred_at is not None
    reply = samples.make_json(folder / "reply.json", lines[3])
    assert engine.load(reply).existing == 1
