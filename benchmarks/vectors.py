"""Vectors made beforehand, so that what is timed is everything but the model."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from everhold.ports.embedder import Vector, round_to_half_precision
from everhold.settings import DEFAULT_MODEL

DIMENSIONS = 384
TOPICS = 2000
SPREAD = 1.0
"""How far a vector lies from its topic, the topic's own length being 1."""


class Precomputed:
    """An `Embedder` and `Tokenizer` that looks the vector of a text up. It takes the default model's name, so that
    the real model can answer questions about what was stored with it."""

    model = DEFAULT_MODEL
    dimensions = DIMENSIONS
    special_tokens = 2

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self.vectors = dict(vectors)

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self.vectors[text] for text in texts]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        raise AssertionError(f"a benchmark's texts are short enough not to be cut: {text!r}")


def synthetic(count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors scattered about the same 2,000 topics, as texts are: each draw of another seed meets the same
    topics."""
    topics = np.random.default_rng(0).standard_normal((TOPICS, DIMENSIONS), np.float32)
    draw = np.random.default_rng(seed)
    made = topics[draw.integers(0, TOPICS, count)]
    made += np.float32(SPREAD) * draw.standard_normal((count, DIMENSIONS), np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return round_to_half_precision(made)
