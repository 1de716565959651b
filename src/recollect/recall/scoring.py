"""Scoring rows of images against a question: one code for every store and every size.

First all rows are scored at once in single precision. The few that could be among the best are then scored again one
by one in double precision, so that a score does not depend on where in an image a row happens to lie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.ports.candidates import Statistics
from recollect.ports.embedder import Vector
from recollect.recall.image import Image, Mask
from recollect.recall.postings import Posting
from recollect.recall.recipe import Recipe

_DECIMALS = 6
_POOL_LEAST = 32


@dataclass(frozen=True)
class Question:
    """What is asked: its terms, each once, and its vector, if the model knows its words."""

    terms: tuple[str, ...]
    vector: Vector | None


class Sight(NamedTuple):
    """An image, which of its rows the scope covers, and which of those may be returned. None is all."""

    image: Image
    covered: Mask | None
    eligible: Mask | None


@dataclass(frozen=True)
class Scored:
    """A memory's best row."""

    owner_id: str
    score: float
    likeness: float
    meaning: float
    words: float
    importance: float
    matched: dict[str, float] = field(default_factory=dict)

    @property
    def rank(self) -> tuple[float, str]:
        """Best first, equals by id."""
        return -self.score, self.owner_id


class _Word(NamedTuple):
    term: str
    weight: float
    posting: Posting


def statistics_of(sights: Sequence[Sight], terms: Sequence[str]) -> Statistics:
    """How many rows the scope covers, and how many of them hold each term."""
    chunks = sum(image.size if covered is None else int(np.count_nonzero(covered)) for image, covered, _ in sights)
    holding = dict.fromkeys(terms, 0)
    for image, covered, _ in sights:
        for term in terms:
            rows = image.postings.find(term).rows
            holding[term] += len(rows) if covered is None else int(np.count_nonzero(covered[rows]))
    return Statistics(chunks, holding)


def rank(
    sights: Sequence[Sight], question: Question, recipe: Recipe, limit: int, statistics: Statistics | None = None
) -> list[Scored]:
    """The best `limit` memories, best first."""
    statistics = statistics or statistics_of(sights, question.terms)
    rarity = {term: _rarity(statistics, term) for term in question.terms}
    most = sum(rarity.values()) * (recipe.saturation + 1)
    best: dict[str, Scored] = {}
    for sight in sights:
        words = [_Word(term, rarity[term] / most, sight.image.postings.find(term)) for term in question.terms]
        for scored in _best_of(sight, question, recipe, words, limit):
            other = best.get(scored.owner_id)
            if other is None or scored.rank < other.rank:
                best[scored.owner_id] = scored
    return sorted(best.values(), key=lambda scored: scored.rank)[:limit]


def _rarity(statistics: Statistics, term: str) -> float:
    holding = statistics.holding.get(term, 0)
    return math.log(1 + (statistics.chunks - holding + 0.5) / (holding + 0.5))


def _best_of(sight: Sight, question: Question, recipe: Recipe, words: Sequence[_Word], limit: int) -> list[Scored]:
    """The image's best memories, and perhaps some more."""
    image = sight.image
    totals = _rough_scores(sight, question, recipe, words)
    pool = max(_POOL_LEAST, 2 * limit)
    while True:
        rows = _top(totals, pool)
        scored = _exact_scores(image, rows, question, recipe, words)
        if len({one.owner_id for one in scored}) >= limit or len(rows) < pool:
            return scored
        pool *= 4  # many of the best rows belong to the same memories


def _rough_scores(sight: Sight, question: Question, recipe: Recipe, words: Sequence[_Word]) -> NDArray[np.float32]:
    image = sight.image
    if question.vector is not None and recipe.meaning and image.size:
        totals = image.vectors @ (question.vector * np.float32(recipe.meaning))
    else:
        totals = np.zeros(image.size, np.float32)
    lengths = image.column("length")
    for word in words:
        rows = word.posting.rows
        if len(rows) and recipe.words:
            totals[rows] += np.float32(recipe.words * word.weight) * _gain(word.posting.counts, lengths[rows], recipe)
    if recipe.importance:
        totals += np.float32(recipe.importance) * image.column("importance")
    if sight.eligible is not None:
        totals[~sight.eligible] = -np.inf
    return totals


def _gain(counts: NDArray[np.uint16], lengths: NDArray[np.int32], recipe: Recipe) -> NDArray[np.floating[Any]]:
    """What a term gives a row: more the oftener it occurs, with less and less added, less in a long text."""
    k, share = recipe.saturation, recipe.length_share
    often = counts.astype(np.float32)
    damping = np.float32(k * (1 - share)) + lengths.astype(np.float32) * np.float32(k * share / recipe.usual_terms)
    return often * np.float32(k + 1) / (often + damping)


def _top(totals: NDArray[np.float32], pool: int) -> NDArray[np.int64]:
    if len(totals) > pool:
        # a slightly lower row in single precision may be the higher one in double: take a margin
        threshold = np.partition(totals, len(totals) - pool)[len(totals) - pool]
        rows = np.flatnonzero(totals >= threshold - np.float32(1e-5))
        return rows[totals[rows] > -np.inf]
    return np.flatnonzero(totals > -np.inf)


def _exact_scores(
    image: Image, rows: NDArray[np.int64], question: Question, recipe: Recipe, words: Sequence[_Word]
) -> list[Scored]:
    if not len(rows):
        return []
    likeness = np.zeros(len(rows))
    if question.vector is not None:
        likeness = (image.vectors[rows].astype(np.float64) * question.vector.astype(np.float64)).sum(axis=1)
    gains = _word_gains(image, rows, recipe, words)
    shares = gains.sum(axis=0)
    weighed = image.column("importance")[rows].astype(np.float64) * recipe.importance
    totals = likeness * recipe.meaning + shares * recipe.words + weighed
    made = zip(rows.tolist(), likeness.tolist(), shares.tolist(), weighed.tolist(), totals.tolist(), strict=True)
    return [
        Scored(
            owner_id=image.owners[row],
            score=round(total, _DECIMALS),
            likeness=round(like, _DECIMALS),
            meaning=round(like * recipe.meaning, _DECIMALS),
            words=round(share * recipe.words, _DECIMALS),
            importance=round(weight, _DECIMALS),
            matched={
                word.term: round(gains[at, column] * recipe.words, _DECIMALS)
                for at, word in enumerate(words)
                if gains[at, column]
            },
        )
        for column, (row, like, share, weight, total) in enumerate(made)
    ]


def _word_gains(image: Image, rows: NDArray[np.int64], recipe: Recipe, words: Sequence[_Word]) -> NDArray[np.float64]:
    """Per term and row, what the term gives."""
    gains = np.zeros((len(words), len(rows)))
    lengths = image.column("length")[rows]
    for at, word in enumerate(words):
        posting = word.posting
        if not len(posting.rows):
            continue
        place = np.minimum(np.searchsorted(posting.rows, rows), len(posting.rows) - 1)
        held = posting.rows[place] == rows
        gains[at, held] = word.weight * _gain(posting.counts[place[held]], lengths[held], recipe).astype(np.float64)
    return gains
