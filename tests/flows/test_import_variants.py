"""Formats that other builds and exports of the same systems write."""

import json
import pickle
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from tests import import_samples as samples
from tests.engines import Store

ENTRIES = """memory_id,session_id,memory_type,content,text_content,source_agent,created_at,updated_at,priority,is_active
mem-1,s-9,context,"{""text"": ""Hugo keeps bees""}",Hugo keeps bees,hive,2024-03-01 08:00:00,2024-03-01 08:00:00,8,t
mem-2,s-9,context,"{""text"": ""Gone""}",Gone,hive,2024-03-01 08:00:00,2024-03-01 08:00:00,5,f
mem-3,s-9,context,"{""text"": ""Odd""}",Odd,hive,2024-03-01 08:00:00,2024-03-01 08:00:00,high,t
"""
SESSIONS = "session_id,user_id,created_at,updated_at,is_archived,session_type\ns-9,hugo,2024-03-01,2024-03-02,f,task\n"


@pytest.fixture
def engine(sqlite_store: Store) -> Everhold:
    return sqlite_store.open()


def test_tables_of_the_orchestrator_are_imported_from_csv(engine: Everhold, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "sessions.csv").write_text(SESSIONS)
    (folder / "memory_tags.csv").write_text("tag_id,memory_id,tag\n1,mem-1,bees\n")
    (folder / "memory_entries.csv").write_text(ENTRIES)
    loaded = engine.load(folder)
    assert (loaded.source, loaded.added, [row.rows for row in loaded.left_out]) == ("orchestrator", 2, [1])
    assert [fault.reason for fault in loaded.faults] == ["priority is 'high', which is not a number"]
    memory = engine.scope(user="hugo").get("mem-1")
    assert (memory.priority, engine.scope(user="hugo").tags()) == (8, {"bees": 1})
    # The owner of a session that is stored is known without the table of sessions.
    assert engine.load(folder / "memory_entries.csv").existing == 1


