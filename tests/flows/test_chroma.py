"""On every store, an engine with vectors in Chroma gives the same collect_answers as an engine without Chroma."""

from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from everhold.adapters.chroma import ChromaVectors
from everhold.adapters.chroma.rows import CollectionSpace
from tests.chroma_store import SECONDS
from tests.engines import STORES, Store, make_store, ranking
from tests.flows.test_same_everywhere import QUESTIONS, collect_answers, fill
from tests.servers.chroma import ChromaServer


def get_vectors(engine: Everhold) -> ChromaVectors:
    vectors = engine._parts.recall_deps.candidates.vectors
    assert isinstance(vectors, ChromaVectors)
    return vectors


def open_with_chroma(store: Store, address: str, **settings: Any) -> Everhold:
    engine = store.open(vectors=address, images={"max_memories": 0}, **settings)
    assert get_vectors(engine).wait(SECONDS), engine.doctor().problems
    return engine


@pytest.mark.parametrize("name", STORES)
def test_chroma_gives_the_same_answers_on_every_store(
    name: str, chroma_server: ChromaServer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = make_store(name, request, tmp_path)
    large_chunks = {"embedding": {"chunk_tokens": 512}}  # so that all chunks are among those that the indexes propose
    address = f"chroma:///{tmp_path / 'chroma'}" if name == "sqlite" else chroma_server.url
    engine = open_with_chroma(store, address, **large_chunks)
    fill(engine)  # Chroma follows remember, revise, forget and supersede
    from_images = store.open(**large_chunks)
    get_vectors(engine).projection(CollectionSpace("fake", 384)).advance()
    for scope in ({"user": "alice"}, {}):
        assert collect_answers(engine.scope(**scope), QUESTIONS[:4]) == collect_answers(
            from_images.scope(**scope), QUESTIONS[:4]
        )
    report = engine.doctor()
    assert report.parts["vectors"].startswith(f"chroma ({address[:10]}")
    assert any("0 lines behind, serves" in line for line in report.parts.values())
    assert report.problems == []
    store.close()


def test_two_engines_can_share_a_store_and_a_server(
    chroma_server: ChromaServer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = make_store("sqlite", request, tmp_path)
    first, second = (open_with_chroma(store, chroma_server.url) for _ in range(2))
    memory = first.scope(user="alice").remember("green tea in the garden")
    for engine in (first, second):
        hits = engine.scope(user="alice").recall("green tea", minimum=0)
        assert [memory_id for memory_id, _ in ranking(hits)] == [memory.id]
        assert hits.approximate
    second.scope(user="alice").forget(memory.id)
    assert not first.scope(user="alice").recall("green tea", minimum=0)
    store.close()
