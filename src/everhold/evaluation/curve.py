"""Measure for each minimum score how much evidence and how many other turns are returned, and how often nothing is
returned for a question about a different conversation."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.evaluation.fitting import NAMES, Examples
from everhold.recall.recipe import HYBRID, Recipe

MINIMUMS = tuple(round(0.05 * step, 2) for step in range(1, 19))
_DIGITS = 4


class CurvePoint(NamedTuple):
    """The measurements at one minimum score.

    `precision` is the share of evidence among the returned turns, or None if nothing is returned for any question.
    `recall` is the mean share of a question's evidence that is returned. `silent` is the share of the questions about
    other conversations for which nothing is returned.
    """

    minimum: float
    share: float
    precision: float | None
    recall: float
    silent: float

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def trace_minimums(examples: Sequence[Examples], recipe: Recipe = HYBRID) -> list[CurvePoint]:
    """Return a point for every minimum score, counting all turns that reach it, without a limit on their number."""
    return [measure_minimum(examples, minimum, 0.0, recipe) for minimum in MINIMUMS]


def measure_minimum(examples: Sequence[Examples], minimum: float, share: float, recipe: Recipe = HYBRID) -> CurvePoint:
    """Return the point of a minimum score, with only turns that have at least `share` of the best score."""
    returned = right = silent = foreign_questions = 0
    shares: list[float] = []
    for conversation in examples:
        is_returned = _mask_returned(_compute_scores(conversation.signals, recipe), minimum, share)
        is_evidence = conversation.evidence > 0
        returned += int(is_returned.sum())
        right += int((is_returned & is_evidence).sum())
        has_evidence = is_evidence.any(axis=1)
        shares += ((is_returned & is_evidence).sum(1)[has_evidence] / is_evidence.sum(1)[has_evidence]).tolist()
        answered = _mask_returned(_compute_scores(conversation.foreign_signals, recipe), minimum, share).any(axis=1)
        foreign_questions += len(conversation.foreign_signals)
        silent += len(conversation.foreign_signals) - int(answered.sum())
    return CurvePoint(
        minimum,
        share,
        round(right / returned, _DIGITS) if returned else None,
        round(sum(shares) / len(shares), _DIGITS) if shares else 0.0,
        round(silent / foreign_questions, _DIGITS) if foreign_questions else 0.0,
    )


def _compute_scores(signals: NDArray[np.float32], recipe: Recipe) -> NDArray[np.float64]:
    """Return the score of every turn for every question; the best turn's score includes its lead.

    Signals that need more than the turn and the question (a memory's age, importance and aliases) are left out.
    """
    weights = np.array([recipe.weights.get(name, 0.0) for name in NAMES])
    totals = signals @ weights + recipe.base + recipe.turn_base
    best = np.sort(totals, axis=1)[:, -2:]  # the second best and the best total of each question
    leads = np.minimum(best[:, -1] - best[:, 0], recipe.max_lead)
    totals[np.arange(len(totals)), totals.argmax(axis=1)] += recipe.lead * leads
    return np.asarray(1 / (1 + np.exp(-np.clip(totals, -500, 500))), np.float64)


def _mask_returned(scores: NDArray[np.float64], minimum: float, share: float) -> NDArray[np.bool_]:
    best = scores.max(axis=1, keepdims=True)
    return np.asarray((scores >= minimum) & (scores >= share * best), np.bool_)
