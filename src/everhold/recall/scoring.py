"""Score the rows of images for a question. Every store and every size of scope uses this code.

A row is a chunk of text; its owner is the memory or message that the text belongs to. Each retriever computes a signal
for every row, and the recipe weighs the signals. A signal does not depend on the other rows of the image, so a memory
has the same score in every image.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from operator import neg
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.ports.search_indexes import Statistics
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.recall.cursor import Rank
from everhold.recall.hit import Why
from everhold.recall.image import Image, Mask
from everhold.recall.judging import Verdict
from everhold.recall.link_gains import compute_link_gains
from everhold.recall.postings import Posting
from everhold.recall.question import Question
from everhold.recall.recipe import SCORE_DECIMALS, Recipe
from everhold.recall.signals import (
    DAY,
    STATIC_SIGNALS,
    Signal,
    Word,
    compute_signals,
    compute_static_signals,
    find_words,
)
from everhold.recall.threads import Threads

_MIN_POOL_SIZE = 8
# Two totals that differ by less than this may become equal scores after rounding.
_MARGIN = 1e-5
# The number of rows taken at first beyond the needed ones, so that a few ties do not need a second pass.
_TIES = 2


class ImageView(NamedTuple):
    """An image, the rows that the scope covers, and the rows that may be returned. None means all rows."""

    image: Image
    covered: Mask | None
    eligible: Mask | None


class PreparedQuestion(NamedTuple):
    """A question with the recipe that weighs its signals, the time of asking in microseconds, and a thesaurus.

    `read_texts` returns the texts of memories by their ids.
    """

    question: Question
    recipe: Recipe
    now: int = 0
    thesaurus: Thesaurus = NO_THESAURUS
    read_texts: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {}


class Pool(NamedTuple):
    """The rows of an image that could be among the best, and the signals of all rows.

    The image may change before a caller reads `hit.why`, so everything that explains a score is kept here. `rows`,
    `owners` and `totals` have an entry for each row of the pool. The signals, `link_gains` and `blank`, which says
    whether a row has no vector, have an entry for each row of the image. `weights` are those of the signals.
    """

    image: Image
    rows: list[int]
    owners: list[str]
    totals: list[float]
    signals: Mapping[str, Signal]
    weights: Mapping[str, float]
    link_gains: Mapping[str, Signal]
    words: Sequence[Word]
    prepared: PreparedQuestion
    threads: Threads | None
    blank: Mask

    def explain_row(self, row: int) -> dict[str, float]:
        """Return the contribution of each retriever to a row's total."""
        contributions = {
            name: weight * float(self.signals[name][row])
            for name, weight in self.weights.items()
            if name in self.signals
        }
        if self.threads is not None and (row in self.threads.rows or row in self.threads.fact_rows):
            contributions["turn"] = self.prepared.recipe.turn_base
        return contributions | {name: float(gains[row]) for name, gains in self.link_gains.items()}

    def similarity(self, row: int) -> float:
        known = self.prepared.question.vector is not None and not self.blank[row]
        return float(self.signals["meaning.own"][row]) if known and "meaning.own" in self.signals else 0.0


class Scored(NamedTuple):
    """A scored record. Its best row is `pool.rows[pool_index]`."""

    owner_id: str
    score: float
    pool: Pool
    pool_index: int
    lead: float = 0.0
    verdict: Verdict | None = None

    @property
    def rank(self) -> Rank:
        return -self.score, self.owner_id, self.pool.image.kind

    @property
    def kind(self) -> str:
        return self.pool.image.kind

    @property
    def row(self) -> int:
        return self.pool.rows[self.pool_index]

    @property
    def is_plain(self) -> bool:
        """Whether it is a memory that is neither a turn of a conversation nor derived from one."""
        pool = self.pool
        return pool.image.kind == "memory" and (
            pool.threads is None or not pool.threads.has(pool.rows[self.pool_index])
        )

    @property
    def total(self) -> float:
        return self.pool.totals[self.pool_index]

    @property
    def image(self) -> Image:
        return self.pool.image

    def why(self, searched: str) -> Why:
        """Return the parts of the score. `searched` is "image" or "candidates"."""
        row, verdict = self.row, self.verdict
        contributions = {**self.pool.explain_row(row), "lead": self.lead}
        if verdict is not None:
            contributions["answer"] = verdict.total - self.total
        return Why(
            contributions=_drop_zeros(contributions),
            base=self.pool.prepared.recipe.base,
            similarity=round(self.pool.similarity(row), SCORE_DECIMALS),
            matched=tuple(word.term for word in self.pool.words if word.find_weight(row)),
            searched=searched,
            judged=_drop_zeros(verdict.explain()) if verdict is not None else {},
            updates=verdict.updates if verdict is not None else None,
            outdated_by=verdict.outdated_by if verdict is not None else None,
        )


