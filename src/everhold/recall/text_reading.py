"""Read from a text which attributes each clause states, of which person, and whether as a fact.

A reading is a hint for ranking. It need not be complete: a text that it does not understand is ranked by its signals.
"""

import re
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from everhold.facts.words import JOBS, LANGUAGES, NOT_NAMES, RELATIONS
from everhold.recall.lexicon import (
    TextWord,
    expand_contractions,
    find_phrases,
    find_spans,
    get_lexicon,
    reduce_word,
)
from everhold.recall.text_features import NUMBER_WORDS
from everhold.text.chunking import SENTENCE_END
from everhold.text.common_words import get_common_terms
from everhold.text.date_words import MONTHS, NUMBERS, WEEKDAYS, split_words
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import STOP_WORDS, extract_terms, fold, stem

# Only this many characters of a text are read.
MAX_LENGTH = 2000

# The minimum number of digits of a telephone number, and of a code.
_PHONE_DIGITS = 6
_MIN_CODE_DIGITS = 3

# Stands for a person that "he" or "she" refers to if no person is named before.
UNKNOWN = "?"
# Added to the terms of a person who owns something, as in "Tara's new boss".
POSSESSIVE = "'s"

FIRST_PERSON = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "ourselves"])
THIRD_PERSON = frozenset(["he", "she", "they", "his", "her", "their", "him", "them", "hers", "theirs"])
_VERBS = split_words(
    """
    is has have had was were got gets just now will wants went took takes gave gives bought sold left quit began
    became told says said met lives works drives plays eats speaks studies earns makes runs goes came comes
    finally recently no lost won broke split put swapped found
    """
)
_LEAD_IN = lazy_pattern(
    r"(?:(?:well|so|and|but|oh|ok|okay|hey|hi|btw|by the way|fyi|update|news|big news|good news|bad news|guess what"
    r"|also|anyway|quick update|just so you know|for the record|turns out|apparently|today|yesterday|this week"
    r"|last week|last month|finally|sadly|happily)\b[,:;!.\s—–-]*)*",
    re.IGNORECASE,
)
RELATIVES = frozenset(stem(fold(word)) for word in RELATIONS) | frozenset(
    map(
        stem,
        split_words(
            """
            parents grandparents kids children ex buddy pal mate workmate classmate in-laws stepdad stepmum stepmom
            stepson stepdaughter granny nan gran mummy daddy papa mama landlord landlady team-mate teammate godson
            goddaughter neighbours neighbors
            """
        ),
    )
)
# Relations that do not say whose something is: "my dentist appointment" is mine.
_PROFESSIONALS = frozenset(
    map(stem, split_words("boss manager teacher mentor therapist doctor dentist coach landlord landlady"))
)
_BARE_RELATIVES = split_words("mum mom dad mother father granny grandma grandpa gran nan papa mama mummy daddy")
_OWNERS = split_words("my our his her their")
_TITLES = frozenset(map(stem, JOBS)) | frozenset(
    map(
        stem,
        split_words(
            """
            manager director head chief lead leader supervisor coordinator officer assistant associate partner principal
            specialist executive president deputy captain sergeant intern trainee apprentice freelancer retired owner
            founder operator foreman inspector agent planner
            """
        ),
    )
)
_VALUES_BY_WORD: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(set(NUMBERS) - {"a", "an"}, ("number", "time")),
    **dict.fromkeys(split_words("noon midnight am pm tomorrow morning afternoon evening tonight"), ("time",)),
    **dict.fromkeys((*MONTHS, *WEEKDAYS, *(f"{day}s" for day in WEEKDAYS)), ("date",)),
    **dict.fromkeys(map(str.lower, LANGUAGES), ("language",)),
}
_NUMBER_WORDS = split_words(NUMBER_WORDS)
_DATE = ("date",)
_NOT_DIGITS = lazy_pattern(r"\D+")
_LETTER = lazy_pattern(r"[^\W\d_]")
_CLAUSE_END = lazy_pattern(
    r"[,;:—–]\s+|\s[—–-]\s"
    r"|\s(?=(?:but|so|because|although|though|while|whereas|and (?:i|we|my|our|he|she|they|it|now))\s)",
    re.IGNORECASE,
)
_CONDITION = lazy_pattern(r"\b(?:if|unless|whether|in case)\b", re.IGNORECASE)
_ORDINAL = lazy_pattern(r"\d{1,2}(?:st|nd|rd|th)")
_QUOTED = lazy_pattern(r"[\"“‘'][A-Za-z][^\"”’']{2,40}[\"”’']")


class ClauseReading(NamedTuple):
    """The features of one clause of a text.

    `sentence` is the number of its sentence. `states` is a mask of the attributes that a phrase of the clause states,
    `hints` of those that a phrase hints at, and `many_hints` of those with two or more hints. `values` are the types of
    value in the clause. `changes` is true for a change or the present, and `is_real` for a fact,
    not a plan, a wish, something past or an addition. `people` are the terms of the persons it is about; empty if it is
    about the speaker.
    """

    sentence: int
    states: int
    hints: int
    many_hints: int
    values: frozenset[str]
    changes: bool
    is_real: bool
    people: frozenset[str]