def test_tables_that_are_not_read_are_reported(engine: Everhold, tmp_path: Path) -> None:
    path = samples.unified_database(tmp_path)
    first, second = (f"mem-{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "12")
    samples.make_database(
        path,
        "CREATE TABLE memory_relationships (source_id TEXT, target_id TEXT, relationship_type TEXT, strength REAL); "
        "CREATE TABLE notes (n); CREATE TABLE empty (n);",
        {"memory_relationships": [(first, second, "part_of", 0.4)], "notes": [(1,)]},
    )
    loaded = engine.load(path)
    assert [(row.origin, row.rows) for row in loaded.left_out] == [("notes", 1)]
    assert [(row.origin, row.added) for row in loaded.mapped] == [
        ("memories", 2), ("parent_id", 1), ("memory_relationships", 1),
    ]  # fmt: skip


def test_bytes_in_columns_of_other_versions_are_left_out(engine: Everhold, tmp_path: Path) -> None:
    tables = samples.SESSION_TABLES + "ALTER TABLE interactions ADD COLUMN embedding BLOB;"
    pickled = pickle.dumps({"a": 1})
    rows = [(1, "s", "2024-03-01 08:00:00", "user", "The heron nests", '{"mood": "calm"}', pickled),
            (2, "s", "2024-03-01 08:00:01", "user", b"In the reeds", None, None)]  # fmt: skip
    loaded = engine.load(samples.make_database(tmp_path / "s.db", tables, {"interactions": rows}))
    assert (loaded.added, loaded.quarantined) == (2, 0)
    assert [row.origin for row in loaded.left_out] == ["interactions.embedding"]
    second, first = engine.scope(session="s").messages()
    assert (first.metadata["mood"], "embedding" in first.metadata, second.text) == ("calm", False, "In the reeds")


def test_relationships_with_other_column_names_are_imported(engine: Everhold, tmp_path: Path) -> None:
    path = samples.episodic(tmp_path)
    samples.make_database(
        path,
        "DROP TABLE episode_relationships; "
        "CREATE TABLE episode_relationships (id INTEGER, episode_id1 INTEGER, episode_id2 INTEGER, type TEXT);",
        {"episode_relationships": [(1, 2, 1, "follow_up")]},
    )
    assert engine.load(path).quarantined == 0
    assert len(engine.scope(user="gina").relations("episode-2/summary")) == 1


def test_unified_memories_keyed_by_id_are_imported(engine: Everhold, tmp_path: Path) -> None:
    item = {"content": {"fact": "The boat is red"}, "created_at": 1709316060.5, "strength": 1.0, "source": "x"}
    loaded = engine.load(samples.make_json(tmp_path / "dump.json", {"mem_1709316060_0a1b2c3d": item}))
    assert (loaded.source, loaded.added) == ("unified", 1)
    assert engine.scope().get("mem_1709316060_0a1b2c3d").content == item["content"]


def test_an_archive_of_a_whatsapp_chat_is_imported(engine: Everhold, tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat - Kim.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_chat.txt", "[31.12.23, 21:15:33] ~\u202fKim : Hallo\r\n[31.12.23, 21:16:00] Lee: Hi\r\n")
        archive.writestr("00000003-PHOTO.jpg", b"\xff\xd8")
    loaded = engine.load(path)
    assert (loaded.source, loaded.added) == ("whatsapp", 3)
    view = engine.scope(session="whatsapp-WhatsApp Chat - Kim")
    assert [message.name for message in view.messages()] == ["Lee", "Kim"]


def test_markup_of_slack_becomes_plain_text(engine: Everhold, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    text = "<@U1> see <https://a.example|a page> and <https://b.example> in <#C1|garden>, <!here> &amp; <!team^S1|@all>"
    rows = [
        {"type": "message", "user": "U1", "text": text, "ts": "1709280001.000200"},
        {
            "type": "message",
            "bot_id": "B1",
            "text": "",
            "attachments": [{"fallback": "Built"}],
            "ts": "1709280002.0002",
        },
    ]
    samples.make_json(folder / "users.json", [{"id": "U1", "name": "jo"}])
    samples.make_json(folder / "garden" / "2024-03-01.json", rows)
    engine.load(folder)
    assert [message.text for message in engine.scope(session="garden").messages()] == [
        "Built", "@jo see a page (https://a.example) and https://b.example in #garden, @here & @all",
    ]  # fmt: skip


def test_claudes_notes_and_pasted_files_are_imported(engine: Everhold, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    pasted = {"file_name": "paste.txt", "extracted_content": "A long recipe"}
    message = {"uuid": "m-9", "text": "", "sender": "human", "created_at": "2024-03-09T08:00:00Z"}
    conversation = {"uuid": "conv-9", "name": "Soup", "chat_messages": [{**message, "attachments": [pasted]}]}
    samples.make_json(folder / "conversations.json", [conversation])
    samples.make_json(folder / "memories.json", [{"conversations_memory": "Mia paints icons", "account_uuid": "a"}])
    samples.make_json(folder / "users.json", [])
    loaded = engine.load(folder)
    assert [row.reason for row in loaded.left_out] == ["users.json is not a conversation"]
    assert [memory.text for memory in engine.scope().list(kind="core").memories] == ["Mia paints icons"]
    assert [message.text for message in engine.scope(session="conv-9").messages()] == ["A long recipe"]


def test_other_export_formats_of_mem0_are_imported(engine: Everhold, tmp_path: Path) -> None:
    point = {"data": "Olga climbs", "hash": "x", "user_id": "olga", "created_at": "2024-03-01T08:00:00-08:00"}
    rows = [{"id": "m1", "payload": point, "vector": [0.5]}, {"id": "m2", "memory": "Olga swims", "user_id": "olga"}]
    path = tmp_path / "memories.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert engine.load(path).source == "mem0"
    assert {memory.original_id for memory in engine.scope(user="olga").list().memories} == {"m1", "m2"}
    assert engine.scope(user="olga").get("m1").occurred_at == datetime(2024, 3, 1, 16, tzinfo=UTC)
    results = [{"id": "m3", "memory": "Olga skis", "event": "ADD"}, {"id": "m4", "memory": "x", "event": "DELETE"}]
    relation = {"source": "olga", "relationship": "skis_in", "target": "bern"}
    reply = {"results": results, "relations": {"added_entities": [[relation]]}}
    assert engine.load(samples.make_json(tmp_path / "reply.json", reply)).added == 2


def test_the_history_of_an_early_mem0_is_imported(engine: Everhold, tmp_path: Path) -> None:
    tables = (
        "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id, prev_value, new_value, event, timestamp, is_deleted);"
    )
    rows = [("h1", "m1", None, "Quin likes rock", "ADD", "2024-03-01 08:00:00", 0),
            ("h2", "m1", "Quin likes rock", "Quin likes folk", "UPDATE", "2024-03-02 08:00:00", 0),
            ("h3", "m2", None, "Quin has a drum", "ADD", "2024-03-01 08:00:00", 0),
            ("h4", "m2", "Quin has a drum", None, "DELETE", None, 1)]  # fmt: skip
    loaded = engine.load(samples.make_database(tmp_path / "history.db", tables, {"history": rows}))
    assert (loaded.added, [row.reason for row in loaded.left_out]) == (1, ["deleted in mem0"])
    memory = engine.scope().get("m1")
    assert (memory.text, memory.occurred_at) == ("Quin likes folk", datetime(2024, 3, 1, 8, tzinfo=UTC))


POINT = {"id": "p", "vector": [0.5], "payload": {"data": "x", "hash": "y"}}


@pytest.mark.parametrize(
    ("source", "name", "value"),
    [
        ("jarvis", "j.json", {"ann": None, **{user: [{"timestamp": 1, "memory": user}] for user in ("bo", "cy")}}),
        ("jarvis", "j.json", {"bo": [{"memory": "x"}, *[{"timestamp": 1, "memory": text} for text in "yz"]]}),
        ("contextual", "c.json", {"sessions": {"s_1": ["x", *[{"timestamp": 1, "content": text} for text in "yz"]]}}),
        ("user-profile", "u.json", {"ann": None, **{user: {"name": user, "reminders": []} for user in ("bo", "cy")}}),
        ("error-patterns", "e.json", {"patterns": {"a": None, "b": {"pattern": "x"}, "c": {"solution": "y"}}}),
        ("digital-twins", "twins.json", {"ann": None, "bo": {"mood": "good"}, "cy": {"mood": "bad"}}),
        ("unified", "m.json", {"data": {"memories": [None, *[{"content": text, "strength": 1} for text in "xy"]]}}),
        ("mem0", "m.json", [{"id": "p0", "payload": None}, POINT, {"id": "q", "memory": "z"}]),
        ("server-memory", "g.jsonl", [{"type": "?"}, *[{"type": "entity", "name": name} for name in "xy"]]),
    ],
)  # fmt: skip
def test_a_bad_row_does_not_hide_the_system(
    engine: Everhold, tmp_path: Path, source: str, name: str, value: Any
) -> None:
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, value)) if name.endswith(".jsonl") else json.dumps(value))
    planned = engine.load(path, dry_run=True)
    assert (planned.source, planned.added >= 2) == (source, True)


def test_a_graph_of_server_memory_is_imported(engine: Everhold, tmp_path: Path) -> None:
    entities = [{"name": name, "entityType": "person", "observations": [{"text": "Sings"}]} for name in ("Tess", "Bo")]
    graph = {"entities": entities, "relations": [{"from": "Tess", "to": "Bo", "relationType": "knows"}]}
    assert engine.load(samples.make_json(tmp_path / "graph.json", graph)).added == 3
    assert engine.scope().get("entity/Tess").text == "Tess (person): Sings"


def test_a_single_conversation_is_recognised(engine: Everhold, tmp_path: Path) -> None:
    [conversation] = json.loads(samples.chatgpt(tmp_path).read_text("utf-8"))
    assert engine.load(samples.make_json(tmp_path / "one.json", conversation)).source == "chatgpt"


def test_databases_without_some_of_their_tables_are_recognised(engine: Everhold, tmp_path: Path) -> None:
    scenarios = samples.DREAM_TABLES.partition("CREATE TABLE simulations")[0]
    row = (1, "Flood", "resource", "Water rises", *[None] * 5, 1709316060.5, None)
    assert (
        engine.load(samples.make_database(tmp_path / "d.db", scenarios, {"scenarios": [row]})).source == "dream-world"
    )
    turns = samples.SESSION_TABLES.partition("CREATE TABLE interactions")
    tables = turns[1] + turns[2].replace(", FOREIGN KEY (session_id) REFERENCES sessions (session_id)", ", mood TEXT")
    turn = (1, "s-1", 1709316060500, "user", "Hello", '{"lang": "en"}', "calm")
    engine.load(samples.make_database(tmp_path / "s.db", tables, {"interactions": [turn]}))
    [message] = engine.scope(session="s-1").messages()
    assert message.created_at == datetime(2024, 3, 1, 18, 1, 0, 500_000, UTC)
    assert (message.metadata["mood"], message.metadata["lang"]) == ("calm", "en")


def test_files_without_rows_are_known_by_their_names(engine: Everhold, tmp_path: Path) -> None:
    for name, source in (("jarvis_memory_store.json", "jarvis"), ("contextual_memory_store.json", "contextual-users")):
        loaded = engine.load(samples.make_json(tmp_path / name, {"eve": []}))
        assert (loaded.source, loaded.count, loaded.quarantined) == (source, 0, 0)
