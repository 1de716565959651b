"""Rows of every table in dictionaries, with indexes over any of their columns."""

from collections.abc import Mapping
from typing import Any, TypeVar

from everhold.model.base import Row
from everhold.schema.catalog import TABLES, ByEntity, get_key, get_table
from everhold.schema.codec import decode_json, encode_json
from everhold.schema.table import Kind, Table

Key = tuple[Any, ...]
R = TypeVar("R", bound=Row)
_JSON = ByEntity(lambda entity: tuple(c.name for c in get_table(entity).columns if c.kind is Kind.JSON))


class Rows:
    """All rows by table and key. An index over some columns is built when they are first searched."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Key, Row]] = {name: {} for name in TABLES}
        self._indexes: dict[str, dict[tuple[str, ...], dict[Key, dict[Key, None]]]] = {name: {} for name in TABLES}

    def get(self, table: Table, key: Key) -> Row | None:
        return self._rows[table.name].get(key)

    def list_rows(self, table: Table) -> list[Row]:
        return list(self._rows[table.name].values())

    def set(self, table: Table, key: Key, row: Row | None) -> None:
        """Add, replace or (with None) remove the row with this key."""
        rows = self._rows[table.name]
        before = rows.get(key)
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row
        for columns, index in self._indexes[table.name].items():
            if before is not None:
                index[_get_values(before, columns)].pop(key, None)
            if row is not None:
                index.setdefault(_get_values(row, columns), {})[key] = None

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        """Return the rows with these values. None equals None."""
        columns = tuple(sorted(values))
        index = self._indexes[table.name].get(columns)
        if index is None:
            index = self._indexes[table.name][columns] = self._build_index(table, columns)
        rows = self._rows[table.name]
        return [rows[key] for key in index.get(tuple(values[name] for name in columns), ())]

    def _build_index(self, table: Table, columns: tuple[str, ...]) -> dict[Key, dict[Key, None]]:
        index: dict[Key, dict[Key, None]] = {}
        for row in self._rows[table.name].values():
            index.setdefault(_get_values(row, columns), {})[get_key(row)] = None
        return index


def _get_values(row: Row, columns: tuple[str, ...]) -> Key:
    values = row.__dict__
    return tuple(values[name] for name in columns)


def copy_row(row: R) -> R:
    """Return the row with its own copies of JSON values, as a database would return them."""
    values = row.__dict__
    copies = {name: decode_json(encode_json(values[name])) for name in _JSON[type(row)] if values[name] is not None}
    return row.model_copy(update=copies) if copies else row
