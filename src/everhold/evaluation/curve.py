"""What a minimum score costs and brings: how much evidence still comes back, how much else, and how often a question
about something else is left unanswered."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.evaluation.fitting import NAMES, Examples
from everhold.recall.recipe import HYBRID, Recipe

MINIMUMS = tuple(round(0.05 * step, 2) for step in range(1, 19))
_DIGITS = 4


class Point(NamedTuple):
    """What comes back at one minimum score.

    `precision` is the share of what comes back that is evidence, `recall` the mean share of a question's evidence that
    comes back, `silent` the share of foreign questions for which nothing does. Precision is absent where nothing comes
    back at all.
    """

    minimum: float
    share: float
    precision: float | None
    recall: float
    silent: float

    def as_json(self) -> dict[str, Any]:
        return self._asdict()


def curve(examples: Sequence[Examples], recipe: Recipe = HYBRID) -> list[Point]:
    """A point for every minimum score. However many turns reach it, all of them come back."""
    return [point(examples, minimum, 0.0, recipe) for minimum in MINIMUMS]


def point(examples: Sequence[Examples], minimum: float, share: float, recipe: Recipe = HYBRID) -> Point:
    """What comes back at a minimum score and at least this share of the best score."""
    returned = right = silent = foreign = 0
    shares: list[float] = []
    for one in examples:
        found = _mask_returned(_scores(one.signals, recipe), minimum, share)
        evidence = one.evidence > 0
        returned, right = returned + int(found.sum()), right + int((found & evidence).sum())
        asked = evidence.any(axis=1)
        shares += ((found & evidence).sum(1)[asked] / evidence.sum(1)[asked]).tolist()
        answered = int(_mask_returned(_scores(one.strange, recipe), minimum, share).any(axis=1).sum())
        foreign, silent = foreign + len(one.strange), silent + len(one.strange) - answered
    return Point(
        minimum,
        share,
        round(right / returned, _DIGITS) if returned else None,
        round(sum(shares) / len(shares), _DIGITS) if shares else 0.0,
        round(silent / foreign, _DIGITS) if foreign else 0.0,
    )


def _scores(signals: NDArray[np.float32], recipe: Recipe) -> NDArray[np.float64]:
    """The score of every turn for every question, the best one's with its lead.

    What depends on more than the turn and the question (a memory's age, importance and aliases) is left aside.
    """
    weights = np.array([recipe.weights.get(name, 0.0) for name in NAMES])
    totals = signals @ weights + recipe.base + recipe.turn_base
    best = np.sort(totals, axis=1)[:, -2:]
    ahead = np.minimum(best[:, -1] - best[:, 0], recipe.max_lead)
    totals[np.arange(len(totals)), totals.argmax(axis=1)] += recipe.lead * ahead
    return np.asarray(1 / (1 + np.exp(-np.clip(totals, -500, 500))), np.float64)


def _mask_returned(scores: NDArray[np.float64], minimum: float, share: float) -> NDArray[np.bool_]:
    best = scores.max(axis=1, keepdims=True)
    return np.asarray((scores >= minimum) & (scores >= share * best), np.bool_)
