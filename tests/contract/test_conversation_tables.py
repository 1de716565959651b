"""The tables of the memory systems that Everhold replaces: each column is written and read back by public verbs.

There is one test per table, on every store. One engine writes and another one reads, so that no cache answers, except
on DuckDB.
"""

import base64
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everhold import Everhold, View
from everhold.errors import AlreadyExists, InvalidInput, NotFound
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import EVERY_STORE, make_store

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
LATER = datetime(2031, 1, 1, tzinfo=UTC)
NESTED: dict[str, Any] = {"device": {"os": "Linux", "ü": "茶"}, "tries": [1, 2.5, None, True], "empty": {}}
OTHER_MODEL = FakeEmbedder("other", 24)
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Tenant:
    """An organization that no other test uses, an engine that writes its rows, and one that reads them."""

    writer: Everhold
    reader: Everhold
    organization: str

    def write(self, **dimensions: str) -> View:
        return self.writer.scope(organization=self.organization, **dimensions)

    def read(self, **dimensions: str) -> View:
        return self.reader.scope(organization=self.organization, **dimensions)


@pytest.fixture(scope="module", params=EVERY_STORE)
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Everhold]]:
    """Two engines (on DuckDB one) for all tests of this file, because opening a store takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        store = make_store(request.param, request, tmp_path_factory.mktemp("tables"), patch)
        # Only one engine at a time may have a DuckDB file open.
        yield [store.open(also=[OTHER_MODEL]) for _ in range(1 if request.param == "duckdb" else 2)]
        store.close()


@pytest.fixture
def tenant(engines: list[Everhold]) -> Tenant:
    return Tenant(engines[0], engines[-1], f"organization-{next(_NUMBERS)}")


def export_rows(tenant: Tenant, folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table as an export writes them."""
    path = folder / f"{table}.jsonl"
    tenant.reader.export(path, organization=tenant.organization)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["row"] for line in lines if line.get("table") == table]


# users, projects, chats and what was said in them


def test_every_column_of_user_is_written_and_read(tenant: Tenant) -> None:
    """id, email, password, time zone."""
    tenant.writer.create_user(
        "u1", organization=tenant.organization, email="a@example.org", password="correct horse", timezone="Asia/Bangkok"
    )
    user = tenant.reader.get_user("u1", organization=tenant.organization)
    assert (user.id, user.email, user.timezone) == ("u1", "a@example.org", "Asia/Bangkok")
    assert user.password_hash is not None
    assert "correct" not in user.password_hash
    assert tenant.reader.sign_in("a@example.org", "correct horse", organization=tenant.organization).id == "u1"
    with pytest.raises(AlreadyExists):
        tenant.reader.create_user("u2", organization=tenant.organization, email="a@example.org")


def test_every_column_of_project_is_written_and_read(tenant: Tenant) -> None:
    """id, user, name, description; a user has several."""
    tenant.writer.create_user("u1", organization=tenant.organization)
    for name in ("p1", "p2"):
        tenant.writer.create_project(
            name, organization=tenant.organization, user="u1", name=f"Project {name}", description="Sales of 2026"
        )
    project = tenant.reader.get_project("p1", organization=tenant.organization)
    assert (project.id, project.user_id, project.name, project.description) == (
        "p1", "u1", "Project p1", "Sales of 2026"
    )  # fmt: skip
    listed = tenant.reader.list_projects(organization=tenant.organization, user="u1")
    assert {project.id for project in listed} == {"p1", "p2"}


def test_every_column_of_chat_session_is_written_and_read(tenant: Tenant) -> None:
    """id, project, title; a project has several."""
    for name in ("s1", "s2"):
        tenant.write(project="p1", user="u1", session=name).open_session(title=f"Chat {name}")
    sessions = {session.id: session for session in tenant.read(project="p1").sessions()}
    assert {name: session.title for name, session in sessions.items()} == {"s1": "Chat s1", "s2": "Chat s2"}
    assert {(session.project_id, session.user_id) for session in sessions.values()} == {("p1", "u1")}
    assert sessions["s1"].created_at == sessions["s1"].last_active
    assert not tenant.read(project="p2").sessions()


