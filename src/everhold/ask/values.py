"""An index of the values in text columns. It finds the values that words of a question name.

A match is exact, by the stems of the words, by an adjective ("european" for "europe"), or by a small edit distance.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from everhold.ask.language.countries import COUNTRY_NAMES
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import split_words
from everhold.ask.schema import ColumnRef
from everhold.ports.table_content import Cell, TableContent

# In words. Longer values are sentences, which a question does not repeat.
_MAX_VALUE_WORDS = 12

# In letters. Shorter words differ from too many others by one letter.
_MIN_FUZZY_LETTERS = 5

# One edit is allowed for every six letters.
_LETTERS_PER_EDIT = 6

# Endings that turn a name into an adjective: "europe" + "an". A name without its ending has at least four letters.
_ADJECTIVE_SUFFIXES = ("n", "an", "ian", "ean", "ese", "ish", "i", "s")
_MIN_NAME_LETTERS = 4

# The similarity of each kind of match, set by hand: only the order of the kinds matters. Each edit of a misspelled
# value lowers its similarity by `_COST_PER_EDIT`.
_PADDED = 0.97
_SAME_STEMS = 0.9
_COUNTRY_ADJECTIVE = 0.9
_MISSPELLED = 0.85
_ADJECTIVE = 0.8
_COST_PER_EDIT = 0.1


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value and the column that has it."""

    ref: ColumnRef
    raw: Cell


@dataclass(frozen=True)
class ValueMatch:
    """A stored value that words of a question name.

    `similarity` is 1 if they are equal except for case and spacing. `why` is the kind of match: "exact", "stem",
    "derived" or "similar".
    """

    value: StoredValue
    similarity: float
    why: str


class TableValues:
    """The values of one table's text columns, by their words and by the stems of their words.

    Values that consist of digits are not indexed, because a number in a question is read as a number.
    """

    def __init__(self, table: TableContent) -> None:
        self.exact: dict[tuple[str, ...], list[StoredValue]] = defaultdict(list)
        self.stemmed: dict[tuple[str, ...], list[StoredValue]] = defaultdict(list)
        for column in table.columns:
            ref = ColumnRef(table.name, column.name)
            for raw in column.values:
                if isinstance(raw, str):
                    self._add(StoredValue(ref, raw))
        self.first_words = frozenset(words[0] for words in self.exact)
        self.first_stems = frozenset(stems[0] for stems in self.stemmed)

    def _add(self, value: StoredValue) -> None:
        words = tuple(split_words(str(value.raw)))
        if _is_indexed(words):
            self.exact[words].append(value)
            self.stemmed[tuple(map(stem, words))].append(value)

    @cached_property
    def by_first_letter(self) -> dict[tuple[str, int], list[tuple[str, ...]]]:
        """The words of values, by first letter and number of words. A misspelled value is searched in one group."""
        grouped: dict[tuple[str, int], list[tuple[str, ...]]] = defaultdict(list)
        for words in self.exact:
            grouped[words[0][:1], len(words)].append(words)
        return grouped


