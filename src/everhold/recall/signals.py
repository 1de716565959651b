"""The retrievers: each says how well every row of an image fits a question in one respect, from 0 to 1.

`own` looks at the row itself. For turns of a conversation the same is asked of the turns around it (`near`, `around`,
`before`, `wide`) and of the best of its session; for any other row those are what `own` is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.recall.image import ALWAYS, Image
from everhold.recall.postings import Posting, Rows
from everhold.recall.question import Question
from everhold.recall.recipe import Recipe
from everhold.recall.spelling import respelled
from everhold.recall.threads import Threads
from everhold.text.terms import QUESTION_MARK

Signal = NDArray[np.floating[Any]]

DAY = 86_400_000_000
"""In microseconds."""
STANDING = ("importance", "recency", "timed", "asking", "answering")
_TOLD_LATER = 14 * DAY
_TOLD_BEFORE = 3 * DAY
_LONG = 8 * DAY
_STORED_SHARE = 0.2
"""How much the time of storing counts beside the time of an event: a fact may be told at any time."""
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


def words_of(
    image: Image,
    terms: Sequence[str],
    weights: Sequence[float],
    postings: Sequence[Posting],
    thesaurus: Thesaurus = NO_THESAURUS,
) -> list[Word]:
    """Return the question's terms as the image holds them.

    One that it does not hold may be a slip of some that it does. A word that the thesaurus knows exists and is no slip.
    """
    found = []
    for term, weight, posting in zip(terms, weights, postings, strict=True):
        is_slip = not len(posting.rows) and not thesaurus.find_similar(term)
        meant = respelled(term, image.postings.terms) if is_slip else ()
        found.append(Word(term, weight, *(_holding_any(image, meant) if meant else posting)))
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
    found: dict[str, Signal] = dict(standing(image, now))
    if recipe.uses("words"):
        found |= _by_words(image, words, recipe, threads)
    if recipe.uses("meaning"):
        found |= _by_meaning(image, question, threads, found.get("words.own"))
    if recipe.uses("alike"):
        found["alike"] = _by_words_alike(image, words, thesaurus, found.get("words.own"))
    if recipe.uses("time"):
        found |= _by_time(image, question, found["timed"])
    if recipe.uses("speaker"):
        found |= _by_speaker(image, question, threads)
    if recipe.uses("name"):
        found |= _by_name(image, question)
    if question.session is not None and recipe.uses("session"):
        found["session"] = (image.column("session_id") == image.code("session_id", question.session)).astype(np.float64)
    return found


def standing(image: Image, now: int) -> Mapping[str, Signal]:
    """What is the same for every question of a day.

    `importance`, and `recency`: half after a month. `timed`: whether a row tells of a time. `asking`: whether it is a
    question, and `answering`: whether it follows one.
    """
    today = now // DAY
    made: Mapping[str, Signal] = image.cached("standing", lambda image: _standing(image, today), today)
    return made


def _standing(image: Image, today: int) -> dict[str, Signal]:
    age = np.maximum(today - image.column("when") // DAY, 0)
    timed, asking = np.zeros(image.size), np.zeros(image.size)
    for word in _TIME_WORDS:
        timed[image.postings.find(word).rows] = 1.0
    asking[image.postings.find(QUESTION_MARK).rows] = 1.0
    found: dict[str, Signal] = {
        "importance": image.column("importance").astype(np.float64),
        "recency": _HALF_AGE / (age + _HALF_AGE),
        "timed": timed,
        "asking": asking,
    }
    if image.threads is not None:
        turns = image.threads.before(asking[image.threads.rows])
        found["answering"] = image.threads.placed(np.zeros(image.size), turns)
    # single precision takes half the room, and these need no more
    return {name: values.astype(np.float32) for name, values in found.items()}


def _by_meaning(image: Image, question: Question, threads: Threads | None, words: Signal | None) -> dict[str, Signal]:
    """How near the vectors are. Where the model knows no vector, of the question or of a row, sharing words stands in
    for it, as far as the recipe looks at words at all."""
    found: dict[str, Signal] = {}
    for name, vector in (("meaning", question.vector), ("voice", question.voice if question.voiced else None)):
        if name == "voice" and vector is None:
            continue
        own = np.vecdot(image.vectors, vector).astype(np.float64) if vector is not None else np.zeros(image.size)
        if words is not None and (vector is None or image.has_blanks):
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
    own = _holding(image, words)
    found: dict[str, Signal] = {"words.own": own}
    if recipe.weights.get("words.often"):
        found["words.often"] = _by_how_often(image, words, recipe)
    if threads is None:
        return found
    held = [(word.weight, threads.places(word.rows)) for word in words]
    for window in ("before", "around", "wide"):
        turns = np.zeros(len(threads.rows))
        for weight, places in held:
            turns += weight * threads.held(places, window)
        found[f"words.{window}"] = threads.placed(own, turns)
    return found


def _holding(image: Image, words: Sequence[Word]) -> Signal:
    if not words:
        return np.zeros(image.size)
    rows = np.concatenate([word.rows for word in words])
    weights = np.repeat([word.weight for word in words], [len(word.rows) for word in words])
    return cast("Signal", np.bincount(rows, weights, image.size))


def _by_how_often(image: Image, words: Sequence[Word], recipe: Recipe) -> Signal:
    often = np.zeros(image.size)
    damping = image.damping(*recipe.damping)
    for word in words:
        often[word.rows] += word.weight * word.counts / (damping[word.rows] + word.counts)
    return often


def _by_words_alike(image: Image, words: Sequence[Word], thesaurus: Thesaurus, own: Signal | None) -> Signal:
    """The share of the question's terms that a row holds; a word that means nearly the same counts by its likeness."""
    total = own if own is not None else _holding(image, words)
    for word in words:
        others = [
            (image.postings.find(term).rows, likeness)
            for term, likeness in thesaurus.find_similar(word.term)[:_MOST_ALIKE]
        ]
        if not any(len(rows) for rows, _ in others):
            continue
        best = np.zeros(image.size)
        for rows, likeness in reversed(others):
            best[rows] = likeness
        best[word.rows] = 0.0  # it is there itself, which `own` has counted
        total = total + word.weight * best
    return total


