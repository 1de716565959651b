"""Run Everhold, in its own environment, in the same way as the peers: python -m benchmarks.peers.ours"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import build_settings, open_engine
from benchmarks.peers.protocol import DIMENSIONS, MODEL, Memory, Query, Worker, serve
from everhold.embedders import make_embedder
from everhold.evaluation import locomo


class Ours:
    """An engine on a SQLite file with default settings, embedding through the endpoint.

    Vectors are not cached, so that it calls the endpoint as often as the others do.
    """

    def __init__(self, folder: Path, url: str) -> None:
        embedding = {"url": url, "model": MODEL, "dimensions": DIMENSIONS, "cache_texts": 0}
        settings = build_settings(folder / "ours.db", embedding=embedding)
        self._embedder, tokenizer, _ = make_embedder(settings)
        self._engine = open_engine(settings, self._embedder, tokenizer)
        self._turns: dict[str, str] = {}

    def add(self, memory: Memory) -> None:
        view = self._engine.scope(user=memory.user)
        view.remember(memory.text, kind=memory.kind, tags=[memory.tag], metadata={"ref": memory.ref})

    def load(self, memories: Sequence[Memory]) -> None:
        for user in dict.fromkeys(memory.user for memory in memories):
            self._engine.scope(user=user).remember_many(
                {"text": memory.text, "kind": memory.kind, "tags": [memory.tag], "metadata": {"ref": memory.ref}}
                for memory in memories
                if memory.user == user
            )

    def ingest(self, path: Path) -> None:
        """Store the conversations of a file, each for a separate user."""
        for conversation in locomo.read(path):
            self._turns.update(locomo.ingest(self._engine, conversation))

    def search(self, query: Query, k: int) -> Any:
        view = self._engine.scope(user=query.user)
        recipe = "meaning" if query.by_meaning else "hybrid"
        return view.recall(query.text, k=k, kind=query.kind, tags=query.tag, minimum=0, recipe=recipe)

    def list_refs(self, answer: Any) -> list[str]:
        if any(hit.memory.id in self._turns for hit in answer):
            return locomo.find_turns(answer, self._turns)
        return [hit.memory.metadata["ref"] for hit in answer]

    def embed(self, text: str) -> object:
        return self._embedder.embed([text])

    def close(self) -> None:
        self._engine.close()


class OurWorker(Worker):
    """A worker that can also ingest conversations."""

    def answer(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if command == "ingest":
            assert isinstance(self.store, Ours)
            self.store.ingest(Path(arguments["path"]))
            return {}
        return super().answer(command, arguments)


if __name__ == "__main__":
    serve(OurWorker(Ours, ["everhold"]))
