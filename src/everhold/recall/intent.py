"""Read what kind of answer a question wants: one thing or many, the present or the past, and which kind of value."""

import re
from functools import lru_cache
from typing import NamedTuple

from everhold.recall.asked_attribute import AskedAttribute, read_asked_attribute
from everhold.recall.clauses import split_clauses
from everhold.recall.text_features import CODE, DATE, DATE_TERMS, LONG_NUMBER, NUMBER
from everhold.text.dates import is_time
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import extract_terms, fold

# Terms that occur in questions about any subject.
GENERAL_TERMS = frozenset(
    extract_terms(
        """
        name called call know tell thing remind still current currently usually go going get got use say said told
        people person much many kind sort day time year month week number recent old new long often last first
        next again happen make made take took put keep want need like work one two
        """
    )
)

TIME_TERMS = DATE_TERMS | frozenset(
    extract_terms("year month week today yesterday morning evening night summer winter spring autumn")
)


_NOT_THINGS = GENERAL_TERMS | TIME_TERMS


class Intent(NamedTuple):
    """The kind of answer that a question asks for.

    - `lists`: it wants a list of several things, not one answer.
    - `joins`: it asks two things at once.
    - `past`: it asks how something was before.
    - `replaced`: it asks for what was true before something changed.
    - `original`: of what was replaced, it asks for the first value, as in "at first".
    - `happened`: it asks what someone did or was.
    - `confirms`: it wants a yes or a no.
    - `values`: a mask of text features, at least one of which an answer has; 0 if an answer needs none.
    - `names`: the terms of the names that it mentions.
    - `head`: the term of the thing asked for, such as "type" in "What is my blood type?"; empty if none is named.
    - `asked`: the attribute of a person that it asks for.
    - `numbers`: the terms of numbers that distinguish things of one kind, such as "7" in "the gate code of allotment
    7".
    - `first_person`: it has a word such as "I" or "my".
    - `words`: the number of its words.
    - `clauses`: the questions in it, if it asks several things.
    """

    lists: bool = False
    joins: bool = False
    past: bool = False
    replaced: bool = False
    original: bool = False
    happened: bool = False
    confirms: bool = False
    values: int = 0
    names: frozenset[str] = frozenset()
    head: str = ""
    asked: AskedAttribute = AskedAttribute()
    numbers: frozenset[str] = frozenset()
    first_person: bool = False
    words: int = 0
    clauses: tuple[str, ...] = ()


# The maximum length, in characters, of a question whose intent is cached. Longer questions would fill the memory.
_MAX_CACHED_LENGTH = 1000

