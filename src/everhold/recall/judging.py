"""Judging the best plain memories: does each answer the question, and has a newer one taken its place?

    the best by their signals → how well each fits the topic → what has been updated since → the chance of each

Ranking alone cannot tell an answer from what is merely near, or a fact from the one that replaced it. This stage looks
at the best candidates together. It sees only what an image holds of them (measures.py), so it costs little and gives
the same chance on every store. Turns of a conversation are left as they are: their scores are fitted to conversations.

All weights are fitted to lives (docs/evaluation.md) and stand in answers.json with the command that made them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from everhold.recall.intent import Intent
from everhold.recall.measures import (
    GROUPS,
    Asking,
    Candidates,
    Measures,
    Numbers,
    Shares,
    measure_chance,
    measure_shares,
    measure_topic,
    measure_update,
)

# How many of the best candidates are judged together.
EXAMINED = 24

# Among so few candidates or fewer, being the best of them means nothing, and their signals alone decide.
FEW = 16

# How many updates of one fact are followed.
MAX_UPDATES = 3

# A newer candidate takes an older one's place if the odds for it are at least 3 to 7.
UPDATE_SHARE = 0.3

# A candidate that the question repeats, with a likeness of this or more, is meant itself, not what followed it.
VERBATIM = 0.9

# By how much an outdated candidate is below the newest, at least.
OUTDATED = 1.0


class Bounds(NamedTuple):
    """The least score that is returned, and the least share of the best one's."""

    minimum: float
    share: float

    def find_minimum(self, best: float) -> float:
        return max(self.minimum, self.share * best) if self.share else self.minimum


ONE_ANSWER = Bounds(0.24, 0.4)
# For questions that want all that belong. The best must be good enough for one answer all the same.
SEVERAL_ANSWERS = Bounds(0.065, 0.09)
# Where the signals alone decide.
AMONG_FEW = Bounds(0.24, 0.7)


class Weights(NamedTuple):
    """The fitted weights by the names of the measures; `base` is what every candidate has."""

    topic: Mapping[str, float]
    update: Mapping[str, float]
    chance: Mapping[str, float]
    base: float


FITTED = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))
WEIGHTS = Weights(FITTED["topic"], FITTED["update"], FITTED["chance"], FITTED["base"])


class Judgement(NamedTuple):
    """Judged candidates.

    `totals` are the logarithms of the odds that each answers, and `chain` has the places of those that took each
    other's place, the newest last. A share of `weight` of the odds comes from `measures` and `told`, and the rest from
    `alone`, what the signals said of each. What was `told` lifts a candidate no higher than its signals do. `moved` is
    by how much a candidate was moved to put the newest of a chain first.
    """

    totals: list[float]
    chain: list[int]
    measures: Measures
    moved: Numbers
    told: Numbers
    alone: Numbers
    weight: float


class Verdict(NamedTuple):
    """How one candidate was judged beside others: by which judgement, at which place, and the ids of all of them."""

    judgement: Judgement
    place: int
    ids: Sequence[str]

    @property
    def total(self) -> float:
        return self.judgement.totals[self.place]

    @property
    def updates(self) -> str | None:
        """The candidate whose place it takes."""
        return self._find_in_chain(-1)

    @property
    def outdated_by(self) -> str | None:
        """The candidate that takes its place."""
        return self._find_in_chain(1)

    def _find_in_chain(self, step: int) -> str | None:
        chain = self.judgement.chain
        if self.place not in chain:
            return None
        place = chain.index(self.place) + step
        return self.ids[chain[place]] if 0 <= place < len(chain) else None

    def explain(self) -> dict[str, float]:
        """Return the parts of the total, except for the base. Parts that are about the same thing are added up."""
        judgement, place = self.judgement, self.place
        found = {
            "told": judgement.weight * float(judgement.told[place]),
            "signals": (1 - judgement.weight) * float(judgement.alone[place]),
            "update": judgement.weight * float(judgement.moved[place]),
        }
        for name, weight in WEIGHTS.chance.items():
            measure = judgement.measures[name]
            value = measure if isinstance(measure, float) else float(measure[place])
            found[GROUPS[name]] = found.get(GROUPS[name], 0.0) + judgement.weight * weight * value
        return found