def test_every_column_of_conversation_is_written_and_read(tenant: Tenant) -> None:
    """id, session, role, message, references."""
    chat = tenant.write(project="p1", user="u1", session="s1")
    references = [{"source": "report.csv", "rows": [1, 2]}, {"message": "m1"}]
    chat.say("How much did we sell?", id="m1", created_at=START)
    chat.say("Twelve", id="m2", role="assistant", references=references, created_at=START + timedelta(seconds=1))
    first, second = tenant.read(project="p1", user="u1", session="s1").messages(oldest_first=True).messages
    assert (first.id, first.role, first.text, first.references) == ("m1", "user", "How much did we sell?", [])
    assert (second.id, second.role, second.text, second.references) == ("m2", "assistant", "Twelve", references)
    assert {(message.session_id, message.project_id, message.user_id) for message in (first, second)} == {
        ("s1", "p1", "u1")
    }
    assert (first.created_at, first.position, second.position) == (START, 0, 1)


def test_every_column_of_episode_is_written_and_read(tenant: Tenant) -> None:
    """id, session, span, summary, level, parents, first and last message, counts, whether it is active."""
    texts = ["We adopted a greyhound called Juniper.", "Her vaccination is in Leeds.", "She sleeps all day."]
    chat = tenant.write(project="p1", user="u1", agent="a1", session="s1")
    chat.open_session(title="The dog")
    for number, text in enumerate(texts):
        chat.say(text, id=f"{tenant.organization}-{number}", name="Ann", created_at=START + timedelta(minutes=number))
    chat.end_session()
    reader = tenant.read(user="u1")
    [episode] = reader.episodes()
    assert (episode.project_id, episode.user_id, episode.agent_id, episode.session_id) == ("p1", "u1", "a1", "s1")
    assert (episode.span_from, episode.span_to) == (START, START + timedelta(minutes=2))
    assert (episode.level, episode.message_count, episode.is_active) == (1, 3, True)
    assert (episode.first_message_id, episode.last_message_id) == (
        f"{tenant.organization}-0",
        f"{tenant.organization}-2",
    )
    assert "Juniper" in episode.summary
    assert episode.token_count == sum(tenant.reader.tokens(text) for text in texts)
    assert episode.participants == ["Ann"]
    levels = {level: reader.episodes(level=level).episodes for level in ("session", "day", "week", "month", "year")}
    assert {rollup.id for rows in levels.values() for rollup in rows} == set(episode.parent_ids)
    assert {rollup.message_count for rows in levels.values() for rollup in rows} == {3}
    assert [levels[level][0].name for level in ("session", "day", "year")] == ["The dog", "2026-03-02", "2026"]
    assert [part.id for part in reader.episode(levels["day"][0].id).parts] == [episode.id]
    assert [message.text for message in reader.episode(episode.id).messages] == texts
    [hit] = reader.recall("greyhound Juniper", among="episode", where={"level": 1}, minimum=0, k=1)
    assert hit.record.id == episode.id


# profiles, sessions, entries and what refers to them


def test_every_column_of_user_profiles_is_written_and_read(tenant: Tenant) -> None:
    """user_id, created_at, updated_at, profile_data, preferences, is_active."""
    created = tenant.writer.create_user(
        "u1", organization=tenant.organization, profile=NESTED, preferences={"tea": "green"}
    )
    tenant.writer.create_user("u2", organization=tenant.organization)
    user = tenant.reader.get_user("u1", organization=tenant.organization)
    assert (user.profile, user.preferences, user.status) == (NESTED, {"tea": "green"}, "active")
    assert user.created_at == user.updated_at == created.created_at
    tenant.writer.update_user("u1", organization=tenant.organization, status="inactive", preferences={"tea": "black"})
    user = tenant.reader.get_user("u1", organization=tenant.organization)
    assert (user.profile, user.preferences, user.status) == (NESTED, {"tea": "black"}, "inactive")
    assert user.updated_at > user.created_at == created.created_at
    by_status = {
        status: [user.id for user in tenant.reader.list_users(organization=tenant.organization, status=status)]
        for status in ("active", "inactive")
    }
    assert by_status == {"active": ["u2"], "inactive": ["u1"]}


