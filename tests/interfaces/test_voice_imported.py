"""Clients of old services read, through the gateway, memories imported from the files of these services."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
from tests import import_samples as samples
from tests.voice_gateway import Client, serve


class Gateway:
    """An engine with a gateway, which imports files and answers as one of the old services."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.engine = stack.enter_context(Everhold.open("memory://", embedder=FakeEmbedder()))
        self._stack, self._folder = stack, folder

    def load(self, make: samples.Make, protocol: str) -> Client:
        assert self.engine.load(make(self._folder)).quarantined == 0
        return self._stack.enter_context(serve(self.engine, f"{protocol}@default")).connect()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with ExitStack() as stack:
        yield Gateway(stack, tmp_path)


def test_imported_sessions_are_read_by_session_memory_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.session_memory, "session-memory")
    context = client.ask(action="get_context", session_id="s-kitchen")["context"]
    assert [turn["content"] for turn in context] == ["Where did I put the saffron?", "In the blue tin."]
    client.ask(action="add_interaction", session_id="s-kitchen", role="user", content="Thanks")
    assert gateway.engine.scope(user="alice", session="s-kitchen").messages()[0].text == "Thanks"


def test_imported_contexts_are_read_by_contextual_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.contextual, "contextual")
    summary = client.ask(action="get_context", session_id="bob_robot")
    assert [item["decision"] for item in summary["key_decisions"]] == ["Replace the gripper"]
    assert summary["key_decisions"][0]["timestamp"] == 1709316180.0
    assert "gripper" in summary["conversation_summary"]


def test_imported_contexts_are_read_by_clients_of_the_other_machine(gateway: Gateway) -> None:
    client = gateway.load(samples.contextual_users, "contextual-mainpc")
    first, second = client.ask(action="get_context", user_id="carol")["context"]
    assert first == {"timestamp": 1709316060.5, "context": "Carol rehearses the cello on Mondays"}
    assert second["context"] == {"topic": "concert", "place": "Bath"}


def test_imported_profiles_are_read_by_profile_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.user_profile, "contextual-mainpc")
    profile = client.ask(action="get_profile", user_id="dora")["profile"]
    assert (profile["name"], profile["preferences"]) == ("Dora", {"volume": "low"})
    assert profile["taught_commands"] == {"good night": "turn off all lamps"}
    assert [reminder["text"] for reminder in profile["reminders"]] == ["Water the ficus"]
    assert client.ask(action="delete_reminder", user_id="dora", index=0) == {"status": "ok"}
    assert client.ask(action="list_reminders", user_id="dora")["reminders"] == []


def test_imported_memories_are_read_by_jarvis_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.jarvis, "jarvis")
    memories: list[Any] = client.ask(action="get_memories", user_id="eve")["memories"]
    assert memories[0] == {"timestamp": 1709316060.5, "memory": "Eve parks on level four"}
    assert memories[1]["memory"] == {"type": "reminder", "text": "Call the dentist", "emotion": "neutral"}
    client.ask(action="clear_memories", user_id="eve")
    assert client.ask(action="get_memories", user_id="eve")["memories"] == []


def test_imported_error_patterns_are_read_by_their_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.error_patterns, "unified-1")
    question = {"action": "get_error_solution", "error_message": "fatal: Port 5596 in use"}
    assert client.ask(**question)["solution"] == "kill the old agent"
    client.ask(action="add_error_pattern", error_type="bind", pattern="port 5596 in use", solution="wait")
    assert client.ask(**question)["solution"] == "wait"
    assert gateway.engine.scope().count(tags="error-pattern") == 1


def test_imported_digital_twins_are_read_by_their_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.digital_twins, "unified-2")
    twin = {"mood": "calm", "interests": ["astronomy", "tea"]}
    assert client.ask(action="get_twin", user_id="frank")["twin"] == twin
    client.ask(action="update_twin", user_id="frank", twin_data={"mood": "glad"})
    assert client.ask(action="get_twin", user_id="frank")["twin"]["mood"] == "glad"


def test_imported_memories_are_read_by_unified_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.unified_memories, "unified-4")
    [item] = client.ask(command="QUERY_MEMORY", query={"keywords": ["greenhouse"]})["data"]["memories"]
    assert (item["content"], item["strength"]) == ("The greenhouse door squeaks", 1.0)
    assert client.ask(command="QUERY_MEMORY", query={"id": item["id"]})["data"]["memories"][0]["id"] == item["id"]
    changed = {"id": item["id"], "content": "The greenhouse door is oiled"}
    assert client.ask(command="STORE_MEMORY", data=changed)["data"]["memory_id"] == item["id"]
    assert client.ask(command="GET_MEMORY_STATUS")["data"]["total_memories"] == 1


def test_imported_memories_are_read_by_orchestrator_clients(gateway: Gateway) -> None:
    client = gateway.load(samples.orchestrator, "orchestrator")
    memory = client.ask(action="read", payload={"memory_id": "mem-0a1b2c3d"}, session_id="s-9")["data"]
    assert (memory["memory_id"], memory["tags"], memory["priority"]) == ("mem-0a1b2c3d", ["bees"], 8)
    reply = client.ask(action="batch_read", payload={"memory_ids": ["mem-2", "mem-0a1b2c3d"]}, session_id="s-9")
    assert reply["data"]["count"] == 2
    deleted = client.ask(action="delete", payload={"memory_id": "mem-2"}, session_id="s-9")
    assert deleted["data"]["memory_id"] == "mem-2"


def test_imported_memories_are_read_by_clients_of_the_later_orchestrator(gateway: Gateway) -> None:
    client = gateway.load(samples.unified_database, "orchestrator")
    first, second = (f"mem-{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "12")
    [memory, child] = client.ask(action="batch_get_memories", data={"memory_ids": [first, second]})["memories"]
    assert (memory["memory_tier"], memory["tags"], child["parent_id"]) == ("long", ["library"], first)
    children = client.ask(action="get_children", data={"parent_id": first})["children"]
    assert [item["memory_id"] for item in children] == [second]
