"""Compute the measures by which the best candidates for a question are judged (judging.py).

They are computed from what an image holds: signals, vectors, terms, text features and times. Texts are read only for
questions about a known attribute, and only once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.recall.asked_attribute import AttributeEvidence
from everhold.recall.intent import GENERAL_TERMS, TIME_TERMS, Intent
from everhold.recall.postings import Rows
from everhold.recall.question import Question
from everhold.recall.signals import DAY, Word
from everhold.recall.text_features import ADDITION, CHANGE, CODE, DATE, LONG_NUMBER, NUMBER, SUPPOSITION

Numbers = NDArray[np.float64]
# Measures by name: a value for each candidate, or one value for all of them.
Measures = Mapping[str, Numbers | float]

_VALUES = NUMBER | LONG_NUMBER | CODE | DATE
_NOT_CORE = GENERAL_TERMS | TIME_TERMS
# The columns of evidence.
STATED, CHANGED, APART, THINGS = range(len(AttributeEvidence._fields))
_FEW_TERMS = 2
_FAR_BEHIND = 5.0
_LOW_TOTAL = -2.0

# The group of each measure in `why`.
GROUPS: Mapping[str, str] = {
    "topic": "rank", "behind": "rank", "best_topic": "rank", "total": "rank", "low_total": "rank", "share": "rank",
    "first": "rank", "similarity": "meaning", "core": "words", "terms": "words", "unknown": "words", "names": "names",
    "only_names": "names", "has_value": "values", "lacks_value": "values", "lacks_head": "words", "lists": "list",
    "date": "time", "lacks_date": "time", "anchor": "time", "is_update": "update", "is_outdated": "update",
    "still_valid": "update", "contrary": "words", "attribute": "attribute",
    "preference": "preference",
}  # fmt: skip


class Candidates(NamedTuple):
    """The candidates as columns, best ranked first.

    `totals` are the weighted sums of their signals, and `signal_log_odds` the log odds that these give. `explicit` is
    what a candidate gains because a user has linked it: by an alias, a supersession or a relationship. `holds` has a
    row for each term of the question: 1 for candidates with the term, less for those with a similar one. For a question
    with "before" or "after", `anchor` is the share of the following terms that a candidate has. `contrary` is 1 for a
    candidate that names an alternative to what the question names (alternatives.py).
    `preference` is what a candidate gains by its importance and its session, whatever the question is.
    `evidence` has the columns of AttributeEvidence, and `rare` the names, numbers and unusual words of each text; both
    are empty if the question asks for no known attribute.
    """

    totals: Numbers
    signal_log_odds: Numbers
    explicit: Numbers
    similarity: Numbers
    dates: Numbers
    features: NDArray[np.uint8]
    when: NDArray[np.int64]
    asks: Numbers
    vectors: NDArray[np.float32]
    anchor: Numbers
    contrary: Numbers
    preference: Numbers
    evidence: Numbers
    rare: NDArray[Any]
    holds: Numbers

    @property
    def attribute(self) -> Numbers:
        """How clearly each candidate states the attribute asked for, of the thing asked about."""
        attribute: Numbers = self.evidence[:, STATED] * self.evidence[:, THINGS] * (1.0 - self.contrary)
        return attribute


class QuestionProfile(NamedTuple):
    """A question, prepared for judging candidates.

    Core terms are neither names nor general words. `terms_and_core` has two rows: the share of each term in the weight
    of all terms, and in the weight of the core terms. `names` are the shares in the weight of all names; None without
    names. `terms` and `cores` are the numbers of terms. `unknown` is the share of core terms that the scope does not
    have. `head` is the index of the term for what is asked ("colour" in "which colour"), if the question has one.
    `numbers` are the indexes of the terms that tell things of one kind apart ("7" in "room 7").
    """

    intent: Intent
    terms_and_core: Numbers
    names: Numbers | None
    terms: int
    cores: int
    unknown: float
    timed: bool
    anchored: bool
    now: int
    head: int | None = None
    numbers: Sequence[int] = ()


class Shares(NamedTuple):
    """The share of the question's terms that each candidate has, by weight: of all terms, core terms and names.

    `has_value` is 1 if a candidate has a value of the kind asked for, such as a date, and `lacks_value` is 1 if not;
    both are 0 if the question asks for no kind of value.
    """

    terms: Numbers
    core: Numbers
    names: Numbers | float
    has_value: Numbers | float
    lacks_value: Numbers | float


def profile_question(question: Question, words: Sequence[Word], known: Sequence[bool], now: int) -> QuestionProfile:
    """Return the weights of a question's terms. `known` says for each term whether the scope has it."""
    intent = question.intent
    weights = [word.weight for word in words]
    names = [word.weight if word.term in intent.names else 0.0 for word in words]
    core = [0.0 if name or word.term in _NOT_CORE else word.weight for name, word in zip(names, words, strict=True)]
    unknown_weight = sum(weight for weight, is_known in zip(core, known, strict=True) if not is_known)
    total_weight, name_weight, core_weight = sum(weights) or 1.0, sum(names), sum(core) or 1.0
    return QuestionProfile(
        intent,
        np.array([[weight / total_weight for weight in weights], [weight / core_weight for weight in core]]),
        np.array(names) / name_weight if name_weight else None,
        len(words),
        len(core) - core.count(0.0),
        unknown_weight / core_weight,
        bool(question.times),
        bool(question.anchor),
        now,
        next((index for index, word in enumerate(words) if word.term == intent.head), None),
        [index for index, word in enumerate(words) if word.term in intent.numbers] if intent.numbers else (),
    )


