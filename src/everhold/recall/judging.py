"""Judge the best candidates together: does each answer the question, and has a newer one replaced it?

    best candidates → how well each fits the topic → which were updated later → the chance that each is an answer

The signals of one memory cannot distinguish an answer from a text on a similar subject, or a fact from its newer
version. Comparing the best candidates can. Judging reads only what images hold (measures.py) and, for questions about a
known attribute, what the texts state (asked_attribute.py), so it is fast and gives the same result on every store.
Turns of a conversation are not judged: the weights of their signals are fitted to conversations.

The weights are fitted to test data ("lives", docs/evaluation.md), except those of attributes, which are set by hand.
They are in answers.json, with the command that made them. The chance has two sets of weights: for large scopes, and for
scopes with few memories.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.recall.measures import (
    APART,
    CHANGED,
    GROUPS,
    ROWS,
    STATED,
    UPDATE_ROWS,
    Candidates,
    Numbers,
    QuestionProfile,
    Shares,
    compare_with_best,
    find_anchor,
    measure_fit,
    measure_other_numbers,
    measure_shares,
    measure_update,
)
from everhold.recall.question import Question

# How many of the best candidates are judged together.
MAX_JUDGED = 24

# With this many candidates or fewer, only the weights that are fitted to small scopes are used: being the best of few
# means little. From MAX_JUDGED on, only those fitted to large scopes are used. In between, the two are mixed.
FEW_CANDIDATES = 18

# The maximum number of successive updates of one fact that are followed.
MAX_UPDATES = 3

# A newer candidate replaces an older one if the chance that it updates the older one is at least this.
MIN_UPDATE_CHANCE = 0.3

_MIN_UPDATE_LOGIT = math.log(MIN_UPDATE_CHANCE / (1 - MIN_UPDATE_CHANCE))

# A question this similar to a candidate repeats its text, so it asks for that candidate, not for a later version.
VERBATIM_SIMILARITY = 0.9
# A question about an attribute resembles every text that states the attribute, so it must be this similar.
_VERBATIM_ATTRIBUTE_SIMILARITY = 0.98

# A newer candidate loses these log odds as an update if it is about another person or thing, a plan or the past. The
# number is set by hand, because the test data has few texts that look like an update and are none.
APART_LOSS = 5.0

# The minimum distance, in log odds, of an outdated candidate from the newest version.
OUTDATED_GAP = 1.0


class Bounds(NamedTuple):
    """The lowest score with which a candidate is returned, and the lowest share of the best score."""

    minimum: float
    share: float

    def find_minimum(self, best: float) -> float:
        """Return the lowest score with which a candidate is returned if the best candidate has the score `best`."""
        return max(self.minimum, self.share * best) if self.share else self.minimum


ONE_ANSWER = Bounds(0.24, 0.4)
# For questions with several answers. The best answer must still reach the minimum of ONE_ANSWER.
SEVERAL_ANSWERS = Bounds(0.065, 0.14)
# The bounds for one answer and for several answers if there are few candidates.
ONE_AMONG_FEW = Bounds(0.29, 0.88)
SEVERAL_AMONG_FEW = Bounds(0.25, 0.52)


class Chance(NamedTuple):
    """Weights for computing the chance that a candidate is an answer; `base` is added to every candidate's sum."""

    weights: Numbers
    base: float


class Weights(NamedTuple):
    """The fitted weights, in the order of ROWS and UPDATE_ROWS: for large scopes, and for scopes with few memories."""

    topic: Numbers
    update: Numbers
    chance: Chance
    chance_among_few: Chance


FITTED = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))
# Weights that the fit does not change. The lives ask for too few attributes to fit them together with the others.
SET_BY_HAND: Mapping[str, Mapping[str, float]] = FITTED["set_by_hand"]


def make_weights(fitted: Mapping[str, Any]) -> Weights:
    """Return the fitted weights together with those that are set by hand."""
    topic, update, chance, among_few = (
        order_weights({**fitted[part], **SET_BY_HAND[part.removesuffix("_among_few")]}, rows)
        for part, rows in (("topic", ROWS), ("update", UPDATE_ROWS), ("chance", ROWS), ("chance_among_few", ROWS))
    )
    return Weights(topic, update, Chance(chance, fitted["base"]), Chance(among_few, fitted["base_among_few"]))


