"""Scoring rows of images against a question: one code for every store and every size.

First all rows are scored at once in single precision. The few that could be among the best are then scored again one
by one in double precision, so that a score does not depend on where in an image a row happens to lie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.ports.candidates import Statistics
from recollect.ports.embedder import Vector
from recollect.recall.hit import Why
from recollect.recall.image import Image, Mask
from recollect.recall.postings import Posting, Rows
from recollect.recall.recipe import Recipe

_DECIMALS = 6
_POOL_MORE = 6
_MARGIN = np.float32(1e-5)

Rank = tuple[float, str]
"""Best first, equals by id."""


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


class _Word(NamedTuple):
    """A term of the question: its rarity as a share of all terms', the rows that hold it and what it gives each."""

    term: str
    weight: float
    rows: Rows
    gains: NDArray[np.floating[Any]]

    def gives(self, row: int) -> float:
        at = int(self.rows.searchsorted(row))
        return self.weight * float(self.gains[at]) if at < len(self.rows) and self.rows[at] == row else 0.0


class _Finalists(NamedTuple):
    """Rows of an image that could be among the best, scored in double precision."""

    rows: list[int]
    owners: list[str]
    totals: list[float]
    likeness: NDArray[np.float64]
    importance: NDArray[np.float64]
    words: Sequence[_Word]


class Scored(NamedTuple):
    """A memory and its score, with what the score was made of for whoever asks."""

    owner_id: str
    score: float
    finalists: _Finalists
    at: int

    @property
    def rank(self) -> Rank:
        return -self.score, self.owner_id

    def why(self, recipe: Recipe, searched: str) -> Why:
        """The parts of the score, which they add up to."""
        row, likeness = self.finalists.rows[self.at], float(self.finalists.likeness[self.at])
        given = {word.term: word.gives(row) * recipe.words for word in self.finalists.words}
        return Why(
            meaning=round(likeness * recipe.meaning, _DECIMALS),
            words=round(sum(given.values()), _DECIMALS),
            importance=round(float(self.finalists.importance[self.at]), _DECIMALS),
            likeness=round(likeness, _DECIMALS),
            matched={term: round(gain, _DECIMALS) for term, gain in given.items() if gain},
            searched=searched,
        )


def statistics_of(sights: Sequence[Sight], terms: Sequence[str]) -> Statistics:
    """How many rows the scope covers, and how many of them hold each term."""
    return _statistics(sights, terms, [_postings(sight, terms) for sight in sights])


def _postings(sight: Sight, terms: Sequence[str]) -> list[Posting]:
    return [sight.image.postings.find(term) for term in terms]


def _statistics(sights: Sequence[Sight], terms: Sequence[str], postings: Sequence[list[Posting]]) -> Statistics:
    chunks = 0
    holding = dict.fromkeys(terms, 0)
    for (image, covered, _), found in zip(sights, postings, strict=True):
        chunks += image.size if covered is None else int(np.count_nonzero(covered))
        for term, posting in zip(terms, found, strict=True):
            rows = posting.rows
            holding[term] += len(rows) if covered is None else int(np.count_nonzero(covered[rows]))
    return Statistics(chunks, holding)


def rank(
    sights: Sequence[Sight], question: Question, recipe: Recipe, limit: int, statistics: Statistics | None = None
) -> list[Scored]:
    """The best `limit` memories, best first."""
    postings = [_postings(sight, question.terms) for sight in sights]
    statistics = statistics or _statistics(sights, question.terms, postings)
    rarity = [_rarity(statistics, term) for term in question.terms]
    most = sum(rarity) * (recipe.saturation + 1)
    weights = [one / most for one in rarity]
    best: dict[str, Scored] = {}
    for sight, found in zip(sights, postings, strict=True):
        words = [
            _Word(term, weight, posting.rows, _gains(sight.image, posting, recipe))
            for term, weight, posting in zip(question.terms, weights, found, strict=True)
            if len(posting.rows)
        ]
        finalists = _finalists(sight, question, recipe, words, limit)
        for at, (owner_id, total) in enumerate(zip(finalists.owners, finalists.totals, strict=True)):
            other = best.get(owner_id)
            if other is None or total > other.score:
                best[owner_id] = Scored(owner_id, total, finalists, at)
    return sorted(best.values(), key=_by_rank)[:limit]


def _by_rank(scored: Scored) -> Rank:
    return -scored.score, scored.owner_id


def _rarity(statistics: Statistics, term: str) -> float:
    holding = statistics.holding.get(term, 0)
    return math.log(1 + (statistics.chunks - holding + 0.5) / (holding + 0.5))


def _gains(image: Image, posting: Posting, recipe: Recipe) -> NDArray[np.floating[Any]]:
    """What a term gives each row that holds it: more the oftener it occurs, with less and less added, and less in a
    long text."""
    k, share = recipe.saturation, recipe.length_share
    damping = image.damping(k * (1 - share), k * share / recipe.usual_terms)[posting.rows]
    damping += posting.counts
    return posting.counts * np.float32(k + 1) / damping


def _finalists(sight: Sight, question: Question, recipe: Recipe, words: Sequence[_Word], limit: int) -> _Finalists:
    """Enough of the image's best rows that `limit` memories are among them, if there are so many."""
    shares = np.zeros(sight.image.size)
    for word in words:
        shares[word.rows] += word.weight * word.gains
    totals = _rough_scores(sight, question, recipe, shares)
    pool = limit + _POOL_MORE
    while True:
        rows = _top(totals, pool)
        finalists = _exact(sight.image, rows, question, recipe, shares, words)
        if len(rows) < pool or len(set(finalists.owners)) >= limit:
            return finalists
        pool *= 4  # many of the best rows belong to the same memories


def _rough_scores(sight: Sight, question: Question, recipe: Recipe, shares: NDArray[np.float64]) -> NDArray[np.float32]:
    image = sight.image
    if question.vector is not None and recipe.meaning and image.size:
        totals = image.vectors @ (question.vector * np.float32(recipe.meaning))
    else:
        totals = np.zeros(image.size, np.float32)
    totals += shares * recipe.words
    totals += image.column("importance") * np.float32(recipe.importance)
    if sight.eligible is not None:
        totals[~sight.eligible] = -np.inf
    return totals


def _top(totals: NDArray[np.float32], pool: int) -> NDArray[np.int64]:
    if len(totals) > pool:
        # a slightly lower row in single precision may be the higher one in double: take a margin
        threshold = np.partition(totals, len(totals) - pool)[len(totals) - pool]
        rows = np.flatnonzero(totals >= threshold - _MARGIN)
        return rows[totals[rows] > -np.inf]
    return np.flatnonzero(totals > -np.inf)


def _exact(
    image: Image,
    rows: NDArray[np.int64],
    question: Question,
    recipe: Recipe,
    shares: NDArray[np.float64],
    words: Sequence[_Word],
) -> _Finalists:
    likeness = np.zeros(len(rows))
    if question.vector is not None and len(rows):
        likeness = (image.vectors[rows].astype(np.float64) * question.vector).sum(axis=1)
    importance = image.column("importance")[rows].astype(np.float64) * recipe.importance
    totals = likeness * recipe.meaning + shares[rows] * recipe.words + importance
    numbers = rows.tolist()
    owners = [image.owners[row] for row in numbers]
    return _Finalists(numbers, owners, np.round(totals, _DECIMALS).tolist(), likeness, importance, words)
