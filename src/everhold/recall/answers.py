"""Rank memories, and judge the best plain ones together (judging.py).

A memory is plain if it is neither a turn of a conversation nor a fact derived from one.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import neg
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.model.memory import DEFAULT_PRIORITY, compute_importance
from everhold.ports.search_indexes import Statistics
from everhold.recall.alternatives import Alternative, find_alternatives
from everhold.recall.asked_attribute import NO_EVIDENCE, measure_evidence
from everhold.recall.image import Image
from everhold.recall.judging import MAX_JUDGED, ONE_ANSWER, Bounds, Verdict, find_bounds, judge
from everhold.recall.measures import Candidates, Numbers, QuestionProfile, find_terms, has_term, profile_question
from everhold.recall.postings import Rows
from everhold.recall.question import Question
from everhold.recall.recipe import SCORE_DECIMALS, Recipe
from everhold.recall.request import Request
from everhold.recall.scoring import (
    ImageView,
    Pool,
    PreparedQuestion,
    Scored,
    add_lead,
    compute_lead,
    find_best,
    rank,
    rank_key,
)
from everhold.recall.signals import Signal
from everhold.recall.text_reading import read_text

# The share of the session's weight in the recipe that counts for judged memories. It is below 1, so that a newer fact
# from another session comes first.
_SESSION_SHARE = 0.5
_USUAL_IMPORTANCE = compute_importance(DEFAULT_PRIORITY)
# The maximum number of text readings that an image caches. Each takes a few kilobytes.
_MAX_READINGS = 4096
# The maximum number of alternatives whose rows an image keeps.
_MAX_ALTERNATIVES = 100


def rank_answers(
    image_views: Sequence[ImageView], prepared: PreparedQuestion, limit: int, statistics: Statistics | None = None
) -> list[Scored]:
    """Return the best `limit` candidates, best first. The best plain memories among them are judged.

    Plain memories that are too low to be judged stay below the judged ones.
    """
    if not prepared.recipe.judges:
        return rank(image_views, prepared, limit, statistics)
    best = find_best(image_views, prepared, max(limit, MAX_JUDGED), statistics, plain=MAX_JUDGED)
    plain, others = _split_plain(best, image_views)
    if prepared.question.rest is not None:
        prepared, statistics = prepared._replace(question=prepared.question.rest), None
        best = plain = _find_plain(image_views, prepared, limit)
    judged, unjudged = plain[:MAX_JUDGED], plain[MAX_JUDGED:]
    lead = compute_lead(best, prepared.recipe) if judged and best[0] is judged[0] else 0.0
    ranked = _judge_all(judged, prepared, statistics, lead, limit) if judged else []
    is_extended = bool(unjudged) and len(ranked) < limit
    if is_extended:
        lowest, last = ranked[-1].score, max(judged[-1].score, 10**-SCORE_DECIMALS)
        ranked += [
            memory._replace(score=round(lowest * min(memory.score / last, 1.0), SCORE_DECIMALS)) for memory in unjudged
        ]
    if others or is_extended:
        ranked = sorted([*ranked, *others], key=rank_key)
        if prepared.recipe.lead and ranked[0].verdict is None:
            ranked[0] = add_lead(ranked, prepared.recipe)
    return ranked[:limit]


def _split_plain(scored: list[Scored], image_views: Sequence[ImageView]) -> tuple[list[Scored], list[Scored]]:
    """Return two lists: the plain memories, and the other candidates."""
    if all(image_view.image.kind == "memory" and image_view.image.threads is None for image_view in image_views):
        return scored, []
    return [candidate for candidate in scored if candidate.is_plain], [
        candidate for candidate in scored if not candidate.is_plain
    ]


def choose_bounds(ranked: Sequence[Scored], request: Request, question: Question) -> Bounds:
    """Return the lowest score, and the lowest share of the best score, with which a candidate is returned."""
    if not request.min_score or not ranked:
        return Bounds(-math.inf, 0.0)
    verdict = ranked[0].verdict
    if request.minimum is not None or verdict is None:
        return Bounds(request.min_score, request.share)
    return find_bounds(question, len(verdict.ids), ranked[0].score, wants_past=request.superseded)


class JudgingInput(NamedTuple):
    """The question, the ids of the candidates, and the two arguments that `judge` gets for them."""

    question: Question
    ids: list[str]
    candidates: Candidates
    profile: QuestionProfile


def examine_answers(image_views: Sequence[ImageView], prepared: PreparedQuestion) -> JudgingInput | None:
    """Return the input of `judge` for a question; None if there are no candidates."""
    question = prepared.question
    prepared = prepared._replace(question=question.rest or question)
    plain = _find_plain(image_views, prepared, MAX_JUDGED)[:MAX_JUDGED]
    return (
        JudgingInput(question, [candidate.owner_id for candidate in plain], *_prepare(plain, prepared, None, 0.0))
        if plain
        else None
    )


def _find_plain(image_views: Sequence[ImageView], prepared: PreparedQuestion, limit: int) -> list[Scored]:
    scored = find_best(image_views, prepared, max(limit, MAX_JUDGED), plain=MAX_JUDGED)
    return [candidate for candidate in scored if candidate.is_plain]


def _judge_all(
    judged: Sequence[Scored], prepared: PreparedQuestion, statistics: Statistics | None, lead: float, limit: int
) -> list[Scored]:
    """Judge candidates and return the best `limit` of them, best first."""
    judgement = judge(*_prepare(judged, prepared, statistics, lead))
    ids = [candidate.owner_id for candidate in judged]
    scores = prepared.recipe.score_all(judgement.totals)
    ranked = sorted(zip(map(neg, scores), ids, range(len(ids)), judged, strict=True))[:limit]
    return [
        Scored(owner_id, -score, candidate.pool, candidate.pool_index, 0.0, Verdict(judgement, index, ids))
        for score, owner_id, index, candidate in ranked
    ]


def _prepare(
    judged: Sequence[Scored], prepared: PreparedQuestion, statistics: Statistics | None, lead: float
) -> tuple[Candidates, QuestionProfile]:
    """Return the candidates with their signals, and the profile of the question."""
    pools = list({id(candidate.pool): candidate.pool for candidate in judged}.values())
    words = pools[0].words
    known = [len(word.rows) > 0 for word in words]
    for pool in pools[1:]:
        known = [is_known or len(word.rows) > 0 for is_known, word in zip(known, pool.words, strict=True)]
    if statistics is not None:
        counts = statistics.chunks_with_term
        known = [is_known or counts.get(word.term, 0) > 0 for is_known, word in zip(known, words, strict=True)]
    candidates = _collect_candidates(judged, pools, prepared)
    signal_log_odds = _compute_signal_log_odds(candidates.totals, prepared.recipe, lead)
    return candidates._replace(signal_log_odds=signal_log_odds), profile_question(
        prepared.question, words, known, prepared.now
    )


def _collect_candidates(scored: Sequence[Scored], pools: Sequence[Pool], prepared: PreparedQuestion) -> Candidates:
    """Return the data of these candidates, read from the images that they come from."""
    if len(pools) == 1:
        return _collect_pool_candidates(pools[0], [candidate.pool_index for candidate in scored], prepared)
    indexes_by_pool = [[index for index, candidate in enumerate(scored) if candidate.pool is pool] for pool in pools]
    parts = [
        _collect_pool_candidates(pool, [scored[index].pool_index for index in indexes], prepared)
        for pool, indexes in zip(pools, indexes_by_pool, strict=True)
    ]
    order = np.argsort([index for indexes in indexes_by_pool for index in indexes])
    columns: list[Any] = [np.concatenate(column)[order] for column in zip(*(part[:-1] for part in parts), strict=True)]
    columns.append(np.concatenate([part.holds for part in parts], axis=1)[:, order])
    return Candidates._make(columns)


def _compute_signal_log_odds(totals: Numbers, recipe: Recipe, lead: float) -> Numbers:
    """Return the log odds that the signals give, shifted so that the recipe's minimum becomes that of ONE_ANSWER.

    `lead` is added to the total of the first candidate.
    """
    totals = totals.copy()
    totals[0] += lead
    return totals + (_log_odds(ONE_ANSWER.minimum) - _log_odds(recipe.minimum) if recipe.minimum else 0.0)


def _log_odds(chance: float) -> float:
    return math.log(chance / (1 - chance))


def _collect_pool_candidates(pool: Pool, indexes: Sequence[int], prepared: PreparedQuestion) -> Candidates:
    """Return the data of the rows at these indexes of a pool, read from the pool's image."""
    image, signals = pool.image, pool.signals
    rows = np.array([pool.rows[index] for index in indexes], np.int32)
    zeros: Numbers = np.zeros(len(rows))
    explicit: Numbers = zeros
    for gain in pool.link_gains.values():
        explicit = explicit + gain[rows]
    if "name" in signals:
        explicit = explicit + pool.weights["name"] * signals["name"][rows]
    return Candidates(
        np.array([pool.totals[index] for index in indexes]),
        zeros,
        explicit,
        _take(signals, "meaning.own", rows),
        _take(signals, "date", rows),
        image.column("features").take(rows),
        image.column("when").take(rows),
        _take(signals, "asking", rows),
        image.vectors.take(rows, axis=0),
        _compute_term_share(prepared.question.anchor, rows, image),
        _find_contrary(prepared.question.terms, rows, image),
        _measure_preference(pool, rows),
        *_measure_attribute(image, rows, prepared),
        find_terms(rows, pool.words),
    )


