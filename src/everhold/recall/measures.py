"""Compute the measures by which the best candidates for a question are judged (judging.py).

They are computed from what an image holds: signals, vectors, terms, text features and times. Texts are read only for
questions about a known attribute, and only once.
"""

import math
from collections.abc import Mapping, Sequence
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
_VALUES = NUMBER | LONG_NUMBER | CODE | DATE
_NOT_CORE = GENERAL_TERMS | TIME_TERMS
# The columns of evidence.
STATED, CHANGED, APART, THINGS = range(len(AttributeEvidence._fields))
_FEW_TERMS = 2
# A shorter time between a fact and a newer one counts as this. The weights are fitted to lives, in which most changes
# come months later; but what a user says a minute later is a change, too.
_MIN_DAYS = 60
# The lowest share of the words after "before" that the memory has from which the question counts back.
_MIN_ANCHOR = 0.6
_FAR_BEHIND = 5.0
_LOW_TOTAL = -2.0
# A lower standard deviation of similarities counts as this.
_MIN_DEVIATION = 0.02

# The measures of whether a candidate answers the question, and the group of each in `why`.
GROUPS: Mapping[str, str] = {
    "topic": "rank", "behind": "rank", "best_topic": "rank", "total": "rank", "low_total": "rank", "share": "rank",
    "first": "rank", "similarity": "meaning", "stands_out": "meaning", "core": "words", "terms": "words",
    "names": "names", "only_names": "names", "has_value": "values", "lacks_value": "values", "lacks_head": "words",
    "date": "time", "lacks_date": "time", "anchor": "time", "is_update": "update", "is_outdated": "update",
    "still_valid": "update", "contrary": "words", "attribute": "attribute",
    "preference": "preference", "unknown": "words", "lists": "list", "first_person": "question",
    "length": "question", "past": "question", "joins": "question", "confirms": "question", "timed": "question",
    "named": "question", "of_others": "question",
}  # fmt: skip

# The measures of the question alone, which are the same for every candidate: the last groups. Some kinds of questions
# have an answer more often than others.
QUESTION_MEASURES = (
    "unknown", "lists", "first_person", "length", "past", "joins", "confirms", "timed", "named", "of_others",
)  # fmt: skip

# A table of measures has a row for each measure and a column for each candidate. These are the row numbers. The measure
# `later` has a weight for the topic only, and no group.
ROWS: Mapping[str, int] = {name: row for row, name in enumerate((*GROUPS, "later"))}
_QUESTION_ROWS = slice(ROWS[QUESTION_MEASURES[0]], ROWS[QUESTION_MEASURES[-1]] + 1)
UPDATE_ROWS: Mapping[str, int] = {name: row for row, name in enumerate((
    "similarity_of_both", "behind", "terms", "has_value", "change", "supposition", "addition", "days_later", "place",
    "similarity", "core", "asks", "names", "same_value", "always", "past", "lists", "age", "similarity_of_old",
    "few_terms", "confirms", "happened", "timed", "attribute", "linked",
))}  # fmt: skip


