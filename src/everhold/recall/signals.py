"""Retrievers. Each computes a signal from 0 to 1 for every row of an image, which says how well the row fits a
question.

`own` is the signal of the row itself. A turn of a conversation also has signals of the turns around it (`near`,
`around`, `before`, `wide`) and of the best turn of its session (`session`). For other rows these signals equal `own`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from everhold.ports.thesaurus import NO_THESAURUS, Thesaurus
from everhold.recall.image import ALWAYS, Image
from everhold.recall.postings import Posting, Rows
from everhold.recall.question import OwnName, Question
from everhold.recall.recipe import Recipe
from everhold.recall.spelling import find_respellings
from everhold.recall.threads import Threads
from everhold.text.terms import QUESTION_MARK

Signal = NDArray[np.floating[Any]]

DAY = 86_400_000_000  # microseconds
STATIC_SIGNALS = ("importance", "recency", "timed", "asking", "answering")
_TOLD_LATER = 14 * DAY
_TOLD_BEFORE = 3 * DAY
_LONG = 8 * DAY
# The factor for rows that have only a time of storing, not the time of an event: a fact may be stated at any time.
_STORED_SHARE = 0.2
_HALF_AGE = 30
# The maximum number of similar words used for a term of the question. Less similar words mean something else.
MAX_SIMILAR_WORDS = 8
_WORDS_AS_MEANING = 0.6
# The maximum number of question terms whose respellings, and whose rows of similar words, are cached.
_MAX_KEPT_TERMS = 1000
_TIME_WORDS = (
    "yesterday", "today", "tonight", "tomorrow", "last", "next", "ago", "week", "month", "year", "weekend", "recent",
    "sinc", "morn", "even", "night", "summer", "winter", "spring", "fall", "monday", "tuesday", "wednesday",
    "thursday", "friday", "saturday", "sunday", "januari", "februari", "march", "april", "may", "june", "juli",
    "august", "septemb", "octob", "novemb", "decemb", *(str(year) for year in range(1990, 2040)),
)  # fmt: skip


class Word(NamedTuple):
    """A term of the question: its share of the rarity of all terms, and the rows that have it or a respelling of it.

    `similar` has pairs, the most similar word first: the rows of a word that is similar to the term, and its
    similarity.
    """

    term: str
    weight: float
    rows: Rows
    counts: NDArray[np.float32]
    similar: Sequence[tuple[Rows, float]] = ()

    def find_weight(self, row: int) -> float:
        index = int(self.rows.searchsorted(row))
        return self.weight if index < len(self.rows) and self.rows[index] == row else 0.0


def find_words(
    image: Image,
    terms: Sequence[str],
    weights: Sequence[float],
    postings: Sequence[Posting],
    thesaurus: Thesaurus = NO_THESAURUS,
    *,
    with_similar: bool = False,
) -> list[Word]:
    """Return the question's terms, each with the rows that have it and the rows that have similar words.

    A term that no row has may be misspelt. Then the rows with similar spellings count, unless the thesaurus knows the
    word.
    """
    words = []
    for term, weight, posting in zip(terms, weights, postings, strict=True):
        may_be_misspelt = not len(posting.rows) and not thesaurus.find_similar(term)
        respellings = _find_respellings(image, term) if may_be_misspelt else ()
        rows, counts = _find_any(image, respellings) if respellings else posting
        similar = find_similar_rows(image, term, thesaurus) if with_similar else ()
        words.append(Word(term, weight, rows, counts, similar))
    return words


def _find_respellings(image: Image, term: str) -> Sequence[str]:
    """Return the terms of the image that a misspelt term may have been meant for.

    They are cached until the image changes, because questions share words and several hundred spellings are tried.
    """
    respellings: dict[str, Sequence[str]] = image.compute_once("respellings", lambda _: {})
    if term not in respellings:
        if len(respellings) >= _MAX_KEPT_TERMS:
            respellings.clear()
        respellings[term] = find_respellings(term, image.postings.terms)
    return respellings[term]


def find_similar_rows(image: Image, term: str, thesaurus: Thesaurus) -> Sequence[tuple[Rows, float]]:
    """Return the rows of each word that is similar to a term, with the word's similarity, most similar word first.

    They are kept until the image changes, because questions share words.
    """
    kept: dict[str, Sequence[tuple[Rows, float]]] = image.compute_once("similar rows", lambda _: {}, thesaurus)
    if term not in kept:
        if len(kept) >= _MAX_KEPT_TERMS:
            kept.clear()
        similar = thesaurus.find_similar(term)[:MAX_SIMILAR_WORDS]
        rows_by_word = [(image.postings.find(word).rows, similarity) for word, similarity in similar]
        kept[term] = [(rows, similarity) for rows, similarity in rows_by_word if len(rows)]
    return kept[term]


def _find_any(image: Image, terms: Sequence[str]) -> Posting:
    """Return the rows that have any of these terms, and how often each row has them in total."""
    if len(terms) == 1:
        return image.postings.find(terms[0])
    counts = np.zeros(image.size, np.float32)
    for term in terms:
        rows, often = image.postings.find(term)
        counts[rows] += often
    rows = np.flatnonzero(counts).astype(np.int32)
    return Posting(rows, counts[rows])


def compute_signals(
    image: Image, question: Question, words: Sequence[Word], recipe: Recipe, now: int
) -> dict[str, Signal]:
    """Return the signals of the retrievers that the recipe uses."""
    threads = image.threads if recipe.looks_around else None
    signals: dict[str, Signal] = dict(compute_static_signals(image, now))
    if recipe.uses("words"):
        signals |= _score_words(image, words, recipe, threads)
    if recipe.uses("meaning"):
        signals |= _score_meaning(image, question, threads, signals.get("words.own"))
    if recipe.uses("similar"):
        signals["similar"] = _score_similar_words(image, words, signals.get("words.own"))
    if recipe.uses("time"):
        signals |= _score_times(image, question, signals["timed"])
    if recipe.uses("speaker"):
        signals |= _score_speaker(image, question, threads)
    if recipe.uses("name"):
        signals |= _score_aliases(image, question)
    if question.session is not None and recipe.uses("session"):
        signals["session"] = (image.column("session_id") == image.code("session_id", question.session)).astype(
            np.float64
        )
    return signals


def compute_static_signals(image: Image, now: int) -> Mapping[str, Signal]:
    """Return the signals that are the same for every question of a day.

    `importance` is the row's importance, and `recency` falls to one half after a month. `timed` says whether the row
    mentions a time, `asking` whether it is a question, and `answering` whether it follows a question.
    """
    today = now // DAY
    signals: Mapping[str, Signal] = image.compute_once(
        "static signals", lambda image: _compute_static_signals(image, today), today
    )
    return signals


def _compute_static_signals(image: Image, today: int) -> dict[str, Signal]:
    """Return the signals of each memory that do not depend on the question."""
    age = np.maximum(today - image.column("when") // DAY, 0)
    timed, asking = np.zeros(image.size), np.zeros(image.size)
    for word in _TIME_WORDS:
        timed[image.postings.find(word).rows] = 1.0
    asking[image.postings.find(QUESTION_MARK).rows] = 1.0
    signals: dict[str, Signal] = {
        "importance": image.column("importance").astype(np.float64),
        "recency": _HALF_AGE / (age + _HALF_AGE),
        "timed": timed,
        "asking": asking,
    }
    if image.threads is not None:
        turns = image.threads.take_previous(asking[image.threads.rows])
        signals["answering"] = image.threads.place_values(np.zeros(image.size), turns)
    # single precision is enough for these signals and takes half the memory
    return {name: values.astype(np.float32) for name, values in signals.items()}


def _score_meaning(
    image: Image, question: Question, threads: Threads | None, words: Signal | None
) -> dict[str, Signal]:
    """Return the cosine of the question's vector and each row's vector, and its means over neighbouring turns.

    If the question or a row has no vector, the words that they share count instead, if the recipe uses words.
    """
    signals: dict[str, Signal] = {}
    for name, vector in (("meaning", question.vector), ("voice", question.voice if question.voiced else None)):
        if name == "voice" and vector is None:
            continue
        own = np.vecdot(image.vectors, vector).astype(np.float64) if vector is not None else np.zeros(image.size)
        if words is not None and (vector is None or image.has_blanks):
            blank = image.column("blank") if vector is not None else slice(None)
            own[blank] = _WORDS_AS_MEANING * words[blank]
        if question.own_name is not None and name == "meaning":
            _compare_in_third_person(own, image, question.own_name, threads)
        signals[f"{name}.own"] = own
        if threads is not None:
            turns = own[threads.rows]
            for window in ("near", "around"):
                signals[f"{name}.{window}"] = threads.place_values(own, threads.mean(turns, window))
            signals[f"{name}.session"] = threads.place_values(own, threads.best(turns))
    return signals


def _compare_in_third_person(own: Signal, image: Image, name: OwnName, threads: Threads | None) -> None:
    """Raise the similarity of rows with the asking user's name to that of the question with the name for "I".

    Turns are left out, because their speakers may talk about others with that name.
    """
    rows = image.postings.find(name.term).rows
    if threads is not None:
        rows = rows[~np.isin(rows, threads.rows)]
    if len(rows):
        # `name.question` has no part in the direction of the name, so the name in a row adds nothing.
        own[rows] = np.maximum(own[rows], image.vectors[rows] @ name.question)


def _score_words(image: Image, words: Sequence[Word], recipe: Recipe, threads: Threads | None) -> dict[str, Signal]:
    """Return signals for shared terms: `own` is the share of the question's terms, by rarity, and `often` is BM25."""
    own = _sum_held_terms(image, words)
    signals: dict[str, Signal] = {"words.own": own}
    if recipe.weights.get("words.often"):
        signals["words.often"] = _score_bm25(image, words, recipe)
    if threads is None:
        return signals
    word_places = [(word.weight, threads.find_places(word.rows)) for word in words]
    for window in ("before", "around", "wide"):
        turns = np.zeros(len(threads.rows))
        for weight, places in word_places:
            turns += weight * threads.find_windows_with(places, window)
        signals[f"words.{window}"] = threads.place_values(own, turns)
    return signals


