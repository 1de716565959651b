"""Clients of older voice assistants: the gateway answers each request as the old service did."""

from collections.abc import Iterator

import pytest

from everhold import Everhold
from everhold.interfaces.voice.protocols import PROTOCOLS
from everhold.testing.fake_embedder import FakeEmbedder
from tests.voice_gateway import FRAMINGS, Client, RunningGateway, serve

NAMES = list(PROTOCOLS)


@pytest.fixture(scope="module")
def engine() -> Iterator[Everhold]:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
        yield engine


@pytest.fixture(scope="module")
def served(engine: Everhold) -> Iterator[RunningGateway]:
    """A gateway with a bind for each protocol, each with an organization of its own."""
    with serve(engine, *[f"{name}@{name}" for name in NAMES]) as served:
        yield served


@pytest.fixture(params=list(FRAMINGS))
def framing(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def connect(served: RunningGateway, protocol: str, framing: str) -> Client:
    return served.connect(framing, NAMES.index(protocol))


@pytest.mark.parametrize("protocol", NAMES)
def test_health_is_answered_in_each_protocol(served: RunningGateway, framing: str, protocol: str) -> None:
    client = connect(served, protocol, framing)
    reply = client.ask(**({"command": "HEALTH_CHECK"} if protocol == "unified-4" else {"action": "health_check"}))
    assert reply["status"] in ("ok", "success", "SUCCESS")
    assert client.ask(request_type="health_check")["status"] == reply["status"]


def test_session_memory_requests_are_answered(served: RunningGateway, framing: str) -> None:
    client = connect(served, "session-memory", framing)
    created = client.ask(action="create_session", user_id="alice", metadata={"device": "kitchen"}, request_id="r1")
    session = created["session_id"]
    assert created == {"status": "success", "session_id": session, "request_id": "r1"}
    for role, content in (("user", "Good morning"), ("assistant", "Hello"), ("user", "What is the time?")):
        added = client.ask(action="add_interaction", session_id=session, role=role, content=content, request_id="r2")
        assert (added["status"], added["request_id"]) == ("success", "r2")
    context = client.ask(action="get_context", session_id=session)["context"]
    assert [(turn["role"], turn["content"]) for turn in context] == [
        ("user", "Good morning"),
        ("assistant", "Hello"),
        ("user", "What is the time?"),
    ]
    assert all("timestamp" in turn for turn in context)
    # Four characters are a token: the newest turns that fit, oldest first.
    newest = client.ask(action="get_context", session_id=session, max_tokens=6)["context"]
    assert [turn["content"] for turn in newest] == ["Hello", "What is the time?"]
    hits = client.ask(action="search_interactions", query="good morning", session_id=session)["results"]
    assert hits[0]["content"] == "Good morning"
    assert client.ask(action="clear_session", session_id=session)["status"] == "success"
    assert client.ask(action="get_context", session_id=session)["context"] == []
    assert client.ask(action="delete_session", session_id=session)["status"] == "success"
    recreated = client.ask(action="create_session", session_id=session, user_id="bob")
    assert recreated["session_id"] == session
    assert client.ask(action="add_interaction", session_id=session, role="user", content="Hi")["status"] == "success"


def test_session_memory_errors_are_answered(served: RunningGateway) -> None:
    client = connect(served, "session-memory", "REQ")
    missing = client.ask(action="add_interaction", session_id="nowhere", role="user", content="x", request_id="r")
    assert (missing["status"], missing["request_id"]) == ("error", "r")
    assert "no session 'nowhere'" in missing["message"]
    assert client.ask(action="add_interaction", session_id="s")["status"] == "error"
    assert client.ask(action="get_context", session_id="nowhere")["context"] == []
    assert client.ask(action="dance")["message"].startswith("Unknown action: 'dance'; use one of ")


def test_second_generation_session_memory_requests_are_answered(served: RunningGateway, framing: str) -> None:
    client = connect(served, "session-memory-2", framing)
    assert client.ask(action="health_check")["healthy"] is True
    session = client.ask(action="create_session", user_id="alice", session_type="task")["session_id"]
    for number in range(25):
        client.ask(action="add_interaction", session_id=session, role="user", content=f"turn {number}")
    context = client.ask(action="get_context", session_id=session)["context"]
    assert context == [{"role": "user", "content": f"turn {number}"} for number in range(5, 25)]
    assert len(client.ask(action="get_context", session_id=session, limit=3)["context"]) == 3
    [hit] = client.ask(action="search_interactions", query="turn 7", session_id=session, limit=1)["results"]
    assert hit["metadata"]["role"] == "user"
    assert client.ask(action="delete_session", session_id=session)["message"] == "Session deleted"


def test_contextual_requests_are_answered(served: RunningGateway, framing: str) -> None:
    client, session = connect(served, "contextual", framing), f"alice_{framing}"
    for kind, content in (
        ("user_query", "Why does it fail?"),
        ("code", "import sqlite3"),
        ("error", "TimeoutError: no answer"),
    ):
        added = client.ask(action="add_interaction", session_id=session, type=kind, content=content, metadata={"n": 1})
        assert added == {"status": "ok"}
    assert client.ask(action="record_decision", session_id=session, decision="Use a pool") == {"status": "ok"}
    context = client.ask(action="get_context", session_id=session, max_tokens=500)
    assert (context["status"], context["code_context"]) == ("ok", "import sqlite3")
    assert context["errors_encountered"] == ["TimeoutError: no answer"]
    assert [decision["decision"] for decision in context["key_decisions"]] == ["Use a pool"]
    assert "Why does it fail?" in context["conversation_summary"]


def test_contextual_requests_of_the_older_build_are_answered(served: RunningGateway, framing: str) -> None:
    client, user = connect(served, "contextual", framing), f"bob-{framing}"
    session = client.ask(action="get_session_id", user_id=user, project="robot")["session_id"]
    assert session == f"{user}_robot"
    request = {"action": "add_interaction", "user_id": user, "project": "robot"}
    assert client.ask(**request, type="user_query", content="Start")["status"] == "ok"
    summary = client.ask(action="get_summary", user_id=user, project="robot")["summary"]
    assert "Start" in summary["conversation_summary"]
    assert client.ask(action="clear_session", user_id=user, project="robot") == {"status": "ok"}
    assert "conversation_summary" not in client.ask(action="get_summary", user_id=user, project="robot")["summary"]
    assert client.ask(action="get_memory_config")["hierarchy"]
    assert client.ask(action="get_context", session_id="unknown_x")["key_decisions"] == []


def test_contextual_requests_on_the_main_computer_are_answered(served: RunningGateway, framing: str) -> None:
    client, user = connect(served, "contextual-mainpc", framing), f"carol-{framing}"
    for context in ("the light is on", {"room": "kitchen", "level": 3}):
        assert client.ask(action="add_context", user_id=user, context=context) == {"status": "ok"}
    contexts = client.ask(action="get_context", user_id=user)["context"]
    assert [entry["context"] for entry in contexts] == ["the light is on", {"room": "kitchen", "level": 3}]
    [hit] = client.ask(action="search_memory", user_id=user, keyword="KITCHEN")["results"]
    assert hit["context"]["level"] == 3
    assert client.ask(action="clear_context", user_id=user) == {"status": "ok"}
    assert client.ask(action="get_context", user_id=user)["context"] == []
    for reminder in ("buy milk", {"type": "reminder", "text": "call mum"}, "buy milk"):
        assert client.ask(action="add_reminder", user_id=user, reminder=reminder) == {"status": "ok"}
    assert client.ask(action="delete_reminder", user_id=user, index=0) == {"status": "ok"}
    reminders = client.ask(action="list_reminders", user_id=user)["reminders"]
    assert reminders == [{"type": "reminder", "text": "call mum"}, "buy milk"]
    reply = client.ask(action="delete_reminder", user_id=user, index=7)
    assert reply["status"] == "error"
    assert reply["reason"].startswith("Invalid reminder index")
    assert client.ask(action="delete_all_reminders", user_id=user) == {"status": "ok"}


def test_profile_requests_on_the_main_computer_are_answered(served: RunningGateway, framing: str) -> None:
    client, user = connect(served, "contextual-mainpc", framing), f"dora-{framing}"
    empty = {"name": "User", "preferences": {}, "taught_commands": {}, "reminders": []}
    assert client.ask(action="get_profile", user_id=user)["profile"] == empty
    updates = {"name": "Dora", "preferences": {"tea": "green"}, "taught_commands": {"hush": "be quiet"}}
    assert client.ask(action="update_profile", user_id=user, updates=updates) == {"status": "ok"}
    profile = client.ask(action="get_profile", user_id=user)["profile"]
    assert profile == {**updates, "reminders": []}
    written_back = {**profile, "reminders": ["water the plants"]}
    assert client.ask(action="update_profile", user_id=user, updates=written_back) == {"status": "ok"}
    assert client.ask(action="list_reminders", user_id=user)["reminders"] == ["water the plants"]


def test_enhanced_contextual_requests_are_answered(served: RunningGateway, framing: str) -> None:
    client, user = connect(served, "contextual-enhanced", framing), f"erin-{framing}"
    for content, priority in (("a" * 40, "LOW"), ("b" * 40, "HIGH"), ("c" * 40, "MEDIUM")):
        added = client.ask(action="add_memory", user_id=user, content=content, type="code", priority=priority)
        assert added["status"] == "success"
    context = client.ask(action="get_context", user_id=user, max_tokens=20)
    assert context["context"] == f"{'b' * 40}\n{'c' * 40}"
    assert [memory["priority"] for memory in context["memories"]] == ["HIGH", "MEDIUM"]
    assert "error" in client.ask(action="add_memory", content="x", priority="HUGE")


def test_jarvis_requests_are_answered(served: RunningGateway, framing: str) -> None:
    client, user = connect(served, "jarvis", framing), f"frank-{framing}"
    reminder = {"type": "reminder", "text": "Take a break", "emotion": "calm"}
    for memory in ("Likes jazz", "Likes jazz", reminder, {"list": [1, 2]}):
        assert client.ask(action="add_memory", user_id=user, memory=memory) == {"status": "ok"}
    memories = client.ask(action="get_memories", user_id=user)["memories"]
    assert [entry["memory"] for entry in memories] == ["Likes jazz", "Likes jazz", reminder, {"list": [1, 2]}]
    assert client.ask(action="clear_memories", user_id=user) == {"status": "ok"}
    assert client.ask(action="get_memories", user_id=user) == {"status": "ok", "memories": []}
    assert client.ask(action="sing")["reason"].startswith("Unknown action")


@pytest.mark.parametrize(
    ("protocol", "field"), [("unified-1", "summary"), ("unified-2", "context"), ("unified", "summary")]
)
def test_unified_interaction_and_error_pattern_requests_are_answered(
    served: RunningGateway, framing: str, protocol: str, field: str
) -> None:
    client, session = connect(served, protocol, framing), f"gina_{framing}"
    kind = {"interaction_type": "user_query"} if protocol == "unified-2" else {"type": "user_query"}
    assert client.ask(action="add_interaction", session_id=session, content="Hello there", **kind) == {"status": "ok"}
    reply = client.ask(action="get_context", session_id=session)
    assert "Hello there" in reply[field]["conversation_summary"]
    for solution in ("restart", "wait"):
        pattern = {"error_type": "timeout", "pattern": r"Timed out after \d+ s", "solution": solution}
        assert client.ask(action="add_error_pattern", **pattern) == {"status": "ok"}
    answer = client.ask(action="get_error_solution", error_message="it TIMED OUT after 30 s, sorry")
    assert answer == {"status": "ok", "solution": "wait"}
    assert client.ask(action="get_error_solution", error_message="something else")["solution"] is None
    assert client.ask(action="get_context")["status"] == "error"


@pytest.mark.parametrize("protocol", ["unified-2", "unified"])
def test_unified_twin_and_memory_requests_are_answered(served: RunningGateway, framing: str, protocol: str) -> None:
    client, user = connect(served, protocol, framing), f"hugo-{framing}"
    assert client.ask(action="get_twin", user_id=user) == {"status": "ok", "twin": None}
    for twin in ({"mood": "calm", "age": 40}, {"mood": "happy"}):
        assert client.ask(action="update_twin", user_id=user, twin_data=twin) == {"status": "ok"}
    assert client.ask(action="get_twin", user_id=user)["twin"] == {"mood": "happy", "age": 40}
    assert client.ask(action="delete_twin", user_id=user) == {"status": "ok"}
    assert client.ask(action="delete_twin", user_id=user)["status"] == "error"
    client.ask(action="add_interaction", session_id=f"{user}_x", interaction_type="code", content="x = 1")
    memories = client.ask(action="get_all_memories")["memories"]
    assert memories[-1].items() >= {"type": "short_term", "session_id": f"{user}_x", "content": "x = 1"}.items()


def test_unified_coordination_requests_are_answered(served: RunningGateway, framing: str) -> None:
    client = connect(served, "unified-2", framing)
    request = {"coordinate_with": "episodic", "priority": "high", "op_id": "o1", "user_id": f"ida-{framing}"}
    stored = client.ask(**request, operation="write", data={"content": "We met at the sea"})
    assert (stored["status"], stored["result"]["status"]) == ("coordinated", "success")
    read = client.ask(**request, operation="read")
    assert [memory["content"] for memory in read["result"]["memories"]] == ["We met at the sea"]
    simulated = client.ask(**{**request, "coordinate_with": "dreamworld"}, operation="run_simulation")
    assert simulated["result"]["status"] == "error"


def test_unified_stub_requests_are_answered(served: RunningGateway, engine: Everhold, framing: str) -> None:
    client = connect(served, "unified-3", framing)
    reply = client.ask(action="anything", content=f"The stub stores this for {framing}")
    assert (reply["status"], reply["message"]) == ("success", "Memory updated")
    assert engine.scope(organization="unified-3").get(reply["memory_id"]).text.startswith("The stub stores this")


@pytest.mark.parametrize("protocol", ["unified-4", "unified"])
def test_unified_command_requests_are_answered(served: RunningGateway, framing: str, protocol: str) -> None:
    client = connect(served, protocol, framing)
    own_id = f"mem_1700000000_{framing.replace(' ', '')}_{protocol}"
    assert client.ask(command="TEST_PING")["message"] == "PONG"
    item = {"id": own_id, "content": "The lamp is broken", "source": f"lamp-{framing}"}
    assert client.ask(command="STORE_MEMORY", data=item)["data"] == {"memory_id": own_id}
    [memory] = client.ask(command="QUERY_MEMORY", query={"id": own_id})["data"]["memories"]
    assert (memory["content"], memory["strength"], memory["forgotten"]) == ("The lamp is broken", 1.0, False)
    reinforced = client.ask(command="REINFORCE_MEMORY", memory_id=own_id)
    assert reinforced["data"]["strength"] == pytest.approx(1.2)
    by_keyword = client.ask(command="QUERY_MEMORY", query={"keywords": ["LAMP"], "source": item["source"]})
    assert [memory["id"] for memory in by_keyword["data"]["memories"]] == [own_id]
    weak = {"source": item["source"], "min_strength": 2}
    assert client.ask(command="QUERY_MEMORY", query=weak)["data"]["memories"] == []
    newer = {**item, "content": "The lamp is repaired", "last_accessed": 4e9, "strength": 1.1}
    older = {**item, "content": "There is no lamp", "last_accessed": 0, "strength": 0.1}
    other = {"id": f"{own_id}-2", "content": "A second lamp", "source": "sync"}
    assert client.ask(command="SYNC_MEMORIES", memories=[newer, older, other])["data"] == {"synced": 2}
    [memory] = client.ask(command="QUERY_MEMORY", query={"ids": [own_id, "unknown"]})["data"]["memories"]
    assert (memory["content"], memory["strength"]) == ("The lamp is repaired", pytest.approx(1.2))
    assert client.ask(command="GET_MEMORY_STATUS")["data"]["total_memories"] >= 2
    assert client.ask(command="DELETE_MEMORY", memory_id=own_id)["status"] == "SUCCESS"
    assert client.ask(command="DELETE_MEMORY", memory_id=own_id)["status"] == "ERROR"
    assert client.ask(command="QUERY_MEMORY", query={"id": own_id})["data"]["memories"] == []