def test_every_column_of_sessions_is_written_and_read(tenant: Tenant) -> None:
    """session_id, user_id, created_at, updated_at, ended_at, metadata, summary, is_archived, session_type."""
    chat, reader = tenant.write(user="u1", session="s1"), tenant.read(user="u1")
    chat.open_session(session_type="task", metadata=NESTED)
    [session] = reader.sessions()
    assert (session.id, session.user_id, session.session_type, session.metadata) == ("s1", "u1", "task", NESTED)
    assert (session.ended_at, session.summary, session.is_archived) == (None, None, False)
    opened_at = session.created_at
    chat.end_session(summary="Nothing was said.")
    [session] = reader.sessions()
    assert session.ended_at is not None
    assert (session.summary, session.is_archived) == ("Nothing was said.", False)
    assert session.updated_at >= session.ended_at >= session.created_at == opened_at
    chat.archive_session()
    [session] = reader.sessions()
    assert session.is_archived
    tenant.write(session="group").open_session(session_type="conversation")
    assert {session.id: session.user_id for session in tenant.read().sessions()} == {"s1": "u1", "group": None}


def test_every_column_of_memory_entries_is_written_and_read(tenant: Tenant) -> None:
    """memory_id, session_id, memory_type, content, text_content, source_agent, times, priority, is_active."""
    writer, reader = tenant.write(user="u1", session="s1"), tenant.read(user="u1")
    content = {"text": "Prefers green tea", **NESTED}
    for kind in ("conversation", "context", "user_preference", "agent_state", "entity", "interaction"):
        entry = {"content": content, "kind": kind, "source_agent": "listener", "priority": 8, "expires_at": LATER}
        writer.remember(id=f"{tenant.organization}-{kind}", created_at=START, **entry)
        memory = reader.get(f"{tenant.organization}-{kind}")
        assert (memory.session_id, memory.kind) == ("s1", kind.removeprefix("user_"))
        assert (memory.content, memory.text) == (content, "Prefers green tea")
        assert (memory.source_agent, memory.priority, memory.expires_at) == ("listener", 8, LATER)
        assert memory.created_at == START
    for priority in range(1, 11):
        memory = writer.remember(f"Note {priority}", priority=priority)
        assert reader.get(memory.id).priority == priority
    assert reader.get(writer.remember("Default").id).priority == 5
    for priority in (0, 11):
        with pytest.raises(InvalidInput, match="priority"):
            writer.remember("Out of bounds", priority=priority)
    revised = writer.revise(memory.id, text="Note ten")
    assert reader.get(memory.id).updated_at == revised.updated_at > memory.updated_at
    writer.forget(memory.id)
    with pytest.raises(NotFound):
        reader.get(memory.id)
    writer.undo()
    assert reader.get(memory.id).text == "Note ten"
    writer.delete_session(hard=True)
    assert reader.count() == 0


def test_every_column_of_memory_tags_is_written_and_read(tenant: Tenant, tmp_path: Path) -> None:
    """memory_id, tag; each pair exists once and is deleted with its memory."""
    writer, reader = tenant.write(user="u1"), tenant.read(user="u1")
    tea, rain = writer.remember("Tea", tags=["drink", "茶"]), writer.remember("Rain", tags=["weather"])
    writer.tag(tea.id, "drink", "warm")
    assert reader.tags_of([tea.id, rain.id]) == {tea.id: ("drink", "warm", "茶"), rain.id: ("weather",)}
    assert reader.tags() == {"drink": 1, "warm": 1, "weather": 1, "茶": 1}
    assert [memory.id for memory in reader.list(tags="warm").memories] == [tea.id]
    rows = export_rows(tenant, tmp_path, "memory_tags")
    assert {(row["memory_id"], row["tag"]) for row in rows} >= {(tea.id, "drink"), (rain.id, "weather")}
    assert len(rows) == 4
    writer.untag(tea.id, "warm")
    writer.forget(rain.id, hard=True)
    assert reader.tags() == {"drink": 1, "茶": 1}


