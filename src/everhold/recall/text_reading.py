"""Read from a text which attributes each sentence states, about whom, and whether it really is so.

A reading is a hint for ranking. It need not be complete: a text that it does not understand is ranked by its signals.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from everhold.facts.words import JOBS, LANGUAGES, NOT_NAMES, RELATIONS
from everhold.recall.lexicon import Word, expand_contractions, find_phrases, find_spans, get_lexicon, reduce_word, split_phrase
from everhold.text.chunking import SENTENCE_END
from everhold.text.common_words import get_common_terms
from everhold.text.date_words import MONTHS, NUMBERS, WEEKDAYS, split_words
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import STOP_WORDS, extract_terms, fold, stem

# Characters. The rest of a longer text is not read.
MAX_LENGTH = 2000

# The words and numbers of a value; a telephone number has at least this many digits.
_PHONE_DIGITS = 6
_MIN_CODE_DIGITS = 3

# Stands for a person that "he" or "she" refers to and who is not named before.
UNKNOWN = "?"
# Marks the owner of something among the terms of a person: "Tara's new boss".
POSSESSIVE = "'s"

FIRST_PERSON = frozenset("i me my mine myself we us our ours ourselves".split())
THIRD_PERSON = frozenset("he she they his her their him them hers theirs".split())
_OWN_CHANGE = """
    now|these days|nowadays|currently|from now on|as of|from today|from monday|new|newly|no longer|any more|anymore
    |any longer|instead|finally|officially|at last|switched|changed|swapped|moved|replaced|traded|quit|left|stopped
    |gave up|given up|dropped|ended|over|sold|bought|started|joined|signed|opened|closed|cancelled|canceled|upgraded
    |updated|reset|renewed|rescheduled|postponed|pushed|raised|went up|goes up|gone up|down to|bumped|transferred
    |migrated|renamed|promoted|retired|died|passed away|broke|broke up|split|divorced|married|adopted|became|turned
    |took over|takes over|taking over|took up|taken up|done with|finished|correction|actually|update|turns out|not until
    |first day|day one|ditched|got rid of|goodbye|farewell|bye|for good|again|back to|back on|settled|since then
    |these past|of late|lately|recently|today|this week|since last|latest|went with|got a|got the|found a|picked up
"""
_UNREAL = """
    might|maybe|perhaps|possibly|thinking of|thinking about|think about|considering|consider|wish|would|could|if|dreamt
    |dreamed|dream|dreaming|imagine|plan to|planning to|plans to|want to|wants to|would like|would love|one day
    |some day|someday|hope to|hoping|hopes to|tempted|toying with|offered|offer|had a look|looked at|looking at|almost
    |nearly|rumour|rumor|asked me to|said no|declined|turned down|turned it down|decided against|not taking|no thanks
    |applied|applying|application|interview at|interviewed|interview with|if only|unless|whether|wonder|wondering
    |suppose|pretend|joked|joking|kidding|supposedly|apparently|in theory|suggested|suggests|recommended|recommends
    |should|eventually|next year|let us see|fantasise|fantasize|daydream|in another life|going to look|tried out
    |trial|tour of|viewing|viewed|visited|visiting|visit|spent the weekend|weekend in|for a weekend|for a week
    |for the weekend|for the day|for a day|just for now|temporarily|temporary|meanwhile|in the meantime|for the time being
    |borrowed|borrow|lent me|rental|loaner|courtesy car|while mine|while my|while our|while it|stand-in
    |standing in|filling in|substitute|covering for|on holiday|just this once|only today|yesterday i had|as a guest
    |also|as well|in addition|additionally|on top of|second|another|spare|besides|a backup|too
    |used to|before that|back then|years ago|in the past|formerly|former|my old|our old|previous|previously|once had
    |as a kid|as a child|when i was|grew up|in my twenties|at the time
