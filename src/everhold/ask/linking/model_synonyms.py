"""Synonyms that are found by the vectors of an embedding model."""

from collections.abc import Sequence

from everhold.ask.language.stems import stem
from everhold.ports.thesaurus import Thesaurus


class ModelSynonyms:
    """A `SynonymSource` that looks up the stem of a word in the thesaurus of an embedding model."""

    def __init__(self, thesaurus: Thesaurus) -> None:
        self._thesaurus = thesaurus

    def find_similar(self, word: str) -> Sequence[tuple[str, float]]:
        return self._thesaurus.find_similar(stem(word))