def _drop_zeros(values: Mapping[str, float]) -> dict[str, float]:
    return {name: rounded for name, value in values.items() if (rounded := round(value, SCORE_DECIMALS))}


def count_statistics(
    image_views: Sequence[ImageView], terms: Sequence[str], postings: Sequence[Sequence[Posting]] | None = None
) -> Statistics:
    """Count the rows that the scope covers, and those that have each term."""
    chunks = 0
    rows_with_term = dict.fromkeys(terms, 0)
    for (image, covered, _), found_postings in zip(
        image_views, postings or _find_postings(image_views, terms), strict=True
    ):
        chunks += image.size if covered is None else int(np.count_nonzero(covered))
        for term, (rows, _) in zip(terms, found_postings, strict=True):
            rows_with_term[term] += len(rows) if covered is None else int(np.count_nonzero(covered[rows]))
    return Statistics(chunks, rows_with_term)


def _find_postings(image_views: Sequence[ImageView], terms: Sequence[str]) -> list[list[Posting]]:
    return [[image_view.image.postings.find(term) for term in terms] for image_view in image_views]


def rank(
    image_views: Sequence[ImageView], prepared: PreparedQuestion, limit: int, statistics: Statistics | None = None
) -> list[Scored]:
    """Return the best `limit` owners of rows, best first."""
    best = find_best(image_views, prepared, limit, statistics)
    if prepared.recipe.lead and best:
        best[0] = add_lead(best, prepared.recipe)
    return best[:limit]


def find_best(
    image_views: Sequence[ImageView],
    prepared: PreparedQuestion,
    limit: int,
    statistics: Statistics | None = None,
    plain: int = 0,
) -> list[Scored]:
    """Return at least the best `limit` owners, best first. The lead of the first is not added to its score.

    The result also has the best `plain` memories that are not turns of a conversation.
    """
    words = _weigh_words(image_views, prepared, statistics)
    pools = [
        _make_pool(image_view, prepared, image_words, max(limit, _MIN_POOL_SIZE), plain)
        for image_view, image_words in zip(image_views, words, strict=True)
    ]
    if len(pools) == 1 and len(set(pools[0].owners)) == len(pools[0].owners):
        return _score_pool(pools[0])
    return sorted(_keep_best_rows(candidate for pool in pools for candidate in _score_pool(pool)), key=rank_key)


def _score_pool(pool: Pool) -> list[Scored]:
    """Return the owner and the score of each row of a pool, best first."""
    scores = pool.prepared.recipe.score_all(pool.totals)
    ranked = sorted(zip(map(neg, scores), pool.owners, count()))
    return [Scored(owner_id, -score, pool, index) for score, owner_id, index in ranked]


def _keep_best_rows(scored: Iterable[Scored]) -> Iterable[Scored]:
    """Return the best row of each owner."""
    best: dict[tuple[str, str], Scored] = {}
    for candidate in scored:
        name = (candidate.kind, candidate.owner_id)  # ids are unique within a kind
        if candidate.score > best.setdefault(name, candidate).score:
            best[name] = candidate
    return best.values()


def add_lead(ranked: Sequence[Scored], recipe: Recipe) -> Scored:
    """Return the first candidate with its lead added to its score."""
    best, lead = ranked[0], compute_lead(ranked, recipe)
    return best._replace(score=recipe.score(best.total + lead), lead=lead)


def compute_lead(ranked: Sequence[Scored], recipe: Recipe) -> float:
    """Return what the first candidate gains by its distance to the next candidate that does not repeat it.

    A fact and the message that it was derived from repeat each other.
    """
    best, next_best = ranked[0], recipe.base + recipe.unrelated
    for candidate in ranked[1:]:
        if not _share_origin(best, candidate):
            next_best = candidate.total
            break
    return recipe.lead * max(min(best.total - next_best, recipe.max_lead), 0.0)


def _share_origin(first: Scored, second: Scored) -> bool:
    """Return whether one candidate is a fact derived from the other."""
    sources = (first.image.sources.get(first.owner_id), second.image.sources.get(second.owner_id))
    return first.owner_id == sources[1] or second.owner_id == sources[0]


def compute_all_signals(
    image_views: Sequence[ImageView], prepared: PreparedQuestion
) -> list[tuple[ImageView, dict[str, Signal]]]:
    """Return the signals of all rows."""
    words = _weigh_words(image_views, prepared, None)
    return [
        (image_view, _compute_signals(image_view, prepared, image_words))
        for image_view, image_words in zip(image_views, words, strict=True)
    ]


