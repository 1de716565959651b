"""Sample files of other systems, in exactly the formats that these systems write."""

import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from everhold.testing.fake_embedder import FakeEmbedder

Make = Callable[[Path], Path]

SESSION_TABLES = """
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, user_id TEXT, created_at TEXT, last_active TEXT, metadata TEXT);
CREATE TABLE interactions (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, timestamp TEXT, role TEXT,
    content TEXT, metadata TEXT, FOREIGN KEY (session_id) REFERENCES sessions (session_id));
"""
EPISODIC_TABLES = """
CREATE TABLE episodes (episode_id INTEGER PRIMARY KEY, user_id TEXT, profile TEXT, start_time TEXT, end_time TEXT,
    context TEXT, summary TEXT, importance_score REAL DEFAULT 0.5, status TEXT DEFAULT 'active');
CREATE TABLE interactions (interaction_id INTEGER PRIMARY KEY, episode_id INTEGER, timestamp TEXT, speaker TEXT,
    content TEXT, intent TEXT, sentiment REAL, metadata TEXT);
CREATE TABLE episode_tags (episode_id INTEGER, tag TEXT, confidence REAL);
CREATE TABLE episode_relationships (relationship_id INTEGER PRIMARY KEY, source_episode_id INTEGER,
    target_episode_id INTEGER, relationship_type TEXT, strength REAL);
CREATE TABLE context_groups (group_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE episode_context_groups (episode_id INTEGER, group_id INTEGER, relevance_score REAL);
"""
DREAM_TABLES = """
CREATE TABLE scenarios (scenario_id INTEGER PRIMARY KEY, name TEXT, type TEXT, description TEXT, initial_state TEXT,
    actions TEXT, constraints TEXT, evaluation_metrics TEXT, metadata TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE simulations (simulation_id INTEGER PRIMARY KEY, scenario_id INTEGER, start_time TEXT, end_time TEXT,
    iterations INTEGER, best_action TEXT, expected_value REAL, uncertainty REAL, causal_analysis TEXT,
    counterfactuals TEXT, metadata TEXT);
CREATE TABLE simulation_states (state_id INTEGER PRIMARY KEY, simulation_id INTEGER, step INTEGER, state TEXT,
    action TEXT, value REAL, uncertainty REAL, metadata TEXT);
"""
ORCHESTRATOR_TABLES = """
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, user_id TEXT, created_at TEXT, updated_at TEXT, ended_at TEXT,
    metadata TEXT, summary TEXT, is_archived INTEGER, session_type TEXT);
CREATE TABLE memory_entries (memory_id TEXT PRIMARY KEY, session_id TEXT, memory_type TEXT, content TEXT,
    text_content TEXT, source_agent TEXT, created_at TEXT, updated_at TEXT, expires_at TEXT, priority INTEGER,
    is_active INTEGER);
CREATE TABLE memory_tags (tag_id INTEGER PRIMARY KEY, memory_id TEXT, tag TEXT);
CREATE TABLE vector_embeddings (embedding_id INTEGER PRIMARY KEY, memory_id TEXT, embedding TEXT,
    embedding_model TEXT, created_at TEXT);
CREATE TABLE user_profiles (user_id TEXT PRIMARY KEY, created_at TEXT, updated_at TEXT, profile_data TEXT,
    preferences TEXT, is_active INTEGER);
CREATE TABLE agent_states (state_id INTEGER PRIMARY KEY, agent_id TEXT, session_id TEXT, state_data TEXT,
    created_at TEXT, updated_at TEXT, expires_at TEXT);
CREATE TABLE memory_relationships (relationship_id INTEGER PRIMARY KEY, source_memory_id TEXT, target_memory_id TEXT,
    relationship_type TEXT, metadata TEXT, created_at TEXT);
CREATE TABLE memory_access_logs (log_id INTEGER PRIMARY KEY, memory_id TEXT, operation TEXT);
"""
UNIFIED_TABLES = """
CREATE TABLE memories (memory_id TEXT PRIMARY KEY, content TEXT, memory_type TEXT, memory_tier TEXT, importance REAL,
    access_count INTEGER, last_accessed_at REAL, created_at REAL, expires_at REAL, metadata TEXT, tags TEXT,
    relationships TEXT, parent_id TEXT);
"""
LAYERED_TABLES = """
CREATE TABLE conversations (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,
    timestamp TEXT DEFAULT CURRENT_TIMESTAMP, metadata JSON);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, conversation_id INTEGER, content TEXT NOT NULL,
    role TEXT NOT NULL, timestamp TEXT DEFAULT CURRENT_TIMESTAMP, metadata JSON);
CREATE TABLE memory_facts (id INTEGER PRIMARY KEY AUTOINCREMENT, fact_type TEXT NOT NULL, content TEXT NOT NULL,
    confidence REAL, timestamp TEXT DEFAULT CURRENT_TIMESTAMP, metadata JSON);
"""
CHROMA_TABLES = """
CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT, dimension INTEGER, database_id TEXT);
CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT, scope TEXT, collection TEXT);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT, embedding_id TEXT, seq_id BLOB, created_at TIMESTAMP);
CREATE TABLE embedding_metadata (id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL,
    bool_value INTEGER);
CREATE TABLE embeddings_queue (seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP, operation INTEGER, topic TEXT,
    id TEXT, vector BLOB, encoding TEXT, metadata TEXT);
"""
LANGGRAPH_TABLES = """
CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key));
CREATE TABLE store_vectors (prefix text, key text, field_name text, embedding BLOB, created_at TIMESTAMP,
    updated_at TIMESTAMP, PRIMARY KEY (prefix, key, field_name));
"""
MEM0_TABLES = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
    created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