# These patterns are for questions in lower case: re.IGNORECASE would double their time.
_POLITE = r"^(?:so |ok |hey |and |please )*"
_SINGULAR = r"(?!(?:hours|days|times|is|was|does|bus|gas|series|us|this|news|whereabouts|\w*ss)\b)"
_PLURAL = rf"{_SINGULAR}\w+s"
# A word that begins a question; a text that begins with another word may be a phrase such as "codes for the doors".
_ASKING = (
    r"(?:what|which|who|whom|whose|where|when|why|how|is|are|was|were|do|does|did|has|have|had|can|could|should|will"
    r"|would|am|i|my|it|that)\b"
)
_LISTS = lazy_pattern(
    rf"{_POLITE}(?:"
    r"(?:can you )?(?:list|name(?! of)|names of|give me|tell me (?:about|what (?:you|u))|show me|remind me of|recall"
    r"|run me through|enumerate)\b"
    r"|(?:all|every|each|both)\b"
    r"|(?:can you )?summari[sz]e\b"
    r"|what (?:do|did) (?:you|u|we|i) (?:know|have)\b"
    rf"|(?:what|who|(?:what|which)(?: \w+){{0,3}} {_PLURAL}) have (?:you|u|we|i)\b"
    r"|(?:what|which|who)(?: \w+){1,4} have (?:you|u|we|i)\b(?! got\b)"
    r"|what(?:['’]s| has) been\b|what (?:has )?(?:happened|went (?:on|down))\b"
    rf"|(?:what|which) (?:\w+ ){{0,3}}?{_PLURAL}"
    r" (?:do|did|have|has|are|was i|were|am|can|should|will|does|from|in|at|for|and|or)\b"
    r"|who(?: all)? (?:is|are|was|were) (?:in|on|all)\b"
    r"|who are\b|what are\b|what (?:all|else|other)\b"
    rf"|what were (?:\w+ ){{0,4}}{_PLURAL}\b"
    r"|how (?:did|have|has) .*\b(?:go|gone)\b(?! to\b)"
    rf"|(?!{_ASKING})(?:\w+ ){{0,2}}?{_PLURAL} (?:and {_PLURAL}|i|we|i['’]ve|we['’]ve|that|of|for|in|at)\b"
    r"|.*\b(?:everyone|everything|everybody|all (?:the|my|of)|overview|so far"
    r"|(?:whole|full|complete|entire) (?:list|story|inventory|record|history)|start to finish"
    r"|(?:this|the) (?:past|last) year)\b)"
)
_JOINS = lazy_pattern(
    r"\band (?:what|who|whom|whose|when|where|how|which|why|did|does|do|is|are|was|the|my|our|his|her|their)\b"
)
_PAST = lazy_pattern(
    r"\b(?:before|used to|previous\w*|former\w*|(?<!how )old|original\w*|at first|earlier|first(?! name)|prior|ex"
    r"|initial\w*|back then|until(?! when))\b"
)
# Stricter than _PAST: "What was our first car?" asks for no fact that was replaced.
_REPLACED = lazy_pattern(
    r"\b(?:did|was|were|had)\b.*\b(?:before|prior to|originally|at first|initially|back then|until)\b"
    r"|\b(?:before|until)\b.*\b(?:did|was|were|had)\b"
    r"|\bused to\b|\bdid\b.*\buse to\b|\b(?:previous|former)"
    r"|\b(?:my|our|your|his|her|their|the|which|what|\w+['’]s) old (?!enough\b|friends?\b|people\b)\w"
)
_ORIGINAL = lazy_pattern(r"\b(?:original(?:ly)?|at first|initial(?:ly)?)\b")
# "My old number" asks for the attribute that "my number" asks for.
_OLD = lazy_pattern(r"\b(?:previous|former|old) (?=\w)", re.IGNORECASE)
_HAPPENED = lazy_pattern(r"\b(?:did|was|were|had)\b")
_CONFIRMS = lazy_pattern(r"(?:am|are|is|do|does|did|have|has|was|were|can|will)\b")
_VALUES = (
    (lazy_pattern(r"\b(?:phone|mobile|cell|digits)\b"), LONG_NUMBER | CODE),
    (
        lazy_pattern(r"\b(?:password|passcode|code|pin|combination|login|plate|reference|serial)\b"),
        CODE | LONG_NUMBER,
    ),
    (
        lazy_pattern(
            r"\b(?:how much|costs?|price|rent|pay|paid|paying|charge|rate|salary|budget|fee|deposit|owe|earn"
            r"|how many|how old|how long|how tall|how far|how big)\b"
        ),
        NUMBER,
    ),
    (
        lazy_pattern(r"\b(?:what time|when|(?:what|which) (?:date|days?)|deadline|due|birthday)\b"),
        NUMBER | DATE,
    ),
)
_NAME = lazy_pattern(r"(?<=[^.!?\s] )[^\W\d_a-z][\w-]*|\b[\w-]+(?=['’]s\b)")
_NOT_NAMES = frozenset([
    "what", "who", "where", "when", "how", "that", "there", "here", "it", "let", "she", "he", "today", "name", "i",
    "mother", "father", "mom", "mum", "dad", "sister", "brother", "wife", "husband", "son", "daughter",
])  # fmt: skip


_FIRST_PERSON = frozenset(("i", "my", "me", "mine", "am"))


def read_intent(query: str) -> Intent:
    """Return what kind of answer a question wants."""
    return _read_short(query) if len(query) <= _MAX_CACHED_LENGTH else _read(query)