def order_weights(weights: Mapping[str, float], rows: Mapping[str, int]) -> Numbers:
    """Return weights in the order of a table's rows; 0 for measures without a weight."""
    ordered: Numbers = np.zeros(len(rows))
    for name, weight in weights.items():
        ordered[rows[name]] = weight
    return ordered


WEIGHTS = make_weights(FITTED)


class Judgement(NamedTuple):
    """The result of judging candidates together.

    `totals` are the log odds that each candidate answers the question. They are the sum of the weighted `table`, the
    `update_shift` that puts the newest version of a fact first, and the `explicit` evidence. `chain` has the indexes of
    the candidates that are versions of one fact, the newest last. `chance` has the weights of the table.
    """

    totals: list[float]
    chain: list[int]
    table: Numbers
    update_shift: Numbers
    explicit: Numbers
    chance: Chance


class Verdict(NamedTuple):
    """The part of a judgement that concerns one candidate.

    `position` is the index of the candidate in the judgement, and `ids` are the ids of all judged candidates.
    """

    judgement: Judgement
    position: int
    ids: Sequence[str]

    @property
    def total(self) -> float:
        return self.judgement.totals[self.position]

    @property
    def updates(self) -> str | None:
        """The id of the candidate that this one replaces."""
        return self._find_in_chain(-1)

    @property
    def outdated_by(self) -> str | None:
        """The id of the candidate that replaces this one."""
        return self._find_in_chain(1)

    def _find_in_chain(self, step: int) -> str | None:
        chain = self.judgement.chain
        if self.position not in chain:
            return None
        position = chain.index(self.position) + step
        return self.ids[chain[position]] if 0 <= position < len(chain) else None

    def explain(self) -> dict[str, float]:
        """Return what each group of measures adds to the total, by the name of the group. The base is left out."""
        judgement, index = self.judgement, self.position
        parts = {"explicit": float(judgement.explicit[index]), "update": float(judgement.update_shift[index])}
        weighed = (judgement.chance.weights * judgement.table[:, index]).tolist()
        for name, group in GROUPS.items():
            parts[group] = parts.get(group, 0.0) + weighed[ROWS[name]]
        return parts


def judge(candidates: Candidates, profile: QuestionProfile, weights: Weights = WEIGHTS) -> Judgement:
    """Return the log odds that each candidate answers the question, and how they were computed."""
    shares = measure_shares(candidates, profile)
    table = measure_fit(candidates, profile, shares)
    topic = weights.topic @ table + candidates.explicit
    versions, anchor, still_valid = _find_versions(candidates, profile, shares, topic, weights.update)
    compare_with_best(table, topic, versions if anchor is None else versions[-1:], still_valid)
    versions = versions if anchor is None else [anchor, *versions]
    chance = choose_chance(weights, len(topic))
    weighed = chance.weights @ table + chance.base
    judged = _put_in_order(weighed, versions)
    # A link from a fact to the fact that replaced it is no evidence if the old fact is asked for.
    wants_old = profile.intent.replaced and len(versions) > 1
    explicit = np.zeros(len(judged)) if wants_old else _limit_explicit(candidates, judged)
    return Judgement(
        (judged + explicit).tolist(),
        sorted(versions, key=candidates.when.__getitem__),
        table,
        judged - weighed,
        explicit,
        chance,
    )


def _limit_explicit(candidates: Candidates, judged: Numbers) -> Numbers:
    """Return what each candidate gains by an alias or a link, limited to the log odds that its signals give.

    A candidate with a lower sum of signals than the best candidate keeps its distance from it.
    """
    if not np.count_nonzero(candidates.explicit):
        return candidates.explicit
    gains: Numbers = np.minimum(candidates.explicit, np.maximum(candidates.signal_log_odds - judged, 0.0))
    best = int(candidates.totals.argmax())
    behind = candidates.totals[best] - candidates.totals
    ceiling = judged[best] + gains[best] - behind
    return np.where(behind > 0, np.minimum(gains, np.maximum(ceiling - judged, 0.0)), gains)


