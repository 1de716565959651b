"""Find the names in texts: words with a capital letter that are not there because a sentence begins."""

import re
from collections.abc import Iterable

from everhold.text.common_words import get_common_terms
from everhold.text.date_words import TRIGGERS
from everhold.text.terms import extract_terms, fold

_CAPITALISED = re.compile(r"[^\W\d_a-z][\w]*(?:['’-]\w+)*")
_BEGINNING = re.compile(r"(?:\A|[.!?:;\n]\s*|[\"“”'(\[•-]\s*)\Z")
_POSSESSIVE = re.compile(r"['’]s?\Z")
_MIN_LETTERS = 3


def find_names(texts: Iterable[str]) -> list[dict[str, str]]:
    """Return the names in each text: a map of the folded name to the name as it is written.

    A word at the beginning of a sentence counts only if another sentence has it with a capital inside.
    """
    inside: list[dict[str, str]] = []
    beginning: list[dict[str, str]] = []
    for text in texts:
        inside.append({})
        beginning.append({})
        for match in _CAPITALISED.finditer(text):
            name = _POSSESSIVE.sub("", match.group())
            key = fold(name)
            if not _can_be_name(name, key):
                continue
            begins = _BEGINNING.search(text[: match.start()]) is not None
            (beginning if begins else inside)[-1].setdefault(key, name)
    known = set().union(*inside)
    return [
        own | {key: name for key, name in others.items() if key in known}
        for own, others in zip(inside, beginning, strict=True)
    ]


def _can_be_name(name: str, key: str) -> bool:
    if len(name) < _MIN_LETTERS or not name[0].isupper() or key in TRIGGERS:
        return False
    terms = extract_terms(key)
    return bool(terms) and not get_common_terms().issuperset(terms)
