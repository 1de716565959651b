"""Every row of the three migration tables of the memory orchestrator, in JSON, JSON lines, CSV and SQLite."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from tests.engines import Store
from tests.import_samples import make_database, make_json, make_vector

SESSION = {
    "session_id": "s-1",
    "user_id": "alice",
    "conversation_history": [
        {"role": "user", "content": "My kite is torn", "timestamp": "2024-03-01T08:00:01"},
        {"role": "assistant", "content": "Mend it with tape", "timestamp": "2024-03-01T08:00:02"},
    ],
    "session_data": {"device": "phone"},
    "session_summary": "A torn kite",
    "created_at": "2024-03-01T08:00:00",
    "last_interaction": "2024-03-01T08:30:00",
}
CONTEXT = {
    "context_id": "ctx-1",
    "session_id": "s-2",
    "user_id": "bob",
    "context_data": {"text": "Bob tunes the piano in spring", "room": "hall"},
    "embedding": make_vector("Bob tunes the piano in spring"),
    "created_at": 1709280000.5,
    "expires_at": "2999-01-01T00:00:00",
    "source_agent": "piano_agent",
    "tags": ["music", "piano"],
}
USER = {
    "user_id": "carol",
    "preferences": {"language": "th"},
    "entity_knowledge": {"Mango": {"text": "the neighbour's cat", "timestamp": 1709280000.5}},
    "interaction_history": [{"text": "Carol asked for jazz", "timestamp": 1709280001.5}],
    "skill_states": {"weather": {"city": "Bangkok"}},
}


@pytest.fixture
def engine(sqlite_store: Store, tmp_path: Path) -> Everhold:
    """An engine with one row of each of the three tables imported."""
    engine = sqlite_store.open()
    path = make_json(tmp_path / "export.json", [SESSION, CONTEXT, USER])
    loaded = engine.load(path)
    assert (loaded.source, loaded.quarantined) == ("voice-mapping", 0)
    assert engine.load(path).added == 0
    return engine


def make_time(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2024, 3, 1, hour, minute, second, tzinfo=UTC)


# SessionMemoryAgent


def test_session_id_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="alice", session="s-1").session().session.id == "s-1"


def test_conversation_history_is_imported(engine: Everhold) -> None:
    view = engine.scope(user="alice", session="s-1")
    assert [message.text for message in view.messages()] == ["Mend it with tape", "My kite is torn"]
    hit = engine.scope(user="alice").recall("torn kite", kind="conversation", minimum=0)[0]
    assert (hit.memory.text, hit.memory.session_id, hit.memory.occurred_at) == (
        "My kite is torn",
        "s-1",
        make_time(8, 0, 1),
    )


def test_session_data_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="alice", session="s-1").session().session.metadata["device"] == "phone"


def test_session_summary_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="alice", session="s-1").session().session.summary == "A torn kite"


def test_session_created_at_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="alice", session="s-1").session().session.created_at == make_time(8)


def test_last_interaction_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="alice", session="s-1").session().session.updated_at == make_time(8, 30)


def test_turns_without_times_have_that_of_their_session(engine: Everhold, tmp_path: Path) -> None:
    engine.load(
        make_json(tmp_path / "s.json", [{**SESSION, "session_id": "s-7", "conversation_history": ["Hm", "Yes"]}])
    )
    view = engine.scope(user="alice", session="s-7")
    assert [message.created_at.replace(microsecond=0) for message in view.messages()] == [make_time(8), make_time(8)]
    assert view.session().session.last_active == make_time(8, 30)
    memories = view.list(only="session").memories
    assert [(memory.created_at, memory.occurred_at) for memory in memories] == [(make_time(8), None)] * 2


# contextual_memory_pc2


def test_context_id_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="bob").get("ctx-1").kind == "context"


def test_context_session_id_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="bob").get("ctx-1").session_id == "s-2"
    assert engine.scope(user="bob", session="s-2").session().session.id == "s-2"


def test_context_data_is_imported(engine: Everhold) -> None:
    [hit, *_] = engine.scope(user="bob").recall("who tunes the piano?")
    assert hit.memory.content == CONTEXT["context_data"]


def test_embedding_is_imported(sqlite_store: Store, engine: Everhold, tmp_path: Path) -> None:
    other = {**CONTEXT, "context_id": "ctx-2", "context_data": "Other", "embedding": [0.5] * 1536}
    loaded = engine.load(make_json(tmp_path / "again.json", [CONTEXT, other]), dry_run=True)
    assert (loaded.vectors_kept, loaded.vectors_replaced) == (1, 1)


def test_context_created_at_is_imported(engine: Everhold) -> None:
    memory = engine.scope(user="bob").get("ctx-1")
    assert memory.created_at == memory.occurred_at == datetime(2024, 3, 1, 8, 0, 0, 500_000, UTC)


def test_expires_at_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="bob").get("ctx-1").expires_at == datetime(2999, 1, 1, tzinfo=UTC)


def test_source_agent_is_imported(engine: Everhold) -> None:
    assert engine.scope(user="bob").get("ctx-1").source_agent == "piano_agent"


def test_tags_are_imported(engine: Everhold) -> None:
    assert engine.scope(user="bob").tags() == {"music": 1, "piano": 1}


# jarvis_memory_pc2


def test_user_id_is_imported(engine: Everhold) -> None:
    assert engine.get_user("carol").id == "carol"


def test_preferences_are_imported(engine: Everhold) -> None:
    assert engine.get_user("carol").preferences == {"language": "th"}


def test_entity_knowledge_is_imported(engine: Everhold) -> None:
    [hit, *_] = engine.scope(user="carol").recall("who is Mango?", kind="entity")
    assert hit.memory.text == "Mango: the neighbour's cat"


def test_interaction_history_is_imported(engine: Everhold) -> None:
    [hit, *_] = engine.scope(user="carol").recall("jazz", kind="interaction")
    assert hit.memory.text == "Carol asked for jazz"


def test_skill_states_are_imported(engine: Everhold) -> None:
    state = engine.scope(agent="carol/weather").state()
    assert state is not None
    assert state.state == {"city": "Bangkok"}


# the same names in files of other kinds


def test_importing_in_another_time_zone_adds_no_duplicates(engine: Everhold, tmp_path: Path) -> None:
    loaded = engine.load(tmp_path / "export.json", timezone="Asia/Bangkok")
    assert (loaded.added, loaded.quarantined) == (0, 0)


def test_json_lines_are_imported(sqlite_store: Store, tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (SESSION, CONTEXT, USER)))
    loaded = sqlite_store.open().load(path)
    assert (loaded.source, loaded.quarantined, loaded.added) == ("voice-mapping", 0, 10)


def test_objects_keyed_by_id_are_imported(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    row = {name: value for name, value in SESSION.items() if name != "session_id"}
    loaded = engine.load(make_json(tmp_path / "sessions.json", {"s-7": row}), source="voice-mapping")
    assert loaded.quarantined == 0
    assert engine.scope(user="alice", session="s-7").session().session.summary == "A torn kite"


def encode_as_text(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def test_json_in_text_columns_of_a_database_is_read(sqlite_store: Store, tmp_path: Path) -> None:
    tables = f"CREATE TABLE contexts ({', '.join(CONTEXT)}); CREATE TABLE people ({', '.join(USER)});"
    rows = {name: [tuple(map(encode_as_text, row.values()))] for name, row in (("contexts", CONTEXT), ("people", USER))}
    engine = sqlite_store.open()
    loaded = engine.load(make_database(tmp_path / "export.db", tables, rows))
    assert (loaded.source, loaded.quarantined) == ("voice-mapping", 0)
    assert engine.scope(user="bob").get("ctx-1").content["room"] == "hall"
    assert engine.get_user("carol").preferences == {"language": "th"}


def test_csv_is_imported(sqlite_store: Store, tmp_path: Path) -> None:
    engine = sqlite_store.open()
    (tmp_path / "export.csv").write_text(
        "context_id,session_id,context_data,created_at,tags\n"
        'ctx-3,s-3,"{""text"": ""The bell rings at six""}",2024-03-01 08:00:00,"a, b"\n'
    )
    assert engine.load(tmp_path / "export.csv").quarantined == 0
    assert engine.scope().get("ctx-3").text == "The bell rings at six"
    assert engine.scope().tags() == {"a": 1, "b": 1}
