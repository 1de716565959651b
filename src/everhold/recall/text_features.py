"""Find what kinds of values and words a text has. They are read from its terms and stored as bits of one number."""

import re

import numpy as np
from numpy.typing import NDArray

from everhold.recall.postings import Postings
from everhold.text.terms import extract_terms

NUMBER = 1
# A telephone number, or another number with as many digits.
LONG_NUMBER = 2
# Letters and digits in one word, or a number of three to six digits.
CODE = 4
# A month or a day of the week. "Wed" is left out, because it is also the term of "wedding".
DATE = 8
# A word that often announces a change.
CHANGE = 16
# A word of a possibility, a wish or a plan.
SUPPOSITION = 32
# A word of something additional, which replaces nothing.
ADDITION = 64

_DIGIT = re.compile("[0-9]")
# "One" is left out, because it is often a pronoun.
NUMBER_WORDS = """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million dozen
"""
_WORDS = {
    NUMBER: NUMBER_WORDS,
    DATE: """
        january february march april may june july august september october november december
        jan feb mar apr jun jul aug sep sept oct nov dec
        monday tuesday wednesday thursday friday saturday sunday mon tue tues thu thurs fri sat sun
    """,
    CHANGE: """
        new switched changed moved replaced swapped quit left sold bought started stopped cancelled canceled postponed
        pushed rescheduled instead updated renamed promoted ended finished gave dropped signed joined actually
        correction died broke split anymore longer upgraded raised bumped traded closed finally officially retired took
    """,
    SUPPOSITION: """
        might maybe thinking considering wish someday planning hope hoping tempted rumour rumor offered almost nearly
        joked dream imagine probably perhaps suggests idea wants
    """,
    ADDITION: "also another second additional extra spare both temporary borrow rental loaner",
}
_FEATURE_BY_TERM = {term: feature for feature, words in _WORDS.items() for term in extract_terms(words)}
DATE_TERMS = frozenset(term for term, feature in _FEATURE_BY_TERM.items() if feature == DATE)


_MIN_CODE_LENGTH, _MAX_CODE_LENGTH = 3, 6
# The minimum number of digits of a long number: in one word, or in all numbers of a text together, because telephone
# numbers are written in parts.
_LONG_WORD = 6
_LONG_TOGETHER = 9


def find_features(document: str) -> int:
    """Return the features of a text, given its terms separated by spaces."""
    words = document.split()
    features = 0
    for feature in map(_FEATURE_BY_TERM.get, words):
        if feature is not None:
            features |= feature
    digits = 0
    if _DIGIT.search(document):
        for word in filter(_DIGIT.search, words):
            features |= _classify_number(word)
            digits += len(word) if word.isdigit() else 0
    return features | LONG_NUMBER if digits >= _LONG_TOGETHER else features


def find_row_features(postings: Postings, size: int) -> NDArray[np.uint8]:
    """Return the features of all rows.

    Reading each term of the index once is several times faster than reading the texts of a large image.
    """
    features = np.zeros(size, np.uint8)
    for term, feature in _FEATURE_BY_TERM.items():
        features[postings.find(term).rows] |= feature
    digits = np.zeros(size, np.float32)
    for term in filter(_DIGIT.search, postings.terms):
        rows, counts = postings.find(term)
        features[rows] |= _classify_number(term)
        if term.isdigit():
            digits[rows] += len(term) * counts
    features[digits >= _LONG_TOGETHER] |= LONG_NUMBER
    return features


def _classify_number(word: str) -> int:
    """Return the features of a word with a digit."""
    if not word.isdigit():
        return CODE
    features = NUMBER
    if len(word) >= _LONG_WORD:
        features |= LONG_NUMBER
    if _MIN_CODE_LENGTH <= len(word) <= _MAX_CODE_LENGTH:
        features |= CODE
    return features