def test_every_column_of_vector_embeddings_is_written_and_read(tenant: Tenant, tmp_path: Path) -> None:
    """memory_id, embedding, embedding_model, created_at; one per memory and model, deleted with its memory."""
    writer, reader = tenant.write(user="u1"), tenant.read(user="u1")
    axis = [1.0, *[0.0] * (OTHER_MODEL.dimensions - 1)]
    memory = writer.remember("Prefers green tea", vector={"other": axis})
    writer.remember("Reads by the window")
    [hit] = reader.recall("", vector=axis, model="other", k=1, minimum=0, recipe="meaning")
    assert hit.memory.id == memory.id
    rows = [row for row in export_rows(tenant, tmp_path, "chunks") if row["owner_id"] == memory.id]
    by_model = {row["model"]: row for row in rows}
    assert len(rows) == len(by_model) == 2
    vectors = {model: np.frombuffer(base64.urlsafe_b64decode(row["vector"]), "<f2") for model, row in by_model.items()}
    assert vectors["other"].tolist() == axis
    assert vectors["fake"].tolist() == FakeEmbedder().embed([memory.text])[0].astype(np.float16).tolist()
    assert datetime.fromisoformat(by_model["other"]["known_from"]) == memory.created_at
    writer.forget(memory.id, hard=True)
    folder = tmp_path / "after"
    folder.mkdir()
    assert memory.id not in {row["owner_id"] for row in export_rows(tenant, folder, "chunks")}


def test_every_column_of_memory_relationships_is_written_and_read(tenant: Tenant) -> None:
    """id, source_memory_id, target_memory_id, relationship_type, metadata, created_at; each triple once."""
    writer, reader = tenant.write(user="u1"), tenant.read(user="u1")
    question, answer = writer.remember("Who waters the roses?"), writer.remember("Bob does")
    for kind in ("reply_to", "reference", "follow_up"):
        relationship = writer.relate(answer.id, question.id, kind, metadata=NESTED)
        assert writer.relate(answer.id, question.id, kind).id == relationship.id
        [related] = reader.relations(answer.id, relationship_type=kind)
        link = related.relationship
        assert (link.id, link.source_memory_id, link.target_memory_id) == (relationship.id, answer.id, question.id)
        assert (link.relationship_type, link.metadata, related.memory.id) == (kind, NESTED, question.id)
        assert link.created_at == relationship.created_at >= answer.created_at
        assert [item.relationship.id for item in reader.relations(question.id, relationship_type=kind)] == [
            relationship.id
        ]
    writer.forget(answer.id, hard=True)
    assert not reader.relations(question.id)


def test_every_column_of_memory_access_logs_is_written_and_read(tenant: Tenant) -> None:
    """memory_id, session_id, agent_id, operation, timestamp, request_data, success, error_message, ip_address."""
    writer = tenant.write(user="u1", agent="a1", session="s1")
    memory = writer.remember("Prefers green tea")
    writer.get(memory.id)
    writer.recall("What tea?")
    writer.revise(memory.id, text="Prefers black tea")
    with pytest.raises(NotFound):
        writer.forget("mem_missing")
    writer.forget(memory.id)
    tenant.writer.flush()
    lines = tenant.read().log()
    assert {(line.user_id, line.agent_id, line.session_id) for line in lines} == {("u1", "a1", "s1")}
    assert {line.operation for line in lines} == {"create", "read", "search", "update", "delete"}
    operations_on_memory = {line.operation for line in lines if line.memory_id == memory.id}
    assert operations_on_memory == {"create", "read", "update", "delete"}
    [failed] = [line for line in lines if not line.success]
    assert (failed.operation, failed.error_message, failed.request["memory"]) == ("delete", "NotFound", "mem_missing")
    assert all(line.error_message is None for line in lines if line.success)
    [search] = [line for line in lines if line.operation == "search"]
    assert "tea" not in json.dumps(search.request)
    assert memory.created_at <= search.timestamp
    assert {line.ip_address for line in lines} == {None}  # the caller is in this process
    assert len({line.sequence for line in lines}) == len(lines)


# conversations, messages, facts and the session of working memory


