"""Find the attribute and the person that a question asks about, and measure how clearly a text states the attribute."""

from collections.abc import Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import NamedTuple

from everhold.recall.lexicon import expand_contractions, find_phrases, get_lexicon, list_words
from everhold.recall.text_reading import (
    FIRST_PERSON,
    POSSESSIVE,
    RELATIVES,
    UNKNOWN,
    ClauseReading,
    TextReading,
    extract_people,
)
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import STOP_WORDS, extract_terms, stem

_STOP_STEMS = frozenset(map(stem, STOP_WORDS)) | {"_", "much", "mani"}
# How many neighbouring sentences are read together.
_WINDOW = 3
_OTHERS = RELATIVES | {POSSESSIVE}
# Attributes whose value is often the subject of the sentence: "Oskar took over our team".
_NAMED_VALUES = ("manager", "doctor", "professional", "household", "pet", "name", "child")


# The types of value that question words ask for.
_QUESTION_WORDS = (
    (lazy_pattern(r"\b(?:when|what time|(?:what|which) (?:date|days?))\b"), ("date",)),
    (lazy_pattern(r"\bhow (?:much|many|old|tall|heavy|big)\b"), ("number",)),
    (lazy_pattern(r"\bwho(?:se|m)?\b"), ("person", "name")),
    (lazy_pattern(r"\bwhere\b"), ("name", "place")),
)
# The score of a phrase that states the attribute, of several words that only hint at it, and of one such word.
_STATED, _MANY_HINTS, _ONE_HINT = 1.0, 0.6, 0.4
# The parts of the evidence: the phrase itself, a value of the right type, and a word of change or of the
# present.
_CUE, _VALUE, _CHANGE = 0.4, 0.35, 0.25
# A text of at most this many clauses that states a new value of the attribute is about nothing else, so its evidence of
# a change counts more. Such a change needs no likeness of the two texts: "My boss is Alan", "I now report to Farida".
_SHORT_TEXT, _SHORT_TEXT_FACTOR = 2, 2.0


class AskedAttribute(NamedTuple):
    """The attribute that a question asks for.

    `attributes` is the mask of the attributes that it may ask for. `people` are the terms of the person that it is
    about; empty for the speaker. `things` are its other terms, such as "dentist" in "When is my dentist appointment?".
    """

    attributes: int = 0
    people: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()


def read_asked_attribute(query: str, names: frozenset[str], general_terms: frozenset[str]) -> AskedAttribute:
    """Return what a question asks for. `names` are the terms of the names that it mentions."""
    # The phrases of `asks` have no wildcards for names or numbers, so `list_words` need not mark names and numbers.
    words = list_words(expand_contractions(query))
    phrases = list(find_phrases(words, get_lexicon().index_asks(words)))
    if not phrases:
        return AskedAttribute()
    allowed = _find_allowed(query.lower())
    best, attributes = 0, 0
    phrase_stems: set[str] = set()
    for phrase in phrases:
        if phrase.attribute & allowed:
            length = sum(part not in _STOP_STEMS for part in phrase.stems) * 10 + len(phrase.stems)
            if length >= best:
                attributes = phrase.attribute | (attributes if length == best else 0)
                best = length
            phrase_stems.update(phrase.stems)
    if not attributes:
        return AskedAttribute()
    phrase_stems.update([term for part in phrase_stems for term in extract_terms(part)])
    people = (extract_people(query) | names) - phrase_stems
    return AskedAttribute(attributes, people, frozenset(extract_terms(query)) - phrase_stems - people - general_terms)


def _find_allowed(query: str) -> int:
    """Return the mask of the attributes whose values fit the question word; of all attributes without such a word."""
    for pattern, types in _QUESTION_WORDS:
        if pattern.search(query):
            return _mask_attributes(types)
    return _mask_attributes(None)


@cache
def _mask_attributes(types: tuple[str, ...] | None) -> int:
    """Return the mask of the attributes with a value of one of these types; of all attributes if `types` is None."""
    values = get_lexicon().values.items()
    return sum(bit for bit, value_types in values if types is None or not value_types.isdisjoint(types))


class AttributeEvidence(NamedTuple):
    """The clarity with which a text states the attribute asked for, from 0 to 1.

    `stated` ignores words of change; `changed` counts them too, and is 2 for a short text that clearly states a change.
    `apart` is the evidence that the text states the
    attribute of another person, or states it as a plan, a wish or something past. `things` is the share of
    `AskedAttribute.things` that the text has.
    """

    stated: float
    changed: float
    apart: float
    things: float


NO_EVIDENCE = AttributeEvidence(0.0, 0.0, 0.0, 0.0)