def _measure_attribute(
    image: Image, rows: NDArray[np.int32], prepared: PreparedQuestion
) -> tuple[Numbers, NDArray[Any]]:
    """Return how clearly each row states the attribute asked for, and the rare terms of each row's text.

    If the question asks for no attribute, the evidence is 0 and None stands for each set of terms.
    """
    intent = prepared.question.intent
    if not intent.asked.attributes or intent.lists or (intent.past and not intent.replaced):
        return np.zeros((len(rows), len(NO_EVIDENCE))), np.empty(len(rows), object)
    readings, row_list = image.readings, rows.tolist()
    unread = [row for row in row_list if row not in readings]
    if unread:
        if len(readings) + len(unread) > _MAX_READINGS:
            readings.clear()
            unread = row_list
        texts = prepared.read_texts([image.owners[row] for row in unread])
        for row in unread:
            readings[row] = read_text(texts.get(image.owners[row], ""))
    rare = np.empty(len(rows), object)
    # Nearly every candidate has the terms of the question.
    question_terms = intent.asked.people | intent.asked.things
    rare[:] = [readings[row].rare - question_terms for row in row_list]
    return np.array([measure_evidence(readings[row], intent.asked) for row in row_list]), rare


def _take(signals: Mapping[str, Signal], name: str, rows: NDArray[np.int32]) -> Numbers:
    return signals[name].take(rows).astype(np.float64, copy=False) if name in signals else np.zeros(len(rows))