def find_terms(
    rows: Rows, words: Sequence[Word], find_similar_rows: Callable[[str], Sequence[tuple[Rows, float]]]
) -> Numbers:
    """Return a matrix of words and rows: 1 if the row has the word, less if it has a similar one, else 0.

    `find_similar_rows` returns the rows of each word that is similar to a term, and how similar it is.
    """
    scores = np.zeros((len(words), len(rows)))
    for index, word in enumerate(words):
        word_scores = scores[index]
        word_scores[:] = has_term(rows, word.rows)
        for similar_rows, similarity in find_similar_rows(word.term):
            np.maximum(word_scores, similarity * has_term(rows, similar_rows), out=word_scores)
    return scores


def has_term(rows: Rows, rows_with_term: Rows) -> NDArray[np.bool_]:
    """Return which of the rows have a term. `rows_with_term` is sorted."""
    if not len(rows_with_term):
        return np.zeros(len(rows), np.bool_)
    has_it: NDArray[np.bool_] = rows_with_term.take(rows_with_term.searchsorted(rows), mode="clip") == rows
    return has_it


def measure_shares(candidates: Candidates, profile: QuestionProfile) -> Shares:
    """Return the share of the question's terms that each candidate has; 0.5 if there are no names or no core terms."""
    terms, core = profile.terms_and_core @ candidates.holds
    if not profile.cores:
        core = core + 0.5
    names = 0.5 if profile.names is None else profile.names @ (candidates.holds == 1.0)
    value_features = profile.intent.values
    if not value_features:
        return Shares(terms, core, names, 0.0, 0.0)
    has_value = ((candidates.features & value_features) != 0).astype(np.float64)
    return Shares(terms, core, names, has_value, 1.0 - has_value)


def measure_topic(candidates: Candidates, profile: QuestionProfile, shares: Shares) -> Measures:
    """Return measures of how well each candidate fits the topic of the question."""
    return {
        "total": candidates.totals,
        "similarity": candidates.similarity,
        "date": candidates.dates if profile.timed else 0.0,
        "core": shares.core,
        "names": shares.names,
        "lacks_value": shares.lacks_value,
        "anchor": candidates.anchor if profile.anchored else 0.0,
        "later": _measure_later(candidates) if profile.anchored else 0.0,
        "contrary": candidates.contrary,
        "attribute": candidates.attribute,
    }


def _measure_later(candidates: Candidates) -> Numbers | float:
    """Return 1 for each candidate that is not older than the first one with all anchor terms."""
    has_anchor = candidates.anchor == 1.0
    return (candidates.when >= candidates.when[has_anchor].min()).astype(np.float64) if has_anchor.any() else 0.0


