"""Rows of every table in dictionaries, found by any of their values."""

from collections.abc import Mapping
from typing import Any, TypeVar

from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, TABLES
from everhold.schema.codec import decode_json, json_text
from everhold.schema.rules import key_of
from everhold.schema.table import Kind, Table

Key = tuple[Any, ...]
R = TypeVar("R", bound=Row)
_JSON = {
    entity: tuple(column.name for column in table.columns if column.kind is Kind.JSON)
    for entity, table in CATALOG.items()
}


class Rows:
    """All rows by table and key.

    An index over some columns is made when they are first asked for and kept from then on.
    """

    def __init__(self) -> None:
        self._rows: dict[str, dict[Key, Row]] = {name: {} for name in TABLES}
        self._indexes: dict[str, dict[tuple[str, ...], dict[Key, dict[Key, None]]]] = {name: {} for name in TABLES}

    def get(self, table: Table, key: Key) -> Row | None:
        return self._rows[table.name].get(key)

    def all(self, table: Table) -> list[Row]:
        return list(self._rows[table.name].values())

    def set(self, table: Table, key: Key, row: Row | None) -> None:
        """Puts, replaces or (with None) removes the row with this key."""
        rows = self._rows[table.name]
        before = rows.get(key)
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


def copied(row: R) -> R:
    """The same row with JSON values of its own, as they would come back from any store."""
    values = row.__dict__
    own = {name: decode_json(json_text(values[name])) for name in _JSON[type(row)] if values[name] is not None}
    return row.model_copy(update=own) if own else row
