"""Ranking memories with the best plain ones judged together (judging.py)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.ports.search_indexes import Statistics
from everhold.recall.image import Image
from everhold.recall.intent import Intent
from everhold.recall.judging import EXAMINED, ONE_ANSWER, Bounds, Verdict, find_bounds, judge
from everhold.recall.measures import Asking, Candidates, Numbers, find_terms, read_asking
from everhold.recall.recipe import SCORE_DECIMALS, Recipe
from everhold.recall.request import Request
from everhold.recall.scoring import ImageView, PreparedQuestion, Scored, add_lead, find_best, rank, rank_key
from everhold.recall.signals import Signal


def rank_answers(
    image_views: Sequence[ImageView], prepared: PreparedQuestion, limit: int, statistics: Statistics | None = None
) -> list[Scored]:
    """Return the best `limit` owners of rows, best first, with the plain memories among them judged.

    What is too far behind to be judged stays behind what is.
    """
    if not prepared.recipe.judges:
        return rank(image_views, prepared, limit, statistics)
    found = find_best(image_views, prepared, max(limit, EXAMINED), statistics, plain=EXAMINED)
    plain, apart = _part(found, image_views)
    if prepared.question.rest is not None:
        prepared, statistics = prepared._replace(question=prepared.question.rest), None
        found = plain = _find_plain(image_views, prepared, limit)
    examined, rest = plain[:EXAMINED], plain[EXAMINED:]
    lead = add_lead(found, prepared.recipe).lead if examined and found[0] is examined[0] else 0.0
    ranked = _judge_all(examined, prepared, statistics, lead, limit) if examined else []
    is_extended = bool(rest) and len(ranked) < limit
    if is_extended:
        lowest, last = ranked[-1].score, max(examined[-1].score, 10**-SCORE_DECIMALS)
        ranked += [one._replace(score=round(lowest * min(one.score / last, 1.0), SCORE_DECIMALS)) for one in rest]
    if apart or is_extended:
        ranked = sorted([*ranked, *apart], key=rank_key)
        if prepared.recipe.lead and ranked[0].verdict is None:
            ranked[0] = add_lead(ranked, prepared.recipe)
    return ranked[:limit]


def _part(found: list[Scored], image_views: Sequence[ImageView]) -> tuple[list[Scored], list[Scored]]:
    """Return the plain memories, and the rest."""
    if all(image_view.image.kind == "memory" and image_view.image.threads is None for image_view in image_views):
        return found, []
    return [one for one in found if one.is_plain], [one for one in found if not one.is_plain]


def choose_bounds(ranked: Sequence[Scored], request: Request, intent: Intent) -> Bounds:
    """Return which of the ranked are good enough to be returned."""
    if not request.least or not ranked:
        return Bounds(-math.inf, 0.0)
    verdict = ranked[0].verdict
    if request.minimum is not None or verdict is None:
        return Bounds(request.least, request.share)
    return find_bounds(intent, len(verdict.ids), ranked[0].score)


class Examined(NamedTuple):
    """The owners that are judged for a question, and what they are judged by."""

    ids: list[str]
    found: Candidates
    asking: Asking


def examine_answers(image_views: Sequence[ImageView], prepared: PreparedQuestion) -> Examined | None:
    """Return what would be judged; None if there is nothing."""
    prepared = prepared._replace(question=prepared.question.rest or prepared.question)
    plain = _find_plain(image_views, prepared, EXAMINED)[:EXAMINED]
    return Examined([one.owner_id for one in plain], *_prepare(plain, prepared, None, 0.0)) if plain else None


def _find_plain(image_views: Sequence[ImageView], prepared: PreparedQuestion, limit: int) -> list[Scored]:
    found = find_best(image_views, prepared, max(limit, EXAMINED), plain=EXAMINED)
    return [one for one in found if one.is_plain]


def _judge_all(
    examined: Sequence[Scored], prepared: PreparedQuestion, statistics: Statistics | None, lead: float, limit: int
) -> list[Scored]:
    """Return the best `limit` of the judged, best first."""
    judgement = judge(*_prepare(examined, prepared, statistics, lead))
    ids = [one.owner_id for one in examined]
    scores = prepared.recipe.score_all(judgement.totals)
    places = sorted(range(len(ids)), key=lambda place: (-scores[place], ids[place]))[:limit]
    return [
        Scored(ids[place], scores[place], examined[place].pool, examined[place].at, 0.0, Verdict(judgement, place, ids))
        for place in places
    ]


def _prepare(
    examined: Sequence[Scored], prepared: PreparedQuestion, statistics: Statistics | None, lead: float
) -> tuple[Candidates, Asking]:
    words = examined[0].pool.words
    others = [one.pool.words for one in {id(one.pool): one for one in examined}.values()]
    known = [
        any(len(word.rows) for word in same) or bool(statistics and statistics.chunks_with_term.get(same[0].term))
        for same in zip(*others, strict=True)
    ]
    alone = _read_alone(examined, prepared.recipe, lead)
    return _gather(examined, prepared)._replace(alone=alone), read_asking(prepared.question, words, known, prepared.now)


def _gather(found: Sequence[Scored], prepared: PreparedQuestion) -> Candidates:
    """Return what the images hold of these hits."""
    pools = {id(one.pool): one.pool for one in found}
    if len(pools) == 1:
        return _gather_pool(found, prepared)
    places = [[place for place, one in enumerate(found) if one.pool is pool] for pool in pools.values()]
    parts = [_gather_pool([found[place] for place in own], prepared) for own in places]
    order = np.argsort([place for own in places for place in own])
    columns: list[Any] = [np.concatenate(column)[order] for column in zip(*(part[:-1] for part in parts), strict=True)]
    columns.append(np.concatenate([part.holds for part in parts], axis=1)[:, order])
    return Candidates._make(columns)


def _read_alone(found: Sequence[Scored], recipe: Recipe, lead: float) -> Numbers:
    """Return the logarithms of the odds that the signals give, such that the recipe's minimum becomes that of one
    answer. The first gains what it has as its lead."""
    totals = np.array([one.total for one in found])
    totals[0] += lead
    return totals + (_log_odds(ONE_ANSWER.minimum) - _log_odds(recipe.minimum) if recipe.minimum else 0.0)


def _log_odds(chance: float) -> float:
    return math.log(chance / (1 - chance))


def _gather_pool(found: Sequence[Scored], prepared: PreparedQuestion) -> Candidates:
    pool = found[0].pool
    image, signals = pool.image, pool.signals
    rows = np.array([one.row for one in found], np.int32)
    nothing: Numbers = np.zeros(len(found))
    told: Numbers = nothing
    for extra in pool.carried.values():
        told = told + extra[rows]
    if "name" in signals:
        told = told + pool.weights["name"] * signals["name"][rows]
    return Candidates(
        np.array([one.total for one in found]),
        nothing,
        told,
        _take(signals, "meaning.own", rows),
        _take(signals, "date", rows),
        image.column("marks")[rows].astype(np.int64),
        image.column("when")[rows],
        signals["asking"][rows].astype(np.float64),
        image.vectors[rows],
        _share_held(prepared.question.anchor, rows, image),
        find_terms(rows, pool.words, lambda term: image.postings.find(term).rows, prepared.thesaurus),
    )


def _take(signals: Mapping[str, Signal], name: str, rows: NDArray[np.int32]) -> Numbers:
    return signals[name][rows].astype(np.float64, copy=False) if name in signals else np.zeros(len(rows))


def _share_held(terms: Sequence[str], rows: NDArray[np.int32], image: Image) -> Numbers:
    """Return which share of these terms each row has."""
    held = np.zeros(len(rows))
    for term in terms:
        held += np.isin(rows, image.postings.find(term).rows)
    return held / len(terms) if terms else held
