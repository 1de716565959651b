"""The schema that questions are read with: tables, columns and keys, as frozen values."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everhold.ask.formulas import Formula


class ColumnKind(StrEnum):
    """The kind of values that a column has."""

    ID = "id"
    CODE = "code"
    CATEGORY = "category"
    MEASURE = "measure"
    YEAR = "year"
    DATE = "date"
    FLAG = "flag"
    TEXT = "text"


@dataclass(frozen=True, order=True)
class ColumnRef:
    """The address of a column."""

    table: str
    column: str


@dataclass(frozen=True)
class AskColumn:
    """A column. `words` are the stems of its name, and `core` those of them that are not in the table's name.

    `label` is the name that a user gave the column, and `unit` the unit of its numbers; both may be empty. `is_indexed`
    says that all of its values are in the index, so that other values are in no row. With a `formula`, the column is a
    learned metric, which is stored in no table.
    """

    table: str
    name: str
    kind: ColumnKind
    words: tuple[str, ...]
    core: tuple[str, ...]
    is_numeric: bool = False
    is_unique: bool = False
    has_nulls: bool = False
    true_value: str | int | None = None  # the value of a flag that means "yes"
    label: str = ""
    unit: str = ""
    is_indexed: bool = False
    formula: "Formula | None" = None

    @property
    def ref(self) -> ColumnRef:
        return ColumnRef(self.table, self.name)

    @property
    def is_time(self) -> bool:
        return self.kind in (ColumnKind.YEAR, ColumnKind.DATE)


@dataclass(frozen=True)
class AskTable:
    """A table. `core` are the stems of its name without words such as "data" or "list".

    `display` is the column that shows a row to people.
    """

    name: str
    words: tuple[str, ...]
    core: tuple[str, ...]
    columns: tuple[AskColumn, ...]
    key: str | None
    display: str
    row_count: int = 0
    second_display: str | None = None  # the column of last names, if the display column has first names

    @property
    def shown_refs(self) -> tuple[ColumnRef, ...]:
        """The columns that show a row to people: the display column, or first and last name."""
        names = (self.display,) if self.second_display is None else (self.display, self.second_display)
        return tuple(ColumnRef(self.name, name) for name in names)

    @property
    def key_ref(self) -> ColumnRef:
        """The column that identifies a row: the primary key, or without one the display column."""
        return ColumnRef(self.name, self.key or self.display)

    @property
    def display_ref(self) -> ColumnRef:
        return ColumnRef(self.name, self.display)


@dataclass(frozen=True)
class ForeignKey:
    """A column that refers to the key of another table. `confidence` is 1 if the database declares the key.

    `preference` is a factor for the cost of a join over the key, below 1 if confirmed statements used it.
    """

    table: str
    column: str
    to_table: str
    to_column: str
    confidence: float = 1.0
    preference: float = 1.0

    @property
    def ref(self) -> ColumnRef:
        return ColumnRef(self.table, self.column)

    @property
    def to_ref(self) -> ColumnRef:
        return ColumnRef(self.to_table, self.to_column)


@dataclass(frozen=True)
class AskSchema:
    """All tables, the keys between them, and the learned metrics."""

    tables: tuple[AskTable, ...]
    foreign_keys: tuple[ForeignKey, ...]
    metrics: tuple[AskColumn, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, AskTable]:
        return {table.name: table for table in self.tables}

    @cached_property
    def _by_ref(self) -> dict[ColumnRef, AskColumn]:
        return {column.ref: column for column in (*self.columns(), *self.metrics)}

    @cached_property
    def _keys_by_ref(self) -> dict[ColumnRef, ForeignKey]:
        return {key.ref: key for key in self.foreign_keys}

    def table(self, name: str) -> AskTable:
        return self._by_name[name]

    def column(self, ref: ColumnRef) -> AskColumn:
        return self._by_ref[ref]

    def columns(self) -> Iterator[AskColumn]:
        for table in self.tables:
            yield from table.columns

    def foreign_key(self, ref: ColumnRef) -> ForeignKey | None:
        """Return the foreign key of a column, if it has one."""
        return self._keys_by_ref.get(ref)

    @cached_property
    def _keys_by_table(self) -> dict[str, tuple[ForeignKey, ...]]:
        keys: dict[str, list[ForeignKey]] = {table.name: [] for table in self.tables}
        for key in self.foreign_keys:
            for name in dict.fromkeys((key.table, key.to_table)):
                keys[name].append(key)
        return {name: tuple(table_keys) for name, table_keys in keys.items()}

    def keys_at(self, table: str) -> tuple[ForeignKey, ...]:
        """Return the keys from and to a table, in their order."""
        return self._keys_by_table[table]

    @cached_property
    def _distances(self) -> dict[str, dict[str, int]]:
        """The results of `measure_distances`, which fills this dict."""
        return {}

    def measure_distances(self, table: str) -> dict[str, int]:
        """Return, for each table that is connected with a table, the number of keys on the shortest path to it."""
        if table not in self._distances:
            self._distances[table] = _measure_distances(table, self._neighbours)
        return self._distances[table]

    @cached_property
    def _neighbours(self) -> dict[str, set[str]]:
        neighbours: dict[str, set[str]] = {table.name: set() for table in self.tables}
        for key in self.foreign_keys:
            neighbours[key.table].add(key.to_table)
            neighbours[key.to_table].add(key.table)
        return neighbours


def _measure_distances(start: str, neighbours: dict[str, set[str]]) -> dict[str, int]:
    distances, frontier, distance = {start: 0}, [start], 0
    while frontier:
        distance += 1
        frontier = [name for table in frontier for name in sorted(neighbours[table]) if name not in distances]
        distances.update(dict.fromkeys(frontier, distance))
    return distances
