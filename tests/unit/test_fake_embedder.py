"""The embedder of the tests: repeatable, quick, and sensitive to what a text says."""

import subprocess
import sys
import time

import numpy as np
import pytest

from everhold.ports.embedder import Vector
from everhold.testing.fake_embedder import FakeEmbedder


def embed_one(text: str) -> Vector:
    (vector,) = FakeEmbedder().embed([text])
    assert vector is not None
    return vector


def test_the_fake_embedder_has_a_name_and_dimensions() -> None:
    assert (FakeEmbedder().model, FakeEmbedder().dimensions) == ("fake", 384)
    other = FakeEmbedder("other", dimensions=16)
    (vector,) = other.embed(["text"])
    assert vector is not None
    assert (other.model, vector.shape) == ("other", (16,))


def test_texts_that_share_words_are_near_and_others_are_not() -> None:
    coffee = embed_one("Alice likes coffee in the morning")
    assert coffee @ embed_one("In the morning Alice likes coffee") > 0.98
    assert coffee @ embed_one("Alice likes tea in the morning") > 0.7
    assert abs(coffee @ embed_one("Servers crashed badly yesterday")) < 0.4
    assert embed_one("remembering") @ embed_one("remembered") > 0.2


@pytest.mark.parametrize(("text", "other"), [("dog bites man", "man bites dog"), ("Hello!", "Hello?"), ("a", "A")])
def test_different_texts_differ(text: str, other: str) -> None:
    assert not np.array_equal(embed_one(text), embed_one(other))


def test_vectors_are_the_same_in_every_process() -> None:
    program = (
        "from everhold.testing.fake_embedder import FakeEmbedder;"
        "print(FakeEmbedder().embed(['hello world กาแฟ'])[0].tobytes().hex())"
    )
    command = [sys.executable, "-c", program]
    outputs = {
        subprocess.run(
            command, capture_output=True, check=True, env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {embed_one("hello world กาแฟ").tobytes().hex().encode() + b"\n"}


def test_vectors_have_length_one_in_half_precision() -> None:
    vector = embed_one("She prefers backend work")
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)
    assert np.array_equal(vector, vector.astype(np.float16).astype(np.float32))
    assert not vector.flags.writeable


def test_order_and_blanks_are_kept() -> None:
    vectors = FakeEmbedder().embed(["a", "", "b", " \n"])
    assert [vector is None for vector in vectors] == [False, True, False, True]
    assert np.array_equal(vectors[2], embed_one("b"))  # type: ignore[arg-type]


def test_offsets_are_words_and_signs() -> None:
    text = "Hello, wide world!"
    pieces = [text[start:end] for start, end in FakeEmbedder().offsets(text)]
    assert pieces == ["Hello", ",", "wide", "world", "!"]


def test_a_sentence_takes_microseconds() -> None:
    embedder = FakeEmbedder()
    sentence = ["The customer prefers backend work over design meetings now."]
    embedder.embed(sentence)
    fastest = min(_measure_seconds(embedder, sentence) for _ in range(200))
    assert fastest < 100e-6  # about 20 µs; machines that run tests are busy


def _measure_seconds(embedder: FakeEmbedder, texts: list[str]) -> float:
    began = time.perf_counter()
    embedder.embed(texts)
    return time.perf_counter() - began
