"""Scoring the rows of images against a question: one code for every store and every size.

Each retriever says how well every row fits in one respect; the recipe weighs what they say. What a row is given does
not depend on where in an image it lies, so that a score is the same wherever the row is held.
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
from everhold.recall.recipe import Recipe
from everhold.recall.signals import DAY, STANDING, Signal, Word, sense, standing, words_of
from everhold.recall.threads import Threads

_DECIMALS = 6
_LEAST_POOL = 8
_MARGIN = 1e-5
_TIES = 2

Rank = tuple[float, str, str]
"""Best first, equals by id and kind."""


class Sight(NamedTuple):
    """An image, which of its rows the scope covers, and which of those may be returned. None is all."""

    image: Image
    covered: Mask | None
    eligible: Mask | None


class Asked(NamedTuple):
    """A question, how its signals are weighed, and by what time of asking, in microseconds."""

    question: Question
    recipe: Recipe
    now: int = 0
    thesaurus: Thesaurus = NO_THESAURUS


class _Pool(NamedTuple):
    """Rows of an image that could be among the best, and what each retriever said of every row.

    The image may change before somebody asks why: what is needed then is kept as it is now.
    """

    image: Image
    rows: list[int]
    owners: list[str]
    totals: list[float]
    signals: Mapping[str, Signal]
    weights: Mapping[str, float]
    carried: Mapping[str, Signal]
    words: Sequence[Word]
    asked: Asked
    threads: Threads | None
    blank: Mask

    def given(self, row: int) -> dict[str, float]:
        """What each retriever gave a row."""
        found = {
            name: weight * float(self.signals[name][row])
            for name, weight in self.weights.items()
            if name in self.signals
        }
        if self.threads is not None and (row in self.threads.rows or row in self.threads.drawn):
            found["turn"] = self.asked.recipe.turn
        return found | {name: float(extra[row]) for name, extra in self.carried.items()}

    def likeness(self, row: int) -> float:
        known = self.asked.question.vector is not None and not self.blank[row]
        return float(self.signals["meaning.own"][row]) if known and "meaning.own" in self.signals else 0.0


class Scored(NamedTuple):
    """An owner of rows and its score, with what the score was made of for whoever asks."""

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
        """The parts of the score."""
        row, verdict = self.row, self.verdict
        given = {**self.pool.given(row), "lead": self.lead}
        if verdict is not None:
            given["answer"] = verdict.total - self.total
        return Why(
            given=_without_zeros(given),
            base=self.pool.asked.recipe.base,
            likeness=round(self.pool.likeness(row), _DECIMALS),
            matched=tuple(word.term for word in self.pool.words if word.gives(row)),
            searched=searched,
            judged=_without_zeros(verdict.explain()) if verdict is not None else {},
            updates=verdict.updates if verdict is not None else None,
            outdated_by=verdict.outdated_by if verdict is not None else None,
        )


def _without_zeros(values: Mapping[str, float]) -> dict[str, float]:
    return {name: rounded for name, value in values.items() if (rounded := round(value, _DECIMALS))}


def statistics_of(
    sights: Sequence[Sight], terms: Sequence[str], postings: Sequence[Sequence[Posting]] | None = None
) -> Statistics:
    """How many rows the scope covers, and how many of them hold each term."""
    chunks = 0
    holding = dict.fromkeys(terms, 0)
    for (image, covered, _), found in zip(sights, postings or _postings(sights, terms), strict=True):
        chunks += image.size if covered is None else int(np.count_nonzero(covered))
        for term, (rows, _) in zip(terms, found, strict=True):
            holding[term] += len(rows) if covered is None else int(np.count_nonzero(covered[rows]))
    return Statistics(chunks, holding)


def _postings(sights: Sequence[Sight], terms: Sequence[str]) -> list[list[Posting]]:
    return [[sight.image.postings.find(term) for term in terms] for sight in sights]


def rank(sights: Sequence[Sight], asked: Asked, limit: int, statistics: Statistics | None = None) -> list[Scored]:
    """Return the best `limit` owners of rows, best first."""
    found = find_best(sights, asked, limit, statistics)
    if asked.recipe.lead and found:
        found[0] = add_lead(found, asked.recipe)
    return found[:limit]


def find_best(
    sights: Sequence[Sight], asked: Asked, limit: int, statistics: Statistics | None = None, plain: int = 0
) -> list[Scored]:
    """Return at least the best `limit` owners, best first, without what the first gains by its lead; and the best
    `plain` memories that are no turns, whatever the turns are."""
    words = _words(sights, asked, statistics)
    best: dict[str | tuple[str, str], Scored] = {}
    for sight, own in zip(sights, words, strict=True):
        pool = _pool(sight, asked, own, max(limit, _LEAST_POOL), plain)
        kind, has_kinds = sight.image.kind, len(sights) > 1  # ids are unique within a kind
        scores = asked.recipe.score_all(pool.totals)
        for at, (owner_id, score) in enumerate(zip(pool.owners, scores, strict=True)):
            scored = Scored(owner_id, score, pool, at)
            name = (kind, owner_id) if has_kinds else owner_id
            if scored.score > best.setdefault(name, scored).score:
                best[name] = scored
    return sorted(best.values(), key=by_rank)


def add_lead(found: Sequence[Scored], recipe: Recipe) -> Scored:
    """Return the best with what it gains by standing out from the next that does not merely say the same."""
    best, next_best = found[0], recipe.base + recipe.unrelated
    for one in found[1:]:
        if not _same_origin(best, one):
            next_best = one.total
            break
    lead = recipe.lead * max(min(best.total - next_best, recipe.lead_most), 0.0)
    return best._replace(score=recipe.score(best.total + lead), lead=lead)


def _same_origin(one: Scored, other: Scored) -> bool:
    """Whether one is a fact drawn from the other."""
    sources = (one.image.sources.get(one.owner_id), other.image.sources.get(other.owner_id))
    return one.owner_id == sources[1] or other.owner_id == sources[0]


def signals_of(sights: Sequence[Sight], asked: Asked) -> list[tuple[Sight, dict[str, Signal]]]:
    """What each retriever says of every row."""
    words = _words(sights, asked, None)
    return [(sight, _sensed(sight, asked, own)) for sight, own in zip(sights, words, strict=True)]


def _words(sights: Sequence[Sight], asked: Asked, statistics: Statistics | None) -> list[list[Word]]:
    """The terms of the question as each image holds them; a term weighs by how rare it is, as a share of all."""
    terms = asked.question.terms
    postings = _postings(sights, terms)
    statistics = statistics or statistics_of(sights, terms, postings)
    rarity = [_rarity(statistics, term) for term in terms]
    most = sum(rarity) or 1.0
    weights = [one / most for one in rarity]
    return [
        words_of(sight.image, terms, weights, found, asked.thesaurus)
        for sight, found in zip(sights, postings, strict=True)
    ]


def _sensed(sight: Sight, asked: Asked, words: Sequence[Word]) -> dict[str, Signal]:
    return sense(sight.image, asked.question, words, asked.recipe, asked.thesaurus, asked.now)


def by_rank(scored: Scored) -> tuple[float, str]:
    """Equal ranks stay in the order of the sights, which is that of their kinds."""
    return -scored.score, scored.owner_id


def _rarity(statistics: Statistics, term: str) -> float:
    holding = statistics.chunks_with_term.get(term, 0)
    return math.log(1 + (statistics.chunks - holding + 0.5) / (holding + 0.5))


def _pool(sight: Sight, asked: Asked, words: Sequence[Word], limit: int, plain: int) -> _Pool:
    """Enough of the image's best rows that `limit` memories are among them, and `plain` that are no turns, if there
    are so many."""
    image, recipe = sight.image, asked.recipe
    signals = _sensed(sight, asked, words)
    threads = image.threads if recipe.looks_around else None
    weights = recipe.weights_for(threads=threads is not None, voiced="voice.own" in signals)
    totals = _before_the_question(image, recipe, weights, asked.now)
    for name, weight in weights.items():
        if weight and name in signals and name not in STANDING:
            totals += weight * signals[name]
    carried = _carry(sight, totals, recipe) if recipe.calibrated and (image.heirs or image.links) else {}
    for extra in carried.values():
        totals += extra
    if sight.eligible is not None:
        totals[~sight.eligible] = -np.inf
    size = limit
    while True:
        rows, found = _top(totals, size)
        if plain and threads is not None:
            rows, found = _with_plain(totals, rows, threads, plain)
        owners = [image.owners[row] for row in rows]
        if len(rows) < size or len(set(owners)) >= limit:
            break
        size *= 4  # many of the best rows belong to the same memories
    blank = image.column("blank")
    return _Pool(image, rows, owners, found, signals, weights, carried, words, asked, threads, blank)


def _with_plain(totals: Signal, rows: list[int], threads: Threads, plain: int) -> tuple[list[int], list[float]]:
    """Return these rows and the best that are no turns."""
    others = totals.copy()
    others[threads.rows] = -np.inf
    others[threads.drawn] = -np.inf
    both = sorted({*rows, *_top(others, plain)[0]})
    return both, totals[both].tolist()


def _before_the_question(image: Image, recipe: Recipe, weights: Mapping[str, float], now: int) -> Signal:
    """What each row has whatever is asked, worked out once a day."""

    def make(image: Image) -> Signal:
        totals = np.full(image.size, recipe.base)
        if recipe.looks_around and image.threads is not None:
            totals[image.threads.rows] += recipe.turn
            totals[image.threads.drawn] += recipe.turn
        for name, values in standing(image, now).items():
            totals += weights.get(name, 0.0) * values.astype(np.float64)
        return totals

    made: Signal = image.cached("before the question", make, (recipe, now // DAY))
    return made.copy()


def _carry(sight: Sight, totals: Signal, recipe: Recipe) -> dict[str, Signal]:
    """What a memory gains from one that it has replaced, and from a strong hit that it is related to."""
    found: dict[str, Signal] = {}
    raised = totals.copy()
    olds, heirs = sight.image.cached("heirs", _heir_rows)
    if len(olds):
        np.maximum.at(raised, heirs, totals[olds] - recipe.heir)
        found["replaced"] = raised - totals
    ones, others = sight.image.cached("links", _link_rows)
    if len(ones):
        reached = raised.copy()
        strong = raised[ones] >= 0.0
        if sight.eligible is not None:
            strong &= sight.eligible[ones]
        np.maximum.at(reached, others[strong], raised[ones[strong]] - recipe.related)
        found["related"] = reached - raised
    return found


def _heir_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows of replaced memories beside those of the memories that have their place now."""
    rows = _rows_by_owner(image)
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


