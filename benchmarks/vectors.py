"""Precomputed vectors, so that the model's time is not measured."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from everhold.ports.embedder import Vector, round_to_half_precision
from everhold.settings_sections import DEFAULT_MODEL

DIMENSIONS = 384
TOPICS = 2000
# The standard deviation of the noise that is added to a topic, relative to that of the topic's own numbers.
SPREAD = 1.0


class PrecomputedVectors:
    """An `Embedder` and `Tokenizer` that looks up the vector of a text.

    It has the default model's name, so that the real model can answer questions about what was stored with it.
    """

    model = DEFAULT_MODEL
    dimensions = DIMENSIONS
    special_tokens = 2

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self.vectors = dict(vectors)

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self.vectors[text] for text in texts]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        raise AssertionError(f"the texts of a benchmark are too short to be split into chunks: {text!r}")


def make_vectors(count: int, seed: int) -> NDArray[np.float32]:
    """Return unit vectors around 2,000 topics, which are the same for every seed."""
    topics = np.random.default_rng(0).standard_normal((TOPICS, DIMENSIONS), np.float32)
    rng = np.random.default_rng(seed)
    vectors = topics[rng.integers(0, TOPICS, count)]
    vectors += np.float32(SPREAD) * rng.standard_normal((count, DIMENSIONS), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return round_to_half_precision(vectors)
