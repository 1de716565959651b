"""What a question asks: for which words, in what sense, of whom and about when."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from everhold import clock
from everhold.ports.embedder import Embedder, Vector
from everhold.text.dates import asks_when, spans
from everhold.text.terms import fold, terms

LONGEST_NAME = 4


class Question(NamedTuple):
    """What is asked: its terms, each once, and its vector, if the model knows its words.

    `terms` leave out the names of the speakers it is about. `voice` is the vector of the question as such a speaker
    would put it, with "I" for the name; it is `vector` if the question names no speaker. `times` are the stretches of
    time it names, in microseconds. `session` is where it is asked, if more than that session is searched.
    """

    terms: tuple[str, ...]
    vector: Vector | None
    voice: Vector | None = None
    speakers: tuple[str, ...] = ()
    times: tuple[tuple[int, int], ...] = ()
    when: bool = False
    words: frozenset[str] = frozenset()
    session: str | None = None

    @property
    def voiced(self) -> bool:
        return self.voice is not self.vector


def ask(
    embedder: Embedder,
    query: str,
    now: datetime,
    zone: tzinfo,
    speakers: Mapping[str, str],
    vector: Vector | None = None,
) -> Question:
    """Read a question. `speakers` maps the folded names by which speakers are known to their full names.

    With a caller's `vector`, the question is not embedded.
    """
    words = terms(query)
    named = _named(query, speakers) if speakers else ()
    texts = [query]
    about: frozenset[str] = frozenset()
    if named:
        texts.append(_in_the_voice_of(query, named))
        about = frozenset(term for name in named for term in terms(name))
    vectors = embedder.embed(texts) if vector is None else [vector]
    return Question(
        tuple(dict.fromkeys(word for word in words if word not in about)),
        vectors[0],
        vectors[-1],
        tuple(dict.fromkeys(speakers[fold(name)] for name in named)),
        times_of(query, now, zone),
        asks_when(query),
        frozenset(words),
    )


def times_of(query: str, now: datetime, zone: tzinfo) -> tuple[tuple[int, int], ...]:
    """The stretches of time that a question names, in microseconds."""
    return tuple((clock.micros(span.start), clock.micros(span.end)) for span in spans(query, now, zone))


def known_by(names: Iterable[str]) -> dict[str, str]:
    """Speakers by what they are called: the full name, and the first name if it is nobody else's."""
    whole = {fold(name): name for name in names if 1 <= len(fold(name).split()) <= LONGEST_NAME}
    firsts: dict[str, set[str]] = {}
    for name in whole.values():
        firsts.setdefault(fold(name).split()[0], set()).add(name)
    return {**{first: owners.pop() for first, owners in firsts.items() if len(owners) == 1}, **whole}


_WORD = re.compile(r"[^\W_]+")


def _named(query: str, speakers: Mapping[str, str]) -> tuple[str, ...]:
    """The names in the question by which a speaker is known, as they are written, the longest first."""
    found = list(_WORD.finditer(query))
    names: list[str] = []
    taken: set[int] = set()
    for size in range(min(LONGEST_NAME, len(found)), 0, -1):
        for at in range(len(found) - size + 1):
            name = query[found[at].start() : found[at + size - 1].end()]
            if fold(name) in speakers and taken.isdisjoint(range(at, at + size)):
                names.append(name)
                taken.update(range(at, at + size))
    return tuple(dict.fromkeys(names))


def _in_the_voice_of(query: str, names: Sequence[str]) -> str:
    for name in names:
        query = re.sub(rf"\b{re.escape(name)}['’]s\b", "my", query)
        query = re.sub(rf"\b{re.escape(name)}\b", "I", query)
    return query