def _link_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    rows = _rows_by_owner(image)
    pairs = [
        (row, other_row)
        for one, others in image.links.items()
        for row in rows.get(one, ())
        for other in others
        for other_row in rows.get(other, ())
    ]
    ones, others = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(ones, np.int64), np.array(others, np.int64)


def _rows_by_owner(image: Image) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero(image.column("alive")).tolist():
        found.setdefault(image.owners[row], []).append(row)
    return found


def _top(totals: Signal, size: int) -> tuple[list[int], list[float]]:
    """At least `size` of the best rows, if so many may be returned, and their totals.

    What is equal after rounding is equal: all that come within a margin of the last are taken, so that ids decide.
    """
    rows, found = _best(totals, size)
    if -math.inf in found:
        rows = [row for row, total in zip(rows, found, strict=True) if total > -math.inf]
        found = totals[rows].tolist()
    return rows, found


def _best(totals: Signal, size: int) -> tuple[list[int], list[float]]:
    while len(totals) > size + _TIES:
        rows = sorted(np.argpartition(totals, -size - _TIES)[-size - _TIES :].tolist())
        found = totals[rows].tolist()
        ranked = sorted(found)
        if ranked[0] == -math.inf or ranked[0] < ranked[-size] - _MARGIN:
            return rows, found
        size *= 2
    return list(range(len(totals))), totals.tolist()
