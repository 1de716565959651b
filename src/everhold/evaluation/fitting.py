"""Fit the weights of the hybrid recipe to conversations whose evidence is known.

The weights are chosen so that each turn of evidence scores higher than the k-th best wrong turn, for a few k, because
evidence should be among the first few results and need not be the first. Then the weighted sum is calibrated to the
probability that a turn is evidence. The examples include questions about other conversations, for which no turn is.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.engine import Everhold
from everhold.evaluation.locomo import EvaluatedConversation, LocomoQuestion, find_asking_time, ingest
from everhold.recall.pipeline import examine
from everhold.recall.recipe import FITTED, Recipe, hybrid_of
from everhold.recall.request import Request

# Evidence is compared with the wrong turns of these ranks.
COMPARED_RANKS = (4, 10, 24)
STEPS = 200
# The strength of the penalty that keeps weights near 0.
PENALTY = 0.08
LEARNING_RATE = 0.05
# The number of turns of a conversation that are used for each question: its evidence, and the best other turns.
MAX_TURNS = 250
# A conversation is also asked this many of the questions about each other conversation.
FOREIGN_QUESTIONS = 40
_NEWTON_STEPS = 50
NAMES = tuple(FITTED["weights"])

Matrix = NDArray[np.float64]


class Examples(NamedTuple):
    """The examples of one conversation.

    `signals` has the value of each signal for each question and turn, and `evidence` a 1 for each turn that is evidence
    for a question. `foreign_signals` are the signals for questions about other conversations.
    """

    signals: NDArray[np.float32]
    evidence: NDArray[np.float32]
    foreign_signals: NDArray[np.float32]


def collect_examples(engine: Everhold, conversations: Sequence[EvaluatedConversation]) -> list[Examples]:
    """Store the conversations and return the signals of every turn for every question, by conversation."""
    examples = []
    for conversation in conversations:
        turn_ids = ingest(engine, conversation)
        own_questions = [question for question in conversation.questions if question.evidence]
        foreign_questions = [
            question
            for other in conversations
            if other is not conversation
            for question in other.questions[:FOREIGN_QUESTIONS]
        ]
        signals, evidence = _compute_signals(engine, conversation, own_questions, turn_ids)
        foreign_signals, _ = _compute_signals(engine, conversation, foreign_questions, turn_ids)
        examples.append(Examples(signals, evidence, foreign_signals))
    return examples


def _compute_signals(
    engine: Everhold,
    conversation: EvaluatedConversation,
    questions: Sequence[LocomoQuestion],
    turn_ids: Mapping[str, str],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return each signal of each turn for each question, and which turns are evidence."""
    view = engine.scope(user=conversation.id)
    signals, evidence = [], []
    for question in questions:
        request = Request(question.text, asked_at=find_asking_time(conversation))
        ((image, by_name),) = examine(engine._parts.recall_deps, view.scope, request)
        rows = [row for row, owner in enumerate(image.owners) if owner in turn_ids]
        for name in NAMES:
            kind, dot, window = name.partition(".")
            if kind == "voice" and name not in by_name:  # the question names no speaker
                by_name[name] = by_name[f"meaning{dot}{window}"]
        columns = [by_name[name][rows] if name in by_name else np.zeros(len(rows)) for name in NAMES]
        signals.append(np.stack(columns, -1).astype(np.float32))
        evidence.append([float(turn_ids[image.owners[row]] in question.evidence) for row in rows])
    return np.array(signals), np.array(evidence, np.float32)


def fit(examples: Sequence[Examples]) -> Recipe:
    """Return the hybrid recipe with weights fitted to these examples."""
    return hybrid_of(fit_weights(examples))


def fit_weights(examples: Sequence[Examples]) -> dict[str, Any]:
    """Return the content of weights.json, fitted to these examples."""
    weights = _minimise_loss(examples)
    slope, base = _calibrate(examples, weights)
    by_name = {name: round(float(weight * slope), 3) for name, weight in zip(NAMES, weights, strict=True)}
    return {**FITTED, "weights": by_name, "turn_base": round(base, 3)}