def test_every_column_of_conversations_is_written_and_read(tenant: Tenant) -> None:
    """id, session_id, timestamp, metadata; several per session."""
    chat = tenant.write(user="u1", session="s1")
    for number, name in enumerate(("roses", "tulips")):
        chat.say(f"About {name}", conversation=name, created_at=START + timedelta(hours=number))
        chat.update_conversation(name, name=name.title(), metadata={**NESTED, "number": number})
    reader = tenant.read(user="u1", session="s1")
    rows = {row.id: row for row in reader.conversations()}
    assert {name: (row.session_id, row.name, row.started_at, row.metadata) for name, row in rows.items()} == {
        "roses": ("s1", "Roses", START, {**NESTED, "number": 0}),
        "tulips": ("s1", "Tulips", START + timedelta(hours=1), {**NESTED, "number": 1}),
    }
    chat.delete_session(hard=True)
    with pytest.raises(NotFound):
        reader.conversations()


def test_every_column_of_messages_is_written_and_read(tenant: Tenant) -> None:
    """id, conversation_id, content, role, timestamp, metadata."""
    chat, reader = tenant.write(user="u1", session="s1"), tenant.read(user="u1", session="s1")
    for number, role in enumerate(("system", "user", "assistant", "tool")):
        at = START + timedelta(minutes=number)
        chat.say(f"As {role}", role=role, conversation="roses", id=f"m{number}", metadata=NESTED, created_at=at)
    chat.say("Elsewhere", conversation="tulips", created_at=START + timedelta(hours=1))
    messages = reader.messages(conversation="roses", oldest_first=True).messages
    assert [(row.id, row.role, row.text, row.created_at) for row in messages] == [
        (f"m{number}", role, f"As {role}", START + timedelta(minutes=number))
        for number, role in enumerate(("system", "user", "assistant", "tool"))
    ]
    assert {row.conversation_id for row in messages} == {"roses"}
    assert all(row.metadata == NESTED for row in messages)
    chat.delete_session(hard=True)
    with pytest.raises(NotFound):
        reader.messages()


def test_every_column_of_memory_facts_is_written_and_read(tenant: Tenant) -> None:
    """id, fact_type, content, confidence, timestamp, metadata."""
    writer, reader = tenant.write(user="u1"), tenant.read(user="u1")
    text = "Occupation: software engineer; Preferences: coffee"
    for number, confidence in enumerate((0.0, 0.5, 0.95, 1.0)):
        writer.remember(
            f"{text} {number}", id=f"f{number}", kind="user_fact", confidence=confidence, created_at=START,
            tags=["occupation", "preferences"], metadata={"categories": ["occupation", "preferences"]},
        )  # fmt: skip
        fact = reader.get(f"f{number}")
        assert (fact.id, fact.kind, fact.confidence) == (f"f{number}", "fact", confidence)
        assert fact.text == f"{text} {number}"
        assert (fact.created_at, fact.metadata) == (START, {"categories": ["occupation", "preferences"]})
    assert reader.count(kind="fact", tags="occupation") == 4
    for confidence in (-0.1, 1.1):
        with pytest.raises(InvalidInput, match="confidence"):
            writer.remember("Out of bounds", confidence=confidence)


def test_every_column_of_working_memory_sessions_is_written_and_read(tenant: Tenant) -> None:
    """user_id, current_topic, scope, context, client, last_active, and the last messages, newest first."""
    chat = tenant.write(user="u1", session="s1")
    context = {"scope": "technical", "conversation_state": "active", "user_preferences": {"technical_level": "expert"}}
    chat.open_session(topic="Python frameworks", context=context, metadata={"client_info": "web_interface"})
    messages = [chat.say(f"Message {number}", id=f"m{number}") for number in range(3)]
    working = tenant.read(user="u1", session="s1").session()
    assert (working.user, working.topic, working.scope, working.context) == (
        "u1", "Python frameworks", "technical", context
    )  # fmt: skip
    assert working.session.metadata == {"client_info": "web_interface"}
    assert working.session.last_active == messages[-1].created_at
    assert [message.id for message in working.history] == ["m2", "m1", "m0"]
    assert working.last_message == messages[-1]
    assert [session.id for session in tenant.read(user="u1").sessions()] == ["s1"]
    chat.update_session(topic="Databases", context={})
    working = tenant.read(user="u1", session="s1").session()
    assert (working.topic, working.context) == ("Databases", {})
