"""The retrievers: each says how well every row of an image fits a question in one respect, from 0 to 1.

`own` looks at the row itself. For turns of a conversation the same is asked of the turns around it (`near`, `around`,
`before`, `wide`) and of the best of its session; for any other row those are what `own` is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect.ports.thesaurus import Thesaurus
from recollect.recall.image import Image
from recollect.recall.postings import Posting, Rows
from recollect.recall.question import Question
from recollect.recall.recipe import Recipe
from recollect.recall.spelling import respelled
from recollect.recall.threads import Threads
from recollect.text.terms import QUESTION_MARK

Signal = NDArray[np.float64]

_DAY = 86_400_000_000
_TOLD_LATER = 14 * _DAY
_TOLD_BEFORE = 3 * _DAY
_LONG = 8 * _DAY
_HALF_AGE = 30
_MOST_ALIKE = 8
_WORDS_AS_MEANING = 0.6
_TIME_WORDS = (
    "yesterday", "today", "tonight", "tomorrow", "last", "next", "ago", "week", "month", "year", "weekend", "recent",
    "sinc", "morn", "even", "night", "summer", "winter", "spring", "fall", "monday", "tuesday", "wednesday",
    "thursday", "friday", "saturday", "sunday", "januari", "februari", "march", "april", "may", "june", "juli",
    "august", "septemb", "octob", "novemb", "decemb", *(str(year) for year in range(1990, 2040)),
)  # fmt: skip


class Word(NamedTuple):
    """A term of the question: its rarity as a share of all terms', and the rows that hold it or a slip of it."""

    term: str
    weight: float
    rows: Rows
    counts: NDArray[np.float32]

    def gives(self, row: int) -> float:
        at = int(self.rows.searchsorted(row))
        return self.weight if at < len(self.rows) and self.rows[at] == row else 0.0


def words_of(image: Image, question: Question, weights: Sequence[float]) -> list[Word]:
    """The question's terms as the image holds them."""
    found = []
    for term, weight in zip(question.terms, weights, strict=True):
        rows, counts = image.postings.find(term)
        if not len(rows):
            rows, counts = _holding_any(image, respelled(term, image.postings.terms))
        found.append(Word(term, weight, rows, counts))
    return found


def _holding_any(image: Image, terms: Sequence[str]) -> Posting:
    """The rows that hold any of these terms, and how often all of them."""
    if len(terms) == 1:
        return image.postings.find(terms[0])
    counts = np.zeros(image.size, np.float32)
    for term in terms:
        rows, often = image.postings.find(term)
        counts[rows] += often
    rows = np.flatnonzero(counts).astype(np.int32)
    return Posting(rows, counts[rows])


def sense(
    image: Image, question: Question, words: Sequence[Word], recipe: Recipe, thesaurus: Thesaurus, now: int
) -> dict[str, Signal]:
    """What each retriever that the recipe uses says of every row."""
    threads = image.threads if recipe.looks_around else None
    found: dict[str, Signal] = {}
    if recipe.uses("words"):
        found |= _by_words(image, words, recipe, threads)
    if recipe.uses("meaning"):
        found |= _by_meaning(image, question, threads, found.get("words.own"))
    if recipe.uses("alike"):
        found["alike"] = _by_words_alike(image, words, thesaurus)
    if recipe.uses("time"):
        found |= _by_time(image, question)
    if recipe.uses("speaker"):
        found |= _by_speaker(image, question, threads)
    if recipe.uses("name"):
        found |= _by_name(image, question)
    if recipe.uses("importance"):
        found["importance"] = image.column("importance").astype(np.float64)
    if recipe.uses("recency"):
        age = np.maximum(now - image.column("when"), 0) // _DAY
        found["recency"] = _HALF_AGE / (age + _HALF_AGE)
    return found


