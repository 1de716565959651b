"""Each text is embedded once: in several calls, within one call, and by several threads."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.errors import InvalidInput, InvalidSettings
from everhold.ports.embedder import Embedder, Vector
from everhold.testing.fake_embedder import FakeEmbedder


class ControlledEmbedder(FakeEmbedder):
    """An embedder that records the texts it embedded, refuses some texts, and can be made to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded: list[str] = []
        self.refused: set[str] = set()
        self.started = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self.embedded += texts
        self.started.set()
        assert self.may_go_on.wait(100)
        if self.refused & set(texts):
            raise InvalidInput(f"refused {texts}")
        return super().embed(texts)


def are_equal(vectors: Sequence[Vector | None], expected: Sequence[Vector | None]) -> bool:
    return len(vectors) == len(expected) and all(
        first is second if first is None or second is None else np.array_equal(first, second)
        for first, second in zip(vectors, expected, strict=True)
    )


def test_the_cache_has_the_properties_of_the_inner_embedder() -> None:
    cached: Embedder = CachedEmbedder(FakeEmbedder("name", 12), 10)
    assert (cached.model, cached.dimensions) == ("name", 12)
    assert cached.embed([]) == []


def test_a_text_is_embedded_once_across_calls_and_within_one() -> None:
    inner = ControlledEmbedder()
    cached = CachedEmbedder(inner, 10)
    texts = ["a", "b", "a", "", "b", ""]
    assert are_equal(cached.embed(texts), FakeEmbedder().embed(texts))
    assert are_equal(cached.embed(["b", "c", "a"]), FakeEmbedder().embed(["b", "c", "a"]))
    assert inner.embedded == ["a", "b", "", "c"]


def test_the_texts_used_last_are_kept() -> None:
    inner = ControlledEmbedder()
    cached = CachedEmbedder(inner, 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        cached.embed([text])
    assert inner.embedded == ["a", "b", "c", "b"]


def test_a_call_larger_than_the_capacity_is_answered_whole() -> None:
    cached = CachedEmbedder(FakeEmbedder(), 2)
    texts = [f"text {number}" for number in range(20)] * 2
    assert are_equal(cached.embed(texts), FakeEmbedder().embed(texts))


def test_a_failure_is_not_remembered() -> None:
    inner = ControlledEmbedder()
    inner.refused = {"bad"}
    cached = CachedEmbedder(inner, 10)
    for _ in range(2):
        with pytest.raises(InvalidInput, match="bad"):
            cached.embed(["good", "bad"])
    inner.refused = set()
    assert are_equal(cached.embed(["good", "bad"]), FakeEmbedder().embed(["good", "bad"]))


def test_two_threads_embed_a_text_once() -> None:
    inner = ControlledEmbedder()
    inner.may_go_on.clear()
    cached = CachedEmbedder(inner, 10)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(cached.embed, ["same"])
        assert inner.started.wait(100)
        second = pool.submit(cached.embed, ["same"])
        inner.may_go_on.set()
        assert are_equal(first.result(10), second.result(10))
    assert inner.embedded == ["same"]


def test_a_thread_that_waited_for_a_failed_call_still_gets_its_vector() -> None:
    inner = ControlledEmbedder()
    inner.refused = {"bad"}
    inner.may_go_on.clear()
    cached = CachedEmbedder(inner, 10)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(cached.embed, ["same", "bad"])
        assert inner.started.wait(100)
        second = pool.submit(cached.embed, ["same"])
        inner.may_go_on.set()
        assert are_equal(second.result(10), FakeEmbedder().embed(["same"]))
        with pytest.raises(InvalidInput):
            first.result(10)


def test_many_threads_get_the_same_vectors() -> None:
    inner = ControlledEmbedder()
    cached = CachedEmbedder(inner, 1000)
    texts = [f"text {number}" for number in range(100)]
    expected = FakeEmbedder().embed(texts)
    with ThreadPoolExecutor(8) as pool:
        assert all(are_equal(vectors, expected) for vectors in pool.map(cached.embed, [texts] * 50))
    assert sorted(inner.embedded) == sorted(texts)


def test_a_cache_without_capacity_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="0"):
        CachedEmbedder(FakeEmbedder(), 0)
