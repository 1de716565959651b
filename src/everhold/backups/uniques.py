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
        own = {_describe(unique, values) for unique in self._uniques if _applies(unique, values)}
        if not own.isdisjoint(self._seen):
            return False
        self._seen |= own
        return True

    def release(self, values: dict[str, Any]) -> dict[str, Any] | None:
        """Return a row without the unique values that another row has; None if they cannot be removed."""
        for unique in self._uniques:
            if _applies(unique, values) and _describe(unique, values) in self._seen:
                if unique.when is None:
                    return None
                values = values | {unique.when: None}
        return values if self.add(values) else None


def _applies(unique: Unique, values: _Values) -> bool:
    is_there = unique.always or not values.get("is_deleted")
    is_meant = unique.when is None or values[unique.when] is not None
    return is_there and is_meant and (unique.unless is None or values[unique.unless] is None)


def _describe(unique: Unique, values: _Values) -> tuple[str, ...]:
    return (unique.name, *(repr(values.get(name)) for name in (TENANT, *unique.columns)))
