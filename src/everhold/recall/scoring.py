"""Scoring the rows of images for a question. Every store and every size of scope uses this code.

Each retriever computes a signal for every row, and the recipe weighs the signals. A signal does not depend on the row's
position in the image, so a memory gets the same score in whichever image it is.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.ports.search_indexes import Statistics
from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.recall.hit import Why
from everhold.recall.image import Image, Mask
from everhold.recall.judging import Verdict
from everhold.recall.postings import Posting
from everhold.recall.question import Question
from everhold.recall.recipe import SCORE_DECIMALS, Recipe
from everhold.recall.signals import DAY, STANDING, Signal, Word, compute_signals, compute_standing, find_words
from everhold.recall.threads import Threads

_MIN_POOL_SIZE = 8
_MARGIN = 1e-5
_TIES = 2

# Best first, equals by id and kind.
Rank = tuple[float, str, str]


class ImageView(NamedTuple):
    """An image, the rows that the scope covers, and the rows that may be returned. None means all rows."""

    image: Image
    covered: Mask | None
    eligible: Mask | None


class PreparedQuestion(NamedTuple):
    """A question with the recipe that weighs its signals, the time of asking in microseconds, and a thesaurus."""

    question: Question
    recipe: Recipe
    now: int = 0
    thesaurus: Thesaurus = NO_THESAURUS


class _Pool(NamedTuple):
    """The rows of an image that could be among the best, and the signals of all rows.

    The image may change before a caller reads `hit.why`, so everything that explains a score is kept here.
    """

    image: Image
    rows: list[int]
    owners: list[str]
    totals: list[float]
    signals: Mapping[str, Signal]
    weights: Mapping[str, float]
    carried: Mapping[str, Signal]
    words: Sequence[Word]
    prepared: PreparedQuestion
    threads: Threads | None
    blank: Mask

    def explain_row(self, row: int) -> dict[str, float]:
        """Return the contribution of each retriever to a row's total."""
        found = {
            name: weight * float(self.signals[name][row])
            for name, weight in self.weights.items()
            if name in self.signals
        }
        if self.threads is not None and (row in self.threads.rows or row in self.threads.drawn):
            found["turn"] = self.prepared.recipe.turn
        return found | {name: float(extra[row]) for name, extra in self.carried.items()}

    def likeness(self, row: int) -> float:
        known = self.prepared.question.vector is not None and not self.blank[row]
        return float(self.signals["meaning.own"][row]) if known and "meaning.own" in self.signals else 0.0


