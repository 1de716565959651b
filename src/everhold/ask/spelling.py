"""Correct misspelled words of a question: "ordres per chanel" becomes "orders per channel"."""

import re
from collections import defaultdict
from collections.abc import Iterable

from everhold.ask.language.cues import PHRASES
from everhold.ask.profile.names import split_name
from everhold.ask.schema import AskSchema
from everhold.ask.values import measure_edit_distance
from everhold.text.terms import fold

_MIN_LETTERS = 4  # shorter words have too many neighbours
_MIN_LETTERS_REPLACED = 5  # in shorter words only swapped, missing and additional letters are corrected


class SpellingIndex:
    """An index of the words of a schema's names and of the grammar's phrases."""

    def __init__(self, schema: AskSchema) -> None:
        names = [table.name for table in schema.tables] + [column.name for column in schema.columns()]
        words = {word for name in names for word in split_name(name)} | {word for phrase in PHRASES for word in phrase}
        self._by_first_letter: dict[str, list[str]] = defaultdict(list)
        for word in sorted(word for word in words if len(word) >= _MIN_LETTERS and word.isalpha()):
            self._by_first_letter[word[0]].append(word)

    def find_correction(self, word: str) -> str | None:
        """Return the known word that differs from a word by one typing error; None unless there is exactly one."""
        plain = fold(word)
        if len(plain) < _MIN_LETTERS or not plain.isalpha():
            return None
        similar = [known for known in self._by_first_letter.get(plain[0], ()) if _is_misspelled(plain, known)]
        return similar[0] if len(similar) == 1 and similar[0] != plain else None


def _is_misspelled(word: str, known: str) -> bool:
    if len(word) == len(known):
        differing = [index for index, letter in enumerate(word) if letter != known[index]]
        is_swap = (
            len(differing) == 2
            and differing[1] == differing[0] + 1
            and word[differing[0]] == known[differing[1]]
            and word[differing[1]] == known[differing[0]]
        )
        return is_swap or (len(differing) == 1 and len(word) >= _MIN_LETTERS_REPLACED)
    return measure_edit_distance(word, known, 1) <= 1


def replace_words(question: str, corrections: Iterable[tuple[str, str]]) -> str:
    """Return a question in which each occurrence of a misspelled word as a whole word is replaced."""
    for word, correction in corrections:
        question = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", correction, question)
    return question
