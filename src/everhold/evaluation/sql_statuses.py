"""Measure and fit the limits of `ask/outcome.py`: how many questions are answered, clarified and refused with them."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from everhold.ask.outcome import LIMITS, AnswerStatus, OutcomeLimits

if TYPE_CHECKING:
    from everhold.evaluation.sql import SqlOutcome

# The value of an outcome: a wrong answer costs as much as a right one gains, and a choice costs the user some time.
_RIGHT, _WRONG, _CHOSEN = 1.0, -1.0, 0.5
# The limits that are tried.
_TIED, _CLOSE = (0.0, 0.02, 0.05, 0.1), (0.0, 0.2, 0.5, 0.8)
_UNCERTAIN, _HOPELESS = (0.4, 0.5, 0.6, 0.7), (0.0, 0.1, 0.15, 0.2, 0.3)
_GRID = [OutcomeLimits(*limits) for limits in product(_TIED, _CLOSE, _UNCERTAIN, _HOPELESS)]


def find_status(outcome: "SqlOutcome", limits: OutcomeLimits = LIMITS) -> AnswerStatus:
    """Return the status of a question. Answers with and without assumptions get the same status."""
    if not outcome.sql or outcome.confidence < limits.hopeless:
        return AnswerStatus.CANNOT
    is_tied = any(limits.is_close(margin, outcome.confidence) for margin, _ in outcome.rivals)
    return AnswerStatus.CLARIFY if is_tied else AnswerStatus.ANSWERED


def count_statuses(outcomes: Sequence["SqlOutcome"], limits: OutcomeLimits = LIMITS) -> dict[str, Any]:
    """Return the number of questions with each status, and how many of them have a right answer or a right choice."""
    counts: dict[str, Any] = {}
    for status in (AnswerStatus.ANSWERED, AnswerStatus.CLARIFY, AnswerStatus.CANNOT):
        chosen = [outcome for outcome in outcomes if find_status(outcome, limits) is status]
        counts[status.value] = {
            "questions": len(chosen),
            "right": sum(outcome.test_suite for outcome in chosen),
            "right_among_choices": sum(_has_right_choice(outcome, limits) for outcome in chosen),
        }
    return {**counts, "value": _measure_value(outcomes, limits)}


def _has_right_choice(outcome: "SqlOutcome", limits: OutcomeLimits) -> bool:
    return outcome.test_suite or any(
        is_right for margin, is_right in outcome.rivals if limits.is_close(margin, outcome.confidence)
    )


def _measure_value(outcomes: Iterable["SqlOutcome"], limits: OutcomeLimits) -> float:
    """Return the sum of the values of the outcomes with these limits."""
    value = 0.0
    for outcome in outcomes:
        status = find_status(outcome, limits)
        if status is AnswerStatus.ANSWERED:
            value += _RIGHT if outcome.test_suite else _WRONG
        elif status is AnswerStatus.CLARIFY:
            value += _CHOSEN * _has_right_choice(outcome, limits)
    return value


def fit_limits(outcomes: Sequence["SqlOutcome"]) -> dict[str, Any]:
    """Return the best limits of a grid, their value, and the value on each database with limits of the other databases.

    The confidence of each outcome should come from weights that were fitted without the database of the outcome.
    """
    databases = sorted({outcome.question.database for outcome in outcomes})
    values = {
        limits: {
            name: _measure_value([outcome for outcome in outcomes if outcome.question.database == name], limits)
            for name in databases
        }
        for limits in _GRID
    }
    left_out = 0.0
    for name in databases:
        best = max(_GRID, key=lambda limits: sum(values[limits].values()) - values[limits][name])
        left_out += values[best][name]
    best = max(_GRID, key=lambda limits: sum(values[limits].values()))
    return {
        "best": vars(best),
        "value_of_best": sum(values[best].values()),
        "value_left_out": left_out,
        "value_of_current": _measure_value(outcomes, LIMITS),
        "value_without": _measure_value(outcomes, OutcomeLimits(0.0, 0.0, 0.0, 0.0)),
    }
