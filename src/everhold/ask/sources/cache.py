"""Cache the data about tables that questions need, while the rows of the tables are unchanged.

The key of an entry has the organization and the versions of the rows that it was built from, and callers look it up
with the versions in the store. So an entry is never used for another organization or after a change.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from everhold.ask.language.stems import stem
from everhold.ask.language.tokens import split_words
from everhold.ask.reading import QuestionReader
from everhold.ask.values import TableValues
from everhold.model import Connection, FieldMetadata, Source, TableMetadata
from everhold.ports.table_content import TableContent

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# The maximum weights of the caches. A text takes about 650 bytes with its words and stems, a column about 10,000 with
# its statistics.
_MAX_TEXTS = 400_000
_MAX_FIELDS = 20_000
_MAX_PATTERNS = 20_000

_MIN_VALUE_LENGTH = 3  # characters; shorter values occur in too many questions by chance

ScopeVersions = frozenset[tuple[str, int]]
"""The ids and versions of all sources, connections and tables of a scope."""
TableKey = tuple[str, str, int]
"""The organization, the id and the version of a table."""


class WeightedCache(Generic[K, V]):
    """A cache of the most recently used entries, up to a total weight. It may be shared by threads."""

    def __init__(self, max_weight: int) -> None:
        self._max_weight, self._weight = max_weight, 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Add or replace an entry. An entry that is heavier than the maximum weight is not stored."""
        with self._lock:
            if key in self._entries:
                self._weight -= self._entries.pop(key)[1]
            if weight > self._max_weight:
                return
            self._entries[key] = value, weight
            self._weight += weight
            while self._weight > self._max_weight:
                _, (_, removed_weight) = self._entries.popitem(last=False)
                self._weight -= removed_weight


@dataclass(frozen=True)
class FrequentValue:
    """A value of a column that a question may name. `words` are its words with a space on both sides."""

    field: FieldMetadata
    value: str
    words: str


@dataclass(frozen=True)
class ScopeTables:
    """The tables that a scope may read, ordered by name, with their sources or connections, and their columns."""

    tables: tuple[TableMetadata, ...]
    sources: Mapping[str, Source]
    fields: Mapping[str, tuple[FieldMetadata, ...]]
    """The columns by the id of their table, in their order."""
    connections: Mapping[str, Connection] = field(default_factory=dict)

    @cached_property
    def names(self) -> Mapping[str, frozenset[str]]:
        """The stems of the words of each table's name, by the table's id."""
        return {
            table.id: frozenset(map(stem, split_words(table.table_name.replace("_", " ")))) for table in self.tables
        }

    @cached_property
    def frequent_values(self) -> Mapping[str, Sequence[FrequentValue]]:
        """The frequent values of the columns of each table, by the table's id."""
        return {table_id: _list_frequent_values(fields) for table_id, fields in self.fields.items()}


def pad_words(text: str) -> str:
    """Return the words of a text with a space on both sides, so that `in` compares whole words."""
    return f" {' '.join(split_words(text))} "


def _list_frequent_values(fields: Sequence[FieldMetadata]) -> list[FrequentValue]:
    return [
        FrequentValue(field, value, pad_words(value))
        for field in fields
        for value in dict.fromkeys([*(top[0] for top in field.metadata.get("top_values", ())), *field.sample_values])
        if isinstance(value, str) and len(value) >= _MIN_VALUE_LENGTH
    ]


@dataclass(frozen=True)
class IndexedTable:
    """The content of a table, and an index of its values that is built at its first use."""

    content: TableContent
    is_partial: bool = False
    """Whether only sample values are known, because the file with all values is missing. Such a table is not cached."""

    @cached_property
    def values(self) -> TableValues:
        return TableValues(self.content)

    @property
    def text_count(self) -> int:
        """The number of texts in the table; numbers are not indexed."""
        return sum(isinstance(value, str) for column in self.content.columns for value in column.values)


class TableCache:
    """The caches of an engine for tables and for what was learned about them. They may be shared by threads."""

    def __init__(self) -> None:
        self.scopes: WeightedCache[tuple[str, str | None], tuple[ScopeVersions, ScopeTables]]
        self.scopes = WeightedCache(_MAX_FIELDS)
        self.tables: WeightedCache[TableKey, IndexedTable] = WeightedCache(_MAX_TEXTS)
        self.readers: WeightedCache[tuple[str, tuple[TableKey, ...]], QuestionReader] = WeightedCache(_MAX_TEXTS)
        # What scopes have learned about their tables, by organization, project and user.
        self.learned: WeightedCache[tuple[str, str | None, str | None], Any] = WeightedCache(_MAX_PATTERNS)


def make_table_key(table: TableMetadata) -> TableKey:
    return table.organization_id, table.id, table.version