def choose_chance(weights: Weights, size: int) -> Chance:
    """Return the weights to use for this number of candidates."""
    many, few = weights.chance, weights.chance_among_few
    share = measure_size(size)
    if share in (0.0, 1.0):
        return many if share else few
    mixed = share * many.weights + (1 - share) * few.weights
    return Chance(mixed, share * many.base + (1 - share) * few.base)


def measure_size(size: int) -> float:
    """Return a number of candidates as a share from 0, for FEW_CANDIDATES or fewer, to 1, for MAX_JUDGED or more."""
    return min(max((size - FEW_CANDIDATES) / (MAX_JUDGED - FEW_CANDIDATES), 0.0), 1.0)


def find_bounds(question: Question, size: int, best: float, *, wants_past: bool = False) -> Bounds:
    """Return the bounds for `size` judged candidates, the best of which has the score `best`.

    `wants_past` says that the caller also asked for superseded memories.
    """
    intent = question.intent
    single = _mix_bounds(ONE_ANSWER, ONE_AMONG_FEW, size)
    if best < single.minimum:
        return single
    # The answers to "What happened in May?" share the time and have similar scores anyway.
    if (intent.lists or intent.joins) and not question.times:
        return _mix_bounds(SEVERAL_ANSWERS, SEVERAL_AMONG_FEW, size)
    if wants_past:
        return SEVERAL_ANSWERS  # an outdated fact has a low score
    # A question about what was before is answered by the old fact or by the fact that replaced it.
    return _mix_bounds(ONE_ANSWER, SEVERAL_AMONG_FEW, size) if intent.past else single


def _mix_bounds(many: Bounds, few: Bounds, size: int) -> Bounds:
    share = measure_size(size)
    return Bounds(*(share * bound + (1 - share) * few_bound for bound, few_bound in zip(many, few, strict=True)))


def _find_versions(
    candidates: Candidates, profile: QuestionProfile, shares: Shares, topic: Numbers, weights: Numbers
) -> tuple[list[int], int | None, float]:
    """Return the versions of one fact, the one asked for last; the anchor; and the chance that the first is valid.

    "Where do I live?" asks for the newest version, "my old address" for the one before it, "my original address" for
    the first, and "… before Denver?" for the newest one older than the anchor: the first memory about Denver.
    """
    intent = profile.intent
    anchor = find_anchor(candidates, shares) if profile.anchored and intent.replaced and not intent.original else None
    if anchor is not None:
        is_earlier = (candidates.when < candidates.when[anchor]) & (shares.attribute > 0)
        if is_earlier.any():
            present = profile._replace(intent=intent._replace(past=False, happened=False))
            earlier = np.where(is_earlier, topic, -np.inf)
            return _follow_updates(candidates, present, shares, earlier, weights, is_earlier)[0], anchor, 1.0
    if not intent.replaced or anchor is not None:
        chain, still_valid = _follow_updates(candidates, profile, shares, topic, weights)
        return chain, None, still_valid
    profile = profile._replace(intent=intent._replace(past=False))
    chain, _ = _follow_updates(candidates, profile, shares, topic, weights)
    if intent.original:
        return chain[::-1], None, 1.0
    return _put_previous_last(candidates, profile, shares, topic, weights, chain), None, 1.0


def _put_previous_last(
    candidates: Candidates,
    profile: QuestionProfile,
    shares: Shares,
    topic: Numbers,
    weights: Numbers,
    chain: list[int],
) -> list[int]:
    """Return a chain of updates with the version directly before the newest one last.

    The chain may skip it, so it is searched for among the candidates between the last two that state the attribute.
    """
    if len(chain) == 1:
        return chain
    *earlier, old, newest = chain
    when = candidates.when
    logits = _weigh_updates(candidates, profile, shares, topic, weights, old)
    is_between = (when > when[old]) & (when < when[newest]) & (logits > _MIN_UPDATE_LOGIT) & (shares.attribute > 0)
    between = np.flatnonzero(is_between)
    for index in sorted(between.tolist(), key=when.__getitem__, reverse=True):
        if _weigh_updates(candidates, profile, shares, topic, weights, index)[newest] > _MIN_UPDATE_LOGIT:
            return [newest, *earlier, old, index]
    return [newest, *earlier, old]