class Scored(NamedTuple):
    """An owner of rows and its score, with the pool that explains it."""

    owner_id: str
    score: float
    pool: _Pool
    at: int
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
        return self.pool.rows[self.at]

    @property
    def is_plain(self) -> bool:
        """Whether it is a memory that is no turn of a conversation and was not drawn from one."""
        pool = self.pool
        return pool.image.kind == "memory" and (pool.threads is None or not pool.threads.has(pool.rows[self.at]))

    @property
    def total(self) -> float:
        return self.pool.totals[self.at]

    @property
    def image(self) -> Image:
        return self.pool.image

    def why(self, searched: str) -> Why:
        """Return what the score consists of."""
        row, verdict = self.row, self.verdict
        given = {**self.pool.explain_row(row), "lead": self.lead}
        if verdict is not None:
            given["answer"] = verdict.total - self.total
        return Why(
            given=_drop_zeros(given),
            base=self.pool.prepared.recipe.base,
            likeness=round(self.pool.likeness(row), SCORE_DECIMALS),
            matched=tuple(word.term for word in self.pool.words if word.gives(row)),
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
    holding = dict.fromkeys(terms, 0)
    for (image, covered, _), found in zip(image_views, postings or _find_postings(image_views, terms), strict=True):
        chunks += image.size if covered is None else int(np.count_nonzero(covered))
        for term, (rows, _) in zip(terms, found, strict=True):
            holding[term] += len(rows) if covered is None else int(np.count_nonzero(covered[rows]))
    return Statistics(chunks, holding)


def _find_postings(image_views: Sequence[ImageView], terms: Sequence[str]) -> list[list[Posting]]:
    return [[image_view.image.postings.find(term) for term in terms] for image_view in image_views]


def rank(
    image_views: Sequence[ImageView], prepared: PreparedQuestion, limit: int, statistics: Statistics | None = None
) -> list[Scored]:
    """Return the best `limit` owners of rows, best first."""
    found = find_best(image_views, prepared, limit, statistics)
    if prepared.recipe.lead and found:
        found[0] = add_lead(found, prepared.recipe)
    return found[:limit]


def find_best(
    image_views: Sequence[ImageView],
    prepared: PreparedQuestion,
    limit: int,
    statistics: Statistics | None = None,
    plain: int = 0,
) -> list[Scored]:
    """Return at least the best `limit` owners, best first, without what the first gains by its lead; and the best
    `plain` memories that are no turns, whatever the turns are."""
    words = _weigh_words(image_views, prepared, statistics)
    best: dict[str | tuple[str, str], Scored] = {}
    for image_view, own in zip(image_views, words, strict=True):
        pool = _make_pool(image_view, prepared, own, max(limit, _MIN_POOL_SIZE), plain)
        kind, has_kinds = image_view.image.kind, len(image_views) > 1  # ids are unique within a kind
        scores = prepared.recipe.score_all(pool.totals)
        for at, (owner_id, score) in enumerate(zip(pool.owners, scores, strict=True)):
            scored = Scored(owner_id, score, pool, at)
            name = (kind, owner_id) if has_kinds else owner_id
            if scored.score > best.setdefault(name, scored).score:
                best[name] = scored
    return sorted(best.values(), key=rank_key)


def add_lead(found: Sequence[Scored], recipe: Recipe) -> Scored:
    """Return the best with what it gains by standing out from the next that does not merely say the same."""
    best, next_best = found[0], recipe.base + recipe.unrelated
    for one in found[1:]:
        if not _share_origin(best, one):
            next_best = one.total
            break
    lead = recipe.lead * max(min(best.total - next_best, recipe.max_lead), 0.0)
    return best._replace(score=recipe.score(best.total + lead), lead=lead)


def _share_origin(one: Scored, other: Scored) -> bool:
    """Whether one is a fact drawn from the other."""
    sources = (one.image.sources.get(one.owner_id), other.image.sources.get(other.owner_id))
    return one.owner_id == sources[1] or other.owner_id == sources[0]


def compute_all_signals(
    image_views: Sequence[ImageView], prepared: PreparedQuestion
) -> list[tuple[ImageView, dict[str, Signal]]]:
    """Return the signals of all rows."""
    words = _weigh_words(image_views, prepared, None)
    return [
        (image_view, _compute_signals(image_view, prepared, own))
        for image_view, own in zip(image_views, words, strict=True)
    ]


def _weigh_words(
    image_views: Sequence[ImageView], prepared: PreparedQuestion, statistics: Statistics | None
) -> list[list[Word]]:
    """Find the terms of the question in each image, and weigh each term by its rarity."""
    terms = prepared.question.terms
    postings = _find_postings(image_views, terms)
    statistics = statistics or count_statistics(image_views, terms, postings)
    rarity = [_compute_rarity(statistics, term) for term in terms]
    most = sum(rarity) or 1.0
    weights = [one / most for one in rarity]
    return [
        find_words(image_view.image, terms, weights, found, prepared.thesaurus)
        for image_view, found in zip(image_views, postings, strict=True)
    ]


def _compute_signals(image_view: ImageView, prepared: PreparedQuestion, words: Sequence[Word]) -> dict[str, Signal]:
    return compute_signals(
        image_view.image, prepared.question, words, prepared.recipe, prepared.thesaurus, prepared.now
    )


def rank_key(scored: Scored) -> tuple[float, str]:
    """Return the sort key, best first. Equal keys stay in the order of the image views, that is, of their kinds."""
    return -scored.score, scored.owner_id


def _compute_rarity(statistics: Statistics, term: str) -> float:
    holding = statistics.chunks_with_term.get(term, 0)
    return math.log(1 + (statistics.chunks - holding + 0.5) / (holding + 0.5))


def _make_pool(
    image_view: ImageView, prepared: PreparedQuestion, words: Sequence[Word], limit: int, plain: int
) -> _Pool:
    """Return enough of the best rows to have `limit` owners, and `plain` owners that are no turns, if there are so
    many."""
    image, recipe = image_view.image, prepared.recipe
    signals = _compute_signals(image_view, prepared, words)
    threads = image.threads if recipe.looks_around else None
    weights = recipe.weights_for(threads=threads is not None, voiced="voice.own" in signals)
    totals = _compute_base_totals(image, recipe, weights, prepared.now)
    for name, weight in weights.items():
        if weight and name in signals and name not in STANDING:
            totals += weight * signals[name]
    carried = _carry(image_view, totals, recipe) if recipe.calibrated and (image.heirs or image.links) else {}
    for extra in carried.values():
        totals += extra
    if image_view.eligible is not None:
        totals[~image_view.eligible] = -np.inf
    size = limit
    while True:
        rows, found = _find_top(totals, size)
        if plain and threads is not None:
            rows, found = _with_plain(totals, rows, threads, plain)
        owners = [image.owners[row] for row in rows]
        if len(rows) < size or len(set(owners)) >= limit:
            break
        size *= 4  # many of the best rows belong to the same memories
    blank = image.column("blank")
    return _Pool(image, rows, owners, found, signals, weights, carried, words, prepared, threads, blank)


def _with_plain(totals: Signal, rows: list[int], threads: Threads, plain: int) -> tuple[list[int], list[float]]:
    """Return these rows and the best that are no turns."""
    others = totals.copy()
    others[threads.rows] = -np.inf
    others[threads.drawn] = -np.inf
    both = sorted({*rows, *_find_top(others, plain)[0]})
    return both, totals[both].tolist()


def _compute_base_totals(image: Image, recipe: Recipe, weights: Mapping[str, float], now: int) -> Signal:
    """Return the part of each row's total that does not depend on the question. It is computed once a day."""

    def make(image: Image) -> Signal:
        totals = np.full(image.size, recipe.base)
        if recipe.looks_around and image.threads is not None:
            totals[image.threads.rows] += recipe.turn
            totals[image.threads.drawn] += recipe.turn
        for name, values in compute_standing(image, now).items():
            totals += weights.get(name, 0.0) * values.astype(np.float64)
        return totals

    made: Signal = image.compute_once("before the question", make, (recipe, now // DAY))
    return made.copy()


def _carry(image_view: ImageView, totals: Signal, recipe: Recipe) -> dict[str, Signal]:
    """Return what memories gain from those that they superseded, and from strong hits that they are related to."""
    found: dict[str, Signal] = {}
    raised = totals.copy()
    olds, heirs = image_view.image.compute_once("heirs", _find_heir_rows)
    if len(olds):
        np.maximum.at(raised, heirs, totals[olds] - recipe.heir)
        found["replaced"] = raised - totals
    ones, others = image_view.image.compute_once("links", _find_link_rows)
    if len(ones):
        reached = raised.copy()
        strong = raised[ones] >= 0.0
        if image_view.eligible is not None:
            strong &= image_view.eligible[ones]
        np.maximum.at(reached, others[strong], raised[ones[strong]] - recipe.related)
        found["related"] = reached - raised
    return found


def _find_heir_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return pairs of rows: those of superseded memories, and those of the memories that superseded them."""
    rows = _map_rows_by_owner(image)
    olds: list[int] = []
    heirs: list[int] = []
    for old in image.heirs:
        heir, steps = image.heirs[old], 0
        while heir in image.heirs and steps < len(image.heirs):
            heir, steps = image.heirs[heir], steps + 1
        for row in rows.get(old, ()):
            olds += [row] * len(rows.get(heir, ()))
            heirs += rows.get(heir, ())
    return np.array(olds, np.int64), np.array(heirs, np.int64)


def _find_link_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    rows = _map_rows_by_owner(image)
    pairs = [
        (row, other_row)
        for one, others in image.links.items()
        for row in rows.get(one, ())
        for other in others
        for other_row in rows.get(other, ())
    ]
    ones, others = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(ones, np.int64), np.array(others, np.int64)


def _map_rows_by_owner(image: Image) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero(image.column("alive")).tolist():
        found.setdefault(image.owners[row], []).append(row)
    return found


def _find_top(totals: Signal, size: int) -> tuple[list[int], list[float]]:
    """Return at least `size` of the best rows, if there are so many, and their totals.

    Totals that are equal after rounding are ties, which ids decide. So all rows within a margin of the last are taken.
    """
    rows, found = _partition_best(totals, size)
    if -math.inf in found:
        rows = [row for row, total in zip(rows, found, strict=True) if total > -math.inf]
        found = totals[rows].tolist()
    return rows, found


def _partition_best(totals: Signal, size: int) -> tuple[list[int], list[float]]:
    while len(totals) > size + _TIES:
        rows = sorted(np.argpartition(totals, -size - _TIES)[-size - _TIES :].tolist())
        found = totals[rows].tolist()
        ranked = sorted(found)
        if ranked[0] == -math.inf or ranked[0] < ranked[-size] - _MARGIN:
            return rows, found
        size *= 2
    return list(range(len(totals))), totals.tolist()
