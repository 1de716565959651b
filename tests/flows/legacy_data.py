"""Rows for the tests of legacy views: they are written with verbs, and `EXPECTED` says what the views must show."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from everhold import Everhold, clock
from everhold.model import QueryPattern
from everhold.schema.operations import Put
from tests.engines import get_records

CREATED = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
LONG = "Alice drinks green tea in the morning"


class AnyValueOf:
    """Equals any value of a type. It stands for ids, times and numbers that the engine chooses."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self._kind) and (bool(other) or self._kind in (int, float))

    def __repr__(self) -> str:
        return f"some {self._kind.__name__}"


TEXT, NUMBER, TIME, OBJECT, LIST = (
    AnyValueOf(str),
    AnyValueOf(int),
    AnyValueOf(datetime),
    AnyValueOf(dict),
    AnyValueOf(list),
)
SHARE = AnyValueOf(float)
TIMES = {"created_at": TIME, "updated_at": TIME}
PRISMA_TIMES = {"createdAt": TIME, "updatedAt": TIME}
AUDIT = {**TIMES, "is_deleted": False, "created_by_id": None, "last_updated_by_id": None}
BANGKOK = timedelta(hours=7)


def write_everything(engine: Everhold, folder: Path) -> None:
    """Write a row of every kind into the default organization, and one memory into another."""
    engine.create_organization("default", "Home")
    engine.create_user(
        "alice", name="Alice", email="alice@x.org", password="long enough", timezone="Asia/Bangkok",
        profile={"city": "Rome"}, preferences={"theme": "dark"},
    )  # fmt: skip
    engine.create_project("kitchen", user="alice", name="Kitchen", description="All about tea")
    engine.scope(agent="bot").create_agent(
        agent_type="assistant", name="Bot", description="Makes tea", system="Be kind", topic="tea",
        message_ids=["msg1"], llm_config={"model": "m"}, embedding_config={"size": 8}, tool_rules=[{"rule": 1}],
        mcp_tools=["kettle"], config={"speed": 2}, metadata={"team": "x"},
    )  # fmt: skip
    _write_session(engine)
    _write_memories(engine)
    _write_run(engine)
    _write_files(engine, folder)
    engine.scope(session="s1").end_session(summary="Tea was ordered")
    engine.maintain(["episodes"])
    engine.scope(organization="acme", user="eve").remember("Eve belongs to another organization", id="other")
    engine.flush()


def _write_session(engine: Everhold) -> None:
    chat = engine.scope(project="kitchen", user="alice", agent="bot", session="s1")
    chat.open_session(title="Breakfast", session_type="task", metadata={"device": "speaker"})
    chat.say(
        "One tea, please", id="msg1", model="m", name="alice", tool_calls=[{"id": "c1"}], tool_call_id="c0",
        tool_returns=[{"ok": True}], step_id="step", otid="o", group_id="g", sender_id="sender",
        references=[{"memory": "m1"}], content=[{"type": "text", "text": "One tea, please"}], metadata={"loud": True},
        created_at=CREATED,
    )  # fmt: skip
    chat.say(
        "Which green tea?", role="assistant", id="msg2", conversation="c1", created_at=CREATED + timedelta(minutes=1)
    )
    chat.set_state({"kettle": "on"}, ttl=timedelta(days=1))
    block = chat.create_block("human", "Alice is an engineer", id="block", description="Who", metadata={"a": 1})
    chat.attach_block(block.id)
    chat.create_tool(
        "boil", attach=True, id="boil", description="Boils water", json_schema={"type": "object"},
        source_type="python", source_code="pass", tags=["hot"], metadata={"b": 2},
    )  # fmt: skip


def _write_memories(engine: Everhold) -> None:
    chat = engine.scope(project="kitchen", user="alice", agent="bot", session="s1")
    chat.remember(
        LONG, id="m1", kind="preference", tags=["tea", "morning"], content={"cup": "blue"}, source_agent="bot",
        priority=8, confidence=0.75, score=0.5, scope="private", level="high", metadata={"empty": None},
        created_at=CREATED, expires_at=clock.now() + timedelta(days=30),
    )  # fmt: skip
    chat.remember("Alice lives in Rome", id="m2", kind="fact")
    chat.relate("m1", "m2", "follow_up", metadata={"why": "same day"})
    assert chat.recall("What does Alice drink?", minimum=0)
    engine.flush()  # counts the access