def measure_evidence(reading: TextReading, asked: AskedAttribute) -> AttributeEvidence:
    """Return how clearly a text states the attribute asked for."""
    if not reading.attributes & asked.attributes or (asked.people and asked.people.isdisjoint(reading.terms)):
        return NO_EVIDENCE
    relevant_clauses = [clause for clause in reading.clauses if _is_relevant(clause, asked)]
    stated, changed = _measure_windows(relevant_clauses, asked.attributes)
    apart = (
        _measure_windows(reading.clauses, asked.attributes)[1] if len(relevant_clauses) < len(reading.clauses) else 0.0
    )
    apart = apart if apart > changed else 0.0
    things = len(asked.things & reading.terms) / len(asked.things) if asked.things else 1.0
    if changed == 1.0 and len(reading.clauses) <= _SHORT_TEXT:
        changed *= _SHORT_TEXT_FACTOR
    return AttributeEvidence(stated, changed, apart, things)


def states_of_others(reading: TextReading, asked: AskedAttribute) -> bool:
    """Return whether a text states the attribute asked for only of persons who were not asked about.

    A text that has "I" or "my", or that names the thing asked about, may be about the person asked about too.
    """
    stating = [clause for clause in reading.clauses if clause.states & asked.attributes]
    others = [clause for clause in stating if clause.people and UNKNOWN not in clause.people]
    return (
        bool(stating)
        and len(others) == len(stating)
        and (FIRST_PERSON | asked.things).isdisjoint(reading.terms)
        and not any(_is_relevant(clause, asked) for clause in others)
    )


def states_of_speaker(reading: TextReading, asked: AskedAttribute) -> bool:
    """Return whether a text states the attribute asked for of its speaker."""
    return any(clause.states & asked.attributes and not clause.people for clause in reading.clauses)


def _measure_windows(clauses: Sequence[ClauseReading], attributes: int) -> tuple[float, float]:
    """Return the evidence of the best neighbouring sentences, first without words of change and then with them."""
    best = (0.0, 0.0)
    if not clauses:
        return best
    for start in range(clauses[0].sentence, max(clauses[-1].sentence - _WINDOW + 1, clauses[0].sentence) + 1):
        window = [clause for clause in clauses if start <= clause.sentence < start + _WINDOW]
        if window:
            best = max(best, _measure_window(window, attributes), key=itemgetter(1))
    return best


def _measure_window(window: Sequence[ClauseReading], attributes: int) -> tuple[float, float]:
    """Return how strongly clauses state one of the asked attributes, and the same with a bonus for a change."""
    states = hints = many = 0
    for clause in window:
        states |= clause.states
        many |= clause.many_hints | (hints & clause.hints)
        hints |= clause.hints
    relevant = attributes & (states | hints)
    if not relevant:
        return 0.0, 0.0
    values = frozenset[str]().union(*(clause.values for clause in window))
    changes = any(clause.changes for clause in window)
    best = 0.0
    for bit, types in _list_value_types(attributes):
        if bit & relevant:
            cue = _STATED if bit & states else _MANY_HINTS if bit & many else _ONE_HINT
            best = max(best, cue * (_CUE + _VALUE * (not types.isdisjoint(values))))
    return best / (1 - _CHANGE), best + _CHANGE * changes * best / (1 - _CHANGE)


@lru_cache(maxsize=1024)
def _list_value_types(attributes: int) -> Sequence[tuple[int, frozenset[str]]]:
    """Return each of these attributes with the types of its values."""
    return [(bit, types) for bit, types in get_lexicon().values.items() if bit & attributes]


def _is_relevant(clause: ClauseReading, asked: AskedAttribute) -> bool:
    """Return whether a clause is about the person asked about, and states a present fact, not a plan or a wish."""
    if not clause.is_real:
        return False
    if asked.people or not clause.people:
        return True
    if not clause.people.isdisjoint(_find_relatives(asked.attributes)):
        return True
    if not clause.people.isdisjoint(_OTHERS) or not asked.attributes & _mask_attributes(("person",)):
        return False
    return UNKNOWN in clause.people or bool(asked.attributes & _mask_named_values())


@lru_cache(maxsize=1024)
def _find_relatives(attributes: int) -> frozenset[str]:
    """Return the relatives in the phrases that state one of these attributes."""
    stems = get_lexicon().stems.items()
    return RELATIVES.intersection(part for bit, parts in stems if bit & attributes for part in parts)


@cache
def _mask_named_values() -> int:
    attributes = get_lexicon().attributes
    return sum(attributes[name] for name in _NAMED_VALUES)