def _weigh_words(
    image_views: Sequence[ImageView], prepared: PreparedQuestion, statistics: Statistics | None
) -> list[list[Word]]:
    """Find the terms of the question in each image, and weigh each term by its rarity."""
    terms = prepared.question.terms
    postings = _find_postings(image_views, terms)
    statistics = statistics or count_statistics(image_views, terms, postings)
    rarity = [_compute_rarity(statistics, term) for term in terms]
    total = sum(rarity) or 1.0
    weights = [value / total for value in rarity]
    with_similar = prepared.recipe.judges or prepared.recipe.uses("similar")
    return [
        find_words(image_view.image, terms, weights, image_postings, prepared.thesaurus, with_similar=with_similar)
        for image_view, image_postings in zip(image_views, postings, strict=True)
    ]


def _compute_signals(image_view: ImageView, prepared: PreparedQuestion, words: Sequence[Word]) -> dict[str, Signal]:
    return compute_signals(image_view.image, prepared.question, words, prepared.recipe, prepared.now)


def rank_key(scored: Scored) -> tuple[float, str]:
    """Return the sort key, best first. Equal keys stay in the order of the image views, that is, of their kinds."""
    return -scored.score, scored.owner_id


def _compute_rarity(statistics: Statistics, term: str) -> float:
    with_term = statistics.chunks_with_term.get(term, 0)
    return math.log(1 + (statistics.chunks - with_term + 0.5) / (with_term + 0.5))


def _make_pool(
    image_view: ImageView, prepared: PreparedQuestion, words: Sequence[Word], limit: int, plain: int
) -> Pool:
    """Return a pool with the best rows: enough for `limit` owners, and for `plain` owners that are not turns."""
    image, recipe = image_view.image, prepared.recipe
    signals = _compute_signals(image_view, prepared, words)
    threads = image.threads if recipe.looks_around else None
    weights = recipe.weights_for(threads=threads is not None, voiced="voice.own" in signals)
    totals = _compute_base_totals(image, recipe, weights, prepared.now)
    for name, weight in weights.items():
        if weight and name in signals and name not in STATIC_SIGNALS:
            totals += weight * signals[name]
    link_gains = (
        compute_link_gains(image, image_view.eligible, totals, recipe, prepared.question)
        if recipe.calibrated and (image.successors or image.links)
        else {}
    )
    for gains in link_gains.values():
        totals += gains
    if image_view.eligible is not None:
        totals[~image_view.eligible] = -np.inf
    size = limit
    while True:
        rows, best_totals = _find_top(totals, size)
        if plain and threads is not None:
            rows, best_totals = _with_plain(totals, rows, threads, plain)
        owners = [image.owners[row] for row in rows]
        if len(rows) < size or len(set(owners)) >= limit:
            break
        size *= 4  # many of the best rows belong to the same memories
    blank = image.column("blank")
    return Pool(image, rows, owners, best_totals, signals, weights, link_gains, words, prepared, threads, blank)


def _with_plain(totals: Signal, rows: list[int], threads: Threads, plain: int) -> tuple[list[int], list[float]]:
    """Return these rows and the best rows that are not turns."""
    plain_totals = totals.copy()
    plain_totals[threads.rows] = -np.inf
    plain_totals[threads.fact_rows] = -np.inf
    all_rows = sorted({*rows, *_find_top(plain_totals, plain)[0]})
    return all_rows, totals[all_rows].tolist()


def _compute_base_totals(image: Image, recipe: Recipe, weights: Mapping[str, float], now: int) -> Signal:
    """Return the part of each row's total that does not depend on the question. The image caches it for a day."""

    def make(image: Image) -> Signal:
        totals = np.full(image.size, recipe.base)
        if recipe.looks_around and image.threads is not None:
            totals[image.threads.rows] += recipe.turn_base
            totals[image.threads.fact_rows] += recipe.turn_base
        for name, values in compute_static_signals(image, now).items():
            totals += weights.get(name, 0.0) * values.astype(np.float64)
        return totals

    totals_today: Signal = image.compute_once("base totals", make, (recipe, now // DAY))
    return totals_today.copy()


def _find_top(totals: Signal, size: int) -> tuple[list[int], list[float]]:
    """Return at least the `size` best rows, or all rows if there are fewer, and their totals.

    The order of scores that are equal after rounding is decided by ids. So all rows within a margin of the last row are
    returned too.
    """
    rows = _partition_best(totals, size)
    best_totals = totals[rows].tolist()
    if -math.inf in best_totals:
        rows = rows[totals[rows] > -math.inf]
        best_totals = totals[rows].tolist()
    return rows.tolist(), best_totals


def _partition_best(totals: Signal, size: int) -> NDArray[np.int64]:
    """Return the best rows in ascending order."""
    while len(totals) > size + _TIES:
        rows: NDArray[np.int64] = totals.argpartition(-size - _TIES)[-size - _TIES :]
        ranked = np.sort(totals[rows])
        if ranked[0] == -math.inf or ranked[0] < ranked[-size] - _MARGIN:
            rows.sort()
            return rows
        size *= 2
    return np.arange(len(totals))
