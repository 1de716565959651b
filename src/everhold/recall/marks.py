"""What kinds of values and words a text has, read from its terms and kept as bits for every row of an image."""

import re

from everhold.text.terms import extract_terms

NUMBER = 1
LONG_NUMBER = 2
"""A telephone number, or another number that long."""
CODE = 4
"""Letters and digits in one word, or a number of three to six digits."""
DATE = 8
"""A month or a day of the week."""
CHANGE = 16
"""A word that often tells of a change."""
SUPPOSITION = 32
"""A word for what may be, is wished or is planned."""
ADDITION = 64
"""A word for something beside what there is already."""

_DIGIT = re.compile("[0-9]")
_WORDS = {
    DATE: """
        january february march april may june july august september october november december
        jan feb mar apr jun jul aug sep sept oct nov dec
        monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun
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
_MARK_OF = {term: mark for mark, words in _WORDS.items() for term in extract_terms(words)}
DATE_TERMS = frozenset(term for term, mark in _MARK_OF.items() if mark == DATE)


def find_marks(document: str) -> int:
    """Return the marks of a text, given its terms separated by spaces."""
    words = document.split()
    marks = 0
    for mark in map(_MARK_OF.get, words):
        if mark is not None:
            marks |= mark
    if _DIGIT.search(document):
        marks |= _mark_numbers([word for word in words if _DIGIT.search(word)])
    return marks


def _mark_numbers(words: list[str]) -> int:
    lengths = [len(word) for word in words if word.isdigit()]
    marks = NUMBER if lengths else 0
    if lengths and (max(lengths) >= 6 or sum(lengths) >= 9):
        marks |= LONG_NUMBER
    if len(lengths) < len(words) or any(3 <= length <= 6 for length in lengths):
        marks |= CODE
    return marks
