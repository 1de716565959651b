"""The memory orchestrator's clients: envelopes with a payload, and the later form with data."""

from collections.abc import Iterator
from typing import Any

import pytest

from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
from tests.voice_gateway import FRAMINGS, Client, serve


@pytest.fixture(params=list(FRAMINGS))
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine, serve(engine, "orchestrator@home") as served:
        yield served.connect(request.param)


def ask(client: Client, action: str, payload: dict[str, Any], session: str | None = None) -> Any:
    """Send an envelope as the orchestrator's client did, and check the envelope of the reply."""
    reply = client.ask(
        action=action, session_id=session, payload=payload, request_id="req-00c0ffee", timestamp="2025-06-01T10:00:00"
    )
    assert (reply["action"], reply["request_id"]) == (action, "req-00c0ffee")
    assert reply["timestamp"]
    return reply


def test_requests_in_envelopes_are_answered(client: Client) -> None:
    session = ask(client, "create_session", {"user_id": "alice", "session_type": "task"})["data"]["session_id"]
    payload = {
        "memory_type": "conversation",
        "content": {"text": "Alice asked for tea", "role": "user"},
        "tags": ["tea"],
        "priority": 7,
        "expires_at": "2999-01-01T00:00:00",
        "metadata": {"agent_id": "kitchen"},
    }
    memory_id = ask(client, "create", payload, session)["data"]["memory_id"]
    read = ask(client, "read", {"memory_id": memory_id}, session)["data"]
    assert read["content"] == payload["content"]
    assert (read["priority"], read["tags"], read["source_agent"]) == (7, ["tea"], "kitchen")
    assert (read["session_id"], read["expires_at"]) == (session, "2999-01-01T00:00:00+00:00")
    changed = {"memory_id": memory_id, "content": {"text": "Alice asked for coffee"}, "tags": ["coffee"]}
    assert ask(client, "update", changed, session)["status"] == "success"
    [loaded_memory] = ask(client, "search", {"query": "coffee", "limit": 3}, session)["data"]["memories"]
    assert (loaded_memory["text_content"], loaded_memory["tags"]) == ("Alice asked for coffee", ["coffee", "tea"])
    ask(client, "create", {"content": {"text": "Second"}, "memory_type": "conversation"}, session)
    listed = ask(client, "batch_read", {"memory_type": "conversation", "sort_order": "asc"}, session)["data"]
    assert [memory["text_content"] for memory in listed["memories"]] == ["Alice asked for coffee", "Second"]
    by_id = ask(client, "batch_read", {"memory_ids": [memory_id, "unknown"]}, session)["data"]
    assert by_id["count"] == 1
    assert ask(client, "delete", {"memory_id": memory_id}, session)["data"]["deleted"] is True
    assert ask(client, "bulk_delete", {"memory_type": "conversation"}, session)["data"] == {"deleted": 1}
    assert "summary" in ask(client, "summarize", {}, session)["data"]
    assert ask(client, "end_session", {"summary": "Done", "archive": True}, session)["status"] == "success"


def test_errors_are_answered_in_envelopes(client: Client) -> None:
    missing = ask(client, "read", {"memory_id": "mem-00000000"})
    assert (missing["status"], missing["error"]["code"]) == ("error", "not_found")
    assert missing["error"]["details"]["retryable"] is False
    assert ask(client, "create", {"tags": ["x"]})["error"]["code"] == "invalid_request"
    assert ask(client, "fly", {})["error"]["message"].startswith("Unknown action: 'fly'")
    assert ask(client, "summarize", {}, "nowhere")["error"]["code"] == "not_found"


def test_requests_of_the_later_service_are_answered(client: Client) -> None:
    def call(action: str, **data: Any) -> Any:
        return client.ask(action=action, data=data)

    parent = call("add_memory", content="A trip to the sea", memory_type="episode", importance=0.5)["memory_id"]
    child = call("add_memory", content="The water was cold", parent_id=parent, tags=["sea"], memory_tier="long")
    child_id = child["memory_id"]
    memory = call("get_memory", memory_id=child_id)["memory"]
    assert (memory["content"], memory["memory_tier"]) == ("The water was cold", "long")
    assert (memory["parent_id"], memory["tags"], memory["metadata"]) == (parent, ["sea"], {})
    assert [item["memory_id"] for item in call("get_children", parent_id=parent)["children"]] == [child_id]
    relation = {"source_id": child_id, "target_id": parent, "relationship_type": "part_of", "strength": 0.4}
    assert call("add_relationship", **relation) == {"status": "success"}
    [related] = call("get_related", memory_id=child_id)["related_memories"]
    assert (related["memory_id"], related["strength"]) == (parent, 0.4)
    assert call("search_memory", query="cold water")["results"][0]["memory_id"] == child_id
    assert call("semantic_search", query="cold water", k=1, filters={"parent_id": parent})["count"] == 1
    assert call("update_memory", memory_id=child_id, update_data={"content": "It was warm", "metadata": {"a": 1}})
    assert call("get_memory", memory_id=child_id)["memory"]["metadata"] == {"a": 1}
    assert call("reinforce_memory", memory_id=parent)["new_importance"] == pytest.approx(0.6)
    added = call("batch_add_memories", memories=[{"content": "one"}, {"content": "two"}])["memory_ids"]
    assert call("batch_get_memories", memory_ids=[*added, "unknown"])["count"] == 2
    group = call("create_context_group", name="holidays", description="Trips")["group_id"]
    assert call("create_context_group", name="holidays")["group_id"] == group
    assert call("add_to_group", memory_id=parent, group_id=group) == {"status": "success"}
    assert [item["memory_id"] for item in call("get_memories_by_group", group_id=group)["memories"]] == [parent]
    assert call("add_to_group", memory_id=parent, group_id=1)["status"] == "error"
    assert call("delete_memory", memory_id=parent, cascade=True)["deleted"] == 2
    assert call("get_memory", memory_id=child_id)["status"] == "error"
    assert call("create_session", user_id="bob")["session_id"]
    assert call("dance")["message"].startswith("Unknown action")