def _write_run(engine: Everhold) -> None:
    chat = engine.scope(project="kitchen", user="alice", agent="bot", session="s1")
    run = chat.run("Make tea", message="msg2", id="run1")
    run.propose(
        "boil", {"water": 1}, thoughts="Hot", reasoning="Tea needs it", plan=["boil", "pour"], criticism="None",
        workspace_cues=["notes.md"], raw={"raw": True}, snapshot={"at": 1},
    )  # fmt: skip
    run.complete({"hot": True}, summary="Water is hot", artifacts=["file"], duration=1.5, memories=["The water is hot"])
    run.propose("pour")
    run.complete(error={"code": 7})
    run.finish("Done")


def _write_files(engine: Everhold, folder: Path) -> None:
    workspace = engine.scope(agent="bot").workspace("notes")
    workspace.write("notes.md", "Tea", media_type="text/markdown", metadata={"draft": True})
    path = folder / "orders.csv"
    path.write_text("order_id,item\n" + "".join(f"{number},tea\n" for number in range(1, 21)))
    kitchen = engine.scope(project="kitchen")
    kitchen.upload(str(path))
    kitchen.update_description("orders", "What was ordered")
    now = clock.now()
    pattern = QueryPattern(
        organization_id="default", id="pattern", created_at=now, updated_at=now, project_id="kitchen",
        question="How many orders?", masked_question="How many ?", sql="SELECT 1", dialect="duckdb", fingerprint="f",
        origin="confirmed", wins=3, losses=1, last_used=now,
    )  # fmt: skip
    get_records(engine).commit([Put(pattern)])  # no verb sets these counts and times


Expected = dict[str, Any]

AGENTIC_MEMORY: dict[str, Expected] = {
    "user": {
        "id": "alice", "name": "Alice", "email": "alice@x.org", "password": None, "timezone": "Asia/Bangkok", **TIMES,
    },
    "project": {
        "id": "kitchen", "user_id": "alice", "name": "Kitchen", "description": "All about tea", **TIMES,
    },
    "chat_session": {
        "id": "s1", "project_id": "kitchen", "user_id": "alice", "title": "Breakfast", "summary": "Tea was ordered",
        **TIMES,
    },
    "source": {
        "id": TEXT, "project_id": "kitchen", "name": "orders.csv", "path": TEXT, "file_type": TEXT,
        "file_size": NUMBER, "row_count": 20, "metadata": OBJECT, **TIMES,
    },
    "conversation": {
        "id": "msg1", "session_id": "s1", "role": "user", "content": "One tea, please",
        "references": [{"memory": "m1"}], "created_at": CREATED + BANGKOK, "updated_at": TIME,
    },
    "agent_execution": {
        "id": "run1", "conversation_id": "msg2", "session_id": "s1", "agent_id": "bot", "task": "Make tea",
        "status": TEXT,
        "steps": [
            {"cycle_index": NUMBER, "status": TEXT, "tool": "boil", "summary": "Water is hot"},
            {"cycle_index": NUMBER, "status": TEXT, "tool": "pour", "summary": None},
        ],
        "error": None, "started_at": TIME, "ended_at": TIME, **TIMES,
    },
    "episode": {
        "id": TEXT, "session_id": "s1", "level": 4, "parent_ids": [], "name": TEXT, "summary": TEXT,
        "first_conversation_id": "msg1", "last_conversation_id": "msg2", "message_count": 2, "token_count": NUMBER,
        "span_from": CREATED + BANGKOK, "span_to": TIME, "is_active": True, **TIMES,
    },
    "metadata": {
        "id": TEXT, "source_id": TEXT, "table_name": "orders", "description": "What was ordered", "row_count": 20,
        "primary_key": ["order_id"], "foreign_keys": [], **TIMES,
    },
    "field_metadata": {
        "id": TEXT, "metadata_id": TEXT, "field_name": "item", "data_type": TEXT, "semantic_type": TEXT,
        "description": TEXT, "sample_values": LIST, "is_nullable": False, "distinct_count": 1, **TIMES,
    },
    "source_metadata": {
        "id": NUMBER, "metadata_id": TEXT, "embedding": LIST, "embedding_model": TEXT, "created_at": TIME,
    },
    "query_patterns": {
        "id": "pattern", "project_id": "kitchen", "question": "How many orders?", "pattern": "How many ?",
        "sql": "SELECT 1", "dialect": "duckdb", "success_count": 3, "failure_count": 1, "last_used": TIME, **TIMES,
    },
}  # fmt: skip