def _read(query: str) -> Intent:
    folded = query.lower()
    values = 0
    for pattern, features in _VALUES:
        if pattern.search(folded):
            values |= features
    names = _read_names(query)
    replaced = _REPLACED.search(folded) is not None
    words = folded.replace("’", "'").replace("'", " ").split()
    return Intent(
        lists=_LISTS.match(folded.strip()) is not None,
        joins=_JOINS.search(folded) is not None,
        past=_PAST.search(folded) is not None,
        replaced=replaced,
        original=replaced and _ORIGINAL.search(folded) is not None,
        happened=_HAPPENED.search(folded) is not None,
        confirms=_CONFIRMS.match(folded) is not None,
        values=values,
        names=names,
        head=_read_head(folded),
        asked=read_asked_attribute(put_in_present(query) if replaced else _OLD.sub("", query), names, _NOT_THINGS),
        numbers=_read_numbers(folded) if any(map(str.isdigit, query)) else frozenset(),
        first_person=not _FIRST_PERSON.isdisjoint(words),
        words=len(words),
        clauses=split_clauses(query),
    )


_read_short = lru_cache(maxsize=1024)(_read)


def _read_names(query: str) -> frozenset[str]:
    """Return the terms of capitalised words inside the question, and of words with a possessive "'s"."""
    names = [name for name in _NAME.findall(query) if fold(name) not in _NOT_NAMES]
    return frozenset(extract_terms(" ".join(names))) - TIME_TERMS


_NUMBERED = lazy_pattern(
    r"\b(?:(?:i|you|we|he|she|they|it|to) (?P<verb>\w+)|(?P<thing>[^\W\d_]+)) (?:no\.? |number |#)?"
    r"(?P<number>\d+[a-z]?)\b(?![.:,/-]?\d)"
)


def _read_numbers(query: str) -> frozenset[str]:
    """Return the terms of numbers that follow the name of a thing, as in "room 12". Dates and amounts are left out."""
    return frozenset(
        term
        for match in _NUMBERED.finditer(query)
        if match["thing"] and extract_terms(match["thing"]) and TIME_TERMS.isdisjoint(extract_terms(match["thing"]))
        for term in extract_terms(match["number"])
    )


_THING = lazy_pattern(
    r"(?:what(?:'s|’s| is| was| are| were)|what (?:kind|sort|type|brand|colou?r) of|what|which)\b(?P<thing>[^?.!,;]*)"
)
_ENDS_THING = lazy_pattern(
    r"\b(?:of|for|in|on|at|to|from|with|by|about|that|who|which|when|where|as|do|does|did|is|are|was|were|am|has|have|had|can"
    r"|could|should|will|would|i|you|he|she|it|we|they)\b"
)


def _read_head(query: str) -> str:
    """Return the last term of the first noun phrase that a question with "what" or "which" asks for."""
    match = _THING.search(query)
    if match is None:
        return ""
    phrase = _ENDS_THING.split(match["thing"].strip(), maxsplit=1)[0]
    words = extract_terms(phrase)
    return words[-1] if words else ""


_PRESENT = (
    (lazy_pattern(r"\bdid (?=(?:i|we|you|they)\b)", re.IGNORECASE), "do "),
    (lazy_pattern(r"\bdid\b", re.IGNORECASE), "does"),
    (lazy_pattern(r"\bwas (?=i\b)", re.IGNORECASE), "am "),
    (lazy_pattern(r"\bwas\b", re.IGNORECASE), "is"),
    (lazy_pattern(r"\bwere\b", re.IGNORECASE), "are"),
    (lazy_pattern(r"\buse(?:d)? to ", re.IGNORECASE), ""),
)


def put_in_present(query: str) -> str:
    """Return a question about what was true before a change as the question about the present."""
    for pattern, words in _PRESENT:
        query = pattern.sub(words, query)
    return _OLD.sub("", query)


_BEFORE = lazy_pattern(
    r"(?P<rest>.+?),? (?:before|prior to) (?P<anchor>[^?.!,;]{2,60})\??\s*", re.IGNORECASE | re.DOTALL
)
_COUNTED = lazy_pattern(r"how \w+|.*\b(?:day|night|morning|week|weekend|month|year)s?", re.IGNORECASE | re.DOTALL)


def split_before(query: str) -> tuple[str, str] | None:
    """Return the two parts of a question around the word "before", as in "Where did I work before the bar?".

    None if the question has no such parts, if a time follows the word, or if the question counts time back from an
    event ("two weeks before the trip").
    """
    match = _BEFORE.fullmatch(query) if "before" in query or "prior to" in query else None
    if match is None or _COUNTED.fullmatch(match["rest"]) or is_time(match["anchor"]):
        return None
    return (match["rest"], match["anchor"]) if extract_terms(match["rest"]) and extract_terms(match["anchor"]) else None
