"""Which column holds which value, found by the words of a question: exact, by stems, or nearly."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from everhold.ask.language.countries import COUNTRY_NAMES
from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import split_words
from everhold.ask.schema import ColumnRef
from everhold.ports.table_content import Cell, TableContent

_LONGEST_VALUE = 12  # words; longer texts are no names that a question repeats
_SHORTEST_FUZZY = 5  # letters
_LETTERS_PER_EDIT = 6  # one edit may differ in six letters
_SUFFIXES = ("n", "an", "ian", "ean", "ese", "ish", "i", "s")  # "european" of "europe"


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value as its column stores it."""

    ref: ColumnRef
    raw: Cell


@dataclass(frozen=True)
class ValueMatch:
    """A stored value that words of a question name. `likeness` is 1 if they are equal but for case and spaces."""

    value: StoredValue
    likeness: float
    why: str


class TableValues:
    """The values of the text columns of one table by their words and by the stems of these.

    Numbers are left out: a question writes them as they are.
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
        if words and len(words) <= _LONGEST_VALUE and not all(word.isdigit() for word in words):
            self.exact[words].append(value)
            self.stemmed[tuple(map(stem, words))].append(value)

    @cached_property
    def by_first_letter(self) -> dict[tuple[str, int], list[tuple[str, ...]]]:
        """The words of values by the first letter and the number of words: where a misspelled value is looked for."""
        grouped: dict[tuple[str, int], list[tuple[str, ...]]] = defaultdict(list)
        for words in self.exact:
            grouped[words[0][:1], len(words)].append(words)
        return grouped


class ValueIndex:
    """The values of several tables. Each table is indexed once, whichever tables it is searched with."""

    def __init__(self, tables: Iterable[TableContent]) -> None:
        self._set_parts(map(TableValues, tables))

    @classmethod
    def join(cls, tables: Iterable[TableValues]) -> "ValueIndex":
        """Return the index of tables that have been indexed, in their order."""
        joined = cls(())
        joined._set_parts(tables)
        return joined

    def _set_parts(self, tables: Iterable[TableValues]) -> None:
        self._tables = tuple(tables)
        # Few words of a question begin a value, and only for those each table is looked at.
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

    def list_columns_of_values(self) -> Iterator[set[ColumnRef]]:
        """Yield, for each value, the columns that hold it."""
        columns: dict[tuple[str, ...], set[ColumnRef]] = defaultdict(set)
        for table in self._tables:
            for words, stored in table.exact.items():
                columns[words].update(value.ref for value in stored)
        yield from columns.values()

    def find_exact(self, words: Sequence[str]) -> list[ValueMatch]:
        """Return the values that are these words, in lower case, or the same but for their endings."""
        exact = self._get_exact(tuple(words))
        if exact:
            # A value with spaces around it is less likely meant than one that is stored as it is written.
            return [ValueMatch(value, 0.97 if _is_padded(value) else 1.0, "exact") for value in exact]
        stemmed = self._get_stemmed(tuple(map(stem, words)))
        return [ValueMatch(value, 0.9, "stem") for value in stemmed] or self._find_derived(words)

    def _find_derived(self, words: Sequence[str]) -> list[ValueMatch]:
        """Return the values that these words are an adjective of, as "european" is of "europe"."""
        for name in COUNTRY_NAMES.get(" ".join(words), ()):
            if values := self._get_exact(tuple(name.split())):
                return [ValueMatch(value, 0.9, "derived") for value in values]
        if len(words) != 1 or len(words[0]) < _SHORTEST_FUZZY:
            return []
        for suffix in _SUFFIXES:
            base = words[0].removesuffix(suffix)
            if base != words[0] and len(base) >= 4:
                for candidate in (base, base + "a", base + "e"):
                    if values := self._get_exact((candidate,)):
                        return [ValueMatch(value, 0.8, "derived") for value in values]
        return []

    def find_similar(self, words: Sequence[str]) -> list[ValueMatch]:
        """Return the values that differ from these words in few letters, the nearest first."""
        text = " ".join(words)
        allowed = len(text) // _LETTERS_PER_EDIT
        if len(text) < _SHORTEST_FUZZY or not allowed:
            return []
        group = text[:1], len(words)
        candidates = (candidate for table in self._tables for candidate in table.by_first_letter.get(group, ()))
        matches: list[ValueMatch] = []
        for candidate in dict.fromkeys(candidates):
            distance = measure_edits(text, " ".join(candidate), allowed)
            if distance <= allowed:
                likeness = 0.85 - 0.1 * distance
                matches.extend(ValueMatch(value, likeness, "similar") for value in self._get_exact(candidate))
        return sorted(matches, key=lambda match: -match.likeness)


def _is_padded(value: StoredValue) -> bool:
    return str(value.raw) != str(value.raw).strip()


def measure_edits(first: str, second: str, most: int) -> int:
    """Return the number of letters to change between two texts, or `most` + 1 if there are more."""
    if abs(len(first) - len(second)) > most:
        return most + 1
    row = list(range(len(second) + 1))
    for number, letter in enumerate(first, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(second, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (letter != other))
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)
