"""Julep's flow and its layout of files, keys and collections, on a real Valkey and a real Chroma."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from everhold.errors import InvalidInput, InvalidSettings, StoreUnavailable
from everhold.julep import AgentReply, MemoryManager, create_agent, make_settings, read_config
from everhold.testing.fake_embedder import FakeEmbedder
from tests.chroma_store import SECONDS, open_chroma
from tests.flows.test_chroma import get_vectors
from tests.servers.chroma import ChromaServer
from tests.servers.valkey import ValkeyServer

CONFIG = """
julep_api_key: not-used-here
openai_api_base: http://localhost:11434/v1
agent:
  name: helper
  instructions: You are a helpful assistant.
memory:
  sqlite:
    database: "{folder}/storage/memory.db"
    pragmas:
      journal_mode: "WAL"
      cache_size: -64000
      foreign_keys: "ON"
      synchronous: "NORMAL"
      temp_store: "MEMORY"
      mmap_size: 67108864
  chroma:
    collection: "julep_memories"
    persist_directory: "{folder}/storage/chromadb"
    embedding_model: "all-MiniLM-L6-v2"
  redis:
    host: "127.0.0.1"
    port: {port}
    ttl: 86400
redis_config:
  db: 0
  decode_responses: true
  socket_timeout: 5
  retry_on_timeout: true
  health_check_interval: 30
