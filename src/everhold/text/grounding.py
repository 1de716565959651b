"""Find the names and numbers of a text, to check that a text about another one does not invent any."""

import re

from everhold.text.chunking import SENTENCE_END
from everhold.text.terms import fold

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NUMBER_WORDS = frozenset((
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty", "thirty",
    "forty", "fifty", "hundred", "thousand",
))  # fmt: skip
# Words that often begin a sentence and are not names.
_OPENERS = frozenset((
    "a", "after", "all", "an", "at", "before", "both", "for", "he", "her", "his", "in", "it", "on", "she", "since",
    "some", "the", "their", "there", "these", "they", "this", "those", "when", "while",
))  # fmt: skip


def has_only_known_names(text: str, source: str) -> bool:
    """Return whether every name and number of a text occurs in its source, in upper or lower case."""
    folded = fold(source)
    return find_names_and_numbers(text) <= {*_WORD.findall(folded), *_NUMBER.findall(folded)}


def find_names_and_numbers(text: str) -> set[str]:
    """Return the numbers of a text and its capitalised words, folded.

    A common word that is capitalised because it begins a sentence is left out.
    """
    folded = fold(text)
    names_and_numbers = {*_NUMBER.findall(folded), *_NUMBER_WORDS.intersection(_WORD.findall(folded))}
    for sentence in SENTENCE_END.split(text):
        words = _WORD.findall(sentence)
        if words and fold(words[0]) in _OPENERS:
            words = words[1:]
        names_and_numbers |= {fold(word) for word in words if word[0].isupper()}
    return names_and_numbers