AGENT_LIFECYCLE: dict[str, Expected] = {
    "Agent": {
        "id": "bot", "name": "Bot", "description": "Makes tea", "directives": "Be kind", "config": {"speed": 2},
        "status": "active", **PRISMA_TIMES,
    },
    "AgentCycle": {
        "id": TEXT, "agentId": "bot", "executionId": "run1", "cycleIndex": NUMBER, "status": TEXT,
        "snapshot": {"at": 1}, "parentId": None, **PRISMA_TIMES,
    },
    "ActionProposal": {
        "id": TEXT, "cycleId": TEXT, "tool": "boil", "arguments": {"water": 1}, "thoughts": "Hot",
        "reasoning": "Tea needs it", "plan": ["boil", "pour"], "criticism": "None", "workspaceCues": ["notes.md"],
        "raw": {"raw": True}, **PRISMA_TIMES,
    },
    "ActionResult": {
        "id": TEXT, "cycleId": TEXT, "status": TEXT, "summary": "Water is hot", "output": {"hot": True},
        "error": None, "artifacts": ["file"], "duration": 1.5, **PRISMA_TIMES,
    },
    "MemoryRecord": {
        "id": TEXT, "agentId": "bot", "cycleId": TEXT, "type": TEXT, "content": "The water is hot", "payload": {},
        "importance": SHARE, "metadata": {}, **PRISMA_TIMES,
    },
    "MemoryIndex": {
        "id": NUMBER, "memoryId": "m1", "namespace": "long-term", "embedding": LIST, "model": TEXT,
        "dimensions": NUMBER, "score": 0.5, "createdAt": TIME,
    },
    "Workspace": {"id": TEXT, "agentId": "bot", "name": "notes", "root": TEXT, **PRISMA_TIMES},
    "WorkspaceFile": {
        "id": TEXT, "workspaceId": TEXT, "cycleId": None, "path": "notes.md", "kind": "artifact",
        "mediaType": "text/markdown", "size": 3, "sha256": TEXT, "metadata": {"draft": True}, **PRISMA_TIMES,
    },
}  # fmt: skip

MEMORY_ORCHESTRATOR: dict[str, Expected] = {
    "sessions": {
        "session_id": "s1", "user_id": "alice", **TIMES, "ended_at": TIME, "metadata": {"device": "speaker"},
        "summary": "Tea was ordered", "is_archived": False, "session_type": "task",
    },
    "memory_entries": {
        "memory_id": "m1", "session_id": "s1", "memory_type": "user_preference",
        "content": {"cup": "blue", "text": LONG}, "text_content": LONG, "source_agent": "bot", "created_at": CREATED,
        "updated_at": TIME, "expires_at": TIME, "priority": 8, "is_active": True,
    },
    "memory_tags": {"tag_id": NUMBER, "memory_id": "m1", "tag": "morning"},
    "vector_embeddings": {
        "embedding_id": NUMBER, "memory_id": "m1", "embedding": LIST, "embedding_model": TEXT, "created_at": TIME,
    },
    "user_profiles": {
        "user_id": "alice", **TIMES, "profile_data": {"city": "Rome"}, "preferences": {"theme": "dark"},
        "is_active": True,
    },
    "agent_states": {
        "state_id": TEXT, "agent_id": "bot", "session_id": "s1", "state_data": {"kettle": "on"}, **TIMES,
        "expires_at": TIME,
    },
    "memory_relationships": {
        "relationship_id": TEXT, "source_memory_id": "m1", "target_memory_id": "m2", "relationship_type": "follow_up",
        "metadata": {"why": "same day"}, "created_at": TIME,
    },
    "memory_access_logs": {
        "log_id": NUMBER, "memory_id": "m1", "session_id": "s1", "agent_id": "bot", "operation": "create",
        "timestamp": TIME, "request_data": OBJECT, "success": True, "error_message": None, "ip_address": None,
    },
}  # fmt: skip

