"""Groups of words that exclude each other: a text about a cat does not say what the dog is called.

alternatives.json lists the groups. Each entry of a group is one word, or several with the same meaning.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from everhold.text.terms import extract_terms


class Alternative(NamedTuple):
    """The terms of one group that a question names, and all other terms of that group."""

    named: frozenset[str]
    others: frozenset[str]


@cache
def _get_groups() -> Sequence[Sequence[frozenset[str]]]:
    document = json.loads(Path(__file__).with_name("alternatives.json").read_text("utf-8"))
    return [[frozenset(extract_terms(words)) for words in group] for group in document]


@cache
def _get_grouped_terms() -> frozenset[str]:
    return frozenset(term for group in _get_groups() for words in group for term in words)


def find_alternatives(terms: Iterable[str]) -> Sequence[Alternative]:
    """Return, for each group that a question with these terms names a word of, the named and the other terms."""
    grouped = _get_grouped_terms().intersection(terms)
    return _list_alternatives(grouped) if grouped else ()


@lru_cache(maxsize=1024)
def _list_alternatives(grouped: frozenset[str]) -> Sequence[Alternative]:
    alternatives = []
    for group in _get_groups():
        named_entries = [words for words in group if not words.isdisjoint(grouped)]
        if named_entries:
            named_terms = frozenset[str]().union(*named_entries)
            alternatives.append(Alternative(named_terms, frozenset[str]().union(*group) - named_terms))
    return tuple(alternatives)
