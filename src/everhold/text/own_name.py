"""The name of a user in texts: in the user's own scope, "Kim moved to Oslo" says the same as "I moved to Oslo"."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from everhold.text.common_words import get_common_terms
from everhold.text.date_words import MONTHS, WEEKDAYS
from everhold.text.lazy_pattern import lazy_pattern
from everhold.text.terms import STOP_WORDS, extract_terms, fold

_MIN_NAME_LENGTH = 3
# Ids that are words for any user or agent, not the name of a person.
_NOT_NAMES = frozenset(("user", "users", "admin", "assistant", "agent", "default", "guest", "test", "tester"))
# Speakers with these names are the assistant, not a person.
_ASSISTANTS = frozenset(("assistant", "ai", "bot", "chatbot", "model", "agent", "system", "ai assistant"))
_LEADING_NAME = lazy_pattern(r"^[A-Z][\w.'-]*(?: [A-Z][\w.'-]*)*(?= [a-z])")
_VERBS = (("is", "am"), ("has", "have"), ("was", "was"), ("does", "do"), ("doesn't", "don't"), ("isn't", "am not"))


@lru_cache(maxsize=1024)
def find_own_names(user: str | None) -> tuple[str, ...]:
    """Return the words of a user's id that may be the user's name, folded."""
    return tuple(name for word in (user or "").split() if _is_name(name := fold(word)))


def _is_name(word: str) -> bool:
    if len(word) < _MIN_NAME_LENGTH or not word.replace("-", "").isalpha() or word in _NOT_NAMES:
        return False
    is_word = word in STOP_WORDS or word in MONTHS or word in WEEKDAYS
    return not is_word and get_common_terms().isdisjoint(extract_terms(word))


def is_assistant(speaker: str | None) -> bool:
    """Return whether the name of a speaker is a word for an assistant."""
    return speaker is not None and fold(speaker) in _ASSISTANTS


def put_in_first_person(text: str, user: str | None, content: Mapping[str, Any]) -> str:
    """Return a text of a user in which "I" and "my" replace the user's name, where it is written as a name.

    `content` is the content of the memory. A fact about the user that was read from a message begins with "User" or
    with the name of the message's speaker; both become "I". A name with another capitalised word beside it may be that
    of another person, so it stays.
    """
    if user is None:
        return text
    if _is_of_user(content):
        text = _LEADING_NAME.sub("I", text)
    for pattern, is_possessive in _find_patterns(user):
        text = pattern.sub("my" if is_possessive else _write_i, text)
    return text


@lru_cache(maxsize=1024)
def _find_patterns(user: str | None) -> tuple[tuple[re.Pattern[str], bool], ...]:
    patterns: list[tuple[re.Pattern[str], bool]] = []
    for name in find_own_names(user):
        capitalized = "-".join(part.capitalize() for part in name.split("-"))
        before, after = r"(?<![\w'’-])(?<![A-Z][a-z] )", r"(?![\w-])(?! [A-Z])"
        verbs = "|".join(re.escape(verb) for verb, _ in _VERBS)
        patterns.append((re.compile(rf"{before}{capitalized}['’]s(?= [a-z])(?! (?:{_AFTER_IS})\b)"), True))
        patterns.append((re.compile(rf"{before}{capitalized}(?P<is>['’]s\b)?(?: (?P<verb>{verbs})\b)?{after}"), False))
    return tuple(patterns)


# After these words, "'s" is "is" or "has".
_AFTER_IS = r"a|an|the|been|got|gone|now|in|at|on|off|not|no|allergic|moving|moved|going|living|working|\w+ing|\w+ed"


def _write_i(match: re.Match[str]) -> str:
    if match["is"]:
        return "I am"
    return f"I {dict(_VERBS)[match['verb']]}" if match["verb"] else "I"


def name_user(text: str, content: Mapping[str, Any]) -> str:
    """Return the text of a memory; a fact about the user that was read from a message begins with "User"."""
    return _LEADING_NAME.sub("User", text) if _is_of_user(content) else text


def _is_of_user(content: Mapping[str, Any]) -> bool:
    return content.get("subject") == "user" and "attribute" in content


def put_in_third_person(question: str, name: str) -> str:
    """Return a question in which a name replaces "I" and "my"."""
    for pattern, replacement in _THIRD_PERSON:
        question = pattern.sub(replacement.format(name=name), question)
    return question


_THIRD_PERSON = (
    (lazy_pattern(r"\bam i\b", re.IGNORECASE), "is {name}"),
    (lazy_pattern(r"\bi am\b|\bi'm\b", re.IGNORECASE), "{name} is"),
    (lazy_pattern(r"\bdo i\b", re.IGNORECASE), "does {name}"),
    (lazy_pattern(r"\bhave i\b", re.IGNORECASE), "has {name}"),
    (lazy_pattern(r"\b(?:my|mine)\b", re.IGNORECASE), "{name}'s"),
    (lazy_pattern(r"\b(?:i|me)\b", re.IGNORECASE), "{name}"),
)
