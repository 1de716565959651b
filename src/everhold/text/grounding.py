"""Find the names and numbers of a text, which a text about it must not invent."""

import re

from everhold.text.chunking import SENTENCE_END
from everhold.text.terms import fold

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NUMBER_WORDS = frozenset((
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "twenty", "thirty",
    "forty", "fifty", "hundred", "thousand",
))  # fmt: skip
# Words that often open a sentence and are no names.
_OPENERS = frozenset((
    "a", "after", "all", "an", "at", "before", "both", "for", "he", "her", "his", "in", "it", "on", "she", "since",
    "some", "the", "their", "there", "these", "they", "this", "those", "when", "while",
))  # fmt: skip


def has_only_known_names(text: str, source: str) -> bool:
    """Return whether every name and number of a text stands in its source, which may write a name in lower case."""
    folded = fold(source)
    return find_names_and_numbers(text) <= {*_WORD.findall(folded), *_NUMBER.findall(folded)}


def find_names_and_numbers(text: str) -> set[str]:
    """Return the numbers of a text and its capitalised words, folded.

    A word that is capitalised only because it opens a sentence is left out.
    """
    folded = fold(text)
    exact = {*_NUMBER.findall(folded), *_NUMBER_WORDS.intersection(_WORD.findall(folded))}
    for sentence in SENTENCE_END.split(text):
        words = _WORD.findall(sentence)
        if words and fold(words[0]) in _OPENERS:
            words = words[1:]
        exact |= {fold(word) for word in words if word[0].isupper()}
    return exact
