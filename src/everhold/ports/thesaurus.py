"""Terms that mean nearly the same, so that one may be found by the other."""

from collections.abc import Hashable, Sequence
from typing import Protocol


class Thesaurus(Hashable, Protocol):
    """Knows terms, as `everhold.text.terms.terms` makes them, by what they mean. Any thread may ask."""

    def alike(self, term: str) -> Sequence[tuple[str, float]]:
        """Other terms that mean nearly the same as a term, the nearest first, each once with its likeness.

        Likeness lies between 0 and 1, both excluded; higher is nearer. A term that is not known has none alike,
        and none is alike to itself. That one is alike to another does not promise the reverse.
        """
        ...

    def rank(self, word: str) -> int | None:
        """Return how common a word as it is written in lower case is, 0 for the commonest; None if it is not known."""
        ...


class NoThesaurus:
    """Knows no terms."""

    def alike(self, term: str) -> Sequence[tuple[str, float]]:
        return ()

    def rank(self, word: str) -> int | None:
        return None


NO_THESAURUS = NoThesaurus()