def _sum_held_terms(image: Image, words: Sequence[Word]) -> Signal:
    if not words:
        return np.zeros(image.size)
    rows = np.concatenate([word.rows for word in words])
    weights = np.repeat([word.weight for word in words], [len(word.rows) for word in words])
    return cast("Signal", np.bincount(rows, weights, image.size))


def _score_bm25(image: Image, words: Sequence[Word], recipe: Recipe) -> Signal:
    often = np.zeros(image.size)
    damping = image.compute_damping(*recipe.damping)
    for word in words:
        often[word.rows] += word.weight * word.counts / (damping[word.rows] + word.counts)
    return often


def _score_similar_words(image: Image, words: Sequence[Word], own: Signal | None) -> Signal:
    """Return the share of the question's terms that each row has, where a similar word counts by its similarity."""
    total = own if own is not None else _sum_held_terms(image, words)
    for word in words:
        if not word.similar:
            continue
        best = np.zeros(image.size)
        for rows, similarity in reversed(word.similar):
            best[rows] = similarity
        best[word.rows] = 0.0  # rows with the word itself are already counted in `own`
        total = total + word.weight * best
    return total


def _score_times(image: Image, question: Question, timed: Signal) -> dict[str, Signal]:
    """Return the signals `date` and `when`.

    `date` says whether a row is from a period that the question names, or from soon after. `when` says whether the row
    mentions a time; it exists if the question asks for a time.
    """
    signals: dict[str, Signal] = {}
    if question.when:
        signals["when"] = timed
    if question.times:
        date = np.zeros(image.size)
        for start, end in question.times:
            np.maximum(date, _score_span(image.column("when"), start, end), out=date)
        signals["date"] = date * image.compute_once("date shares", _find_date_shares)
    return signals


