"""Words of similar meaning, found by the model's own vectors of single words.

Only common words have a vector of their own. Rarer words are made of parts, whose vectors mean little.
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

# Raise it when this file or `text/terms.py` changes which terms are similar: cached files are then built again.
FORMAT = 1

WORD_VECTORS = "embeddings.word_embeddings.weight"
# Ids in the vocabulary: before them are marks and single letters, after them the words grow rare.
COMMON_WORDS = range(1996, 12_000)

MIN_WORD_LENGTH = 3
NEAREST = 16
MIN_COSINE = 0.2
# Words compared with all others at once: 35 MB of cosines, not 280.
BLOCK = 1024

# A cached file begins with the sha256 of the rest.
DIGEST_BYTES = 32

logger = logging.getLogger(__name__)


class SimilarWords:
    """The `Thesaurus` of a verified model. Nothing is read or built before the first question."""

    def __init__(self, model: Path, cache: Path | None, find_number: Callable[[str], int | None]) -> None:
        """`model` is its folder; `cache` a folder that only its owner can write to, or None if there is none.
        `find_number` returns the number of a word in the vocabulary, in which the commonest come first."""
        self._find_number = find_number
        self._model = model
        self._cache = cache
        self._turn = Lock()
        self._likenesses: Likenesses | None = None

    def find_similar(self, term: str) -> Sequence[tuple[str, float]]:
        known = self._likenesses
        return (self._load() if known is None else known)[term]

    def rank(self, word: str) -> int | None:
        return self._find_number(word)

    def _load(self) -> "Likenesses":
        with self._turn:
            if self._likenesses is None:
                self._likenesses = Likenesses(_load_pairs(self._model, self._cache))
            return self._likenesses


class Pairs(NamedTuple):
    """Pairs of similar terms, sorted by the first term, its nearest first."""

    terms: NDArray[np.uint8]
    """All terms, as ASCII with a space between any two. The columns below give places in this list."""

    of: NDArray[np.uint16]
    alike: NDArray[np.uint16]
    likeness: NDArray[np.float32]


class Likenesses(dict[str, tuple[tuple[str, float], ...]]):
    """The similar terms of each term. They are looked up at first use, because most terms are never asked for."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__()
        self._pairs = pairs
        self._terms = pairs.terms.tobytes().decode("ascii").split(" ")
        self._places = {term: place for place, term in enumerate(self._terms)}
        self._begins: list[int] = np.searchsorted(pairs.of, np.arange(len(self._terms) + 1)).tolist()

    def __missing__(self, term: str) -> tuple[tuple[str, float], ...]:
        place = self._places.get(term)
        if place is None:
            return ()  # not cached: unknown words would fill the memory
        own = slice(self._begins[place], self._begins[place + 1])
        others = (self._terms[other] for other in self._pairs.alike[own].tolist())
        self[term] = alike = tuple(zip(others, self._pairs.likeness[own].tolist(), strict=True))
        return alike


def _load_pairs(model: Path, cache: Path | None) -> Pairs:
    """Return the pairs of a model, from the cache if it has them undamaged."""
    if cache is None:
        return build(model)
    file = cache / f"{weights.MODEL}-{weights.PUBLISHED[weights.TENSORS][:16]}-alike-{FORMAT}.words"
    pairs = _read(file)
    if pairs is None:
        pairs = build(model)
        _write(file, pairs)
    return pairs


def _read(file: Path) -> Pairs | None:
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


def _write(file: Path, pairs: Pairs) -> None:
    archive = io.BytesIO()
    np.savez(archive, allow_pickle=False, **pairs._asdict())
    try:
        write_private(file, hashlib.sha256(archive.getvalue()).digest() + archive.getvalue(), overwrite=True)
    except (OSError, InvalidInput) as unusable:
        logger.warning("similar words are built at every start, because %s cannot be written: %s", file, unusable)


def build(model: Path) -> Pairs:
    """Return the pairs of terms whose vectors have a similar direction, from the published files in a folder."""
    words = _read_common_words(model)
    stems = [extract_terms(word)[0] for word in words]
    known = sorted(set(stems))
    places = {stem: place for place, stem in enumerate(known)}
    stem_of = np.array([places[stem] for stem in stems])
    one, other, cosine = _find_nearest(_compute_directions(model, list(words.values())))
    of, alike = stem_of[one], stem_of[other]
    likeness = (cosine - MIN_COSINE) / (1 - MIN_COSINE)
    kept = _keep_best_pairs(of, alike, likeness)
    listed = np.frombuffer(" ".join(known).encode("ascii"), np.uint8)
    return Pairs(listed, of[kept].astype(np.uint16), alike[kept].astype(np.uint16), likeness[kept])


def _keep_best_pairs(of: NDArray[np.intp], alike: NDArray[np.intp], likeness: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return the rows to keep, sorted by term, most similar first: no term with itself, and each pair once."""
    rows = np.flatnonzero(of != alike)
    rows = rows[np.lexsort((-likeness[rows], alike[rows], of[rows]))]
    first = (np.diff(of[rows], prepend=-1) != 0) | (np.diff(alike[rows], prepend=-1) != 0)
    rows = rows[first]
    ordered: NDArray[np.intp] = rows[np.lexsort((alike[rows], -likeness[rows], of[rows]))]
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
    own = vectors[numbers] - vectors.mean(axis=0)
    directions: NDArray[np.float32] = own / np.linalg.norm(own, axis=1, keepdims=True)
    return directions


def _find_nearest(
    directions: NDArray[np.float32],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Return the nearest other rows of each row, as three columns: row, other row, cosine."""
    found = []
    for begin in range(0, len(directions), BLOCK):
        cosines = directions[begin : begin + BLOCK] @ directions.T
        rows = np.arange(len(cosines))
        cosines[rows, begin + rows] = -1
        others = np.argpartition(cosines, -NEAREST, axis=1)[:, -NEAREST:]
        values = np.take_along_axis(cosines, others, axis=1)
        near = values > MIN_COSINE
        found.append((np.repeat(begin + rows, near.sum(axis=1)), others[near], values[near]))
    one, other, cosine = (np.concatenate(column) for column in zip(*found, strict=True))
    return one, other, cosine