def _by_time(image: Image, question: Question, timed: Signal) -> dict[str, Signal]:
    """`date`: whether a row is from a time that the question names, or tells of it soon after. `when`: whether it tells
    of a time, if the question asks for one."""
    found: dict[str, Signal] = {}
    if question.when:
        found["when"] = timed
    if question.times:
        date = np.zeros(image.size)
        for start, end in question.times:
            np.maximum(date, _falls_in(image.column("when"), start, end), out=date)
        found["date"] = date * image.cached("date shares", _find_date_shares)
    return found


def _find_date_shares(image: Image) -> Signal:
    """Return 1 for each row with a known time of its event, and less for one that was merely stored at some time.

    A turn of a conversation is an event itself.
    """
    shares = np.where(image.column("occurred_at") == ALWAYS, _STORED_SHARE, 1.0)
    if image.threads is not None:
        shares[image.threads.rows] = 1.0
    return shares


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
    """Whether the question names who said it."""
    if not question.speakers:
        return {}
    codes = [image.code("speaker", speaker) for speaker in question.speakers]
    named = np.isin(image.column("speaker"), codes).astype(np.float64)
    return {"speaker": threads.placed(named, named[threads.rows]) if threads is not None else named}


def _by_name(image: Image, question: Question) -> dict[str, Signal]:
    """Whether the question calls a memory by what it is explicitly also called."""
    named = [row for alias, row in image.aliases if question.words.issuperset(alias)]
    if not named:
        return {}
    found = np.zeros(image.size)
    found[named] = 1.0
    return {"name": found}
