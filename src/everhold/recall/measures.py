"""What the best candidates for a question are measured by, before they are judged (judging.py).

Every measure is computed from what an image holds: sums of signals, vectors, terms, marks and times. No text is read.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from everhold.ports.thesaurus import Thesaurus
from everhold.recall.intent import GENERAL_TERMS, TIME_TERMS, Intent
from everhold.recall.marks import ADDITION, CHANGE, CODE, DATE, LONG_NUMBER, NUMBER, SUPPOSITION
from everhold.recall.postings import Rows
from everhold.recall.question import Question
from everhold.recall.signals import DAY, MAX_SIMILAR_WORDS, Word

Numbers = NDArray[np.float64]
# Numbers by name: one for each candidate, or one for all of them.
Measures = Mapping[str, Numbers | float]

_VALUES = NUMBER | LONG_NUMBER | CODE | DATE
_NOT_CORE = GENERAL_TERMS | TIME_TERMS
_FEW_TERMS = 2
_FAR_BEHIND = 5.0
_LOW_TOTAL = -2.0

# What each measure of the chance is about, for `why`.
GROUPS: Mapping[str, str] = {
    "topic": "rank", "behind": "rank", "best_topic": "rank", "total": "rank", "low_total": "rank", "share": "rank",
    "first": "rank", "likeness": "meaning", "core": "words", "terms": "words", "unknown": "words", "names": "names",
    "only_names": "names", "has_value": "values", "lacks_value": "values", "lacks_head": "words", "lists": "list",
    "date": "time", "anchor": "time", "is_update": "update", "is_outdated": "update", "stands": "update",
}  # fmt: skip


class Candidates(NamedTuple):
    """What is known of the candidates, an element or a row each, the best ranked first.

    `totals` are the sums of their signals, and `alone` the logarithms of the odds that these give by themselves. `told`
    is what each has because a person said so: an alias, a supersession, a relationship. `holds` has for each
    term of the question 1 if the candidate has it, and less if it has a similar one. `anchor` is the share of the
    terms that a question names after "before".
    """

    totals: Numbers
    alone: Numbers
    told: Numbers
    likeness: Numbers
    dates: Numbers
    marks: NDArray[np.int64]
    when: NDArray[np.int64]
    asks: Numbers
    vectors: NDArray[np.float32]
    anchor: Numbers
    holds: Numbers


class Asking(NamedTuple):
    """A question as candidates are judged by it.

    `terms_and_core` are the shares of each term in the weight of all terms, and of the core ones, which tell what is
    asked. `names` are the shares in the weight of all names; None if it has no names. `unknown` is the share of the
    core that the scope does not know. `head` is the place of the term of the thing asked for, if it has one.
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


class Shares(NamedTuple):
    """Which share of the question's terms each candidate has, by their weights: all, core terms, and names. And whether
    it has a value of the kind asked for, or lacks it; 0 if no kind is asked for."""

    terms: Numbers
    core: Numbers
    names: Numbers | float
    has_value: Numbers | float
    lacks_value: Numbers | float


def read_asking(question: Question, words: Sequence[Word], known: Sequence[bool], now: int) -> Asking:
    """Weigh the terms of a question. `known` says of each whether the scope has it."""
    intent = question.intent
    weights = [word.weight for word in words]
    names = [word.weight if word.term in intent.names else 0.0 for word in words]
    core = [0.0 if name or word.term in _NOT_CORE else word.weight for name, word in zip(names, words, strict=True)]
    strange = sum(weight for weight, is_known in zip(core, known, strict=True) if not is_known)
    every, named, cores = sum(weights) or 1.0, sum(names), sum(core) or 1.0
    return Asking(
        intent,
        np.array([[weight / every for weight in weights], [weight / cores for weight in core]]),
        np.array(names) / named if named else None,
        len(words),
        len(core) - core.count(0.0),
        strange / cores,
        bool(question.times),
        bool(question.anchor),
        now,
        next((place for place, word in enumerate(words) if word.term == intent.head), None),
    )


def find_terms(rows: Rows, words: Sequence[Word], find_rows: Callable[[str], Rows], thesaurus: Thesaurus) -> Numbers:
    """Return for each word and each row how well the row has it. `find_rows` returns the rows of a term."""
    found = np.zeros((len(words), len(rows)))
    for place, word in enumerate(words):
        own = found[place]
        if len(word.rows):
            own[:] = _has(rows, word.rows)
        for term, likeness in thesaurus.find_similar(word.term)[:MAX_SIMILAR_WORDS]:
            alike = find_rows(term)
            if len(alike):
                np.maximum(own, likeness * _has(rows, alike), out=own)
    return found


def _has(rows: Rows, holding: Rows) -> NDArray[np.bool_]:
    return np.asarray(holding.take(holding.searchsorted(rows), mode="clip") == rows)