"""


def make_database(path: Path, tables: str, rows: Mapping[str, Sequence[Sequence[Any]]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(tables)
        for table, values in rows.items():
            for row in values:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    connection.close()
    return path


def make_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False), "utf-8")
    return path


def make_vector(text: str) -> list[float]:
    vector = FakeEmbedder().embed([text])[0]
    assert vector is not None
    return [float(number) for number in vector]


def session_memory(folder: Path) -> Path:
    return make_database(
        folder / "session_memory.db",
        SESSION_TABLES,
        {
            "sessions": [
                ("s-kitchen", "alice", "2024-03-01T18:00:00", "2024-03-01T18:05:00", '{"device": "pi"}'),
                ("s-empty", "default", "2024-03-02T09:00:00", "2024-03-02T09:00:00", None),
            ],
            "interactions": [
                (1, "s-kitchen", "2024-03-01T18:01:00", "user", "Where did I put the saffron?", None),
                (2, "s-kitchen", "2024-03-01T18:01:05.250", "assistant", "In the blue tin.", '{"confidence": 0.8}'),
            ],
        },
    )


def contextual(folder: Path) -> Path:
    """Write a store of contextual_memory_pc2: newest entries first, times as seconds since 1970."""
    return make_json(
        folder / "contextual_memory_store.json",
        {
            "sessions": {
                "bob_robot": [
                    {"timestamp": 1709316120.5, "type": "system_response", "content": "Try a lighter gripper."},
                    {"timestamp": 1709316060.25, "type": "user_query", "content": "Why does the arm shake?"},
                ]
            },
            "summaries": {
                "bob_robot": {
                    "last_updated": 1709316200.0,
                    "conversation_summary": "Bob debugs the shaking robot arm.",
                    "code_context": "def damp(joint): ...",
                    "errors_encountered": ["ServoTimeout on joint 3"],
                    "key_decisions": [{"timestamp": 1709316180.0, "decision": "Replace the gripper"}],
                }
            },
        },
    )


def contextual_users(folder: Path) -> Path:
    """Write a store of the build for the main computer, which has the same file name."""
    rows = [
        {"timestamp": 1709316060.5, "context": "Carol rehearses the cello on Mondays"},
        {"timestamp": 1709316070.5, "context": {"topic": "concert", "place": "Bath"}},
    ]
    return make_json(folder / "contextual_memory_store.json", {"carol": rows})


def user_profile(folder: Path) -> Path:
    profile = {
        "name": "Dora",
        "preferences": {"volume": "low"},
        "taught_commands": {"good night": "turn off all lamps"},
        "reminders": [{"text": "Water the ficus", "timestamp": 1709316060.5}],
    }
    return make_json(folder / "user_profile.json", {"dora": profile})


def jarvis(folder: Path) -> Path:
    rows = [
        {"timestamp": 1709316060.5, "memory": "Eve parks on level four"},
        {"timestamp": 1709316061.5, "memory": {"type": "reminder", "text": "Call the dentist", "emotion": "neutral"}},
    ]
    return make_json(folder / "jarvis_memory_store.json", {"eve": rows})


def memory_store(folder: Path) -> Path:
    return contextual(folder).rename(folder / "memory_store.json")


def error_patterns(folder: Path) -> Path:
    pattern = {"pattern": "port 5596 in use", "solution": "kill the old agent", "last_seen": 1709316060.5}
    row = {"timestamp": 1709316050.5, "error_type": "bind", "pattern": "port 5597 in use", "solution": "wait a minute"}
    return make_json(
        folder / "error_patterns.json", {"patterns": {"bind": {**pattern, "occurrence_count": 3}}, "history": [row]}
    )


def digital_twins(folder: Path) -> Path:
    twin = {"mood": "calm", "interests": ["astronomy", "tea"]}
    return make_json(folder / "digital_twin_store.json", {"frank": twin})


def unified_memories(folder: Path) -> Path:
    rows = [
        {"id": "mem_1709316060_0a1b2c3d", "content": "The greenhouse door squeaks", "created_at": 1709316060.5,
         "last_accessed": 1709316060.5, "strength": 1.0, "source": "voice", "forgotten": False},
        {"id": "mem_1709316061_0a1b2c3e", "content": "Old noise", "created_at": 1709316060.5, "strength": 0.05,
         "source": "voice", "forgotten": True},
    ]  # fmt: skip
    return make_json(folder / "memories.json", {"status": "SUCCESS", "data": {"memories": rows}})


def episodic(folder: Path) -> Path:
    return make_database(
        folder / "episodic_memory.db",
        EPISODIC_TABLES,
        {
            "episodes": [
                (1, "gina", "home", "2024-03-01T08:00:00", "2024-03-01T08:20:00", '{"room": "attic"}',
                 "Gina found the telescope in the attic", 0.8, "completed"),
                (2, "gina", "home", "2024-03-02T08:00:00", None, None, "Gina repaired the telescope", 0.5, "active"),
            ],
            "interactions": [
                (1, 1, "2024-03-01T08:01:00", "user", "Look, my telescope!", "inform", 0.9, None),
                (2, 1, "2024-03-01T08:02:00", "assistant", "How lovely.", None, None, '{"voice": "b"}'),
            ],
            "episode_tags": [(1, "hobby", 0.9)],
            "episode_relationships": [(1, 2, 1, "follow_up", 0.7)],
            "context_groups": [(7, "astronomy")],
            "episode_context_groups": [(1, 7, 0.9)],
        },
    )  # fmt: skip


def dream_world(folder: Path) -> Path:
    return make_database(
        folder / "dream_world.db",
        DREAM_TABLES,
        {
            "scenarios": [
                (1, "Flooded cellar", "resource", "Water rises while the pump is broken", '{"water": 3}', '["bail"]',
                 "[]", "{}", "{}", "2024-03-01T08:00:00", "2024-03-01T08:00:00"),
            ],
            "simulations": [
                (1, 0, "2024-03-01T09:00:00", "2024-03-01T09:01:00", 1000, '"borrow a pump"', 0.75, 0.1, "{}", "[]",
                 "{}"),
            ],
            "simulation_states": [(1, 1, 0, "{}", "bail", 0.1, 0.2, "{}")],
        },
    )  # fmt: skip


def orchestrator(folder: Path) -> Path:
    text = "Hugo keeps bees behind the barn"
    memory = ("mem-0a1b2c3d", "s-9", "context", json.dumps({"text": text}), text, "hive_agent", "2024-03-01 08:00:00",
              "2024-03-01 08:00:00", None, 8, 1)  # fmt: skip
    return make_database(
        folder / "orchestrator.db",
        ORCHESTRATOR_TABLES,
        {
            "sessions": [("s-9", "hugo", "2024-03-01 07:00:00", "2024-03-01 09:00:00", "2024-03-01 09:00:00",
                          '{"device": "tablet"}', "About bees", 0, "task")],
            "memory_entries": [
                memory,
                ("mem-2", "s-9", "user_preference", '{"text": "Hugo wants short answers"}', None, None,
                 "2024-03-01 08:01:00", "2024-03-01 08:01:00", None, 5, 1),
                ("mem-3", "s-9", "context", '{"text": "deleted"}', "deleted", None, "2024-03-01 08:02:00",
                 "2024-03-01 08:02:00", None, 5, 0),
            ],
            "memory_tags": [(1, "mem-0a1b2c3d", "bees")],
            "vector_embeddings": [(1, "mem-0a1b2c3d", json.dumps(make_vector(text)), "fake", "2024-03-01 08:00:00")],
            "user_profiles": [("hugo", "2024-01-01 00:00:00", "2024-01-01 00:00:00", '{"age": 51}',
                               '{"units": "metric"}', 1)],
            "agent_states": [(1, "hive_agent", "s-9", '{"smoker": "lit"}', "2024-03-01 08:00:00",
                              "2024-03-01 08:00:00", None)],
            "memory_relationships": [(1, "mem-2", "mem-0a1b2c3d", "reference", '{"why": "same talk"}',
                                      "2024-03-01 08:02:00")],
            "memory_access_logs": [(1, "mem-2", "read")],
        },
    )  # fmt: skip


def unified_database(folder: Path) -> Path:
    rows = [
        ("mem-11111111-1111-4111-8111-111111111111", "Ivy's library card expires in June", "fact", "long", 0.7, 3,
         1709316060.5, 1709316060.5, None, '{"user_id": "ivy"}', '["library"]', "[]", None),
        ("mem-22222222-2222-4222-8222-222222222222", "Renew it at the desk", "procedural", "short", 0.5, 0, None,
         1709316070.5, None, '{"user_id": "ivy"}', "[]", "[]", "mem-11111111-1111-4111-8111-111111111111"),
    ]  # fmt: skip
    return make_database(folder / "unified_memory.db", UNIFIED_TABLES, {"memories": rows})


def layered(folder: Path) -> Path:
    root = folder / "storage"
    fact = "Occupation: software engineer; Preferences: coffee"
    make_database(
        root / "memory.db",
        LAYERED_TABLES,
        {
            "conversations": [(1, "web-1", "2024-03-01 08:00:00", '{"client_info": "web_interface"}')],
            "messages": [(1, 1, "I prefer working on backend systems", "user", "2024-03-01 08:00:05", None)],
            "memory_facts": [(1, "user_fact", fact, 1.0, "2024-03-01 08:00:10", '{"categories": ["occupation"]}')],
        },
    )
    context = "Preference for backend development work"
    vectors = [np.array(make_vector(text), "<f4").tobytes() for text in (fact, context)]
    make_database(
        root / "chromadb" / "chroma.sqlite3",
        CHROMA_TABLES,
        {
            "collections": [("c1", "julep_memories", 384, "d")],
            "segments": [("seg", "urn:chroma:segment/metadata/sqlite", "METADATA", "c1")],
            "embeddings": [(1, "seg", "doc-1", b"1", None), (2, "seg", "doc-2", b"2", None)],
            "embedding_metadata": [
                (1, "chroma:document", fact, None, None, None),
                (1, "sqlite_id", None, 1, None, None),
                (2, "chroma:document", context, None, None, None),
                (2, "type", "context", None, None, None),
                (2, "confidence", None, None, 0.95, None),
                (2, "timestamp", "2024-03-01T08:00:06+00:00", None, None, None),
            ],
            "embeddings_queue": [
                (1, None, 0, "persistent://default/default/c1", "doc-1", vectors[0], "FLOAT32", None),
                (2, None, 0, "persistent://default/default/c1", "doc-2", vectors[1], "FLOAT32", None),
            ],
        },
    )
    pickled = b"cos\nsystem\n(S'touch /tmp/everhold-was-here'\ntR."
    (root / "chromadb" / "11111111").mkdir()
    (root / "chromadb" / "11111111" / "index_metadata.pickle").write_bytes(pickled)
    return root


def openai_messages(folder: Path) -> Path:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Will it rain in Oslo?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "assistant", "content": "Yes, take an umbrella."},
    ]
    return make_json(folder / "openai.json", messages)


def anthropic_messages(folder: Path) -> Path:
    image = {"type": "image", "source": {"type": "url", "url": "https://x.org/cat.png"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What is on the picture of the lighthouse?"}, image]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
    ]
    return make_json(folder / "anthropic.json", {"model": "claude", "system": "Be kind.", "messages": messages})


def chatgpt(folder: Path) -> Path:
    def node(name: str, parent: str | None, children: list[str], role: str, text: str, at: float | None) -> Any:
        content = {"content_type": "text", "parts": [text]}
        message = {"id": name, "author": {"role": role, "name": None}, "create_time": at, "content": content,
                   "metadata": {"model_slug": "gpt-4o"}}  # fmt: skip
        return {"id": name, "parent": parent, "children": children, "message": message if role else None}

    mapping = {
        "root": node("root", None, ["n1"], "", "", None),
        "n1": node("n1", "root", ["n2"], "system", "", None),
        "n2": node("n2", "n1", ["n3", "n3b"], "user", "How do I prune an olive tree?", 1709316060.5),
        "n3b": node("n3b", "n2", [], "assistant", "I do not know.", 1709316065.5),
        "n3": node("n3", "n2", [], "assistant", "Cut it in late winter.", 1709316070.5),
    }
    conversation = {"title": "Olive tree", "create_time": 1709316060.0, "update_time": 1709316070.5,
                    "mapping": mapping, "current_node": "n3", "conversation_id": "c0ffee-1"}  # fmt: skip
    return make_json(folder / "conversations.json", [conversation])


def claude(folder: Path) -> Path:
    def message(name: str, sender: str, text: str, at: str) -> dict[str, Any]:
        parts = [{"type": "text", "text": text}]
        return {"uuid": name, "text": text, "content": parts, "sender": sender, "created_at": at, "files": []}

    messages = [
        message("m-1", "human", "Plan a week in Porto", "2024-03-01T08:00:00.000000Z"),
        message("m-2", "assistant", "Begin at the Ribeira.", "2024-03-01T08:00:09.000000Z"),
    ]
    times = {"created_at": "2024-03-01T08:00:00Z", "updated_at": "2024-03-01T08:00:09Z"}
    conversation = {"uuid": "conv-1", "name": "Porto", **times, "account": {"uuid": "a"}, "chat_messages": messages}
    path = folder / "claude.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([conversation]))
        archive.writestr("users.json", "[]")
    return path


def slack(folder: Path) -> Path:
    root = folder / "slack"
    make_json(root / "users.json", [{"id": "U1", "name": "jo", "profile": {"display_name": "Jo"}}])
    make_json(
        root / "channels.json", [{"id": "C1", "name": "garden", "created": 1709300000, "topic": {"value": "Beds"}}]
    )
    rows = [
        {"type": "message", "user": "U1", "text": "<@U1> planted 3 &lt; 4 tomatoes", "ts": "1709316060.000200"},
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "joined", "ts": "1709316050.000100"},
    ]
    make_json(root / "garden" / "2024-03-01.json", sorted(rows, key=lambda row: row["ts"]))
    return root


def slack_zip(folder: Path) -> Path:
    root, path = slack(folder), folder / "slack.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in root.rglob("*.json"):
            archive.write(file, file.relative_to(root))
    return path


def whatsapp(folder: Path) -> Path:
    path = folder / "WhatsApp Chat with Kim.txt"
    path.write_text(
        "31/12/2023, 21:15 - Messages and calls are end-to-end encrypted.\n"
        "31/12/2023, 21:16 - Kim: Shall we bring the fondue pot?\nand the forks\n"
        "01/01/2024, 00:01 - Lee: Happy new year\n",
        "utf-8",
    )
    return path


def csv_messages(folder: Path) -> Path:
    path = folder / "chat.csv"
    path.write_text(
        "conversation_id,sender,message,timestamp\r\n"
        'c1,Nora,"The kiln, it is still hot",2024-03-01T08:00:00\r\nc1,assistant,Wait an hour,2024-03-01 08:00:30\r\n',
        "utf-8",
    )
    return path


def jsonl_messages(folder: Path) -> Path:
    rows = [
        {"session_id": "j1", "role": "user", "content": "The ferry leaves at noon", "timestamp": 1709316060.5},
        {"session_id": "j1", "role": "assistant", "content": "Then leave at eleven", "timestamp": 1709316061.5},
    ]
    path = folder / "chat.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def mem0_export(folder: Path) -> Path:
    row = {"id": "0e5b3c9e-0000-4000-8000-000000000001", "memory": "Olga climbs on Thursdays", "hash": "x",
           "user_id": "olga", "categories": ["sports"], "metadata": {"source": "chat"},
           "created_at": "2024-03-01T08:00:00-08:00", "updated_at": None}  # fmt: skip
    relation = {"source": "olga", "relationship": "climbs_with", "target": "petra"}
    return make_json(folder / "mem0.json", {"results": [row], "relations": [relation]})


def mem0_history(folder: Path) -> Path:
    rows = [
        ("h1", "m1", None, "Quin likes rock", "ADD", "2024-03-01T08:00:00-08:00", None, 0, None, None),
        ("h2", "m1", "Quin likes rock", "Quin likes folk music", "UPDATE", "2024-03-01T09:00:00-08:00", None, 0, None,
         None),
        ("h3", "m2", "Gone", None, "DELETE", "2024-03-01T10:00:00-08:00", None, 1, None, None),
    ]  # fmt: skip
    return make_database(folder / "history.db", MEM0_TABLES, {"history": rows})


def letta(folder: Path) -> Path:
    block = {"id": "block-0", "label": "human", "value": "Rosa restores clocks", "limit": 2000}
    agent = {"id": "agent-0", "name": "clockwork", "agent_type": "memgpt_agent", "system": "Remember.",
             "block_ids": ["block-0"], "tool_ids": [], "messages": [], "in_context_message_ids": []}  # fmt: skip
    return make_json(folder / "clockwork.af", {"agents": [agent], "blocks": [block], "tools": [], "groups": []})


def langgraph(folder: Path) -> Path:
    # LangGraph passes encoded JSON, so that SQLite stores bytes in the column of text.
    value = json.dumps({"text": "Sam collects stamps of lighthouses"}).encode()
    row = ("users.sam", "hobby", value, "2024-03-01 08:00:00", "2024-03-01 08:00:00", None, None)
    vector = np.array(make_vector("Sam collects stamps of lighthouses"), "<f4").tobytes()
    return make_database(
        folder / "store.db",
        LANGGRAPH_TABLES,
        {"store": [row], "store_vectors": [("users.sam", "hobby", "text", vector, None, None)]},
    )


def server_memory(folder: Path) -> Path:
    rows = [
        {"type": "relation", "from": "Tess", "to": "Harbor Choir", "relationType": "sings_in"},
        {"type": "entity", "name": "Tess", "entityType": "person", "observations": ["Lives in Hull", "Sings alto"]},
        {"type": "entity", "name": "Harbor Choir", "entityType": "organization", "observations": []},
    ]
    path = folder / "memory.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    return path