"""
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
    map(stem, split_words("parents grandparents kids children ex buddy pal mate workmate classmate in-laws stepdad"
                          " stepmum stepmom stepson stepdaughter granny nan gran mummy daddy papa mama girlfriend"
                          " boyfriend landlord landlady boss team-mate teammate godson goddaughter neighbours neighbors"))
)
# In "my dentist appointment", these do not tell whose it is.
_PROFESSIONALS = frozenset(map(stem, split_words("boss manager teacher mentor therapist doctor dentist coach landlord landlady")))
_BARE_RELATIVES = split_words("mum mom dad mother father granny grandma grandpa gran nan papa mama mummy daddy")
_TITLES = frozenset(map(stem, JOBS)) | frozenset(
    map(stem, split_words("manager director head chief lead leader supervisor coordinator officer assistant associate"
                          " partner principal specialist executive president deputy captain sergeant intern trainee"
                          " apprentice freelancer retired owner founder operator foreman inspector agent planner"))
)
_LANGUAGES = frozenset(map(str.lower, LANGUAGES))
_DATES = frozenset(MONTHS) | frozenset(WEEKDAYS) | frozenset(f"{day}s" for day in WEEKDAYS if len(day) > 4)
_TIMES = split_words("noon midnight am pm a.m p.m o'clock oclock tomorrow morning afternoon evening tonight")
_ARTICLES = split_words("a an few couple several")
_CLAUSE_END = lazy_pattern(
    r"[,;:—–]\s+|\s[—–-]\s|\s(?=(?:but|so|because|although|though|while|whereas|and (?:i|we|my|our|he|she|they|it|now))\s)",
    re.IGNORECASE,
)
_CONDITION = lazy_pattern(r"\b(?:if|unless|whether|in case)\b", re.IGNORECASE)
_ORDINAL = lazy_pattern(r"\d{1,2}(?:st|nd|rd|th)")
_QUOTED = lazy_pattern(r"[\"“‘'][A-Za-z][^\"”’']{2,40}[\"”’']")


class ClauseReading(NamedTuple):
    """What a clause tells.

    `sentence` is the number of its sentence. `states` and `hints` are masks of the attributes that it has a phrase for;
    `many_hints` has those with two hints or more. `values` are the types of value it has. `changes`: it tells of a
    change or of the present. `is_real`: it is no plan, wish, memory of the past or mere addition. `people` are the
    terms of the other persons it is about; empty if it is about the speaker.
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
    """The clauses of a text, its terms, and those of them that are names, numbers or unusual words."""

    clauses: tuple[ClauseReading, ...] = ()
    terms: frozenset[str] = frozenset()
    rare: frozenset[str] = frozenset()


@lru_cache(maxsize=1)
def _split_markers() -> tuple[dict[str, list[tuple[str, ...]]], dict[str, list[tuple[str, ...]]]]:
    """Return the words of change and of what is not real, by their first stem."""
    indexes = []
    for source in (_OWN_CHANGE, _UNREAL):
        index: dict[str, list[tuple[str, ...]]] = {}
        for phrase in source.split("|"):
            stems = split_phrase(phrase.strip())
            index.setdefault(stems[0], []).append(stems)
        indexes.append(index)
    return indexes[0], indexes[1]


def read_text(text: str) -> TextReading:
    """Return what each clause of a text tells."""
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
    return TextReading(tuple(clauses), frozenset(stems), frozenset(rare))


def _is_rare(word: Word) -> bool:
    return word.is_name or word.has_digit or (len(word.text) > 3 and _is_unusual(word.stem, word.text))


def _read_clause(
    clause: str, words: Sequence[Word], sentence: int, people: frozenset[str], *, is_sure: bool
) -> ClauseReading:
    lexicon = get_lexicon()
    states = hints = many_hints = 0
    for phrase in find_phrases(words, lexicon.states):
        states |= phrase.attribute
    for phrase in find_phrases(words, lexicon.hints):
        many_hints |= hints & phrase.attribute
        hints |= phrase.attribute
    change, unreal = _split_markers()
    is_real = is_sure and not _has_marker(words, unreal)
    values = _find_values(clause, words)
    return ClauseReading(
        sentence, states, hints, many_hints, values, _has_marker(words, change), is_real, people
    )