def measure_update(
    candidates: Candidates, profile: QuestionProfile, shares: Shares, topic: Numbers, old: int, newer: NDArray[np.int64]
) -> Measures:
    """Return measures of whether each of the newer candidates is an update of the old one."""
    features, names, has_value = candidates.features[newer], shares.names, shares.has_value
    intent, age = profile.intent, max(0, profile.now - int(candidates.when[old])) / DAY
    _, changed, _, things = candidates.evidence[newer].T
    linked = _measure_linked(candidates, old, newer)
    return {
        "similarity_of_both": candidates.vectors[newer] @ candidates.vectors[old],
        "behind": topic[old] - topic[newer],
        "terms": shares.terms[newer],
        "has_value": has_value if isinstance(has_value, float) else has_value[newer],
        "change": (features & CHANGE) != 0,
        "supposition": (features & SUPPOSITION) != 0,
        "addition": (features & ADDITION) != 0,
        "days_later": np.log1p((candidates.when[newer] - candidates.when[old]) / DAY),
        "place": np.log1p(newer),
        "similarity": candidates.similarity[newer],
        "core": shares.core[newer],
        "asks": candidates.asks[newer],
        "names": names if isinstance(names, float) else names[newer],
        "same_value": (features & candidates.features[old] & _VALUES) != 0,
        "always": 1.0,
        "past": float(intent.past),
        "lists": float(intent.lists),
        "age": math.log1p(age),
        "similarity_of_old": float(candidates.similarity[old]),
        "few_terms": float(profile.terms <= _FEW_TERMS),
        "confirms": float(intent.confirms),
        "happened": float(intent.happened),
        "timed": float(profile.timed),
        "attribute": changed * np.maximum(things, linked) * candidates.evidence[old, STATED],
        "linked": linked,
    }


def measure_other_numbers(
    candidates: Candidates, profile: QuestionProfile, old: int, newer: NDArray[np.int64]
) -> Numbers:
    """Return 1 for each of the newer candidates that lacks a number of the question by which the old one is named.

    "The code of gate 9 is 42" says nothing about gate 7. A question to be confirmed names the number that it doubts.
    """
    others: Numbers = np.zeros(len(newer))
    for index in () if profile.intent.confirms else profile.numbers:
        if candidates.holds[index, old] == 1.0:
            others[candidates.holds[index, newer] == 0.0] = 1.0
    return others


def _measure_linked(candidates: Candidates, old: int, newer: NDArray[np.int64]) -> Numbers:
    """Return 1 for each of the newer candidates that repeats a name, a number or an unusual word of the old one."""
    terms = candidates.rare[old]
    linked: Numbers = np.zeros(len(newer))
    if terms:
        linked[:] = [not terms.isdisjoint(rare) for rare in candidates.rare[newer]]
    return linked


def measure_chance(
    candidates: Candidates, profile: QuestionProfile, shares: Shares, topic: Numbers, chain: Sequence[int], valid: float
) -> Measures:
    """Return measures of whether each candidate answers the question. `valid` is the chance that chain[0] is valid."""
    update, outdated = _measure_chain(len(topic), chain)
    if len(chain) > 1:
        topic = topic.copy()
        topic[chain[-1]] = max(topic[chain[-1]], topic.max() + 0.01)
    best = float(topic.max())
    behind = best - topic
    share = np.exp(-behind)
    per_core = 1 / profile.cores if profile.cores else 0.0
    return {
        "topic": topic,
        "behind": np.minimum(behind, _FAR_BEHIND),
        "best_topic": best,
        "total": candidates.totals,
        "low_total": np.minimum(candidates.totals - _LOW_TOTAL, 0.0),
        "share": share / share.sum(),
        "first": (np.arange(len(topic)) == topic.argmax()).astype(np.float64),
        "similarity": candidates.similarity,
        "core": shares.core,
        "terms": shares.terms,
        "unknown": profile.unknown * per_core,
        "names": shares.names,
        "only_names": 0.0 if profile.names is None else (shares.names > 0) * (1 - shares.core) ** 2 * per_core,
        "has_value": shares.has_value,
        "lacks_value": shares.lacks_value,
        "lacks_head": 0.0 if profile.head is None else 1.0 - candidates.holds[profile.head],
        "lists": float(profile.intent.lists),
        "date": candidates.dates if profile.timed else 0.0,
        "lacks_date": 1.0 - candidates.dates if profile.timed else 0.0,
        "anchor": candidates.anchor if profile.anchored else 0.0,
        "contrary": candidates.contrary,
        "is_update": update,
        "is_outdated": outdated,
        "still_valid": 1.0 - outdated * (1.0 - valid),
        "attribute": candidates.attribute * (1.0 - outdated),
        "preference": candidates.preference,
    }


def _measure_chain(size: int, chain: Sequence[int]) -> tuple[Numbers | float, Numbers | float]:
    """Return which candidate is the newest of a chain of updates, and which are outdated."""
    if len(chain) == 1:
        return 0.0, 0.0
    update, outdated = np.zeros(size), np.zeros(size)
    update[chain[-1]] = 1.0
    outdated[list(chain[:-1])] = 1.0
    return update, outdated
