"""Fit the weights of confidence to questions whose SQL is known. To measure them, each database is left out once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.ask.confidence import Features
from everhold.evaluation.sql import PRECISION, SqlOutcome, apply_weights, find_coverage, trace_curve
from everhold.evaluation.sql_statuses import fit_limits

# The strength of the penalty that keeps weights near 0, because some features are rare in any one set of questions.
_PENALTY = 1.0
_STEPS = 60
_DIGITS = 3


def fit_weights(outcomes: Sequence[SqlOutcome]) -> dict[str, float]:
    """Return the weights of a logistic model of whether a reading is right on every variant, by Newton's method."""
    with_features = [outcome for outcome in outcomes if outcome.features is not None]
    points = np.array([[1.0, *(outcome.features or ())] for outcome in with_features])
    labels = np.array([float(outcome.test_suite) for outcome in with_features])
    weights = np.zeros(points.shape[1])
    penalties = np.full(points.shape[1], _PENALTY)
    penalties[0] = 1e-6  # almost none for the intercept
    for _ in range(_STEPS):
        weights = weights - _find_step(points, labels, weights, penalties)
    names = ("base", *Features._fields)
    return {name: round(float(weight), _DIGITS) for name, weight in zip(names, weights, strict=True)}


def _find_step(
    points: NDArray[np.float64],
    labels: NDArray[np.float64],
    weights: NDArray[np.float64],
    penalties: NDArray[np.float64],
) -> NDArray[np.float64]:
    chances = 1 / (1 + np.exp(-np.clip(points @ weights, -30, 30)))
    gradient = points.T @ (chances - labels) + penalties * weights
    curvature = (points * (chances * (1 - chances))[:, None]).T @ points + np.diag(penalties)
    return np.asarray(np.linalg.solve(curvature, gradient))


def leave_databases_out(outcomes: Sequence[SqlOutcome]) -> list[SqlOutcome]:
    """Return the outcomes of each database, with confidences by weights that were fitted to the other databases."""
    judged: list[SqlOutcome] = []
    for name in sorted({outcome.question.database for outcome in outcomes}):
        others = [outcome for outcome in outcomes if outcome.question.database != name]
        of_database = [outcome for outcome in outcomes if outcome.question.database == name]
        judged.extend(apply_weights(of_database, fit_weights(others)) if others else of_database)
    return judged


def fit_file(outcomes: Sequence[SqlOutcome]) -> dict[str, Any]:
    """Return the content of confidence.json, with the coverage measured on databases that were left out."""
    judged = leave_databases_out(outcomes)
    coverage = find_coverage(trace_curve(judged), PRECISION)
    return {
        "made_by": "everhold eval fit-sql QUESTIONS DIR",
        "questions": len(outcomes),
        "coverage_at_90_left_out": coverage,
        "limits": fit_limits(judged),
        "weights": fit_weights(outcomes),
    }