def split_sentence(sentence: str) -> list[Word]:
    """Return the words of a sentence. A word with a capital is a name if it does not merely begin the sentence."""
    spans = list(find_spans(sentence))
    has_capitals = any(span[0][0].isupper() for span in spans)
    words: list[Word] = []
    for index, span in enumerate(spans):
        text = span[0]
        own_stem = reduce_word(text.lower())
        if text[0].isupper():
            begins = index == 0 or sentence[: span.start()].rstrip()[-1:] in (".", ":", "!", "?")
            is_name = text not in NOT_NAMES and text.lower() not in _DATES and (
                not begins or _is_unusual(own_stem, text)
            )
        else:
            is_name = not has_capitals and len(text) > 3 and _is_unusual(own_stem, text)
        words.append(Word(text, own_stem, is_name, any(map(str.isdigit, text))))
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


def _has_marker(words: Sequence[Word], index: dict[str, list[tuple[str, ...]]]) -> bool:
    for start, word in enumerate(words):
        for stems in index.get(word.stem, ()):
            if tuple(other.stem for other in words[start : start + len(stems)]) == stems:
                return True
    return False


def _find_values(sentence: str, words: Sequence[Word]) -> frozenset[str]:
    """Return the types of value that a sentence has."""
    values = {"none"}
    digits = 0
    for word in words:
        lower = word.text.lower()
        if word.is_name:
            values.update(("name", "person", "place"))
        if word.has_digit:
            count = sum(map(str.isdigit, word.text))
            digits += count if count == len(word.text.replace("-", "").replace(".", "")) else 0
            values.update(("number", "dose"))
            if count >= _MIN_CODE_DIGITS or count < len(word.text):
                values.add("code")
            if _ORDINAL.fullmatch(lower):
                values.add("date")
            values.add("time")
        elif lower in NUMBERS and lower not in _ARTICLES:
            values.update(("number", "dose", "time"))
        if lower in _DATES:
            values.add("date")
        if lower in _TIMES:
            values.add("time")
        if word.stem in _TITLES:
            values.add("title")
        if lower in _LANGUAGES:
            values.add("language")
        if "@" in word.text and len(word.text) > 1:
            values.add("email")
        if "-" in word.text[1:]:
            values.add("code")
    if digits >= _PHONE_DIGITS:
        values.add("phone")
    if _QUOTED.search(sentence):
        values.update(("name", "code", "title"))
    return frozenset(values)


def _find_people(clause: str, words: Sequence[Word], before: frozenset[str], *, begins: bool) -> frozenset[str]:
    """Return the terms of the person that a clause is about, empty if that is the speaker.

    `before` are those of the clause before it, and `begins` says whether the clause begins a sentence.
    """
    lead = _LEAD_IN.match(clause)
    skipped = len(list(find_spans(clause[: lead.end()]))) if lead else 0
    rest = words[skipped:]
    if not rest:
        return frozenset()
    first = rest[0].text.lower()
    if first in ("my", "our", "his", "her", "their"):
        for index in (1, 2):
            if index < len(rest) and rest[index].stem in RELATIVES:
                return _take_names(rest, index)
        return frozenset() if first in FIRST_PERSON else before or frozenset((UNKNOWN,))
    if first in FIRST_PERSON:
        return frozenset()
    if first in _BARE_RELATIVES:
        return _take_names(rest, 0)
    if first in THIRD_PERSON:
        return before if first.startswith("the") else before or frozenset((UNKNOWN,))
    if rest[0].is_name:
        named = _read_named_subject(rest)
        if named is not None:
            return named
    # A fragment without a subject of its own is about the person before it.
    return before if not begins or FIRST_PERSON.isdisjoint(word.text.lower() for word in words) else frozenset()


def _take_names(words: Sequence[Word], index: int) -> frozenset[str]:
    """Return the word at this index and the names that follow it."""
    terms = {words[index].stem}
    for word in words[index + 1 :]:
        if not word.is_name:
            break
        terms.add(word.stem)
    return frozenset(terms)


def _read_named_subject(words: Sequence[Word]) -> frozenset[str] | None:
    """Return the terms of a name that begins a clause and has a verb; None if it has none.

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