class Candidates(NamedTuple):
    """The candidates as columns, best ranked first.

    `totals` are the weighted sums of the candidates' signals, and `signal_log_odds` the log odds computed from these
    sums. `explicit` is what a candidate gains because a user has linked it: by an alias, a supersession or a
    relationship. `holds` has a row for each term of the question: 1 for candidates with the term, less for candidates
    with a similar term, else 0. If the question has the word "before", `anchor` is the share of the terms after that
    word that a candidate has. `contrary` is 1 for a candidate that names an alternative to a word of the question
    (alternatives.py). `preference` is what a candidate gains by its importance and its session for any question.
    `evidence` has the columns of AttributeEvidence, and `rare` has the names, numbers and unusual words of each text;
    both are empty if the question asks for no known attribute.
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


class QuestionProfile(NamedTuple):
    """A question, prepared for judging candidates.

    Core terms are terms that are neither names nor general words. `terms_and_core` has two rows: the share of each term
    in the weight of all terms, and in the weight of the core terms. `names` has the share of each term in the weight of
    all names; it is None without names. `terms` and `cores` count all terms and the core terms. `traits` is a column
    with the QUESTION_MEASURES; the first is the share of the core terms, by weight, that no memory of the scope has,
    divided by the number of core terms. `timed` says that the question names a time, and
    `anchored` that it has the word "before". `head` is the index of the term for the thing asked for ("colour" in
    "which colour"), if the question names one. `numbers` are the indexes of the terms that distinguish things of one
    kind ("7" in "room 7").
    """

    intent: Intent
    terms_and_core: Numbers
    names: Numbers | None
    terms: int
    cores: int
    traits: Numbers
    timed: bool
    anchored: bool
    now: int
    head: int | None = None
    numbers: Sequence[int] = ()


class Shares(NamedTuple):
    """The share of the question's terms that each candidate has, by weight: of all terms, core terms and names.

    `has_value` is 1 if a candidate has a value of the kind asked for, such as a date, and `lacks_value` is 1 if not;
    both are 0 if the question asks for no kind of value. `attribute` says how clearly it states the attribute asked
    for, of the thing asked about.
    """

    terms: Numbers
    core: Numbers
    names: Numbers | float
    has_value: Numbers | float
    lacks_value: Numbers | float
    attribute: Numbers


def profile_question(question: Question, words: Sequence[Word], known: Sequence[bool], now: int) -> QuestionProfile:
    """Return the weights of a question's terms. `known` says for each term whether the scope has it."""
    intent = question.intent
    weights: list[float] = []
    names: list[float] = []
    core: list[float] = []
    unknown = 0.0
    for word, is_known in zip(words, known, strict=True):
        is_name = word.term in intent.names
        is_core = not is_name and word.term not in _NOT_CORE
        weights.append(word.weight)
        names.append(word.weight if is_name else 0.0)
        core.append(word.weight if is_core else 0.0)
        unknown += word.weight if is_core and not is_known else 0.0
    total_weight, name_weight, core_weight = sum(weights) or 1.0, sum(names), sum(core) or 1.0
    cores = len(core) - core.count(0.0)
    return QuestionProfile(
        intent,
        np.array([[weight / total_weight for weight in weights], [weight / core_weight for weight in core]]),
        np.array(names) / name_weight if name_weight else None,
        len(words),
        cores,
        _measure_question(question, unknown / core_weight / max(cores, 1), is_named=bool(name_weight)),
        bool(question.times),
        bool(question.anchor),
        now,
        next((index for index, word in enumerate(words) if word.term == intent.head), None) if intent.head else None,
        [index for index, word in enumerate(words) if word.term in intent.numbers] if intent.numbers else (),
    )


def _measure_question(question: Question, unknown: float, *, is_named: bool) -> Numbers:
    """Return the QUESTION_MEASURES as a column."""
    intent = question.intent
    measures = (
        unknown,
        intent.lists,
        intent.first_person,
        math.log(max(intent.words, 1)),
        intent.past,
        intent.joins,
        intent.confirms,
        bool(question.times),
        is_named,
        bool(intent.asked.people),
    )
    return np.array(measures, np.float64, ndmin=2).T


def find_terms(rows: Rows, words: Sequence[Word]) -> Numbers:
    """Return a matrix of words and rows: 1 if the row has the word, less if it has a similar one, else 0."""
    scores = np.zeros((len(words), len(rows)))
    for word_scores, word in zip(scores, words, strict=True):
        word_scores[:] = has_term(rows, word.rows)
        for similar_rows, similarity in word.similar:
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
    attribute = np.zeros(len(terms))
    if profile.intent.asked.attributes:
        attribute = candidates.evidence[:, STATED] * candidates.evidence[:, THINGS] * (1.0 - candidates.contrary)
    value_features = profile.intent.values
    if not value_features:
        return Shares(terms, core, names, 0.0, 0.0, attribute)
    has_value = ((candidates.features & value_features) != 0).astype(np.float64)
    return Shares(terms, core, names, has_value, 1.0 - has_value, attribute)


