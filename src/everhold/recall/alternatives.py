"""Words of which one excludes the others: a text about a cat does not say what the dog is called.

alternatives.json lists groups of them. An alternative is one or more words with the same meaning, separated by spaces.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from everhold.text.terms import extract_terms


class Alternative(NamedTuple):
    """What a question names, and what else it could have named, as terms."""

    named: frozenset[str]
    others: frozenset[str]


@cache
def _get_groups() -> Sequence[Sequence[frozenset[str]]]:
    document = json.loads(Path(__file__).with_name("alternatives.json").read_text("utf-8"))
    return [[frozenset(extract_terms(words)) for words in group] for group in document]


@cache
def _get_grouped_terms() -> frozenset[str]:
    return frozenset(term for group in _get_groups() for words in group for term in words)


def find_alternatives(terms: Iterable[str]) -> list[Alternative]:
    """Return the alternatives that a question with these terms names, one for each group."""
    grouped = _get_grouped_terms().intersection(terms)
    alternatives = []
    for group in _get_groups() if grouped else ():
        named = [words for words in group if not words.isdisjoint(grouped)]
        if named:
            own = frozenset[str]().union(*named)
            alternatives.append(Alternative(own, frozenset[str]().union(*group) - own))
    return alternatives
