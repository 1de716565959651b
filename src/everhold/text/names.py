"""Find the names in texts: words that are capitalised for another reason than the beginning of a sentence."""

import re
from collections.abc import Iterable

from everhold.text.common_words import get_common_terms
from everhold.text.date_words import is_trigger
from everhold.text.terms import extract_terms, fold

_CAPITALISED = re.compile(r"[^\W\d_a-z][\w]*(?:['’-]\w+)*")
_BEGINNING = re.compile(r"(?:\A|[.!?:;\n]\s*|[\"“”'(\[•-]\s*)\Z")
_POSSESSIVE = re.compile(r"['’]s?\Z")
_MIN_LETTERS = 3


def find_names(texts: Iterable[str]) -> list[dict[str, str]]:
    """Return the names in each text, as they are written, by folded name.

    A word at the beginning of a sentence counts only if it is also capitalised inside a sentence of one of the texts.
    """
    names_inside: list[dict[str, str]] = []
    names_at_beginning: list[dict[str, str]] = []
    for text in texts:
        names_inside.append({})
        names_at_beginning.append({})
        for match in _CAPITALISED.finditer(text):
            name = _POSSESSIVE.sub("", match.group())
            key = fold(name)
            if not _can_be_name(name, key):
                continue
            is_first_word = _BEGINNING.search(text[: match.start()]) is not None
            names = names_at_beginning if is_first_word else names_inside
            names[-1].setdefault(key, name)
    known_keys = set().union(*names_inside)
    return [
        inner_names | {key: name for key, name in first_names.items() if key in known_keys}
        for inner_names, first_names in zip(names_inside, names_at_beginning, strict=True)
    ]


def _can_be_name(name: str, key: str) -> bool:
    if len(name) < _MIN_LETTERS or not name[0].isupper() or is_trigger(key):
        return False
    terms = extract_terms(key)
    return bool(terms) and not get_common_terms().issuperset(terms)
