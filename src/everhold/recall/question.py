"""Read a question: its terms, its vector, and the people and times that it names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

import numpy as np

from everhold import clock
from everhold.ports.embedder import Embedder, Vector
from everhold.recall.intent import Intent, put_in_present, read_intent, split_before
from everhold.text.dates import find_time_spans, is_when_question
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.own_name import put_in_third_person
from everhold.text.terms import extract_terms, fold

MAX_NAME_WORDS = 4
_MIN_NAME_LENGTH = 3
# "What do I do for a living?" does not ask where somebody lives.
_IDIOM = lazy_pattern(r"\bfor a living\b", re.IGNORECASE)


class OwnName(NamedTuple):
    """The name of the asking user: its term, its vector, and the vector of the question with the name for "I".

    The part of the name is taken out of the vector of the question. Otherwise every memory that has the name would be
    similar to it.
    """

    term: str
    vector: Vector
    question: Vector


class Question(NamedTuple):
    """A question, read and embedded.

    `terms` are the distinct terms of the question, without the names of speakers, and `words` are all of its terms.
    `vector` is None if the model knows no word of the question. `speakers` are the full names of the speakers that the
    question names. `voice` is the vector of the question as such a speaker would ask it, with "I" for the name; it is
    the same object as `vector` if the question names no speaker. `times` are the periods that the question names, as
    start and end in microseconds, and `when` says whether it asks for a time. `session` is the session in which it is
    asked, if other sessions are searched too. `intent` is the kind of answer it wants. For "Where did I work before the
    bar?", `rest` is the question "Where did I work", and `anchor` has the terms of "the bar". If a user asks about
    themselves and memories have the user's name, `own_name` is that name.
    """

    terms: tuple[str, ...]
    vector: Vector | None
    voice: Vector | None = None
    speakers: tuple[str, ...] = ()
    times: tuple[tuple[int, int], ...] = ()
    when: bool = False
    words: frozenset[str] = frozenset()
    session: str | None = None
    intent: Intent = Intent()
    rest: "Question | None" = None
    anchor: tuple[str, ...] = ()
    own_name: "OwnName | None" = None

    @property
    def voiced(self) -> bool:
        return self.voice is not self.vector


def read_question(
    embedder: Embedder,
    query: str,
    now: datetime,
    zone: tzinfo,
    speakers: Mapping[str, str],
    vector: Vector | None = None,
) -> Question:
    """Return a question, read and embedded. `speakers` maps the folded names of speakers to their full names.

    If the caller passes a `vector`, the question is not embedded.
    """
    words = extract_terms(_IDIOM.sub("", query))
    named = _find_speaker_names(query, speakers) if speakers else ()
    texts = [query]
    about: frozenset[str] = frozenset()
    if named:
        texts.append(_rewrite_as_speaker(query, named))
        about = frozenset(term for name in named for term in extract_terms(name))
    parts = split_before(query) if vector is None else None
    if parts is not None:
        texts.append(parts[0])
    # Read before the texts are embedded: in a short process, the embedding model is still loading.
    times, when, intent = read_times(query, now, zone), is_when_question(query), read_intent(query)
    vectors = embedder.embed(texts) if vector is None else [vector]
    question = Question(
        tuple(dict.fromkeys(word for word in words if word not in about)),
        vectors[0],
        vectors[-1] if parts is None else vectors[-2],
        tuple(dict.fromkeys(speakers[fold(name)] for name in named)),
        times,
        when,
        frozenset(words),
        intent=intent,
    )
    return question if parts is None else question._replace(rest=_leave_out_end(question, *parts, vectors[-1]))


def _leave_out_end(question: Question, beginning: str, end: str, vector: Vector | None) -> Question:
    """Return the question that is left without the part from "before" on, with the terms of that part as anchor."""
    kept = tuple(term for term in question.terms if term in set(extract_terms(beginning)))
    intent = question.intent
    if intent.replaced:
        intent = intent._replace(asked=read_intent(put_in_present(beginning)).asked)
    anchor = tuple(dict.fromkeys(extract_terms(end)))
    return question._replace(terms=kept, vector=vector, voice=vector, anchor=anchor, intent=intent)


def read_times(query: str, now: datetime, zone: tzinfo) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each period that a question names, in microseconds."""
    return tuple((clock.micros(span.start), clock.micros(span.end)) for span in find_time_spans(query, now, zone))


def map_speaker_names(names: Iterable[str]) -> dict[str, str]:
    """Map the names of speakers to full names: each full name, and each first name that only one speaker has."""
    folded_names = {fold(name): name for name in names if 1 <= len(fold(name).split()) <= MAX_NAME_WORDS}
    firsts: dict[str, set[str]] = {}
    for name in folded_names.values():
        firsts.setdefault(fold(name).split()[0], set()).add(name)
    return {**{first: owners.pop() for first, owners in firsts.items() if len(owners) == 1}, **folded_names}


_WORD = re.compile(r"[^\W_]+")


def _find_speaker_names(query: str, speakers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the speaker names in the question as they are written, the longest first."""
    words = list(_WORD.finditer(query))
    folded = query.lower() if query.isascii() else None  # folding other letters may move the positions of words
    names: list[str] = []
    taken: set[int] = set()
    for size in range(min(MAX_NAME_WORDS, len(words)), 0, -1):
        for index in range(len(words) - size + 1):
            start, end = words[index].start(), words[index + size - 1].end()
            name = folded[start:end] if folded is not None else fold(query[start:end])
            if name in speakers and taken.isdisjoint(range(index, index + size)):
                names.append(query[start:end])
                taken.update(range(index, index + size))
    return tuple(dict.fromkeys(names))


def rewrite_in_first_person(query: str, user: str, speakers: Mapping[str, str]) -> str:
    """Return the question with "I" and "my" in place of the user's name, unless a speaker has that name."""
    folded = query.lower()
    for name in user.split():
        if name.lower() in folded and len(name) >= _MIN_NAME_LENGTH and fold(name) not in speakers:
            query = re.sub(rf"\b{re.escape(name)}['’]s\b", "my", query, flags=re.IGNORECASE)
            query = re.sub(rf"\b{re.escape(name)}\b", "I", query, flags=re.IGNORECASE)
    return query


def add_own_name(question: Question, query: str, names: Iterable[str], embedder: Embedder) -> Question:
    """Return a question of a user with its vector in the third person. `names` are the user's names in memories."""
    for name in names:
        shown = name.capitalize()
        in_third_person, alone = embedder.embed([put_in_third_person(query, shown), shown])
        if in_third_person is None or alone is None:
            break
        rest = in_third_person - (in_third_person @ alone) * alone
        length = float(np.linalg.norm(rest))
        if length:
            return question._replace(
                own_name=OwnName(extract_terms(name)[0], alone, (rest / length).astype(np.float32))
            )
    return question


def _rewrite_as_speaker(query: str, names: Sequence[str]) -> str:
    for name in names:
        query = re.sub(rf"\b{re.escape(name)}['’]s\b", "my", query)
        query = re.sub(rf"\b{re.escape(name)}\b", "I", query)
    return query