class TextReading(NamedTuple):
    """The clauses of a text, its terms, and the `rare` terms: names, numbers and unusual words.

    `attributes` is the mask of all attributes that a clause states or hints at.
    """

    clauses: tuple[ClauseReading, ...] = ()
    attributes: int = 0
    terms: frozenset[str] = frozenset()
    rare: frozenset[str] = frozenset()


def read_text(text: str) -> TextReading:
    """Return a reading of each clause of a text."""
    text = expand_contractions(text[:MAX_LENGTH])
    clauses: list[ClauseReading] = []
    stems: set[str] = set()
    rare: set[str] = set()
    people: frozenset[str] = frozenset()
    start = 0
    for number, end in enumerate([*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]):
        sentence, start = text[start:end].strip(), end
        is_sure = not sentence.endswith("?") and not _CONDITION.search(sentence)
        for index, clause in enumerate(_CLAUSE_END.split(sentence)):
            words = split_sentence(clause)
            if words:
                people = _find_people(clause, words, people, begins=index == 0)
                clauses.append(_read_clause(clause, words, number, people, is_sure=is_sure))
                stems.update(word.stem for word in words)
                rare.update(word.stem for word in words if _is_rare(word))
    attributes = reduce(or_, (clause.states | clause.hints for clause in clauses), 0)
    return TextReading(tuple(clauses), attributes, frozenset(stems), frozenset(rare))


# Attributes of a person that change now and then, and of which a person usually has one value at a time.
_LASTING = (
    "employer", "job title", "manager", "salary", "residence", "rent", "partner", "phone number", "email", "username",
    "car", "pet", "diet", "allergy", "medication", "doctor", "gym", "bank", "provider", "school", "studies", "name",
    "device",
)  # fmt: skip


# The attributes whose value may be the subject of the sentence: "Omar took over our team".
_PERSONS = frozenset(("manager", "doctor"))
_OTHERS = RELATIVES | {UNKNOWN, POSSESSIVE}
_ANY_VALUE = frozenset(("none",))