def measure_fit(candidates: Candidates, profile: QuestionProfile, shares: Shares) -> Numbers:
    """Return a table with the measures that need only the candidate itself. The rows of other measures are 0."""
    per_core = 1 / profile.cores if profile.cores else 0.0
    table = np.zeros((len(ROWS), len(candidates.totals)))
    table[ROWS["total"]] = candidates.totals
    np.minimum(candidates.totals - _LOW_TOTAL, 0.0, out=table[ROWS["low_total"]])
    table[ROWS["similarity"]] = candidates.similarity
    _measure_distance(candidates.similarity, out=table[ROWS["stands_out"]])
    table[ROWS["core"]] = shares.core
    table[ROWS["terms"]] = shares.terms
    table[ROWS["names"]] = shares.names
    table[_QUESTION_ROWS] = profile.traits
    table[ROWS["contrary"]] = candidates.contrary
    table[ROWS["attribute"]] = shares.attribute
    table[ROWS["preference"]] = candidates.preference
    if profile.names is not None:
        table[ROWS["only_names"]] = (shares.names > 0) * (1 - shares.core) ** 2 * per_core
    if profile.intent.values:
        table[ROWS["has_value"]] = shares.has_value
        table[ROWS["lacks_value"]] = shares.lacks_value
    if profile.head is not None:
        table[ROWS["lacks_head"]] = 1.0 - candidates.holds[profile.head]
    if profile.timed:
        table[ROWS["date"]] = candidates.dates
        table[ROWS["lacks_date"]] = 1.0 - candidates.dates
    if profile.anchored:
        table[ROWS["anchor"]] = candidates.anchor
        table[ROWS["later"]] = _measure_later(candidates, shares)
    return table


def _measure_distance(similarity: Numbers, out: Numbers) -> None:
    """Write into `out` how far each similarity is above the mean of all, in standard deviations.

    The similarities of one person's memories may all be lower than those of another's.
    """
    values = similarity.tolist()
    # For so few numbers, sums in Python are faster than mean() and std() of NumPy.
    mean = sum(values) / len(values)
    variance = sum([value * value for value in values]) / len(values) - mean * mean
    np.subtract(similarity, mean, out=out)
    out /= max(math.sqrt(max(variance, 0.0)), _MIN_DEVIATION)


def find_anchor(candidates: Candidates, shares: Shares) -> int | None:
    """Return the oldest candidate with the words after "before"; None if there is none.

    If candidates with most of these words state the attribute asked for, others with the words are mere mentions.
    """
    best = float(candidates.anchor.max())
    has_anchor = candidates.anchor == max(best, _MIN_ANCHOR)
    is_stated = has_anchor & (shares.attribute > 0)
    if not is_stated.any():
        is_stated = candidates.anchor == 1.0
    indexes = np.flatnonzero(is_stated)
    return int(indexes[candidates.when[indexes].argmin()]) if len(indexes) else None


def _measure_later(candidates: Candidates, shares: Shares) -> Numbers | float:
    """Return 1 for each candidate that is not older than the anchor."""
    anchor = find_anchor(candidates, shares)
    return 0.0 if anchor is None else (candidates.when >= candidates.when[anchor]).astype(np.float64)


def compare_with_best(table: Numbers, topic: Numbers, chain: Sequence[int], valid: float) -> None:
    """Fill in the measures that compare each candidate with the candidate that fits the topic best.

    `chain` has the versions of one fact, the newest last, and `valid` is the chance that the first is still valid.
    """
    table[ROWS["still_valid"]] = 1.0
    if len(chain) > 1:
        topic = topic.copy()
        topic[chain[-1]] = max(topic[chain[-1]], topic.max() + 0.01)
        outdated = list(chain[:-1])
        table[ROWS["is_update"], chain[-1]] = 1.0
        table[ROWS["is_outdated"], outdated] = 1.0
        table[ROWS["still_valid"], outdated] = valid
        table[ROWS["attribute"], outdated] = 0.0
    first = topic.argmax()
    behind = topic[first] - topic
    share = np.exp(-behind)
    table[ROWS["topic"]] = topic
    np.minimum(behind, _FAR_BEHIND, out=table[ROWS["behind"]])
    table[ROWS["best_topic"]] = topic[first]
    np.divide(share, share.sum(), out=table[ROWS["share"]])
    table[ROWS["first"], first] = 1.0


