"""An embedder that the caller provides: its answers are checked, and its errors become errors of Everhold."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everhold import AsyncEverhold, Everhold, FunctionEmbedder
from everhold.adapters.caller_embedder import CallerEmbedder
from everhold.errors import EverholdError, InvalidInput, ModelError, ModelNotFound, ModelUnavailable, NotFound
from everhold.model.vectors import read_vector
from everhold.testing.fake_embedder import FakeEmbedder

FAKE = FakeEmbedder("ours", 8)


def embed(texts: list[str]) -> list[Any]:
    return [None if vector is None else vector.tolist() for vector in FAKE.embed(texts)]


def make_embedder(function: Callable[[list[str]], Any] | None = embed, **options: Any) -> CallerEmbedder:
    return CallerEmbedder(FunctionEmbedder("ours", 8, function, **options))


HOSTILE_VECTORS = {
    "nan": [float("nan")] * 8,
    "infinite": [1.0] * 7 + [float("inf")],
    "zero": [0.0] * 8,
    "too short": [1.0] * 7,
    "too long": [1.0] * 9,
    "a million numbers": [1.0] * 10**6,
    "empty": [],
    "text": "12345678",
    "texts": ["1"] * 8,
    "bytes": b"12345678",
    "absent numbers": [None] * 8,
    "truth values": [True] * 8,
    "lists": [[1.0]] * 8,
    "huge whole number": [10**400] * 8,
    "a number": 5.0,
    "a dictionary": {0: 1.0},
    "an array of two axes": np.ones((2, 4)),
    "an array of objects": np.array([None] * 8),
    "an array of complex numbers": np.ones(8, complex),
    "an array without axes": np.array(1.0),
}


class TestVectors:
    @pytest.mark.parametrize("name", HOSTILE_VECTORS)
    def test_hostile_vectors_are_refused_with_the_reason(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=r"^the vector .+; (pass|leave)"):
            read_vector(HOSTILE_VECTORS[name], "the vector", 8)

    @pytest.mark.parametrize("scale", [1e-320, 1e-30, 1.0, 1e300])
    def test_vectors_of_very_large_and_small_numbers_are_normalised(self, scale: float) -> None:
        vector = read_vector([3 * scale, 0, 4 * scale], "the vector")
        assert vector.tolist() == pytest.approx([0.6, 0, 0.8], rel=1e-3)
        assert not vector.flags.writeable

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8])
    def test_arrays_of_numbers_are_accepted(self, dtype: Any) -> None:
        assert read_vector(np.array([3, 4], dtype), "the vector").tolist() == pytest.approx([0.6, 0.8], rel=1e-3)


class TestAnswers:
    def test_vectors_are_those_of_the_function(self) -> None:
        texts = [f"text {number}" for number in range(600)]
        for vector, expected in zip(make_embedder().embed(texts), FAKE.embed(texts), strict=True):
            assert np.allclose(vector, expected, atol=1e-3)

    def test_an_array_of_all_vectors_is_accepted(self) -> None:
        vectors = make_embedder(lambda texts: np.array(FAKE.embed(texts))).embed(["a", "b"])
        assert [vector.shape for vector in vectors if vector is not None] == [(8,), (8,)]

    def test_blank_texts_are_not_embedded(self) -> None:
        embedded: list[str] = []
        assert make_embedder(lambda texts: embedded.extend(texts) or embed(texts)).embed(["", "tea", " \n"])[::2] == [
            None,
            None,
        ]
        assert embedded == ["tea"]

    def test_the_size_of_batches_is_bounded(self) -> None:
        sizes: list[int] = []
        make_embedder(lambda texts: sizes.append(len(texts)) or embed(texts)).embed(["tea"] * 600)
        assert max(sizes) <= 256
        assert sum(sizes) == 600

    def test_a_text_may_have_no_vector(self) -> None:
        assert make_embedder(lambda texts: [None for _ in texts]).embed(["tea"]) == [None]
        assert make_embedder(None).embed(["tea"]) == [None]

    @pytest.mark.parametrize("name", HOSTILE_VECTORS)
    def test_hostile_vectors_are_refused_by_name(self, name: str) -> None:
        with pytest.raises(ModelError, match="a vector of embedder 'ours' "):
            make_embedder(lambda _: [HOSTILE_VECTORS[name]]).embed(["tea"])

    @pytest.mark.parametrize(
        ("answer", "message"),
        [([], "returned 0 vectors for 2"), ([[1.0] * 8], "returned 1 vectors"), (count(), "returned more vectors")],
    )
    def test_an_answer_needs_one_vector_for_each_text(self, answer: Any, message: str) -> None:
        with pytest.raises(ModelError, match=message):
            make_embedder(lambda _: answer).embed(["tea", "rain"])

    @pytest.mark.parametrize("answer", [None, 5, object()])
    def test_an_answer_that_is_not_a_list_is_refused(self, answer: Any) -> None:
        with pytest.raises(ModelError, match="raised TypeError for 1 texts"):
            make_embedder(lambda _: answer).embed(["tea"])


class TestErrors:
    @pytest.mark.parametrize(
        ("raised", "expected"),
        [
            (ValueError("secret text"), ModelError),
            (TimeoutError("slow"), ModelUnavailable),
            (ConnectionError("lost"), ModelUnavailable),
            (NotFound("ours"), NotFound),
        ],
    )
    def test_errors_of_the_function_become_errors_of_everhold(
        self, raised: Exception, expected: type[EverholdError]
    ) -> None:
        def fail(_: list[str]) -> list[Any]:
            raise raised

        with pytest.raises(EverholdError) as caught:
            make_embedder(fail).embed(["tea"])
        assert type(caught.value) is expected
        assert raised in (caught.value, caught.value.__cause__)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        ("model", "dimensions"), [("", 8), ("a" * 65, 8), (" a", 8), (5, 8), ("\x00", 8), ("a", 0), ("a", True),
                                  ("a", 16_001), ("a", 8.0)],
    )  # fmt: skip
    def test_a_model_that_no_store_can_hold_is_refused(self, model: Any, dimensions: Any) -> None:
        with pytest.raises(InvalidInput, match="embedder"):
            CallerEmbedder(FunctionEmbedder(model, dimensions, embed))

    def test_an_object_that_is_not_a_function_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="embed is 5"):
            FunctionEmbedder("ours", 8, 5)  # type: ignore[arg-type]


class SlowEmbedder:
    """An embedder that records how many threads call it at once."""

    model, dimensions = "slow", 8

    def __init__(self, *, thread_safe: bool) -> None:
        self.thread_safe = thread_safe
        self.callers = self.most_callers = 0
        self.barrier = threading.Barrier(4, timeout=0.2 if not thread_safe else 20)

    def embed(self, texts: Sequence[str]) -> list[Any]:
        self.callers += 1
        self.most_callers = max(self.most_callers, self.callers)
        with suppress(threading.BrokenBarrierError):
            self.barrier.wait()
        self.callers -= 1
        return embed(list(texts))


@pytest.mark.parametrize("thread_safe", [True, False])
def test_threads_wait_unless_the_embedder_is_declared_thread_safe(thread_safe: bool) -> None:
    slow = SlowEmbedder(thread_safe=thread_safe)
    guarded = CallerEmbedder(slow)  # type: ignore[arg-type]
    threads = [threading.Thread(target=guarded.embed, args=([f"text {number}"],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow.most_callers == (4 if thread_safe else 1)


class TestEngine:
    def test_a_store_opened_again_with_the_same_model_recalls(self, tmp_path: Path) -> None:
        for _ in range(2):
            with Everhold.open(tmp_path / "notes.db", embedder=FunctionEmbedder("ours", 8, embed)) as engine:
                engine.scope(user="alice").remember("Prefers green tea")
                [hit] = engine.scope(user="alice").recall("green tea")
                assert hit.why.similarity > 0.5
                assert engine.doctor().parts["embedding"] == "ours (8 dimensions)"
                assert not engine.doctor().problems

    def test_a_store_opened_again_with_another_model_changes_to_it(self, tmp_path: Path) -> None:
        with Everhold.open(tmp_path / "notes.db", embedder=FunctionEmbedder("ours", 8, embed)) as engine:
            engine.scope().remember("Prefers green tea")
        with Everhold.open(tmp_path / "notes.db", embedder=FakeEmbedder("wider", 16)) as engine:
            reembedding = engine._parts.reembedding
            assert reembedding is not None
            assert reembedding.wait(150)
            assert engine.scope().recall("green tea")[0].why.similarity > 0.5
            assert engine.doctor().parts["embedding"] == "wider (16 dimensions)"

    def test_a_store_opened_without_its_embedder_reads_and_names_it(self, tmp_path: Path) -> None:
        with Everhold.open(tmp_path / "notes.db", embedder=FunctionEmbedder("ours", 8, embed)) as engine:
            memory = engine.scope().remember("Prefers green tea")
        with Everhold.open(tmp_path / "notes.db") as engine:
            assert engine.scope().get(memory.id).text == "Prefers green tea"
            assert engine.export(tmp_path / "notes.jsonl") > 0
            message = r"embedded by model 'ours' \(8 dimensions\), which was not given; open the store with embedder="
            for call in (lambda: engine.scope().remember("Likes rain"), lambda: engine.scope().recall("tea")):
                with pytest.raises(ModelNotFound, match=message):
                    call()
            assert any("embedder=" in problem for problem in engine.doctor().problems)
        with Everhold.open(tmp_path / "notes.db", embedder=FunctionEmbedder("ours", 8, embed)) as engine:
            assert engine.scope().recall("green tea"), "nothing was changed by opening without the embedder"

    def test_a_failing_embedder_writes_nothing(self, tmp_path: Path) -> None:
        def fail(_: list[str]) -> list[Any]:
            raise ValueError

        with Everhold.open(tmp_path / "notes.db", embedder=FunctionEmbedder("ours", 8, fail)) as engine:
            with pytest.raises(ModelError, match="'ours' raised ValueError"):
                engine.scope().remember("Prefers green tea")
            assert not engine.scope().list()

    @pytest.mark.parametrize("embedder", [5, "ours", embed, object()])
    def test_an_object_that_is_not_an_embedder_is_refused(self, tmp_path: Path, embedder: Any) -> None:
        with pytest.raises(InvalidInput, match="embedder"):
            Everhold.open(tmp_path / "notes.db", embedder=embedder)

    def test_a_long_text_is_cut_by_estimated_or_given_tokens(self, tmp_path: Path) -> None:
        text = "Tea is served at five. " * 60
        chunks = []
        for tokenizer in (None, FAKE):
            name = "own" if tokenizer else "estimated"
            embedder = FunctionEmbedder(name, 8, embed, tokenizer=tokenizer)
            options = {"chunk_tokens": 128, "chunk_overlap": 10}
            with Everhold.open(tmp_path / f"{name}.db", embedder=embedder, embedding=options) as engine:
                engine.scope().remember(text)
                chunks.append(engine.doctor().counts["chunks"])
        assert chunks[0] > 1
        assert chunks[1] > 1

    async def _ask(self, path: Path) -> float:
        async with AsyncEverhold.open(path, embedder=FunctionEmbedder("ours", 8, embed)) as engine:
            await engine.scope().remember("Prefers green tea")
            return (await engine.scope().recall("green tea"))[0].why.similarity

    def test_the_asynchronous_engine_takes_a_caller_embedder(self, tmp_path: Path) -> None:
        assert asyncio.run(self._ask(tmp_path / "notes.db")) > 0.5
