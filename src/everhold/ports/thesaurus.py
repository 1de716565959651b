"""A thesaurus: terms with nearly the same meaning, so that a search for one finds the other."""

from collections.abc import Hashable, Sequence
from typing import Protocol


class Thesaurus(Hashable, Protocol):
    """Finds terms of similar meaning. Terms are those of `everhold.text.terms.extract_terms`. Thread-safe."""

    def find_similar(self, term: str) -> Sequence[tuple[str, float]]:
        """Return other terms of nearly the same meaning with their similarity, most similar first, each term once.

        The similarity lies between 0 and 1, both excluded. An unknown term has no similar terms, and no term is
        similar to itself. The relation need not be symmetric.
        """
        ...

    def rank(self, word: str) -> int | None:
        """Return the frequency rank of a lower-case word, 0 for the most common one; None if it is unknown."""
        ...


class EmptyThesaurus:
    """A thesaurus without terms."""

    def find_similar(self, term: str) -> Sequence[tuple[str, float]]:
        return ()

    def rank(self, word: str) -> int | None:
        return None


NO_THESAURUS = EmptyThesaurus()
