"""Sessions and turns in the shapes of several systems: their times, their order and their owners."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from tests import import_samples as samples
from tests.engines import Store

FIRST = datetime(2024, 3, 1, 18, 1, tzinfo=UTC)
TURNS = [
    {"role": "user", "content": "My kite is torn", "timestamp": "2024-03-01T18:01:00"},
    {"role": "assistant", "content": "Mend it with tape", "timestamp": "2024-03-01T18:02:00"},
]


@pytest.fixture
def engine(sqlite_store: Store) -> Everhold:
    return sqlite_store.open()


def list_turns(engine: Everhold, session: str, user: str | None = None) -> list[tuple[str, str | None]]:
    view = engine.scope(user=user, session=session)
    return [(message.role, message.text) for message in view.messages(oldest_first=True)]


def test_sessions_without_a_row_are_made_from_their_messages(engine: Everhold, tmp_path: Path) -> None:
    row = (1, "ghost", "Fri Mar  1 18:01:00 2024", "user", "The heron nests", None)
    loaded = engine.load(samples.make_database(tmp_path / "s.db", samples.SESSION_TABLES, {"interactions": [row]}))
    assert (loaded.assumed_zone, loaded.quarantined) == ("UTC", 0)
    session = engine.scope(session="ghost").session().session
    assert session.created_at == session.last_active == FIRST


def test_a_chat_begins_with_its_first_message(engine: Everhold, tmp_path: Path) -> None:
    (tmp_path / "chat.txt").write_text("31/12/2023, 21:15 - Kim: Hello\n")
    engine.load(tmp_path / "chat.txt")
    assert engine.scope(session="whatsapp-chat").session().session.created_at == datetime(
        2023, 12, 31, 21, 15, tzinfo=UTC
    )


def test_ambiguous_dates_take_the_order_of_other_dates_in_the_file(engine: Everhold, tmp_path: Path) -> None:
    rows = "role,content,created_at\nuser,first,03/04/2024 10:00\nassistant,second,25/04/2024 10:00\n"
    (tmp_path / "log.csv").write_text(rows)
    assert engine.load(tmp_path / "log.csv").quarantined == 0
    assert engine.scope(session="log").messages()[-1].created_at == datetime(2024, 4, 3, 10, tzinfo=UTC)
    (tmp_path / "odd.csv").write_text(rows.rpartition("assistant")[0])
    assert "may have the day or the month first" in engine.load(tmp_path / "odd.csv").faults[0].reason
    assert engine.load(tmp_path / "odd.csv", date_order="mdy", timezone="Asia/Bangkok").assumed_zone is None
    assert engine.scope(session="odd").messages()[0].created_at == datetime(2024, 3, 4, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    "history",
    [
        TURNS,
        TURNS[::-1],
        json.dumps([json.dumps(turn) for turn in TURNS]),
        "user: My kite is torn\nAssistant: Mend it with tape",
        [["user", "My kite is torn"], ["assistant", "Mend it with tape"]],
        [{"user": "My kite is torn", "assistant": "Mend it with tape"}],
    ],
    ids=["turns", "backwards", "texts", "text", "lists", "pairs"],
)
def test_conversations_of_migration_rows_are_imported(engine: Everhold, tmp_path: Path, history: Any) -> None:
    # The row goes over several lines.
    loaded = engine.load(samples.make_json(tmp_path / "x.json", {"session_id": "s-1", "conversation_history": history}))
    assert (loaded.source, loaded.quarantined) == ("voice-mapping", 0)
    assert list_turns(engine, "s-1") == [("user", "My kite is torn"), ("assistant", "Mend it with tape")]


def test_migration_rows_of_one_session_may_be_in_any_order(engine: Everhold, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"session_id": "s-1", "conversation_history": turn} for turn in reversed(TURNS)]
    rows.append({"session_id": "s-1", "user_id": "alice", "session_summary": "A kite", "mood": "sad"})
    path = tmp_path / "export.json"
    path.write_text("\n".join(json.dumps(row, indent=2) for row in rows))
    loaded = engine.load(path, dry_run=True)
    assert loaded.added == engine.load(path).added == 5
    assert engine.load(path).added == 0
    assert [text for _, text in list_turns(engine, "s-1", "alice")] == ["My kite is torn", "Mend it with tape"]
    session = engine.scope(user="alice", session="s-1").session().session
    assert (session.summary, session.metadata["mood"], session.created_at) == ("A kite", "sad", FIRST)


def test_turns_of_unified_memory_are_imported(engine: Everhold, tmp_path: Path) -> None:
    def make_row(
        name: str, content: str, kind: str, created_at: float, metadata: Any, parent: str | None
    ) -> tuple[Any, ...]:
        return (name, content, kind, "short", 0.5, 0, None, created_at, None, json.dumps(metadata), "[]", "[]", parent)

    rows = [
        make_row("mem-s", "Session of ivy", "session", 1709316000.0, {"user_id": "ivy", "session_id": "s-1"}, None),
        make_row("mem-b", "In the hall", "interaction", 1709316120.0, {"role": "assistant"}, "s-1"),
        make_row("mem-a", "Where are the skates?", "interaction", 1709316060.0, {"role": "user"}, "s-1"),
        make_row("mem-c", '{"role": "user", "content": "Hello"}', "interaction", 1709316060.0, {}, "s-2"),
        make_row("mem-d", "Because of a fact", "interaction", 1709316060.0, {"user_id": "ivy"}, "mem-s2"),
        make_row("mem-s2", "A fact", "fact", 1709316050.0, {"user_id": "ivy"}, None),
    ]  # fmt: skip
    tables = samples.UNIFIED_TABLES + (
        "CREATE TABLE context_groups (group_id INTEGER, name TEXT);"
        "CREATE TABLE memory_context_groups (memory_id TEXT, group_id INTEGER);"
    )
    groups: dict[str, Any] = {"context_groups": [(3, "sport")], "memory_context_groups": [("mem-a", 3)]}
    loaded = engine.load(samples.make_database(tmp_path / "u.db", tables, {"memories": rows, **groups}))
    assert (loaded.source, loaded.quarantined, loaded.left_out) == ("unified-database", 0, ())
    assert list_turns(engine, "s-1", "ivy") == [("user", "Where are the skates?"), ("assistant", "In the hall")]
    assert list_turns(engine, "s-2") == [("user", "Hello")]
    assert engine.scope(user="ivy").get("mem-a").session_id == "s-1"
    assert engine.scope(user="ivy").tags() == {"sport": 1}
    assert engine.scope(session="s-2").session().session.created_at == FIRST
    [related] = engine.scope(user="ivy").relations("mem-d")
    assert related.memory.original_id == "mem-s2"


RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "Will it rain?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]},
]
CALL = {"name": "weather", "arguments": "{}"}


@pytest.mark.parametrize(
    "value",
    [
        RESPONSES,
        {"model": "m", "input": RESPONSES[:1], "output": RESPONSES[1:]},
        {"model": "m", "input": "Will it rain?", "output": RESPONSES[1:]},
        {"custom_id": "a", "body": {"messages": [
            {"role": "user", "content": "Will it rain?"}, {"role": "assistant", "function_call": CALL},
            {"role": "function", "name": "weather", "content": "rain"}, {"role": "assistant", "content": "Yes"}]}},
        {"contents": [{"role": "user", "parts": [{"text": "Will it rain?"}]},
                      {"role": "model", "parts": [{"text": "Yes"}]}]},
        [{"conversations": [{"from": "human", "value": "Will it rain?"}, {"from": "gpt", "value": "Yes"}]}],
    ],
    ids=["responses", "response", "text", "batch", "gemini", "sharegpt"],
)  # fmt: skip
def test_message_lists_of_several_interfaces_are_imported(engine: Everhold, tmp_path: Path, value: Any) -> None:
    loaded = engine.load(samples.make_json(tmp_path / "log.json", value))
    assert (loaded.source, loaded.quarantined) == ("messages", 0)
    [session] = engine.scope().sessions()
    messages = engine.scope(session=session.id).messages(oldest_first=True)
    assert (messages[0].text, messages[-1].text, messages[-1].role) == ("Will it rain?", "Yes", "assistant")
    if len(messages) > 2:
        assert messages[1].tool_calls[0]["function"]["name"] == "weather"
        assert (messages[2].role, messages[2].text) == ("tool", "rain")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "Date;Question;Answer\n13.03.2024 18:01;Will it rain?;Yes\n"),
        ("log.csv", "date,time,prompt,response\n03/13/2024,6:01 PM,Will it rain?,Yes\n"),
        ("log.jsonl", '{"prompt": "Will it rain?", "completion": "Yes", "created": 1710352860}\n'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_prompts_and_responses_become_turns(
    engine: Everhold, tmp_path: Path, name: str, text: str, encoding: str
) -> None:
    (tmp_path / name).write_text(text, encoding)
    assert engine.load(tmp_path / name).source == "message-table"
    assert list_turns(engine, "log") == [("user", "Will it rain?"), ("assistant", "Yes")]
    assert engine.scope(session="log").messages()[-1].created_at == datetime(2024, 3, 13, 18, 1, tzinfo=UTC)
