"""Fitting the weights of the hybrid recipe to conversations whose evidence is known.

The weights are chosen so that each turn of evidence stands above the k-th best wrong turn, for a few k: what counts
is to be among the first few, not to be first. Then the sum is calibrated to the chance that a turn is evidence, with
questions about other conversations, for which nothing is, among the examples.
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

KTH = (4, 10, 24)
STEPS = 200
# How strongly weights are held near 0.
PULL = 1e-2
RATE = 0.05
# How many turns of a conversation are looked at for each question: its evidence, and those that fit next best.
HARDEST = 150
# How many questions about each other conversation are asked of one.
STRANGE = 40
NAMES = tuple(FITTED["weights"])

Matrix = NDArray[np.float64]


class Examples(NamedTuple):
    """One conversation: what each signal says of each turn for each question, and which turns are evidence."""

    signals: NDArray[np.float32]
    evidence: NDArray[np.float32]
    strange: NDArray[np.float32]


def gather(engine: Everhold, conversations: Sequence[EvaluatedConversation]) -> list[Examples]:
    """Keeps the conversations and looks at every turn for every question."""
    found = []
    for conversation in conversations:
        kept = ingest(engine, conversation)
        own = [question for question in conversation.questions if question.evidence]
        others = [
            question for other in conversations if other is not conversation for question in other.questions[:STRANGE]
        ]
        signals, evidence = _signals(engine, conversation, own, kept)
        strange, _ = _signals(engine, conversation, others, kept)
        found.append(Examples(signals, evidence, strange))
    return found


def _signals(
    engine: Everhold, conversation: EvaluatedConversation, questions: Sequence[LocomoQuestion], kept: Mapping[str, str]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    view = engine.scope(user=conversation.id)
    signals, evidence = [], []
    for question in questions:
        request = Request(question.text, asked_at=find_asking_time(conversation))
        ((image, found),) = examine(engine._parts.recall_deps, view.scope, request)
        rows = [row for row, owner in enumerate(image.owners) if owner in kept]
        for name in NAMES:
            kind, dot, place = name.partition(".")
            if kind == "voice" and name not in found:
                found[name] = found[f"meaning{dot}{place}"]
        columns = [found[name][rows] if name in found else np.zeros(len(rows)) for name in NAMES]
        signals.append(np.stack(columns, -1).astype(np.float32))
        evidence.append([float(kept[image.owners[row]] in question.evidence) for row in rows])
    return np.array(signals), np.array(evidence, np.float32)


def fit(examples: Sequence[Examples]) -> Recipe:
    """The hybrid recipe with weights fitted to these examples."""
    return hybrid_of(fit_weights(examples))


def fit_weights(examples: Sequence[Examples]) -> dict[str, Any]:
    """The numbers of weights.json, fitted to these examples."""
    weights = _weights(examples)
    slope, base = _calibration(examples, weights)
    by_name = {name: round(float(weight * slope), 3) for name, weight in zip(NAMES, weights, strict=True)}
    return {**FITTED, "weights": by_name, "turn_base": round(base, 3)}


def _weights(examples: Sequence[Examples]) -> Matrix:
    """Adam on the loss of `_slope_of_loss`, with signals scaled to one spread."""
    examples = [_hardest(one) for one in examples]
    everything = np.concatenate([one.signals.reshape(-1, len(NAMES)) for one in examples])
    middle, spread = everything.mean(0), everything.std(0) + 1e-6
    scaled = [(one.signals - middle) / spread for one in examples]
    weights = first = second = np.zeros(len(NAMES))
    asked = sum(len(one.evidence) for one in examples)
    for step in range(1, STEPS + 1):
        slope = PULL * weights
        for signals, one in zip(scaled, examples, strict=True):
            slope = slope + _slope_of_loss(signals, one.evidence, weights) / asked
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
        weights = weights - RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return np.asarray(weights / spread)


def _hardest(one: Examples) -> Examples:
    """The examples that decide: roughly, those that fit best by meaning and words."""
    rough = np.array([float("." in name or name == "similar") for name in NAMES])
    totals = np.where(one.evidence > 0, np.inf, one.signals @ rough)
    kept = np.argsort(-totals, axis=1, kind="stable")[:, :HARDEST]
    signals = np.take_along_axis(one.signals, kept[..., None], 1)
    return Examples(signals, np.take_along_axis(one.evidence, kept, 1), one.strange)


def _slope_of_loss(signals: NDArray[np.float32], evidence: NDArray[np.float32], weights: Matrix) -> Matrix:
    """How the loss grows with each weight. Evidence is pushed up, and the wrong turns about the k-th best down."""
    totals = signals @ weights
    wrong = np.where(evidence > 0, -1e9, totals)
    best = np.sort(np.partition(wrong, -max(KTH), axis=1)[:, -max(KTH) :], axis=1)
    many = np.maximum(evidence.sum(1, keepdims=True), 1)
    push = np.zeros_like(totals)
    for k in KTH:
        line = best[:, -k][:, None]
        below = evidence / (1 + np.exp(np.clip(totals - line, -30, 30))) / many
        near = np.exp(-2 * np.abs(wrong - line)) * (evidence == 0)
        push += near / (near.sum(1, keepdims=True) + 1e-9) * below.sum(1, keepdims=True) - below
    slope: Matrix = np.einsum("qn,qnf->f", push / len(KTH), signals)
    return slope


def _calibration(examples: Sequence[Examples], weights: Matrix) -> tuple[float, float]:
    """Slope and base of the logistic curve through the examples, by Newton's method."""
    totals = np.concatenate([(one.signals @ weights).ravel() for one in examples])
    labels = np.concatenate([one.evidence.ravel() for one in examples])
    strange = np.concatenate([(one.strange @ weights).ravel() for one in examples])
    totals, labels = np.concatenate([totals, strange]), np.concatenate([labels, np.zeros(len(strange))])
    points = np.stack([totals, np.ones(len(totals))], -1)
    line = np.array([1.0, math.log(labels.mean() / (1 - labels.mean())) - totals.mean()])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(points @ line, -30, 30)))
        curve = (points * (chance * (1 - chance))[:, None]).T @ points + 1e-6 * np.eye(2)
        line = line - np.clip(np.linalg.solve(curve, points.T @ (chance - labels)), -2, 2)
    return float(line[0]), float(line[1])


def recipe_without(conversation: int, examples: Sequence[Examples]) -> Recipe:
    """The recipe fitted to every conversation but one."""
    return fit([one for at, one in enumerate(examples) if at != conversation])