def _find_contrary(terms: Sequence[str], rows: NDArray[np.int32], image: Image) -> Numbers:
    """Return 1 for each row that names an alternative to a word of the question but not the word itself, else 0."""
    contrary = np.zeros(len(rows), np.bool_)
    for alternative in find_alternatives(terms):
        with_named, with_others = _find_alternative_rows(alternative, image)
        contrary |= has_term(rows, with_others) & ~has_term(rows, with_named)
    return contrary.astype(np.float64)


def _find_alternative_rows(alternative: Alternative, image: Image) -> tuple[Rows, Rows]:
    """Return the rows with a named term, and the rows with another term of the group, both in ascending order.

    They are kept until the image changes, because a group has many terms and questions share words.
    """
    kept: dict[Alternative, tuple[Rows, Rows]] = image.compute_once("rows of alternatives", lambda _: {})
    if alternative not in kept:
        if len(kept) >= _MAX_ALTERNATIVES:
            kept.clear()
        kept[alternative] = (_find_rows(alternative.named, image), _find_rows(alternative.others, image))
    return kept[alternative]


def _find_rows(terms: Iterable[str], image: Image) -> Rows:
    return np.sort(np.concatenate([image.postings.find(term).rows for term in terms]))


def _measure_preference(pool: Pool, rows: NDArray[np.int32]) -> Numbers:
    """Return what each row gains because it is more important than usual, and because it is of the asking session."""
    gain: Numbers = pool.weights.get("importance", 0.0) * (
        pool.image.column("importance").take(rows) - _USUAL_IMPORTANCE
    )
    if "session" in pool.signals:
        gain = gain + _SESSION_SHARE * pool.weights.get("session", 0.0) * pool.signals["session"].take(rows)
    return gain


def _compute_term_share(terms: Sequence[str], rows: NDArray[np.int32], image: Image) -> Numbers:
    """Return, for each row, the share of these terms that its text has."""
    share: Numbers = np.zeros(len(rows))
    for term in terms:
        share += has_term(rows, image.postings.find(term).rows)
    return share / len(terms) if terms else share
