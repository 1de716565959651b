"""Fit the weights by which the best memories are judged to lives whose answers are known.

lives → the candidates of every question → weights of topic, update and chance, in that order

The chance is fitted twice: to whole lives, and to small scopes cut out of them (small_scopes.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.engine import Everhold
from everhold.evaluation.lives import Life
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
from everhold.recall.request import Request

# How many candidates of each question the chance is fitted to, best first.
MAX_CHANCE_CANDIDATES = 12
# How many candidates of each question are examined for a newer memory that replaced them, best first.
MAX_UPDATE_CANDIDATES = 2
# How many steps of gradient descent fit the choices.
MAX_STEPS = 300
_TINY = 1e-300


# A table with a row per candidate, and which of the rows are wanted.
Choice = tuple[Numbers, NDArray[np.bool_]]


class Example(NamedTuple):
    """The candidates of one question: which of them are right, which are expected, and which are outdated."""

    candidates: Candidates
    profile: QuestionProfile
    shares: Shares
    right: NDArray[np.bool_]
    expected: NDArray[np.bool_]
    stale: NDArray[np.bool_]


def gather(engine: Everhold, lives: Sequence[Life], progress: Callable[[int], None] = lambda _: None) -> list[Example]:
    """Return the examples of all questions."""
    examples: list[Example] = []
    for life in lives:
        examples += _ask(engine, life)
        progress(len(life.questions))
    return examples


def _ask(engine: Everhold, life: Life) -> Iterator[Example]:
    view = engine.scope(user=life.persona)
    names = {view.remember(memory.text, **memory.fields).id: memory.id for memory in life.memories}
    for question in life.questions:
        request = Request(question.q, asked_at=question.asked_at)
        examined = examine_answers(engine._parts.recall_deps, view.scope, request)
        if examined is not None:
            ids = [names[memory_id] for memory_id in examined.ids]
            yield Example(
                examined.candidates,
                examined.profile,
                measure_shares(examined.candidates, examined.profile),
                np.array([memory_id in question.right for memory_id in ids]),
                np.array([memory_id in question.expect for memory_id in ids]),
                np.array([memory_id in question.stale for memory_id in ids]),
            )


def fit(examples: Sequence[Example], among_few: Sequence[Example]) -> dict[str, Any]:
    """Return weights as answers.json has them. `among_few` are examples with few memories."""
    names = judging.FITTED
    by_hand = judging.SET_BY_HAND
    topic = _fit_topic(examples, tuple(names["topic"]))
    whole_topic = {**topic, **by_hand["topic"]}
    update = _fit_update(examples, whole_topic, tuple(names["update"]))
    whole_update = {**update, **by_hand["update"]}
    chance, base = _fit_chance(examples, whole_topic, whole_update, tuple(names["chance"]))
    few, few_base = _fit_chance(among_few, whole_topic, whole_update, tuple(names["chance_among_few"]))
    parts: dict[str, Mapping[str, float]] = {
        "topic": topic, "update": update, "chance": chance, "chance_among_few": few
    }  # fmt: skip
    rounded = {part: {name: round(value, 4) for name, value in own.items()} for part, own in parts.items()}
    bases = {"base": round(base, 4), "base_among_few": round(few_base, 4)}
    return {"made_by": names["made_by"], **rounded, **bases, "set_by_hand": by_hand}


# topic: right and outdated memories rank above the others


def _measure_fit(example: Example) -> Numbers:
    return measure_fit(example.candidates, example.profile, example.shares)


def _fit_topic(examples: Sequence[Example], names: Sequence[str]) -> dict[str, float]:
    choices = []
    for example in examples:
        wanted = example.right | example.stale
        if wanted.any():
            choices.append((_take_rows(_measure_fit(example), ROWS, names), wanted))
    return dict(zip(names, _fit_choices(choices, None), strict=True))


# update: which newer candidate has replaced one of the best, if any


def _fit_update(examples: Sequence[Example], topic: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    choices = []
    for example in examples:
        scores = judging.order_weights(topic, ROWS) @ _measure_fit(example)
        for old in np.argsort(-scores, kind="stable")[:MAX_UPDATE_CANDIDATES].tolist():
            newer = np.flatnonzero(example.candidates.when > example.candidates.when[old])
            wanted = example.expected[newer] & example.stale[old] & ~example.right[old]
            if not len(newer) or not (example.right[old] or wanted.any()):
                continue
            table = measure_update(example.candidates, example.profile, example.shares, scores, old)
            choices.append((_take_rows(table, UPDATE_ROWS, names)[newer], wanted))
    return dict(zip(names, _fit_choices(choices, names.index("always")), strict=True))


# chance: how likely each candidate is an answer


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


def _fit_choices(choices: Sequence[Choice], bias: int | None, pull: float = 2.0) -> list[float]:
    """Fit weights by which a wanted row is chosen among the rows of each table, by Adam.

    `bias` is the number of a column that is always 1. With it, choosing no row is possible and has the score 0; that is
    right for a table in which no row is wanted.
    """
    centre, scale = _standardise(np.concatenate([table for table, _ in choices]), bias)
    tables, wanted, penalties = _pad([((table - centre) / scale, right) for table, right in choices])
    fitted = np.zeros(len(centre))
    mean, square = np.zeros_like(fitted), np.zeros_like(fitted)
    pulls = np.full(len(centre), pull)
    if bias is not None:
        pulls[bias] = 0.0
    for step in range(1, MAX_STEPS + 1):
        excess = _choose(tables @ fitted + penalties, wanted, has_none=bias is not None)
        slope = (np.einsum("ij,ijk->k", excess, tables) + pulls * fitted) / len(choices)
        mean, square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope * slope
        fitted = fitted - 0.05 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    raw = fitted / scale
    if bias is not None:
        raw[bias] = fitted[bias] - float((centre / scale) @ fitted)
    return [float(value) for value in raw]


def _pad(tables: Sequence[Choice]) -> tuple[Numbers, NDArray[np.bool_], Numbers]:
    """Return all tables in one array, which of their rows are wanted, and -inf for rows that only fill the array."""
    longest = max(len(table) for table, _ in tables)
    padded = np.zeros((len(tables), longest, tables[0][0].shape[1]))
    wanted = np.zeros((len(tables), longest), np.bool_)
    penalties = np.full((len(tables), longest), -np.inf)
    for place, (table, right) in enumerate(tables):
        padded[place, : len(table)], wanted[place, : len(table)], penalties[place, : len(table)] = table, right, 0.0
    return padded, wanted, penalties


def _choose(logits: Numbers, wanted: NDArray[np.bool_], *, has_none: bool) -> Numbers:
    """Return by how much the chance of choosing each row is too high."""
    highest = np.maximum(logits.max(axis=1), 0.0 if has_none else -np.inf)[:, None]
    odds = np.exp(logits - highest)
    none = np.exp(-highest) if has_none else 0.0
    right = odds * wanted
    chosen: Numbers = odds / (odds.sum(axis=1, keepdims=True) + none)
    aim: Numbers = right / np.maximum(right.sum(axis=1, keepdims=True), _TINY)
    return chosen - aim


def _fit_logistic(rows: Numbers, right: NDArray[np.bool_], pull: float = 10.0) -> tuple[Numbers, float]:
    """Fit weights and a base whose sum is the logarithm of the odds of being right, by Newton's method."""
    centre, scale = _standardise(rows, None)
    table = np.column_stack([(rows - centre) / scale, np.ones(len(rows))])
    fitted = np.zeros(table.shape[1])
    pulls = np.full(len(fitted), pull)
    pulls[-1] = 0.0
    for _ in range(50):
        chance = 1 / (1 + np.exp(-(table @ fitted)))
        slope = table.T @ (chance - right) + pulls * fitted
        curvature = (table * (chance * (1 - chance))[:, None]).T @ table + np.diag(pulls)
        step = np.linalg.solve(curvature, slope)
        fitted -= step
        if np.abs(step).max() < 1e-7:
            break
    raw = fitted[:-1] / scale
    return raw, float(fitted[-1] - centre @ raw)


def _standardise(rows: Numbers, bias: int | None) -> tuple[Numbers, Numbers]:
    centre, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    if bias is not None:
        centre[bias], scale[bias] = 0.0, 1.0
    return centre, scale