def _minimise_loss(examples: Sequence[Examples]) -> Matrix:
    """Return the weights after `STEPS` steps of Adam, with all signals scaled to the same spread."""
    hardest = [_select_hardest(conversation) for conversation in examples]
    everything = np.concatenate([conversation.signals.reshape(-1, len(NAMES)) for conversation in hardest])
    mean, spread = everything.mean(0), everything.std(0) + 1e-6
    scaled = [((conversation.signals - mean) / spread, conversation.evidence) for conversation in hardest]
    # `first` and `second` are the moments of Adam.
    weights = first = second = np.zeros(len(NAMES))
    question_count = sum(len(evidence) for _, evidence in scaled)
    for step in range(1, STEPS + 1):
        gradient = PENALTY * weights
        for signals, evidence in scaled:
            gradient = gradient + _compute_gradient(signals, evidence, weights) / question_count
        first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient * gradient
        weights = weights - LEARNING_RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return np.asarray(weights / spread)


def _select_hardest(examples: Examples) -> Examples:
    """Keep only the turns that decide the fit: the evidence, and the turns that match best by meaning and words."""
    rough = np.array([float("." in name or name == "similar") for name in NAMES])
    totals = np.where(examples.evidence > 0, np.inf, examples.signals @ rough)
    turns = np.argsort(-totals, axis=1, kind="stable")[:, :MAX_TURNS]
    signals = np.take_along_axis(examples.signals, turns[..., None], 1)
    return Examples(signals, np.take_along_axis(examples.evidence, turns, 1), examples.foreign_signals)


def _compute_gradient(signals: NDArray[np.float32], evidence: NDArray[np.float32], weights: Matrix) -> Matrix:
    """Return the gradient of the loss: evidence is pushed up, and wrong turns near the k-th best are pushed down."""
    totals = signals @ weights
    wrong = np.where(evidence > 0, -1e9, totals)
    best = np.sort(np.partition(wrong, -max(COMPARED_RANKS), axis=1)[:, -max(COMPARED_RANKS) :], axis=1)
    evidence_count = np.maximum(evidence.sum(1, keepdims=True), 1)
    push = np.zeros_like(totals)
    for k in COMPARED_RANKS:
        kth_best = best[:, -k][:, None]
        below = evidence / (1 + np.exp(np.clip(totals - kth_best, -30, 30))) / evidence_count
        near = np.exp(-2 * np.abs(wrong - kth_best)) * (evidence == 0)
        push += near / (near.sum(1, keepdims=True) + 1e-9) * below.sum(1, keepdims=True) - below
    gradient: Matrix = np.einsum("qn,qnf->f", push / len(COMPARED_RANKS), signals)
    return gradient


def _calibrate(examples: Sequence[Examples], weights: Matrix) -> tuple[float, float]:
    """Return the slope and base of the logistic curve through the examples, by Newton's method."""
    totals = np.concatenate([(conversation.signals @ weights).ravel() for conversation in examples])
    labels = np.concatenate([conversation.evidence.ravel() for conversation in examples])
    foreign_totals = np.concatenate([(conversation.foreign_signals @ weights).ravel() for conversation in examples])
    totals = np.concatenate([totals, foreign_totals])
    labels = np.concatenate([labels, np.zeros(len(foreign_totals))])
    points = np.stack([totals, np.ones(len(totals))], -1)
    slope_and_base = np.array([1.0, math.log(labels.mean() / (1 - labels.mean())) - totals.mean()])
    for _ in range(_NEWTON_STEPS):
        chances = 1 / (1 + np.exp(-np.clip(points @ slope_and_base, -30, 30)))
        curvature = (points * (chances * (1 - chances))[:, None]).T @ points + 1e-6 * np.eye(2)
        step = np.linalg.solve(curvature, points.T @ (chances - labels))
        slope_and_base = slope_and_base - np.clip(step, -2, 2)
    return float(slope_and_base[0]), float(slope_and_base[1])


def fit_without(number: int, examples: Sequence[Examples]) -> Recipe:
    """Return the recipe fitted to all conversations except the one with this number."""
    return fit([conversation for other, conversation in enumerate(examples) if other != number])
