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
from recollect.recall.postings import Posting
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


class _Finalists(NamedTuple):
    """Rows that could be among the best, scored in double precision; one line of `gains` per term."""

    owners: list[str]
    totals: list[float]
    likeness: NDArray[np.float64]
    gains: NDArray[np.float64]
    importance: NDArray[np.float64]


class Scored(NamedTuple):
    """A memory and its score, with what the score was made of for whoever asks."""

    owner_id: str
    score: float
    finalists: _Finalists
    at: int

    @property
    def rank(self) -> Rank:
        return -self.score, self.owner_id

    def why(self, question: Question, recipe: Recipe, searched: str) -> Why:
        """The parts of the score, which they add up to."""
        likeness = float(self.finalists.likeness[self.at])
        gains = [gain * recipe.words for gain in self.finalists.gains[:, self.at].tolist()]
        matched = {term: round(gain, _DECIMALS) for term, gain in zip(question.terms, gains, strict=True) if gain}
        return Why(
            meaning=round(likeness * recipe.meaning, _DECIMALS),
            words=round(sum(gains), _DECIMALS),
            importance=round(float(self.finalists.importance[self.at]), _DECIMALS),
            likeness=round(likeness, _DECIMALS),
            matched=matched,
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
        finalists = _finalists(sight, question, recipe, list(zip(weights, found, strict=True)), limit)
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


def _finalists(
    sight: Sight, question: Question, recipe: Recipe, words: Sequence[tuple[float, Posting]], limit: int
) -> _Finalists:
    """Enough of the image's best rows that `limit` memories are among them, if there are so many."""
    totals = _rough_scores(sight, question, recipe, words)
    pool = limit + _POOL_MORE
    while True:
        rows = _top(totals, pool)
        finalists = _exact(sight.image, rows, question, recipe, words)
        if len(rows) < pool or len(set(finalists.owners)) >= limit:
            return finalists
        pool *= 4  # many of the best rows belong to the same memories


def _rough_scores(
    sight: Sight, question: Question, recipe: Recipe, words: Sequence[tuple[float, Posting]]
) -> NDArray[np.float32]:
    image = sight.image
    if question.vector is not None and recipe.meaning and image.size:
        totals = image.vectors @ (question.vector * np.float32(recipe.meaning))
    else:
        totals = np.zeros(image.size, np.float32)
    lengths = image.column("length")
    for weight, posting in words if recipe.words else ():
        rows = posting.rows
        if len(rows):
            totals[rows] += np.float32(recipe.words * weight) * _gain(posting.counts, lengths[rows], recipe)
    if recipe.importance:
        totals += np.float32(recipe.importance) * image.column("importance")
    if sight.eligible is not None:
        totals[~sight.eligible] = -np.inf
    return totals


def _gain(counts: NDArray[np.uint16], lengths: NDArray[np.int32], recipe: Recipe) -> NDArray[np.floating[Any]]:
    """What a term gives a row: more the oftener it occurs, with less and less added, less in a long text."""
    k, share = recipe.saturation, recipe.length_share
    often = counts.astype(np.float32)
    damping = lengths.astype(np.float32)
    damping *= np.float32(k * share / recipe.usual_terms)
    damping += np.float32(k * (1 - share))
    damping += often
    return often * np.float32(k + 1) / damping


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
    words: Sequence[tuple[float, Posting]],
) -> _Finalists:
    likeness = np.zeros(len(rows))
    if question.vector is not None and len(rows):
        likeness = (image.vectors[rows].astype(np.float64) * question.vector).sum(axis=1)
    gains = _word_gains(image, rows, recipe, words)
    importance = image.column("importance")[rows].astype(np.float64) * recipe.importance
    totals = likeness * recipe.meaning + gains.sum(axis=0) * recipe.words + importance
    owners = [image.owners[row] for row in rows.tolist()]
    return _Finalists(owners, np.round(totals, _DECIMALS).tolist(), likeness, gains, importance)


def _word_gains(
    image: Image, rows: NDArray[np.int64], recipe: Recipe, words: Sequence[tuple[float, Posting]]
) -> NDArray[np.float64]:
    """Per term and row, what the term gives."""
    gains = np.zeros((len(words), len(rows)))
    lengths = image.column("length")[rows]
    for at, (weight, posting) in enumerate(words):
        if not len(posting.rows):
            continue
        place = posting.rows.searchsorted(rows)
        place[place == len(posting.rows)] = 0
        held = posting.rows[place] == rows
        if held.any():
            gains[at, held] = weight * _gain(posting.counts[place[held]], lengths[held], recipe).astype(np.float64)
    return gains