def judge(found: Candidates, asking: Asking, weights: Weights = WEIGHTS) -> Judgement:
    """Judge candidates together."""
    shares = measure_shares(found, asking)
    topic = weigh(measure_topic(found, asking, shares), weights.topic) + found.told
    chain, stands = _follow_updates(found, asking, shares, topic, weights.update)
    measures = measure_chance(found, asking, shares, topic, chain, stands)
    weighed = weigh(measures, weights.chance) + weights.base
    judged = _put_in_order(weighed, chain)
    alone = _put_in_order(found.alone, chain)
    told = np.minimum(found.told, np.maximum(alone - judged, 0.0))
    weight = weigh_judgement(len(topic))
    totals = weight * (judged + told) + (1 - weight) * alone
    return Judgement(totals.tolist(), chain, measures, judged - weighed, told, alone, weight)


def weigh_judgement(size: int) -> float:
    """Return how much judging so many candidates counts beside their signals."""
    return min(max((size - FEW) / (EXAMINED - FEW), 0.0), 1.0)


def find_bounds(intent: Intent, size: int, best: float) -> Bounds:
    """Return which of so many judged candidates are returned, the best of which has this score."""
    if best < ONE_ANSWER.minimum:
        return ONE_ANSWER
    wanted = SEVERAL_ANSWERS if intent.lists or intent.joins else ONE_ANSWER
    weight = weigh_judgement(size)
    return Bounds(*(weight * one + (1 - weight) * other for one, other in zip(wanted, AMONG_FEW, strict=True)))


def weigh(measures: Measures, weights: Mapping[str, float]) -> Numbers:
    """Return the weighted sum of the measures for each candidate."""
    same, columns, column_weights = 0.0, [], []
    for name, weight in weights.items():
        measure = measures[name]
        if isinstance(measure, float):
            same += weight * measure
        else:
            columns.append(measure)
            column_weights.append(weight)
    total: Numbers = np.array(column_weights) @ np.array(columns, np.float64)
    return total + same


def _follow_updates(
    found: Candidates, asking: Asking, shares: Shares, topic: Numbers, weights: Mapping[str, float]
) -> tuple[list[int], float]:
    """Return the candidate that fits the topic best and those that have taken its place, one after the other; and the
    chance that the first one still stands."""
    chain = [int(topic.argmax())]
    first_stands = 1.0
    while len(chain) <= MAX_UPDATES and found.likeness[chain[-1]] < VERBATIM:
        newer = np.flatnonzero(found.when > found.when[chain[-1]])
        if not len(newer):
            break
        logits = weigh(measure_update(found, asking, shares, topic, chain[-1], newer), weights)
        highest = max(float(logits.max()), 0.0)
        stands = math.exp(-highest)
        others = np.exp(logits - highest)
        if len(chain) == 1:
            first_stands = stands / (stands + float(others.sum()))
        if float(others.max()) * (1 - UPDATE_SHARE) < stands * UPDATE_SHARE:
            break
        chain.append(int(newer[int(logits.argmax())]))
    return chain, first_stands


def _put_in_order(totals: Numbers, chain: Sequence[int]) -> Numbers:
    """Return the totals with the newest of a chain of updates as high as any of it, and the others clearly below."""
    if len(chain) == 1:
        return totals
    ordered = totals.copy()
    ordered[chain[-1]] = totals[list(chain)].max()
    outdated = list(chain[:-1])
    ordered[outdated] = np.minimum(totals[outdated], ordered[chain[-1]] - OUTDATED)
    return ordered
