"""An embedder without a model, for tests that need an embedder but no real embeddings."""

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from hashlib import shake_128

import numpy as np
from numpy.typing import NDArray

from everhold.ports.embedder import Vector, round_to_half_precision

TOKEN = re.compile(r"\w+|[^\w\s]")
WORD_FEATURES = 4
TRIGRAM_WEIGHT = 0.5
# A word's own weight is about 2. This distinguishes two orders of the same words, but keeps them close.
SIGNATURE_WEIGHT = 0.1


class FakeEmbedder:
    """An `Embedder` and `Tokenizer`: the same vector for the same text on every machine, in microseconds.

    A text is the sum of its words, and a word the sum of features made from the word and its trigrams. Texts that
    share words are near each other, and texts that share parts of words a little; no two texts are equal.
    """

    def __init__(self, model: str = "fake", dimensions: int = 384) -> None:
        self._model = model
        self._dimensions = dimensions

    @property
    def model(self) -> str:
        return self._model

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def special_tokens(self) -> int:
        return 2

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of words and of single punctuation marks."""
        return [match.span() for match in TOKEN.finditer(text)]

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self._embed_text(text) for text in texts]

    def _embed_text(self, text: str) -> Vector | None:
        words = TOKEN.findall(text.lower())
        if not words:
            return None
        total = np.add.reduce([_make_word_vector(word, self._dimensions) for word in words])
        total += _make_signature(text, self._dimensions)
        return round_to_half_precision(total / np.sqrt(total.dot(total)))


@lru_cache(maxsize=8192)
def _make_word_vector(word: str, dimensions: int) -> NDArray[np.float32]:
    vector = np.zeros(dimensions, np.float32)
    for number in range(WORD_FEATURES):
        _add_feature(vector, f"{number}:{word}", 1.0)
    padded = f"^{word}$"
    for start in range(len(padded) - 2):
        _add_feature(vector, padded[start : start + 3], TRIGRAM_WEIGHT)
    return vector


def _add_feature(vector: NDArray[np.float32], feature: str, weight: float) -> None:
    # Not hash(), which differs from process to process.
    code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
    vector[(code >> 1) % len(vector)] += weight if code & 1 else -weight


def _make_signature(text: str, dimensions: int) -> NDArray[np.float32]:
    """Return a small vector that only this text has."""
    noise = np.frombuffer(shake_128(text.encode("utf-8", "surrogatepass")).digest(dimensions), np.int8)
    return noise * np.float32(SIGNATURE_WEIGHT / (74 * dimensions**0.5))  # 74: the standard deviation of a random int8
