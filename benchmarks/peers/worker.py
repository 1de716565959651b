"""Run one of the peers, in the peers' environment: python -m benchmarks.peers.worker mem0

Each is set up as its own documentation says for one machine without a server.
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.peers.protocol import DIMENSIONS, MODEL, Memory, Opener, Query, Worker, serve

# Clients require a key; the endpoint ignores it.
KEY = "none"
# How many memories are loaded in one call.
BATCH = 200


class Mem0:
    """mem0's `Memory` on the vector store it comes with (Qdrant in a folder), adding texts unchanged."""

    def __init__(self, folder: Path, url: str) -> None:
        client = {"model": MODEL, "api_key": KEY, "openai_base_url": url}
        vector_store = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": DIMENSIONS}
        self._memory = importlib.import_module("mem0").Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": vector_store},
                "embedder": {"provider": "openai", "config": client},
                "llm": {"provider": "openai", "config": client},
                "history_db_path": str(folder / "history.db"),
            }
        )

    def add(self, memory: Memory) -> None:
        metadata = {"ref": memory.ref, "kind": memory.kind, "tag": memory.tag}
        self._memory.add(memory.text, user_id=memory.user, metadata=metadata, infer=False)

    def load(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self.add(memory)

    def search(self, query: Query, k: int) -> Any:
        conditions = {"user_id": query.user, "kind": query.kind, "tag": query.tag}
        filters = {name: value for name, value in conditions.items() if value is not None}
        return self._memory.search(query.text, top_k=k, filters=filters, threshold=0.0)

    def list_refs(self, answer: Any) -> list[str]:
        return [result["metadata"]["ref"] for result in answer["results"]]

    def embed(self, text: str) -> object:
        return self._memory.embedding_model.embed(text, "add")

    def close(self) -> None:
        self._memory.vector_store.client.close()
        self._memory.close()


class Chroma:
    """Chroma with a collection per user in a folder, by cosine, otherwise with default settings.

    Two choices make it faster. With all users in one collection and a filter by metadata, a search would first list
    every memory of the user. And if a collection got the embedding function instead of vectors, it would create a new
    client at every add, which takes ten times as long as the add.
    """

    def __init__(self, folder: Path, url: str) -> None:
        chroma = importlib.import_module("chromadb")
        functions = importlib.import_module("chromadb.utils.embedding_functions")
        self._embed = functions.OpenAIEmbeddingFunction(model_name=MODEL, api_base=url)
        self._client = chroma.PersistentClient(path=str(folder))
        self._collections: dict[str, Any] = {}

    def _open_collection(self, user: str) -> Any:
        if user not in self._collections:
            self._collections[user] = self._client.create_collection(
                f"memories-{user}", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
            )
        return self._collections[user]

    def add(self, memory: Memory) -> None:
        self._put(memory.user, [memory])

    def load(self, memories: Sequence[Memory]) -> None:
        for user in dict.fromkeys(memory.user for memory in memories):
            memories_of_user = [memory for memory in memories if memory.user == user]
            for start in range(0, len(memories_of_user), BATCH):
                self._put(user, memories_of_user[start : start + BATCH])

    def _put(self, user: str, memories: Sequence[Memory]) -> None:
        self._open_collection(user).add(
            ids=[str(uuid4()) for _ in memories],
            embeddings=self._embed([memory.text for memory in memories]),
            documents=[memory.text for memory in memories],
            metadatas=[{"ref": memory.ref, "kind": memory.kind, "tag": memory.tag} for memory in memories],
        )

    def search(self, query: Query, k: int) -> Any:
        filters = [{name: value} for name, value in (("kind", query.kind), ("tag", query.tag)) if value is not None]
        where = {"$and": filters} if len(filters) > 1 else next(iter(filters), None)
        return self._open_collection(query.user).query(
            query_embeddings=self._embed([query.text]), n_results=k, where=where
        )

    def list_refs(self, answer: Any) -> list[str]:
        return [metadata["ref"] for metadata in answer["metadatas"][0]]

    def embed(self, text: str) -> object:
        return self._embed([text])

    def close(self) -> None:
        self._collections.clear()
        del self._client


class LangGraph:
    """`SqliteStore` with its vector index; a user's memories are a namespace."""

    def __init__(self, folder: Path, url: str) -> None:
        self._stores = importlib.import_module("langgraph.store.sqlite")
        self._operations = importlib.import_module("langgraph.store.base")
        self._client = importlib.import_module("openai").OpenAI(api_key=KEY, base_url=url)
        # The index is an SQLite extension. Many builds of Python cannot load extensions; this driver always can.
        sqlite = importlib.import_module("pysqlite3")
        self._connection = sqlite.connect(folder / "store.db", check_same_thread=False, isolation_level=None)
        # Its documentation names `fields`, but it reads `text_fields`; without the latter, the whole value is embedded.
        index = {"dims": DIMENSIONS, "embed": self._embed_texts, "fields": ["text"], "text_fields": ["text"]}
        self._store = self._stores.SqliteStore(self._connection, index=index)
        self._store.setup()

    def _embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        answer = self._client.embeddings.create(model=MODEL, input=list(texts))
        return [item.embedding for item in answer.data]

    def add(self, memory: Memory) -> None:
        self._store.put(_make_namespace(memory.user), str(uuid4()), _make_value(memory))

    def load(self, memories: Sequence[Memory]) -> None:
        for start in range(0, len(memories), BATCH):
            batch = memories[start : start + BATCH]
            self._store.batch(
                [
                    self._operations.PutOp(_make_namespace(memory.user), str(uuid4()), _make_value(memory))
                    for memory in batch
                ]
            )

    def search(self, query: Query, k: int) -> Any:
        conditions = {"kind": query.kind, "tag": query.tag}
        filters = {name: value for name, value in conditions.items() if value is not None}
        return self._store.search(_make_namespace(query.user), query=query.text, filter=filters or None, limit=k)

    def list_refs(self, answer: Any) -> list[str]:
        return [item.value["ref"] for item in answer]

    def embed(self, text: str) -> object:
        return self._embed_texts([text])

    def close(self) -> None:
        self._connection.close()


def _make_namespace(user: str) -> tuple[str, str]:
    return ("memories", user)


def _make_value(memory: Memory) -> dict[str, str]:
    return {"text": memory.text, "ref": memory.ref, "kind": memory.kind, "tag": memory.tag}


# The class of each peer, and the packages it needs.
PEERS: dict[str, tuple[Opener, Sequence[str]]] = {
    "mem0": (Mem0, ["mem0ai"]),
    "chroma": (Chroma, ["chromadb"]),
    "langgraph": (LangGraph, ["langgraph", "langgraph-checkpoint-sqlite", "pysqlite3-binary"]),
}


if __name__ == "__main__":
    serve(Worker(*PEERS[sys.argv[1]]))
