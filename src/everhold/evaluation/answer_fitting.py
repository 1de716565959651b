"""Fit the weights of judging, the comparison of the best memories, to lives with known answers.

lives → the candidates of every question → weights of topic, update and chance, in that order

The weights of chance are fitted twice: to whole lives, and to small scopes that are made from them (small_scopes.py).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.engine import Everhold
from everhold.evaluation.lives import Life, LifeQuestion
from everhold.recall import judging
from everhold.recall.judging import Chance, Weights
from everhold.recall.measures import (
    ROWS,
    UPDATE_ROWS,
    Candidates,
    Numbers,
    QuestionProfile,
    Shares,
    measure_fit,
    measure_shares,
    measure_update,
)
from everhold.recall.pipeline import examine_answers
from everhold.recall.question import Question
from everhold.recall.request import Request

# The parts of answers.json, in the order in which they are fitted.
PARTS = ("topic", "update", "chance", "chance_among_few")
# The weights of chance are fitted to this many of the best candidates of each question.
MAX_CHANCE_CANDIDATES = 12
# A newer memory that replaced a candidate is searched for this many of the best candidates of each question.
MAX_UPDATE_CANDIDATES = 2
# The steps of gradient descent, and the maximum number of Newton steps, which usually converge in a few.
MAX_STEPS = 300
_MAX_NEWTON_STEPS = 50
# Prevents a division by zero for tables without a target.
_SMALLEST_DIVISOR = 1e-300
# The strength of L2 regularisation.
_L2_CHOICE, _L2_LOGISTIC = 2.0, 10.0

# A table with one row per candidate, and a flag for each row that says whether it is a target that should be chosen.
Choice = tuple[Numbers, NDArray[np.bool_]]


class Example(NamedTuple):
    """The candidates of one question: which of them are right, which are expected, and which are outdated.

    `ids` are the ids that they have in the life.
    """

    life_question: LifeQuestion
    question: Question
    ids: Sequence[str]
    candidates: Candidates
    profile: QuestionProfile
    shares: Shares
    right: NDArray[np.bool_]
    expected: NDArray[np.bool_]
    stale: NDArray[np.bool_]


def collect_examples(
    engine: Everhold, lives: Sequence[Life], progress: Callable[[int], None] = lambda _: None
) -> list[Example]:
    """Store each life in a separate scope, ask its questions, and return an example for each question."""
    examples: list[Example] = []
    for life in lives:
        examples += ask_questions(engine, life)
        progress(len(life.questions))
    return examples


def ask_questions(engine: Everhold, life: Life) -> Iterator[Example]:
    """Store a life, ask its questions, and yield an example for each question that has candidates."""
    view = engine.scope(user=life.persona)
    life_ids = {view.remember(memory.text, **memory.fields).id: memory.id for memory in life.memories}
    for question in life.questions:
        request = Request(question.q, asked_at=question.asked_at)
        examined = examine_answers(engine._parts.recall_deps, view.scope, request)
        if examined is not None:
            ids = [life_ids[stored_id] for stored_id in examined.ids]
            yield Example(
                question,
                examined.question,
                ids,
                examined.candidates,
                examined.profile,
                measure_shares(examined.candidates, examined.profile),
                np.array([memory_id in question.right for memory_id in ids]),
                np.array([memory_id in question.expect for memory_id in ids]),
                np.array([memory_id in question.stale for memory_id in ids]),
            )


def fit_weights(
    examples: Sequence[Example], among_few: Sequence[Example], parts: Collection[str] = PARTS
) -> dict[str, Any]:
    """Return the content of answers.json. `among_few` are examples from small scopes.

    Parts that are not in `parts` keep their present weights.
    """
    fitted = {name: value for name, value in judging.FITTED.items() if name != "set_by_hand"}
    by_hand = judging.SET_BY_HAND
    if "topic" in parts:
        fitted["topic"] = _fit_topic(examples, tuple(fitted["topic"]))
    topic = {**fitted["topic"], **by_hand["topic"]}
    if "update" in parts:
        fitted["update"] = _fit_update(examples, topic, tuple(fitted["update"]))
    update = {**fitted["update"], **by_hand["update"]}
    for part, base, sample in (("chance", "base", examples), ("chance_among_few", "base_among_few", among_few)):
        if part in parts:
            fitted[part], fitted[base] = _fit_chance(sample, topic, update, tuple(fitted[part]))
    return {name: _round(value) for name, value in fitted.items()} | {"set_by_hand": by_hand}


def _round(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _round(part) for name, part in value.items()}
    return round(value, 4) if isinstance(value, float) else value


# topic: right and outdated memories should rank above the others


def _measure_fit(example: Example) -> Numbers:
    return measure_fit(example.candidates, example.profile, example.shares)


def _fit_topic(examples: Sequence[Example], names: Sequence[str]) -> dict[str, float]:
    choices = []
    for example in examples:
        targets = example.right | example.stale
        if targets.any():
            choices.append((_take_rows(_measure_fit(example), ROWS, names), targets))
    return dict(zip(names, _fit_choices(choices, None), strict=True))


# update: which newer candidate, if any, has replaced one of the best


def _fit_update(examples: Sequence[Example], topic: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    choices = []
    for example in examples:
        scores = judging.order_weights(topic, ROWS) @ _measure_fit(example)
        for old in np.argsort(-scores, kind="stable")[:MAX_UPDATE_CANDIDATES].tolist():
            newer = np.flatnonzero(example.candidates.when > example.candidates.when[old])
            targets = example.expected[newer] & example.stale[old] & ~example.right[old]
            if not len(newer) or not (example.right[old] or targets.any()):
                continue
            table = measure_update(example.candidates, example.profile, example.shares, scores, old)
            choices.append((_take_rows(table, UPDATE_ROWS, names)[newer], targets))
    return dict(zip(names, _fit_choices(choices, names.index("always")), strict=True))


# chance: the probability that a candidate is an answer


def _fit_chance(
    examples: Sequence[Example], topic: Mapping[str, float], update: Mapping[str, float], names: Sequence[str]
) -> tuple[dict[str, float], float]:
    rows, right = [], []
    no_chance = Chance(np.zeros(len(ROWS)), 0.0)
    ordered_topic = judging.order_weights(topic, ROWS)
    neutral = Weights(ordered_topic, judging.order_weights(update, UPDATE_ROWS), no_chance, no_chance)
    for example in examples:
        table = judging.judge(example.candidates, example.profile, neutral).table
        best = np.argsort(-table[ROWS["share"]], kind="stable")[:MAX_CHANCE_CANDIDATES]
        rows.append(_take_rows(table, ROWS, names)[best])
        right.append(example.right[best])
    fitted, base = _fit_logistic(np.concatenate(rows), np.concatenate(right))
    return dict(zip(names, fitted.tolist(), strict=True)), base


def _take_rows(table: Numbers, rows: Mapping[str, int], names: Sequence[str]) -> Numbers:
    """Return these measures of a table, with a row per candidate."""
    return table[[rows[name] for name in names]].T


def _fit_choices(choices: Sequence[Choice], bias: int | None, l2: float = _L2_CHOICE) -> list[float]:
    """Fit weights with which a target is chosen among the rows of each table: a softmax, optimised by Adam.

    `bias` is the index of a column that is always 1. With it, choosing no row is possible and has the score 0. That is
    right for a table without targets.
    """
    means, deviations = _standardise(np.concatenate([table for table, _ in choices]), bias)
    tables, targets, row_mask = _pad([((table - means) / deviations, right) for table, right in choices])
    fitted = np.zeros(len(means))
    # The moments of Adam.
    mean, square = np.zeros_like(fitted), np.zeros_like(fitted)
    penalty_weights = np.full(len(means), l2)
    if bias is not None:
        penalty_weights[bias] = 0.0
    for step in range(1, MAX_STEPS + 1):
        excess = _compute_excess(tables @ fitted + row_mask, targets, has_none=bias is not None)
        gradient = (np.einsum("ij,ijk->k", excess, tables) + penalty_weights * fitted) / len(choices)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient * gradient
        fitted = fitted - 0.05 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    unscaled = fitted / deviations
    if bias is not None:
        unscaled[bias] = fitted[bias] - float((means / deviations) @ fitted)
    return [float(value) for value in unscaled]


def _pad(tables: Sequence[Choice]) -> tuple[Numbers, NDArray[np.bool_], Numbers]:
    """Return all tables in one array, their targets, and -inf for rows that only fill the array."""
    longest = max(len(table) for table, _ in tables)
    padded = np.zeros((len(tables), longest, tables[0][0].shape[1]))
    targets = np.zeros((len(tables), longest), np.bool_)
    row_mask = np.full((len(tables), longest), -np.inf)
    for index, (table, right) in enumerate(tables):
        padded[index, : len(table)], targets[index, : len(table)], row_mask[index, : len(table)] = table, right, 0.0
    return padded, targets, row_mask


def _compute_excess(logits: Numbers, targets: NDArray[np.bool_], *, has_none: bool) -> Numbers:
    """Return by how much the probability of choosing each row is too high: the gradient of the loss."""
    highest = np.maximum(logits.max(axis=1), 0.0 if has_none else -np.inf)[:, None]
    odds = np.exp(logits - highest)
    none = np.exp(-highest) if has_none else 0.0
    right = odds * targets
    chosen: Numbers = odds / (odds.sum(axis=1, keepdims=True) + none)
    target_shares: Numbers = right / np.maximum(right.sum(axis=1, keepdims=True), _SMALLEST_DIVISOR)
    return chosen - target_shares


def _fit_logistic(rows: Numbers, right: NDArray[np.bool_], l2: float = _L2_LOGISTIC) -> tuple[Numbers, float]:
    """Fit a logistic regression by Newton's method; return its weights and its intercept."""
    means, deviations = _standardise(rows, None)
    table = np.column_stack([(rows - means) / deviations, np.ones(len(rows))])
    fitted = np.zeros(table.shape[1])
    penalty_weights = np.full(len(fitted), l2)
    penalty_weights[-1] = 0.0
    for _ in range(_MAX_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-(table @ fitted)))
        gradient = table.T @ (chance - right) + penalty_weights * fitted
        curvature = (table * (chance * (1 - chance))[:, None]).T @ table + np.diag(penalty_weights)
        step = np.linalg.solve(curvature, gradient)
        fitted -= step
        if np.abs(step).max() < 1e-7:
            break
    unscaled = fitted[:-1] / deviations
    return unscaled, float(fitted[-1] - means @ unscaled)


def _standardise(rows: Numbers, bias: int | None) -> tuple[Numbers, Numbers]:
    means, deviations = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    if bias is not None:
        means[bias], deviations[bias] = 0.0, 1.0
    return means, deviations