def _follow_updates(
    candidates: Candidates,
    profile: QuestionProfile,
    shares: Shares,
    topic: Numbers,
    weights: Numbers,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[list[int], float]:
    """Return a chain and the chance that its first candidate is still valid.

    The chain has the index of the candidate that fits the topic best, followed by those of its later versions.
    Only candidates that are `allowed` are followed.
    """
    chain = [int(topic.argmax())]
    first_still_valid = 1.0
    while len(chain) <= MAX_UPDATES and not _is_verbatim(candidates, shares, chain[-1]):
        is_newer = candidates.when > candidates.when[chain[-1]]
        if allowed is not None:
            is_newer &= allowed
        if not np.count_nonzero(is_newer):  # three times as fast as `any` on so few values
            break
        logits = _weigh_updates(candidates, profile, shares, topic, weights, chain[-1])
        logits[~is_newer] = -np.inf
        shift = max(float(logits.max()), 0.0)
        still_valid = math.exp(-shift)
        updates = np.exp(logits - shift)
        if len(chain) == 1:
            first_still_valid = still_valid / (still_valid + float(updates.sum()))
        if float(updates.max()) * (1 - MIN_UPDATE_CHANCE) < still_valid * MIN_UPDATE_CHANCE:
            break
        chain.append(int(logits.argmax()))
    if len(chain) == 1 and allowed is None:
        outdated = _find_outdated(candidates, profile, shares, topic, weights, chain[0])
        if outdated is not None:
            return [outdated, chain[0]], first_still_valid
    return chain, first_still_valid


def _is_verbatim(candidates: Candidates, shares: Shares, index: int) -> bool:
    """Return whether the question repeats the text of a candidate."""
    minimum = _VERBATIM_ATTRIBUTE_SIMILARITY if shares.attribute[index] else VERBATIM_SIMILARITY
    return bool(candidates.similarity[index] >= minimum)


def _weigh_updates(
    candidates: Candidates, profile: QuestionProfile, shares: Shares, topic: Numbers, weights: Numbers, old: int
) -> Numbers:
    """Return the log odds that each candidate updates the candidate `old`, compared with there being no update.

    They are meaningful only for candidates that are newer than `old`.
    """
    logits: Numbers = weights @ measure_update(candidates, profile, shares, topic, old)
    apart = candidates.contrary
    if candidates.evidence[old, STATED]:
        apart = np.maximum(apart, candidates.evidence[:, APART] * candidates.evidence[old, STATED])
    if profile.numbers:
        apart = np.maximum(apart, measure_other_numbers(candidates, profile, old))
    logits -= APART_LOSS * apart
    return logits


def _find_outdated(
    candidates: Candidates, profile: QuestionProfile, shares: Shares, topic: Numbers, weights: Numbers, newest: int
) -> int | None:
    """Return the candidate that `newest` replaces, if both state the attribute asked for; else None."""
    if not candidates.evidence[newest, CHANGED]:
        return None
    is_older = (candidates.when < candidates.when[newest]) & (shares.attribute > 0)
    if not is_older.any():
        return None
    old = int(np.where(is_older, topic, -np.inf).argmax())
    logit = _weigh_updates(candidates, profile, shares, topic, weights, old)[newest]
    return old if logit > _MIN_UPDATE_LOGIT else None


def _put_in_order(totals: Numbers, versions: Sequence[int]) -> Numbers:
    """Return the totals, changed so that the last of these versions comes first and all others are below it."""
    if len(versions) == 1:
        return totals
    ordered = totals.copy()
    ordered[versions[-1]] = totals[list(versions)].max()
    others = list(versions[:-1])
    ordered[others] = np.minimum(totals[others], ordered[versions[-1]] - OUTDATED_GAP)
    return ordered