AGENTMEM: dict[str, Expected] = {
    "organizations": {"id": "default", "name": "Home", **TIMES, "is_deleted": False},
    "users": {
        "id": "alice", "organization_id": "default", "name": "Alice", "status": "active",
        "timezone": "Asia/Bangkok", **AUDIT,
    },
    "agents": {
        "id": "bot", "organization_id": "default", "agent_type": "assistant", "name": "Bot",
        "description": "Makes tea", "system": "Be kind", "topic": "tea", "message_ids": ["msg1"],
        "metadata_": {"team": "x"}, "llm_config": {"model": "m"}, "embedding_config": {"size": 8},
        "tool_rules": [{"rule": 1}], "mcp_tools": ["kettle"], **AUDIT, "created_by_id": "bot",
    },
    "messages": {
        "id": "msg1", "organization_id": "default", "user_id": "alice", "agent_id": "bot", "role": "user",
        "text": "One tea, please", "content": [{"type": "text", "text": "One tea, please"}], "model": "m",
        "name": "alice", "tool_calls": [{"id": "c1"}], "tool_call_id": "c0", "step_id": "step", "otid": "o",
        "tool_returns": [{"ok": True}], "group_id": "g", "sender_id": "sender", **AUDIT, "created_by_id": "alice",
        "created_at": CREATED,
    },
    "blocks": {
        "id": "block", "organization_id": "default", "user_id": "alice", "template_name": None, "description": "Who",
        "label": "human", "is_template": False, "value": "Alice is an engineer", "limit": 2000,
        "metadata_": {"a": 1}, **AUDIT, "created_by_id": "alice", "last_updated_by_id": "alice",
    },
    "tools": {
        "id": "boil", "organization_id": "default", "name": "boil", "description": "Boils water",
        "json_schema": {"type": "object"}, "source_type": "python", "source_code": "pass", "tags": ["hot"],
        "metadata_": {"b": 2}, **AUDIT, "created_by_id": "alice",
    },
    "memories": {
        "id": "m1", "organization_id": "default", "user_id": "alice", "agent_id": "bot", "content": LONG,
        "hash": TEXT, "metadata": {"empty": None}, "score": 0.5, "memory_type": "preference", "scope": "private",
        "level": "high", "importance": 7 / 9, "access_count": NUMBER, "last_accessed": TIME, **AUDIT,
        "created_by_id": "alice", "created_at": CREATED,
    },
    "blocks_agents": {"block_id": "block", "block_label": "human", "agent_id": "bot"},
    "tools_agents": {"tool_id": "boil", "agent_id": "bot"},
}  # fmt: skip

JULEP: dict[str, Expected] = {
    "conversations": {"id": "c1", "session_id": "s1", "timestamp": TIME, "metadata": {}},
    "messages": {
        "id": "msg1", "conversation_id": "s1", "content": "One tea, please", "role": "user", "timestamp": CREATED,
        "metadata": {"loud": True},
    },
    "memory_facts": {
        "id": "m1", "fact_type": "preference", "content": LONG, "confidence": 0.75, "timestamp": CREATED,
        "metadata": {"empty": None, "categories": ["morning", "tea"]},
    },
}  # fmt: skip

# By preset and view, the values of every column in one of its rows.
EXPECTED: dict[str, dict[str, Expected]] = {
    "agentic_memory": AGENTIC_MEMORY,
    "agent_lifecycle": AGENT_LIFECYCLE,
    "memory_orchestrator": MEMORY_ORCHESTRATOR,
    "agentmem": AGENTMEM,
    "julep": JULEP,
}
