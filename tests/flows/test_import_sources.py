"""Each system's file is recognised, imported with its own ids and times, found again, and imported only once."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from everhold import Everhold, View
from everhold.adapters.sqlite_files.foreign_tables import open_foreign_tables
from everhold.importers.detection import find_parts
from everhold.importers.files import ForeignFiles
from everhold.importers.samples import take_sample
from everhold.model import AccessLog, Outbox
from everhold.testing.fake_embedder import FakeEmbedder
from tests import import_samples as samples
from tests.engines import Store, read_all_rows

Make = Callable[[Path], Path]


def make_time(*parts: int, zone: str = "UTC") -> datetime:
    return datetime(*parts, tzinfo=ZoneInfo(zone))  # type: ignore[misc,arg-type]


def recall_texts(view: View, question: str, **filters: Any) -> list[str]:
    return [hit.memory.text for hit in view.recall(question, minimum=0, **filters)]


def list_messages(view: View) -> list[tuple[str, str | None]]:
    return [(message.role, message.text) for message in view.messages(oldest_first=True)]


# A file, its source, its user, a question, and a text that answers it.
MEMORIES: list[tuple[Make, str, str | None, str, str]] = [
    (samples.contextual, "contextual", "bob", "what about the gripper?", "Replace the gripper"),
    (samples.memory_store, "contextual", "bob", "the shaking robot arm", "Bob debugs the shaking robot arm."),
    (samples.contextual_users, "contextual-users", "carol", "cello rehearsal", "Carol rehearses the cello on Mondays"),
    (samples.user_profile, "user-profile", "dora", "the ficus", "Water the ficus"),
    (samples.jarvis, "jarvis", "eve", "where is the car parked, which level?", "Eve parks on level four"),
    (samples.error_patterns, "error-patterns", None, "port in use",
     "Error bind: port 5596 in use. Solution: kill the old agent"),
    (samples.digital_twins, "digital-twins", "frank", "mood", "mood: calm; interests: astronomy, tea"),
    (samples.unified_memories, "unified", None, "greenhouse door", "The greenhouse door squeaks"),
    (samples.episodic, "episodic", "gina", "who found the telescope?", "Gina found the telescope in the attic"),
    (samples.dream_world, "dream-world", None, "pump",
     "Flooded cellar: Water rises while the pump is broken"),
    (samples.orchestrator, "orchestrator", "hugo", "bees behind the barn", "Hugo keeps bees behind the barn"),
    (samples.unified_database, "unified-database", "ivy", "library card", "Ivy's library card expires in June"),
    (samples.layered, "layered", None, "occupation", "Occupation: software engineer; Preferences: coffee"),
    (samples.mem0_export, "mem0", "olga", "when does Olga climb?", "Olga climbs on Thursdays"),
    (samples.mem0_history, "mem0-history", None, "music", "Quin likes folk music"),
    (samples.langgraph, "langgraph", None, "stamps", "Sam collects stamps of lighthouses"),
    (samples.server_memory, "server-memory", None, "Tess",
     "Tess (person): Lives in Hull. Sings alto"),
]  # fmt: skip

# A file, its source, its user, its session, and the last message.
MESSAGES: list[tuple[Make, str, str | None, str | None, tuple[str, str]]] = [
    (samples.session_memory, "session-memory", "alice", "s-kitchen", ("assistant", "In the blue tin.")),
    (samples.contextual, "contextual", "bob", "bob_robot", ("assistant", "Try a lighter gripper.")),
    (samples.episodic, "episodic", "gina", "episode-1", ("assistant", "How lovely.")),
    (samples.layered, "layered", None, "web-1", ("user", "I prefer working on backend systems")),
    (samples.openai_messages, "messages", None, None, ("assistant", "Yes, take an umbrella.")),
    (samples.anthropic_messages, "messages", None, None, ("assistant", "A cat.")),
    (samples.chatgpt, "chatgpt", None, "c0ffee-1", ("assistant", "Cut it in late winter.")),
    (samples.claude, "claude", None, "conv-1", ("assistant", "Begin at the Ribeira.")),
    (samples.slack, "slack", None, "C1", ("user", "@Jo planted 3 < 4 tomatoes")),
    (samples.slack_zip, "slack", None, "C1", ("user", "@Jo planted 3 < 4 tomatoes")),
    (samples.whatsapp, "whatsapp", None, "whatsapp-WhatsApp Chat with Kim", ("user", "Happy new year")),
    (samples.csv_messages, "message-table", None, "c1", ("assistant", "Wait an hour")),
    (samples.jsonl_messages, "message-table", None, "j1", ("assistant", "Then leave at eleven")),
]
EVERY_FILE = sorted({entry[0] for entry in (*MEMORIES, *MESSAGES)} | {samples.letta}, key=lambda make: make.__name__)


@pytest.fixture
def engine(sqlite_store: Store) -> Everhold:
    return sqlite_store.open()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "input").mkdir()
    return tmp_path / "input"


def get_function_name(value: Any) -> str | None:
    return value.__name__ if callable(value) else None


@pytest.mark.parametrize(("make", "source", "user", "question", "text"), MEMORIES, ids=get_function_name)
def test_memories_are_recalled(
    engine: Everhold, folder: Path, make: Make, source: str, user: str | None, question: str, text: str
) -> None:
    loaded = engine.load(make(folder))
    assert (loaded.source, loaded.quarantined, loaded.faults) == (source, 0, ())
    assert text in recall_texts(engine.scope(user=user), question)


@pytest.mark.parametrize(("make", "source", "user", "session", "last"), MESSAGES, ids=get_function_name)
def test_messages_are_listed_and_found(
    engine: Everhold,
    folder: Path,
    make: Make,
    source: str,
    user: str | None,
    session: str | None,
    last: tuple[str, str],
) -> None:
    loaded = engine.load(make(folder))
    assert (loaded.source, loaded.quarantined) == (source, 0)
    [listed] = [row for row in engine.scope(user=user).sessions() if session in (None, row.id)]
    view = engine.scope(user=user, session=listed.id)
    assert list_messages(view)[-1] == last
    assert any(hit.message.text == last[1] for hit in view.search_messages(last[1], minimum=0))


@pytest.mark.parametrize("make", EVERY_FILE, ids=get_function_name)
def test_importing_twice_changes_nothing(engine: Everhold, folder: Path, make: Make) -> None:
    path = make(folder)
    planned = engine.load(path, dry_run=True)
    assert planned.is_dry_run
    assert engine.scope().list().memories == ()
    first = engine.load(path)
    assert (first.added, first.existing) == (planned.added, 0)
    before = read_all_rows(engine, without=(AccessLog, Outbox))
    second = engine.load(path)
    assert (second.added, second.existing) == (0, first.added)
    assert read_all_rows(engine, without=(AccessLog, Outbox)) == before


def test_files_are_imported_once_on_every_store(store: Store, folder: Path) -> None:
    engine = store.open()
    for make in (samples.session_memory, samples.orchestrator, samples.chatgpt, samples.server_memory):
        path = make(folder)
        assert engine.load(path).added
        assert engine.load(path).added == 0


def test_a_session_keeps_its_ids_times_and_metadata(engine: Everhold, folder: Path) -> None:
    engine.load(samples.session_memory(folder), timezone="Asia/Bangkok")
    view = engine.scope(user="alice", session="s-kitchen")
    session = view.session().session
    assert session.created_at == make_time(2024, 3, 1, 18, 0, zone="Asia/Bangkok")
    assert session.last_active == make_time(2024, 3, 1, 18, 5, zone="Asia/Bangkok")
    assert session.metadata == {"device": "pi", "imported": {"source": "session-memory"}}
    [first, second] = view.messages(oldest_first=True)
    assert first.id == "s-kitchen/1"
    assert second.created_at == datetime(2024, 3, 1, 11, 1, 5, 250_000, UTC)
    assert second.metadata["confidence"] == 0.8


def test_tables_of_the_orchestrator_are_imported(engine: Everhold, folder: Path) -> None:
    loaded = engine.load(samples.orchestrator(folder))
    hugo = engine.scope(user="hugo")
    memory = hugo.get("mem-0a1b2c3d")
    assert (memory.kind, memory.priority, memory.source_agent) == ("context", 8, "hive_agent")
    assert memory.created_at == memory.occurred_at == make_time(2024, 3, 1, 8, 0)
    assert hugo.tags() == {"bees": 1}
    assert hugo.get("mem-2").kind == "preference"
    assert [related.memory.original_id for related in hugo.relations("mem-2")] == ["mem-0a1b2c3d"]
    assert engine.get_user("hugo").preferences == {"units": "metric"}
    assert engine.get_user("hugo").created_at == make_time(2024, 1, 1)
    session = engine.scope(user="hugo", session="s-9").session().session
    assert (session.summary, session.session_type) == ("About bees", "task")
    assert session.ended_at == make_time(2024, 3, 1, 9, 0)
    state = engine.scope(user="hugo", agent="hive_agent", session="s-9").state()
    assert state is not None
    assert state.state == {"smoker": "lit"}
    assert {(row.origin, row.rows) for row in loaded.left_out} == {("memory_entries", 1), ("memory_access_logs", 1)}
    assert (loaded.vectors_kept, loaded.vectors_replaced) == (1, 0)


def test_tables_of_the_orchestrator_are_imported_from_json(engine: Everhold, folder: Path) -> None:
    entry = {"memory_id": "mem-5", "session_id": None, "memory_type": "entity", "content": {"text": "Uma owns a kayak"},
             "created_at": "2024-03-01T08:00:00", "priority": 5, "is_active": True}  # fmt: skip
    tags = [{"memory_id": "mem-5", "tag": "sport"}]
    engine.load(samples.make_json(folder / "dump.json", {"memory_tags": tags, "memory_entries": [entry]}))
    assert recall_texts(engine.scope(), "kayak", tags="sport") == ["Uma owns a kayak"]


def test_documents_of_chroma_that_copy_facts_are_one_memory(sqlite_store: Store, folder: Path) -> None:
    engine = sqlite_store.open(FakeEmbedder("all-MiniLM-L6-v2"))
    loaded = engine.load(samples.layered(folder))
    assert (loaded.vectors_kept, loaded.vectors_replaced) == (2, 0)
    assert {row.reason for row in loaded.left_out} == {"the document is the copy of a fact"}
    memories = {memory.original_id: memory for memory in engine.scope().list().memories}
    assert memories.keys() == {"fact-1", "doc-2"}
    assert (memories["fact-1"].kind, memories["doc-2"].kind, memories["doc-2"].confidence) == ("fact", "context", 0.95)
    assert not Path("/tmp/everhold-was-here").exists()


def test_an_agent_of_letta_is_imported(engine: Everhold, folder: Path) -> None:
    engine.load(samples.letta(folder))
    agent = engine.scope(agent="agent-0")
    assert agent.agent().name == "clockwork"
    assert [block.value for block in agent.blocks()] == ["Rosa restores clocks"]


def test_an_agent_of_an_early_letta_is_imported(engine: Everhold, folder: Path) -> None:
    turn = {"role": "user", "content": [{"type": "text", "text": "Hi"}], "created_at": "2025-04-01T03:47:27.514261"}
    block = {"label": "human", "value": "Ivo mends radios", "limit": 2000}
    agent = {
        "name": "tinker",
        "system": "Remember.",
        "core_memory": [block],
        "messages": [turn],
        "version": "0.6.47",
    }
    loaded = engine.load(samples.make_json(folder / "tinker.af", agent))
    assert (loaded.source, loaded.added) == ("letta", 1)
    [session] = engine.scope(agent="tinker").sessions()
    [message] = engine.scope(session=session.id).messages()
    assert message.created_at == datetime(2025, 4, 1, 3, 47, 27, 514_261, UTC)


def test_a_branch_of_chatgpt_that_was_left_is_left_out(engine: Everhold, folder: Path) -> None:
    loaded = engine.load(samples.chatgpt(folder))
    assert [(row.reason, row.rows) for row in loaded.left_out] == [
        ("hidden from users, or without text", 1),
        ("not on the branch that the conversation ends with", 1),
    ]
    view = engine.scope(session="c0ffee-1")
    assert view.session().session.title == "Olive tree"
    assert [message.model for message in view.messages()] == ["gpt-4o", "gpt-4o"]


def test_relations_of_server_memory_may_come_first(engine: Everhold, folder: Path) -> None:
    engine.load(samples.server_memory(folder))
    [related] = engine.scope().relations("entity/Tess")
    assert (related.memory.id, related.relationship.relationship_type) == ("entity/Harbor Choir", "sings_in")


def test_users_are_read_from_the_ids_of_contextual_sessions(engine: Everhold, folder: Path) -> None:
    names = ("ann_lee_2024-03-01", "ann_lee_my_robot", "bob_my_robot", "cy_x_y_z", "dan", "_odd")
    rows = [{"timestamp": 1709316060.5, "type": "user_query", "content": "Hello"}]
    path = samples.make_json(folder / "contextual_memory_store.json", {"sessions": dict.fromkeys(names, rows)})
    engine.load(path, users={"cy_x": "cy"})
    sessions = {session.id: session for session in engine.scope().sessions()}
    assert {name: session.user_id for name, session in sessions.items()} == {
        "ann_lee_2024-03-01": "ann_lee", "ann_lee_my_robot": "ann_lee", "bob_my_robot": "bob", "cy_x_y_z": "cy",
        "dan": None, "_odd": None,
    }  # fmt: skip
    assert sessions["bob_my_robot"].metadata["project"] == "my_robot"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("31/12/2023, 21:15 - ", "01/02/2024, 00:01 - ", (2024, 2, 1, 0, 1)),
        ("12/31/23, 9:15 PM - ", "1/2/24, 12:01 AM - ", (2024, 1, 2, 0, 1)),
        ("[31.12.23, 21:15:33] ", "[01.02.24, 00:01:00] ", (2024, 2, 1, 0, 1)),
        ("2023-12-31, 21:15 - ", "2024-02-01, 00:01 - ", (2024, 2, 1, 0, 1)),
        ("\u200e[1/2/24, 9:15:00\u202fPM] ", "[1/3/24, 9:15:00\u202fPM] ", (2024, 1, 3, 21, 15)),
        ("31/12/23, 9:15 p. m. - ", "1/2/24, 12:01 a. m. - ", (2024, 2, 1, 0, 1)),
        ("31/12/2023 à 21:15 - ", "01/02/2024 à 00:01 - ", (2024, 2, 1, 0, 1)),
        ("31.12.2023 klo 21.15 - ", "1.2.2024 klo 0.01 - ", (2024, 2, 1, 0, 1)),
        ("2023/12/31 下午9:15 - ", "2024/2/1 上午12:01 - ", (2024, 2, 1, 0, 1)),
        ("2023. 12. 31. 오후 9:15, ", "2024. 2. 1. 오전 12:01, ", (2024, 2, 1, 0, 1)),
        ("2023. 12. 31. 21:15 - ", "2024. 02. 01. 0:01 - ", (2024, 2, 1, 0, 1)),
        ("31/12/2566 21:15 - ", "1/2/2567 00:01 - ", (2024, 2, 1, 0, 1)),
        ("٣١/١٢/٢٠٢٣، ٩:١٥ م - ", "١/٢/٢٠٢٤، ١٢:٠١ ص - ", (2024, 2, 1, 0, 1)),
        ("31/12/23, 9:15 μ.μ. - ", "1/2/24, 12:01 π.μ. - ", (2024, 2, 1, 0, 1)),
        ("31.12.23 г., 21:15 ч. - ", "1.02.24 г., 0:01 ч. - ", (2024, 2, 1, 0, 1)),
        ("21:15, 31/12/2023 - ", "00:01, 01/02/2024 - ", (2024, 2, 1, 0, 1)),
    ],
)
def test_dates_of_whatsapp_are_read_in_every_notation(
    engine: Everhold, folder: Path, first: str, second: str, expected: tuple[int, ...]
) -> None:
    (folder / "chat.txt").write_text(f"{first}Kim: Hello\n{second}Lee: Later\n", "utf-8")
    engine.load(folder / "chat.txt")
    [last, _] = engine.scope(session="whatsapp-chat").messages()
    assert (last.name, last.created_at) == ("Lee", make_time(*expected))


def test_a_table_of_messages_is_sorted(engine: Everhold, folder: Path) -> None:
    rows = ["role;text;created_at", "user;third;1709316063", "user;first;1709316061", "user;second;1709316062"]
    (folder / "log.csv").write_text("\n".join(rows), "utf-8")
    assert engine.load(folder / "log.csv").quarantined == 0
    assert [text for _, text in list_messages(engine.scope(session="log"))] == ["first", "second", "third"]


def test_equal_messages_without_times_are_all_kept(engine: Everhold, folder: Path) -> None:
    path = samples.make_json(folder / "chat.json", [{"role": "user", "content": "ok"}] * 3)
    assert engine.load(path).added == 4
    assert engine.load(path).added == 0
    assert engine.load(samples.make_json(path, [{"role": "user", "content": "ok"}] * 4)).added == 1


def test_a_list_of_memories_and_a_text_are_not_taken_for_another_system(folder: Path) -> None:
    (folder / "notes.jsonl").write_text('"Alice has a cat"\n{"text": "The cat is called Miso"}\n')
    (folder / "notes.json").write_text(json.dumps([{"text": "Alice has a cat"}]))
    (folder / "handbook.md").write_text("The office opens at 8:00 - on Mondays.\n")
    for file in folder.iterdir():
        assert find_parts(ForeignFiles(file, open_foreign_tables)).parts == []


def enlarge(value: Any) -> Any:
    """Repeat the rows of a document, so that the beginning of its file contains only a part of them."""
    if isinstance(value, list) and value:
        return value * 8_000
    if isinstance(value, dict) and value and all(isinstance(inner, dict) for inner in value.values()):
        repeated = {f"{name}{number}": inner for name, inner in value.items() for number in range(3_000)}
        return {name: enlarge(inner) for name, inner in value.items()} if "sessions" in value else repeated
    return {name: enlarge(inner) for name, inner in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("make", "source"),
    [
        (samples.contextual, "contextual"),
        (samples.contextual_users, "contextual-users"),
        (samples.user_profile, "user-profile"),
        (samples.jarvis, "jarvis"),
        (samples.error_patterns, "error-patterns"),
        (samples.digital_twins, "digital-twins"),
        (samples.unified_memories, "unified"),
        (samples.openai_messages, "messages"),
        (samples.chatgpt, "chatgpt"),
        (samples.mem0_export, "mem0"),
    ],
    ids=get_function_name,
)
def test_a_large_file_is_recognised_by_its_beginning(folder: Path, make: Make, source: str) -> None:
    path = make(folder)
    samples.make_json(path, enlarge(json.loads(path.read_text("utf-8"))))
    assert path.stat().st_size > 262_144
    [(detected, _)] = find_parts(ForeignFiles(path, open_foreign_tables)).parts
    assert detected.name == source


def test_a_sample_of_a_folder_lists_its_files(folder: Path) -> None:
    shutil.copytree(samples.slack(folder), folder / "copy")
    sample = take_sample(ForeignFiles(folder / "copy", open_foreign_tables))
    assert sample.members == ["channels.json", "garden/2024-03-01.json", "users.json"]
