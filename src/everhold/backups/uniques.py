"""Check the unique rules of a table, for rows that are combined from two backups."""

from collections.abc import Mapping
from typing import Any

from everhold.schema.table import TENANT, Table, Unique

_Values = Mapping[str, Any]


class UniqueValues:
    """The values of a table's rows that must be unique."""

    def __init__(self, table: Table) -> None:
        self._uniques = table.uniques
        self._seen: set[tuple[str, ...]] = set()

    def add(self, values: _Values) -> bool:
        """Add the values of a row; return False and add nothing if another row has one of them."""
        row_values = {_describe(unique, values) for unique in self._uniques if _applies(unique, values)}
        if not row_values.isdisjoint(self._seen):
            return False
        self._seen |= row_values
        return True

    def release(self, values: dict[str, Any]) -> dict[str, Any] | None:
        """Return a row without the unique values that another row has, and add it; None if they cannot be removed."""
        for unique in self._uniques:
            if _applies(unique, values) and _describe(unique, values) in self._seen:
                if unique.when is None:
                    return None
                values = values | {unique.when: None}
        return values if self.add(values) else None


def _applies(unique: Unique, values: _Values) -> bool:
    is_live = unique.always or not values.get("is_deleted")
    has_value = unique.when is None or values[unique.when] is not None
    return is_live and has_value and (unique.unless is None or values[unique.unless] is None)


def _describe(unique: Unique, values: _Values) -> tuple[str, ...]:
    return (unique.name, *(repr(values.get(name)) for name in (TENANT, *unique.columns)))