"""


@pytest.fixture
def valkey() -> Any:
    with ValkeyServer() as server:
        server.start()
        yield server


@pytest.fixture
def config(tmp_path: Path, valkey: ValkeyServer) -> Path:
    path = tmp_path / "agent_config.yaml"
    path.write_text(CONFIG.format(folder=tmp_path, port=valkey.port), "utf-8")
    return path


def echo_last(messages: list[dict[str, Any]]) -> str:
    """Repeat the last message in capitals, in place of a model."""
    assert messages[0]["role"] == "system"
    return str(messages[-1]["content"]).rpartition("\n")[2].upper()


def test_a_message_is_stored_recalled_for_and_answered(config: Path, tmp_path: Path, valkey: ValkeyServer) -> None:
    prompts: list[list[dict[str, Any]]] = []

    async def answer(messages: list[dict[str, Any]]) -> str:
        prompts.append(messages)
        return "You like green tea."

    async def talk() -> list[AgentReply]:
        async with MemoryManager(config, embedder=FakeEmbedder()) as manager:
            agent = create_agent(config, manager, model=answer)
            session_fields = {
                "session_id": "s1",
                "user_id": "alice",
                "current_topic": "Drinks",
                "conversation_state": "active",
            }
            first = await agent.process("I like green tea in the morning", session_fields)
            second = await agent.process(
                {"content": "Which green tea do I like?", "id": "m2"}, {**session_fields, "session_id": "s2"}
            )
            plain = await create_agent(config, manager, model=echo_last).process("hello there", "Be brief.")
            engine = await manager.open()
            assert (await engine.scope(user="alice", session="s1").session()).topic == "Drinks"
            await asyncio.to_thread(get_vectors(engine._engine).wait, SECONDS)
            return [first, second, plain]

    first, second, plain = asyncio.run(talk())
    assert (first.text, str(second)) == ("You like green tea.", "You like green tea.")
    assert second.message.id == "m2"
    assert second.answer is not None
    assert (second.answer.role, second.answer.text, second.answer.agent_id) == ("assistant", second.text, "helper")
    assert prompts[0][0]["content"].startswith("You are a helpful assistant.")
    assert "green tea in the morning" in json.dumps(prompts[1])
    assert "HELLO THERE" in str(plain)
    check_redis(valkey)
    check_files(tmp_path / "storage")


def check_redis(valkey: ValkeyServer) -> None:
    client = valkey.client()
    assert set(client.keys("*")) == {
        *(f"{kind}:{session}" for kind in ("session", "history") for session in ("s1", "s2", "default")),
        "active_sessions",
        "last_active",
    }
    session = client.hgetall("session:s1")
    assert (session["user_id"], session["current_topic"]) == ("alice", "Drinks")
    assert json.loads(session["context"]) == {"conversation_state": "active"}
    assert session["last_active"].startswith("20")
    assert 86_000 < client.ttl("session:s1") <= 86_400
    history = [json.loads(item) for item in client.lrange("history:s1", 0, -1)]
    assert [(item["role"], item["text"]) for item in history] == [
        ("assistant", "You like green tea."),
        ("user", "I like green tea in the morning"),
    ]
    assert 86_000 < client.ttl("history:s1") <= 86_400
    assert client.smembers("active_sessions") == {"s1", "s2", "default"}


def check_files(storage: Path) -> None:
    assert stat.S_IMODE((storage / "memory.db").stat().st_mode) == 0o600
    assert stat.S_IMODE(storage.stat().st_mode) == 0o700
    collection = open_chroma(storage / "chromadb").get_collection("julep_memories")
    assert any("green tea" in document for document in collection.get()["documents"] or ())


def test_without_a_model_the_prompt_is_returned(tmp_path: Path) -> None:
    async def talk() -> AgentReply:
        settings = {"memory": {"sqlite": {"database": str(tmp_path / "memory.db")}}}
        async with MemoryManager(settings, embedder=FakeEmbedder()) as manager:
            return await create_agent(settings, manager).process("hello", {"session_id": "s1"})

    reply = asyncio.run(talk())
    assert (reply.text, reply.answer) == (None, None)
    assert "no model was given" in str(reply)
    assert reply.window.as_openai()[-1]["content"].endswith("hello")


def test_a_message_stays_stored_if_the_model_fails(tmp_path: Path) -> None:
    def fail(messages: list[dict[str, Any]]) -> str:
        raise TimeoutError("no answer")

    async def talk() -> None:
        settings = {"memory": {"sqlite": {"database": str(tmp_path / "memory.db")}}}
        async with MemoryManager(settings, embedder=FakeEmbedder()) as manager:
            message = {"content": "hello", "id": "m1", "session_id": "s1"}
            with pytest.raises(TimeoutError):
                await create_agent(settings, manager, fail).process(message)
            await create_agent(settings, manager, lambda _: "hi").process(message)
            with pytest.raises(InvalidInput, match="the model returned 5; return the answer as text"):
                await create_agent(settings, manager, lambda _: 5).process("again", message)  # type: ignore[arg-type,return-value]
            view = (await manager.open()).scope(session="s1")
            assert [stored_message.text for stored_message in (await view.messages(oldest_first=True)).messages] == [
                "hello",
                "hi",
                "again",
            ]
        with pytest.raises(StoreUnavailable, match="has been closed"):
            await manager.open()

    asyncio.run(talk())


def test_the_layout_has_exact_names_and_one_organization(tmp_path: Path, valkey: ValkeyServer) -> None:
    addresses = {"storage": f"{tmp_path}/storage/memory.db", "vectors": f"chroma:///{tmp_path}/storage/chromadb"}
    with Everhold.open(layout="julep", sessions=valkey.url, embedder=FakeEmbedder(), **addresses) as engine:
        alice = engine.scope(user="alice", session="chat:ü{1}")
        alice.say("Hello")
        memory = alice.remember("Occupation: software engineer", kind="fact")
        assert valkey.client().smembers("active_sessions") == {"chat:ü{1}"}
        assert valkey.client().exists("session:chat:ü{1}", "history:chat:ü{1}") == 2
        assert get_vectors(engine).wait(SECONDS)
        bundle = tmp_path / "all.jsonl"
        engine.export(bundle)
        for call in (
            lambda: engine.scope(organization="other"),
            lambda: engine.create_organization("other"),
            lambda: engine.create_user("bob", organization="other"),
            lambda: engine.load(bundle, organization="other"),
        ):
            with pytest.raises(InvalidInput, match="the layout 'julep' has a single organization, 'default'"):
                call()
    collection = open_chroma(tmp_path / "storage/chromadb").get_collection("julep_memories")
    [metadata], [document] = collection.get()["metadatas"], collection.get()["documents"]
    assert (document, metadata["type"], metadata["session_id"]) == (memory.text, "fact", "chat:ü{1}")
    assert (metadata["source"], metadata["timestamp"]) == ("user_input", memory.created_at.isoformat())


def test_the_collection_is_built_again_in_its_place(tmp_path: Path) -> None:
    addresses: dict[str, Any] = {
        "storage": f"{tmp_path}/memory.db", "vectors": f"chroma:///{tmp_path}/chromadb", "sessions": "auto"
    }  # fmt: skip
    for round_number in range(3):
        with Everhold.open(layout="julep", embedder=FakeEmbedder(), images={"max_memories": 0}, **addresses) as engine:
            assert get_vectors(engine).wait(SECONDS)
            engine.scope().remember(f"Fact number {round_number} about tea")
            if round_number == 1:
                get_vectors(engine).rebuild()
            hits = engine.scope().recall("fact about tea", minimum=0)
            assert len(hits) == round_number + 1
            assert engine.doctor().problems == []
    assert open_chroma(tmp_path / "chromadb").list_collections()[0].name == "julep_memories"


def test_a_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "chromadb"
    foreign_collection = open_chroma(folder).create_collection("julep_memories", embedding_function=None)
    foreign_collection.add(ids=["1"], embeddings=[[1.0, 0.0]], documents=["theirs"])
    addresses = {"storage": f"{tmp_path}/memory.db", "vectors": f"chroma:///{folder}", "sessions": "auto"}
    with Everhold.open(layout="julep", embedder=FakeEmbedder(), **addresses) as engine:
        engine.scope().remember("Alice likes tea")
        assert [problem for problem in engine.doctor().problems if "of another program" in problem]
        assert len(engine.scope().recall("tea", minimum=0)) == 1
    assert foreign_collection.get()["documents"] == ["theirs"]


def test_the_collection_may_be_on_a_server(tmp_path: Path, chroma_server: ChromaServer) -> None:
    import chromadb

    client = chromadb.HttpClient(host="127.0.0.1", port=int(chroma_server.url.rpartition(":")[2]))
    settings: dict[str, Any] = {"vectors": chroma_server.url, "sessions": "auto", "layout": "julep"}
    with Everhold.open(f"{tmp_path}/a.db", embedder=FakeEmbedder(), **settings) as engine:
        assert get_vectors(engine).wait(SECONDS)
        engine.scope().remember("Alice likes tea")
        get_vectors(engine).rebuild()
        assert client.get_collection("julep_memories").get()["documents"] == ["Alice likes tea"]
    client.delete_collection("julep_memories")
    foreign_collection = client.create_collection("julep_memories", embedding_function=None)
    foreign_collection.add(ids=["1"], embeddings=[[1.0, 0.0]], documents=["theirs"])
    with Everhold.open(f"{tmp_path}/b.db", embedder=FakeEmbedder(), **settings) as engine:
        assert [problem for problem in engine.doctor().problems if "of another program" in problem]
    assert foreign_collection.get()["documents"] == ["theirs"]
    client.delete_collection("julep_memories")


def test_a_store_with_several_organizations_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    with Everhold.open(path, embedder=FakeEmbedder()) as engine:
        engine.create_organization("acme")
        engine.delete_organization("acme")
    with pytest.raises(InvalidSettings, match="the store has the organization 'acme'"):
        Everhold.open(path, layout="julep", vectors="auto", sessions="auto", embedder=FakeEmbedder())


def test_a_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="different slots; use one server"):
        Everhold.open(
            str(tmp_path / "memory.db"),
            layout="julep",
            vectors="auto",
            sessions="redis+cluster://localhost:7000",
            embedder=FakeEmbedder(),
        )


def test_a_julep_configuration_becomes_settings(tmp_path: Path) -> None:
    text = CONFIG.format(folder="/data", port=6380)
    settings = make_settings(read_config(text), {"timezone": "Europe/Paris"})
    assert (settings["layout"], settings["storage"]) == ("julep", "sqlite:////data/storage/memory.db")
    assert (settings["vectors"], settings["chroma"]) == (
        "chroma:////data/storage/chromadb",
        {"prefix": "julep_memories"},
    )
    assert (settings["sessions"], settings["timezone"]) == ("redis://127.0.0.1:6380/0", "Europe/Paris")
    assert settings["redis"] == {"ttl_seconds": 86400, "socket_seconds": 5, "health_seconds": 30}
    assert settings["sqlite"] == {"synchronous": "NORMAL", "cache_megabytes": 64, "mmap_megabytes": 64}
    with_password = {"memory": {"redis": {"host": "h", "username": "u", "password": "p@ss/w", "db": 2}}}
    assert make_settings(with_password, {})["sessions"] == "redis://u:p%40ss%2Fw@h:6379/2"
    with pytest.raises(InvalidSettings, match="retry_on_timeout is not true; leave it out"):
        make_settings({"memory": {"redis": {"host": "h", "retry_on_timeout": False}}}, {})
    with pytest.raises(InvalidSettings, match=r"memory\.redis has no setting 'sokcet_timeout'"):
        make_settings({"memory": {}, "redis_config": {"host": "h", "sokcet_timeout": 5}}, {})
    with pytest.raises(InvalidSettings, match="cannot be read"):
        MemoryManager(tmp_path / "missing.yaml")
    with pytest.raises(InvalidInput, match="memory_manager is None; pass a MemoryManager"):
        create_agent({}, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match="agent has no setting 'instrucions'; did you mean 'instructions'"):
        create_agent({"agent": {"instrucions": "x"}}, MemoryManager({}))