def _by_meaning(image: Image, question: Question, threads: Threads | None, words: Signal | None) -> dict[str, Signal]:
    """How near the vectors are. Where the model knows no vector, of the question or of a row, sharing words stands in
    for it, as far as the recipe looks at words at all."""
    found: dict[str, Signal] = {}
    for name, vector in (("meaning", question.vector), ("voice", question.voice if question.voiced else None)):
        if name == "voice" and vector is None:
            continue
        own = np.vecdot(image.vectors, vector).astype(np.float64) if vector is not None else np.zeros(image.size)
        if words is not None:
            blank = image.column("blank") if vector is not None else slice(None)
            own[blank] = _WORDS_AS_MEANING * words[blank]
        found[f"{name}.own"] = own
        if threads is not None:
            turns = own[threads.rows]
            for window in ("near", "around"):
                found[f"{name}.{window}"] = threads.placed(own, threads.mean(turns, window))
            found[f"{name}.session"] = threads.placed(own, threads.best(turns))
    return found


def _by_words(image: Image, words: Sequence[Word], recipe: Recipe, threads: Threads | None) -> dict[str, Signal]:
    """`own`: the share of the question's terms that a row holds, each by its rarity; `often`: how often, as BM25."""
    own, often = np.zeros(image.size), np.zeros(image.size)
    damping = image.damping(*recipe.damping)
    for word in words:
        own[word.rows] += word.weight
        often[word.rows] += word.weight * word.counts / (damping[word.rows] + word.counts)
    found = {"words.own": own, "words.often": often}
    if threads is None:
        return found
    held = [(word.weight, threads.places(word.rows)) for word in words]
    for window in ("before", "around", "wide"):
        turns = np.zeros(len(threads.rows))
        for weight, places in held:
            turns += weight * threads.held(places, window)
        found[f"words.{window}"] = threads.placed(own, turns)
    return found


def _by_words_alike(image: Image, words: Sequence[Word], thesaurus: Thesaurus) -> Signal:
    """The share of the question's terms that a row holds; a word that means nearly the same counts by its likeness."""
    total = np.zeros(image.size)
    for word in words:
        best = np.zeros(image.size)
        for other, likeness in reversed(thesaurus.alike(word.term)[:_MOST_ALIKE]):
            best[image.postings.find(other).rows] = likeness
        best[word.rows] = 1.0
        total += word.weight * best
    return total


def _by_time(image: Image, question: Question) -> dict[str, Signal]:
    """`date`: whether a row is from a time that the question names, or tells of it soon after. `timed`: whether it
    tells of a time at all, and `when`: the same if the question asks for one."""
    timed = image.cached("timed", _tell_a_time)
    found = {"timed": timed}
    if question.when:
        found["when"] = timed
    if question.times:
        date = np.zeros(image.size)
        for start, end in question.times:
            np.maximum(date, _falls_in(image.column("when"), start, end), out=date)
        found["date"] = date
    return found


def _tell_a_time(image: Image) -> Signal:
    found = np.zeros(image.size)
    for word in _TIME_WORDS:
        found[image.postings.find(word).rows] = 1.0
    return found


def _falls_in(when: NDArray[np.int64], start: int, end: int) -> Signal:
    """A day or a week is met exactly, or a little beside it by what tells of it; of a month or more there is less to
    be concluded."""
    inside = (when >= start) & (when < end)
    if end - start > _LONG:
        return np.where(inside, 0.5, 0.0)
    told_later = (when >= end) & (when - _TOLD_LATER < end)
    told_before = (when < start) & (when + _TOLD_BEFORE >= start)
    return np.where(inside, 1.0, np.where(told_later, 0.5, np.where(told_before, 0.2, 0.0)))


def _by_speaker(image: Image, question: Question, threads: Threads | None) -> dict[str, Signal]:
    """`speaker`: whether the question names who said it. `asking`: whether it is itself a question, and `answering`:
    whether it follows one."""
    asking = np.zeros(image.size)
    asking[image.postings.find(QUESTION_MARK).rows] = 1.0
    found = {"asking": asking}
    if threads is not None:
        found["answering"] = threads.placed(np.zeros(image.size), threads.before(asking[threads.rows]))
    if question.speakers:
        codes = [image.code("speaker", speaker) for speaker in question.speakers]
        named = np.isin(image.column("speaker"), codes).astype(np.float64)
        found["speaker"] = threads.placed(named, named[threads.rows]) if threads is not None else named
    return found


def _by_name(image: Image, question: Question) -> dict[str, Signal]:
    """Whether the question calls a memory by what it is explicitly also called."""
    named = [row for alias, row in image.aliases if question.words.issuperset(alias)]
    if not named:
        return {}
    found = np.zeros(image.size)
    found[named] = 1.0
    return {"name": found}