def _find_date_shares(image: Image) -> Signal:
    """Return 1 for each row whose event has a known time, and less for a row that has only the time of storing.

    A turn of a conversation is an event itself.
    """
    shares = np.where(image.column("occurred_at") == ALWAYS, _STORED_SHARE, 1.0)
    if image.threads is not None:
        shares[image.threads.rows] = 1.0
    return shares


def _score_span(when: NDArray[np.int64], start: int, end: int) -> Signal:
    """Return for each time how well it fits a period: 1 inside, less shortly after or before it, else 0.

    Times shortly after a day or a week count half, because people mention things later. If the period is longer than
    `_LONG`, times inside count half and others 0.
    """
    inside = (when >= start) & (when < end)
    if end - start > _LONG:
        return np.where(inside, 0.5, 0.0)
    told_later = (when >= end) & (when - _TOLD_LATER < end)
    told_before = (when < start) & (when + _TOLD_BEFORE >= start)
    return np.where(inside, 1.0, np.where(told_later, 0.5, np.where(told_before, 0.2, 0.0)))


def _score_speaker(image: Image, question: Question, threads: Threads | None) -> dict[str, Signal]:
    """Return 1 for rows whose speaker the question names, else 0; no signal if it names no speaker."""
    if not question.speakers:
        return {}
    codes = [image.code("speaker", speaker) for speaker in question.speakers]
    named = np.isin(image.column("speaker"), codes).astype(np.float64)
    return {"speaker": threads.place_values(named, named[threads.rows]) if threads is not None else named}


def _score_aliases(image: Image, question: Question) -> dict[str, Signal]:
    """Return 1 for rows of memories with an alias that occurs in the question, else 0; no signal if none does."""
    rows = [row for alias, row in image.aliases if question.words.issuperset(alias)]
    if not rows:
        return {}
    signal = np.zeros(image.size)
    signal[rows] = 1.0
    return {"name": signal}
