"""Find words of similar meaning by the model's vectors of single words.

Only common words have their own vector. Rarer words are split into parts, whose vectors mean little.
"""

import hashlib
import io
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.minilm import weights
from everhold.adapters.minilm.graph import read_tensors
from everhold.errors import InvalidInput
from everhold.files import write_private
from everhold.text.terms import STOP_WORDS, extract_terms

# Raise it when `Pairs` changes, or when this file or `text/terms.py` changes which terms are similar. Files in the
# cache are then built again.
FORMAT = 1

WORD_VECTORS = "embeddings.word_embeddings.weight"
# The range of the ids of common words. Lower ids are punctuation and single letters, higher ids are rare words.
COMMON_WORDS = range(1996, 12_000)

MIN_WORD_LENGTH = 3
NEAREST = 16
MIN_COSINE = 0.2
# The number of words that are compared with all others at once, which needs 35 MB of cosines instead of 280.
BLOCK = 1024

# A cached file begins with the sha256 of the rest.
DIGEST_BYTES = 32

logger = logging.getLogger(__name__)


class SimilarWords:
    """The `Thesaurus` of a verified model. Nothing is read or built before the first question."""

    def __init__(self, model: Path, cache: Path | None, find_number: Callable[[str], int | None]) -> None:
        """`model` is the folder of the model. `cache` is a folder that only its owner can write to, or None.

        `find_number` returns the number of a word in the vocabulary, in which the most common words come first.
        """
        self._find_number = find_number
        self._model = model
        self._cache = cache
        self._lock = Lock()
        self._similar_terms: SimilarTerms | None = None

    def find_similar(self, term: str) -> Sequence[tuple[str, float]]:
        similar_terms = self._similar_terms
        return (self._load() if similar_terms is None else similar_terms)[term]

    def rank(self, word: str) -> int | None:
        return self._find_number(word)

    def _load(self) -> "SimilarTerms":
        with self._lock:
            if self._similar_terms is None:
                self._similar_terms = SimilarTerms(_load_pairs(self._model, self._cache))
            return self._similar_terms


class Pairs(NamedTuple):
    """Pairs of similar terms, sorted by the first term, the most similar second term first."""

    terms: NDArray[np.uint8]
    """All terms, as ASCII, separated by spaces. `first` and `second` are positions in this list."""

    first: NDArray[np.uint16]
    second: NDArray[np.uint16]
    similarity: NDArray[np.float32]


class SimilarTerms(dict[str, tuple[tuple[str, float], ...]]):
    """The similar terms of each term. They are looked up at first use, because most terms are never used."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self._pairs = pairs
        self._terms = pairs.terms.tobytes().decode("ascii").split(" ")
        self._numbers = {term: number for number, term in enumerate(self._terms)}
        self._starts: list[int] = np.searchsorted(pairs.first, np.arange(len(self._terms) + 1)).tolist()

    def __missing__(self, term: str) -> tuple[tuple[str, float], ...]:
        number = self._numbers.get(term)
        if number is None:
            return ()  # not cached: unknown words would fill the memory
        span = slice(self._starts[number], self._starts[number + 1])
        terms = (self._terms[other] for other in self._pairs.second[span].tolist())
        self[term] = similar = tuple(zip(terms, self._pairs.similarity[span].tolist(), strict=True))
        return similar


def _load_pairs(model: Path, cache: Path | None) -> Pairs:
    """Return the pairs of a model, from the cache if it has them undamaged."""
    if cache is None:
        return build(model)
    file = cache / f"{weights.MODEL}-{weights.PUBLISHED[weights.TENSORS][:16]}-similar-{FORMAT}.words"
    pairs = _read_pairs(file)
    if pairs is None:
        pairs = build(model)
        _write_pairs(file, pairs)
    return pairs


def _read_pairs(file: Path) -> Pairs | None:
    """Return the content of a file; None if it cannot be read or is damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, archive = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    if hashlib.sha256(archive).digest() != digest:
        logger.warning("the cached file %s of similar words is damaged; it is built again", file)
        return None
    with np.load(io.BytesIO(archive), allow_pickle=False) as arrays:
        return Pairs(**{name: arrays[name] for name in Pairs._fields})