def measure_update(
    candidates: Candidates, profile: QuestionProfile, shares: Shares, topic: Numbers, old: int
) -> Numbers:
    """Return a table with measures of whether each candidate is an update of the candidate `old`.

    The measures are meaningful only for candidates that are newer than `old`.
    """
    features, intent = candidates.features, profile.intent
    days_later = np.maximum((candidates.when - candidates.when[old]) / DAY, _MIN_DAYS)
    days_of_age = max((profile.now - int(candidates.when[old])) / DAY, _MIN_DAYS)
    linked = _measure_linked(candidates, old)
    table = np.zeros((len(UPDATE_ROWS), len(topic)))
    table[UPDATE_ROWS["similarity_of_both"]] = np.vecdot(candidates.vectors, candidates.vectors[old])
    table[UPDATE_ROWS["behind"]] = topic[old] - topic
    table[UPDATE_ROWS["terms"]] = shares.terms
    table[UPDATE_ROWS["has_value"]] = shares.has_value
    table[UPDATE_ROWS["change"]] = (features & CHANGE) != 0
    table[UPDATE_ROWS["supposition"]] = (features & SUPPOSITION) != 0
    table[UPDATE_ROWS["addition"]] = (features & ADDITION) != 0
    table[UPDATE_ROWS["days_later"]] = np.log1p(days_later)
    table[UPDATE_ROWS["place"]] = np.log1p(np.arange(len(topic)))
    table[UPDATE_ROWS["similarity"]] = candidates.similarity
    table[UPDATE_ROWS["core"]] = shares.core
    table[UPDATE_ROWS["asks"]] = candidates.asks
    table[UPDATE_ROWS["names"]] = shares.names
    table[UPDATE_ROWS["same_value"]] = (features & features[old] & _VALUES) != 0
    table[UPDATE_ROWS["always"]] = 1.0
    table[UPDATE_ROWS["past"]] = intent.past
    table[UPDATE_ROWS["lists"]] = intent.lists
    table[UPDATE_ROWS["age"]] = math.log1p(days_of_age)
    table[UPDATE_ROWS["similarity_of_old"]] = candidates.similarity[old]
    table[UPDATE_ROWS["few_terms"]] = profile.terms <= _FEW_TERMS
    table[UPDATE_ROWS["confirms"]] = intent.confirms
    table[UPDATE_ROWS["happened"]] = intent.happened
    table[UPDATE_ROWS["timed"]] = profile.timed
    if candidates.evidence[old, STATED]:
        things = np.maximum(candidates.evidence[:, THINGS], linked)
        table[UPDATE_ROWS["attribute"]] = candidates.evidence[:, CHANGED] * things * candidates.evidence[old, STATED]
    table[UPDATE_ROWS["linked"]] = linked
    return table


def measure_other_numbers(candidates: Candidates, profile: QuestionProfile, old: int) -> Numbers:
    """Return 1 for each candidate that lacks a number which the question and the candidate `old` both name, else 0.

    For a question about gate 7, "The code of gate 9 is 42" does not update "The code of gate 7 is 41". For a question
    that wants a yes or a no, the result is 0, because its number may be a wrong guess.
    """
    others: Numbers = np.zeros(len(candidates.totals))
    for index in () if profile.intent.confirms else profile.numbers:
        if candidates.holds[index, old] == 1.0:
            others[candidates.holds[index] == 0.0] = 1.0
    return others


def _measure_linked(candidates: Candidates, old: int) -> Numbers | float:
    """Return 1 for each candidate that repeats a name, a number or an unusual word of the candidate `old`, else 0."""
    terms = candidates.rare[old]
    return np.array([not terms.isdisjoint(rare) for rare in candidates.rare], np.float64) if terms else 0.0