class ValueIndex:
    """The values of several tables. The index of each table is built once and shared by every `ValueIndex` with it."""

    def __init__(self, tables: Iterable[TableContent]) -> None:
        self._set_tables(map(TableValues, tables))

    @classmethod
    def join(cls, tables: Iterable[TableValues]) -> "ValueIndex":
        """Return an index that searches these tables, in this order."""
        joined = cls(())
        joined._set_tables(tables)
        return joined

    def _set_tables(self, tables: Iterable[TableValues]) -> None:
        self._tables = tuple(tables)
        # Most words of a question begin no value. One look into these sets saves a look into every table.
        self._first_words = frozenset[str]().union(*(table.first_words for table in self._tables))
        self._first_stems = frozenset[str]().union(*(table.first_stems for table in self._tables))

    def _get_exact(self, words: tuple[str, ...]) -> list[StoredValue]:
        if not words or words[0] not in self._first_words:
            return []
        return [value for table in self._tables for value in table.exact.get(words, ())]

    def _get_stemmed(self, stems: tuple[str, ...]) -> list[StoredValue]:
        if not stems or stems[0] not in self._first_stems:
            return []
        return [value for table in self._tables for value in table.stemmed.get(stems, ())]

    def group_columns_by_value(self) -> Iterator[set[ColumnRef]]:
        """Yield, for each value, the set of columns that have it."""
        columns: dict[tuple[str, ...], set[ColumnRef]] = defaultdict(set)
        for table in self._tables:
            for words, stored in table.exact.items():
                columns[words].update(value.ref for value in stored)
        yield from columns.values()

    def find_exact(self, words: Sequence[str]) -> list[ValueMatch]:
        """Return the values that consist of these words in lower case.

        If there is none, return values with the same stems, or else values of which the words are the adjective.
        """
        exact = self._get_exact(tuple(words))
        if exact:
            # If " Paris" and "Paris" are both stored, the question means the one without the space.
            return [ValueMatch(value, _PADDED if _is_padded(value) else 1.0, "exact") for value in exact]
        stemmed = self._get_stemmed(tuple(map(stem, words)))
        return [ValueMatch(value, _SAME_STEMS, "stem") for value in stemmed] or self._find_by_adjective(words)

    def _find_by_adjective(self, words: Sequence[str]) -> list[ValueMatch]:
        """Return the values to which the words are the adjective: "europe" for "european", "germany" for "german"."""
        for name in COUNTRY_NAMES.get(" ".join(words), ()):
            if values := self._get_exact(tuple(name.split())):
                return [ValueMatch(value, _COUNTRY_ADJECTIVE, "derived") for value in values]
        if len(words) != 1 or len(words[0]) < _MIN_FUZZY_LETTERS:
            return []
        for suffix in _ADJECTIVE_SUFFIXES:
            base = words[0].removesuffix(suffix)
            if base != words[0] and len(base) >= _MIN_NAME_LETTERS:
                for candidate in (base, base + "a", base + "e"):
                    if values := self._get_exact((candidate,)):
                        return [ValueMatch(value, _ADJECTIVE, "derived") for value in values]
        return []

    def may_hold(self, ref: ColumnRef, text: str, *, ignores_case: bool = False) -> bool:
        """Return whether a column holds a text, apart from spaces at its end; True if such texts are not indexed."""
        words = tuple(split_words(text))
        fold = str.casefold if ignores_case else str
        wanted_text = fold(text.rstrip())
        stored = (str(value.raw).rstrip() for value in self._get_exact(words) if value.ref == ref)
        return not _is_indexed(words) or any(fold(raw) == wanted_text for raw in stored)

    def find_similar(self, words: Sequence[str]) -> list[ValueMatch]:
        """Return the values within a small edit distance of these words, nearest first."""
        text = " ".join(words)
        max_edits = len(text) // _LETTERS_PER_EDIT
        if len(text) < _MIN_FUZZY_LETTERS or not max_edits:
            return []
        # The first letter and the number of words must agree, so that only one group of values is compared.
        group = text[:1], len(words)
        candidates = (candidate for table in self._tables for candidate in table.by_first_letter.get(group, ()))
        matches: list[ValueMatch] = []
        for candidate in dict.fromkeys(candidates):
            distance = measure_edit_distance(text, " ".join(candidate), max_edits)
            if distance <= max_edits:
                similarity = _MISSPELLED - _COST_PER_EDIT * distance
                matches.extend(ValueMatch(value, similarity, "similar") for value in self._get_exact(candidate))
        return sorted(matches, key=lambda match: -match.similarity)


def _is_indexed(words: Sequence[str]) -> bool:
    return 0 < len(words) <= _MAX_VALUE_WORDS and not all(word.isdigit() for word in words)


def _is_padded(value: StoredValue) -> bool:
    return str(value.raw) != str(value.raw).strip()


def measure_edit_distance(first: str, second: str, limit: int) -> int:
    """Return the Levenshtein distance of two texts, or `limit` + 1 if it is greater than `limit`."""
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    # row[j] is the distance of the letters of `first` read so far to the first j letters of `second`.
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, other_letter in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (letter != other_letter))
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
