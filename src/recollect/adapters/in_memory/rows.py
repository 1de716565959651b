"""Rows of every table in dictionaries, found by any of their values, and undone together if a commit fails."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from recollect.model.base import Row
from recollect.schema.catalog import TABLES
from recollect.schema.rules import key_of
from recollect.schema.table import Table

Key = tuple[Any, ...]


class Rows:
    """All rows by table and key.

    An index over some columns is made when they are first asked for and kept from then on.
    """

    def __init__(self) -> None:
        self._rows: dict[str, dict[Key, Row]] = {name: {} for name in TABLES}
        self._indexes: dict[str, dict[tuple[str, ...], dict[Key, dict[Key, None]]]] = {name: {} for name in TABLES}
        self._drawn: dict[str, int] = {}
        self._journal: list[tuple[Table, Key, Row | None]] = []

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Undoes everything set inside if it ends with an error. Drawn numbers stay drawn."""
        self._journal.clear()
        try:
            yield
        except BaseException:
            for table, key, before in reversed(self._journal[:]):
                self.set(table, key, before)
            raise
        finally:
            self._journal.clear()

    def draw(self, table: Table) -> int:
        """A number greater than all drawn before."""
        self._drawn[table.name] = self._drawn.get(table.name, 0) + 1
        return self._drawn[table.name]

    def get(self, table: Table, key: Key) -> Row | None:
        return self._rows[table.name].get(key)

    def all(self, table: Table) -> list[Row]:
        return list(self._rows[table.name].values())

    def set(self, table: Table, key: Key, row: Row | None) -> None:
        """Puts, replaces or (with None) removes the row with this key."""
        rows = self._rows[table.name]
        before = rows.get(key)
        self._journal.append((table, key, before))
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
        for columns, index in self._indexes[table.name].items():
            if before is not None:
                index[_values(before, columns)].pop(key, None)
            if row is not None:
                index.setdefault(_values(row, columns), {})[key] = None

    def having(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        columns = tuple(sorted(values))
        index = self._indexes[table.name].get(columns)
        if index is None:
            index = self._indexes[table.name][columns] = self._made_index(table, columns)
        rows = self._rows[table.name]
        return [rows[key] for key in index.get(tuple(values[name] for name in columns), ())]

    def _made_index(self, table: Table, columns: tuple[str, ...]) -> dict[Key, dict[Key, None]]:
        index: dict[Key, dict[Key, None]] = {}
        for row in self._rows[table.name].values():
            index.setdefault(_values(row, columns), {})[key_of(table, row)] = None
        return index


def _values(row: Row, columns: tuple[str, ...]) -> Key:
    values = row.__dict__
    return tuple(values[name] for name in columns)
