"""Sources of synonyms for the words of a question that do not occur in any table, column or value."""

from collections.abc import Sequence
from typing import Protocol


class SynonymSource(Protocol):
    """Finds words of the same or nearly the same meaning. Thread-safe."""

    def find_similar(self, word: str) -> Sequence[tuple[str, float]]:
        """Return other words or stems for a lower-case word with their similarity from 0 to 1, most similar first."""
        ...