def find_stating_sentences(text: str) -> list[tuple[int, int]]:
    """Return the start and the end of each sentence that states a lasting attribute of its speaker as a fact.

    The sentence has "I" or "my", a phrase that states the attribute, and a value of the attribute's type. If any value
    is of that type, it has a word of change.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text[:MAX_LENGTH])), len(text[:MAX_LENGTH])]:
        sentence = text[start:end].strip()
        if sentence and _states_of_speaker(read_text(sentence)):
            first = text.index(sentence, start)
            spans.append((first, first + len(sentence)))
        start = end
    return spans


def _states_of_speaker(reading: TextReading) -> bool:
    if FIRST_PERSON.isdisjoint(reading.terms):
        return False
    lexicon = get_lexicon()
    return any(
        clause.states & lexicon.attributes[name] and _has_value(clause, lexicon.values[lexicon.attributes[name]])
        for clause in reading.clauses
        for name in _LASTING
        if clause.is_real and (not clause.people or (name in _PERSONS and clause.people.isdisjoint(_OTHERS)))
    )


def _has_value(clause: ClauseReading, types: frozenset[str]) -> bool:
    """Return whether a clause has a value of one of these types; if any value will do, it must tell of a change."""
    return not (types - _ANY_VALUE).isdisjoint(clause.values) or (clause.changes and not types.isdisjoint(_ANY_VALUE))


def _is_rare(word: TextWord) -> bool:
    return word.is_name or word.has_digit or (len(word.text) > 3 and _is_unusual(word.stem, word.text))


def _read_clause(
    clause: str, words: Sequence[TextWord], sentence: int, people: frozenset[str], *, is_sure: bool
) -> ClauseReading:
    lexicon = get_lexicon()
    states = hints = many_hints = 0
    for phrase in find_phrases(words, lexicon.states):
        states |= phrase.attribute
    for phrase in find_phrases(words, lexicon.hints):
        many_hints |= hints & phrase.attribute
        hints |= phrase.attribute
    is_real = is_sure and not any(find_phrases(words, lexicon.unreal))
    values = _find_values(clause, words)
    return ClauseReading(
        sentence, states, hints, many_hints, values, any(find_phrases(words, lexicon.changes)), is_real, people
    )


def split_sentence(sentence: str) -> list[TextWord]:
    """Return the words of a sentence, with names and numbers marked.

    A capitalised word is a name, but at the beginning of a sentence only if it is an unusual word.
    """
    spans = list(find_spans(sentence))
    has_capitals = any(span[0][0].isupper() for span in spans)
    words: list[TextWord] = []
    for index, span in enumerate(spans):
        text = span[0]
        own_stem = reduce_word(text.lower())
        if text[0].isupper():
            begins = index == 0 or sentence[: span.start()].rstrip()[-1:] in (".", ":", "!", "?")
            is_name = (
                text not in NOT_NAMES
                and _VALUES_BY_WORD.get(text.lower()) != _DATE
                and (not begins or _is_unusual(own_stem, text))
            )
        else:
            is_name = not has_capitals and len(text) > 3 and _is_unusual(own_stem, text)
        has_digit = not text.isalpha() and any(map(str.isdigit, text))
        is_number = has_digit or text.lower().partition("-")[0] in _NUMBER_WORDS
        words.append(TextWord(text, own_stem, is_name, has_digit, is_number))
    return words


def _is_unusual(own_stem: str, text: str) -> bool:
    """Return whether a word is neither frequent nor known to the lexicon, so that it may be a name."""
    lexicon = get_lexicon()
    return not (
        text.lower() in STOP_WORDS
        or text in NOT_NAMES
        or own_stem in get_common_terms()
        or own_stem in lexicon.states
        or own_stem in lexicon.hints
        or own_stem in RELATIVES
    )


def _find_values(clause: str, words: Sequence[TextWord]) -> frozenset[str]:
    """Return the types of value that a clause has."""
    values = {"none"}
    digits = 0
    for word in words:
        lower = word.text.lower()
        values.update(_VALUES_BY_WORD.get(lower, ()))
        if word.is_number:
            values.add("number")
        if word.is_name:
            values.update(("name", "person", "place"))
        if word.stem in _TITLES:
            values.add("title")
        if word.has_digit:
            values.update(_classify_number(lower))
            digits += len(_NOT_DIGITS.sub("", lower)) if not _LETTER.search(lower) else 0
        elif "-" in lower:
            values.add("code")
        if "@" in lower[1:]:
            values.add("email")
    if digits >= _PHONE_DIGITS:
        values.add("phone")
    if _QUOTED.search(clause):
        values.update(("name", "code", "title"))
    return frozenset(values)


def _classify_number(word: str) -> set[str]:
    values = {"number", "time"}
    count = len(_NOT_DIGITS.sub("", word))
    if count >= _MIN_CODE_DIGITS or count < len(word):
        values.add("code")
    if _ORDINAL.fullmatch(word):
        values.add("date")
    return values


def _find_people(clause: str, words: Sequence[TextWord], before: frozenset[str], *, begins: bool) -> frozenset[str]:
    """Return the terms of the person that a clause is about; empty if the clause is about the speaker.

    `before` are the terms of the person that the previous clause is about. `begins` says whether the clause begins a
    sentence.
    """
    lead = _LEAD_IN.match(clause)
    rest = words[len(list(find_spans(clause[: lead.end()]))) if lead else 0 :]
    if not rest:
        return frozenset()
    people = _find_subject(rest, before)
    if people is not None:
        return people
    # A fragment without a subject is about the same person as the previous clause.
    is_fragment = not begins or FIRST_PERSON.isdisjoint(word.text.lower() for word in words)
    return before if is_fragment else frozenset()


def _find_subject(words: Sequence[TextWord], before: frozenset[str]) -> frozenset[str] | None:
    """Return the terms of the person that the first words name; None if they name no person."""
    first = words[0].text.lower()
    if first in _OWNERS:
        for index in (1, 2):
            if index < len(words) and words[index].stem in RELATIVES:
                return _take_names(words, index)
    if first in FIRST_PERSON:
        return frozenset()
    if first in THIRD_PERSON:
        # "They" may mean no particular person: "They reset the door code".
        return before if first.startswith("the") else before or frozenset((UNKNOWN,))
    if first in _BARE_RELATIVES:
        return _take_names(words, 0)
    return _read_named_subject(words) if words[0].is_name else None


def _take_names(words: Sequence[TextWord], index: int) -> frozenset[str]:
    """Return the stems of the word at this index and of the names that directly follow it."""
    terms = {words[index].stem}
    for word in words[index + 1 :]:
        if not word.is_name:
            break
        terms.add(word.stem)
    return frozenset(terms)


def _read_named_subject(words: Sequence[TextWord]) -> frozenset[str] | None:
    """Return the terms of a name that begins a clause and is followed by a verb; None if no verb follows.

    The result is empty if the speaker is part of the subject.
    """
    terms: set[str] = set()
    for index, word in enumerate(words):
        lower = word.text.lower()
        if word.is_name:
            terms.add(word.stem)
        elif lower == "s":
            return frozenset((*terms, POSSESSIVE))
        elif lower == "and":
            if index + 1 < len(words) and words[index + 1].text.lower() in ("i", "me"):
                return frozenset()
        elif lower in _VERBS or lower.endswith("ed") or (lower.endswith("s") and not lower.endswith("ss")):
            return frozenset(terms)
        else:
            return None
    return None


def extract_people(question: str) -> frozenset[str]:
    """Return the terms of relatives and acquaintances that a question names."""
    return frozenset(term for term in extract_terms(question) if term in RELATIVES and term not in _PROFESSIONALS)