def _write_pairs(file: Path, pairs: Pairs) -> None:
    archive = io.BytesIO()
    np.savez(archive, allow_pickle=False, **pairs._asdict())
    try:
        write_private(file, hashlib.sha256(archive.getvalue()).digest() + archive.getvalue(), overwrite=True)
    except (OSError, InvalidInput) as error:
        logger.warning("similar words are built at every start, because %s cannot be written: %s", file, error)


def build(model: Path) -> Pairs:
    """Return the pairs of terms whose vectors have a similar direction, from the published files in a folder."""
    words = _read_common_words(model)
    stems = [extract_terms(word)[0] for word in words]
    terms = sorted(set(stems))
    numbers = {term: number for number, term in enumerate(terms)}
    term_of_word = np.array([numbers[stem] for stem in stems])
    positions, other_positions, cosines = _find_nearest(_compute_directions(model, list(words.values())))
    first, second = term_of_word[positions], term_of_word[other_positions]
    similarity = (cosines - MIN_COSINE) / (1 - MIN_COSINE)
    best_pairs = _find_best_pairs(first, second, similarity)
    joined_terms = np.frombuffer(" ".join(terms).encode("ascii"), np.uint8)
    first, second = first[best_pairs].astype(np.uint16), second[best_pairs].astype(np.uint16)
    return Pairs(joined_terms, first, second, similarity[best_pairs])


def _find_best_pairs(
    first: NDArray[np.intp], second: NDArray[np.intp], similarity: NDArray[np.float32]
) -> NDArray[np.intp]:
    """Return the positions of the pairs of different terms, each pair once, sorted by first term and similarity."""
    pairs = np.flatnonzero(first != second)
    pairs = pairs[np.lexsort((-similarity[pairs], second[pairs], first[pairs]))]
    # Several words have the same term, so a pair of terms may occur more than once. The most similar is kept.
    is_best = (np.diff(first[pairs], prepend=-1) != 0) | (np.diff(second[pairs], prepend=-1) != 0)
    pairs = pairs[is_best]
    ordered: NDArray[np.intp] = pairs[np.lexsort((second[pairs], -similarity[pairs], first[pairs]))]
    return ordered


def _read_common_words(model: Path) -> dict[str, int]:
    """Return the words worth comparing, with their ids."""
    vocabulary: dict[str, int] = json.loads(weights.read_verified(model / weights.TOKENIZER))["model"]["vocab"]
    return {word: number for word, number in vocabulary.items() if number in COMMON_WORDS and _is_word(word)}


def _is_word(piece: str) -> bool:
    return len(piece) >= MIN_WORD_LENGTH and piece.isascii() and piece.isalpha() and piece not in STOP_WORDS


def _compute_directions(model: Path, numbers: list[int]) -> NDArray[np.float32]:
    """Return the unit vectors of words, after subtracting the mean of the vocabulary."""
    vectors: NDArray[np.float32] = read_tensors(model)[WORD_VECTORS]
    centred = vectors[numbers] - vectors.mean(axis=0)
    directions: NDArray[np.float32] = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return directions


def _find_nearest(
    directions: NDArray[np.float32],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return the nearest other rows of each row, as three columns: row, other row, cosine."""
    blocks = []
    for start in range(0, len(directions), BLOCK):
        cosines = directions[start : start + BLOCK] @ directions.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -1
        others = np.argpartition(cosines, -NEAREST, axis=1)[:, -NEAREST:]
        values = np.take_along_axis(cosines, others, axis=1)
        is_similar = values > MIN_COSINE
        blocks.append((np.repeat(start + rows, is_similar.sum(axis=1)), others[is_similar], values[is_similar]))
    row, other_row, cosine = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return row, other_row, cosine