def measure_shares(found: Candidates, asking: Asking) -> Shares:
    """Return which share of the question's terms each candidate has. Where there are no names, or no core terms, half
    is assumed."""
    terms, core = asking.terms_and_core @ found.holds
    if not asking.cores:
        core = core + 0.5
    names = 0.5 if asking.names is None else asking.names @ (found.holds == 1.0)
    wanted = asking.intent.values
    if not wanted:
        return Shares(terms, core, names, 0.0, 0.0)
    has_value = ((found.marks & wanted) != 0).astype(np.float64)
    return Shares(terms, core, names, has_value, 1.0 - has_value)


def measure_topic(found: Candidates, asking: Asking, shares: Shares) -> Measures:
    """Return what tells whether each candidate is about what is asked."""
    return {
        "total": found.totals,
        "likeness": found.likeness,
        "date": found.dates if asking.timed else 0.0,
        "core": shares.core,
        "names": shares.names,
        "lacks_value": shares.lacks_value,
        "anchor": found.anchor if asking.anchored else 0.0,
        "later": _measure_later(found) if asking.anchored else 0.0,
    }


def _measure_later(found: Candidates) -> Numbers | float:
    """Return 1 for each candidate that is no older than the first to have the whole anchor."""
    having = found.anchor == 1.0
    return (found.when >= found.when[having].min()).astype(np.float64) if having.any() else 0.0


def measure_update(
    found: Candidates, asking: Asking, shares: Shares, topic: Numbers, old: int, newer: NDArray[np.int64]
) -> Measures:
    """Return what tells whether each newer candidate has taken the place of an old one."""
    marks, names, has_value = found.marks[newer], shares.names, shares.has_value
    intent, age = asking.intent, max(0, asking.now - int(found.when[old])) / DAY
    return {
        "likeness_of_both": found.vectors[newer] @ found.vectors[old],
        "behind": topic[old] - topic[newer],
        "terms": shares.terms[newer],
        "has_value": has_value if isinstance(has_value, float) else has_value[newer],
        "change": (marks & CHANGE) != 0,
        "supposition": (marks & SUPPOSITION) != 0,
        "addition": (marks & ADDITION) != 0,
        "days_later": np.log1p((found.when[newer] - found.when[old]) / DAY),
        "place": np.log1p(newer),
        "likeness": found.likeness[newer],
        "core": shares.core[newer],
        "asks": found.asks[newer],
        "names": names if isinstance(names, float) else names[newer],
        "same_value": (marks & found.marks[old] & _VALUES) != 0,
        "always": 1.0,
        "past": float(intent.past),
        "lists": float(intent.lists),
        "age": math.log1p(age),
        "likeness_of_old": float(found.likeness[old]),
        "few_terms": float(asking.terms <= _FEW_TERMS),
        "confirms": float(intent.confirms),
        "happened": float(intent.happened),
        "timed": float(asking.timed),
    }


def measure_chance(
    found: Candidates, asking: Asking, shares: Shares, topic: Numbers, chain: Sequence[int], stands: float
) -> Measures:
    """Return what tells whether each candidate answers the question."""
    update, outdated = _measure_chain(len(topic), chain)
    if len(chain) > 1:
        topic = topic.copy()
        topic[chain[-1]] = max(topic[chain[-1]], topic.max() + 0.01)
    place = int(topic.argmax())
    best = float(topic[place])
    behind = best - topic
    share = np.exp(-behind)
    first = np.zeros(len(topic))
    first[place] = 1.0
    per_core = 1 / asking.cores if asking.cores else 0.0
    return {
        "topic": topic,
        "behind": np.minimum(behind, _FAR_BEHIND),
        "best_topic": best,
        "total": found.totals,
        "low_total": np.minimum(found.totals - _LOW_TOTAL, 0.0),
        "share": share / share.sum(),
        "first": first,
        "likeness": found.likeness,
        "core": shares.core,
        "terms": shares.terms,
        "unknown": asking.unknown * per_core,
        "names": shares.names,
        "only_names": 0.0 if asking.names is None else (shares.names > 0) * (1 - shares.core) ** 2 * per_core,
        "has_value": shares.has_value,
        "lacks_value": shares.lacks_value,
        "lacks_head": 0.0 if asking.head is None else 1.0 - found.holds[asking.head],
        "lists": float(asking.intent.lists),
        "date": found.dates if asking.timed else 0.0,
        "anchor": found.anchor if asking.anchored else 0.0,
        "is_update": update,
        "is_outdated": outdated,
        "stands": 1.0 - outdated * (1.0 - stands),
    }


def _measure_chain(size: int, chain: Sequence[int]) -> tuple[Numbers | float, Numbers | float]:
    """Return which candidate is the newest of a chain of updates, and which are outdated."""
    if len(chain) == 1:
        return 0.0, 0.0
    update, outdated = np.zeros(size), np.zeros(size)
    update[chain[-1]] = 1.0
    outdated[list(chain[:-1])] = 1.0
    return update, outdated
