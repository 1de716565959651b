"""A store of record in this process's memory. It forgets everything when it is closed."""

from collections.abc import Mapping, Sequence
from typing import Any

from everhold.model.base import Row
from everhold.schema.operations import Traits
from everhold.schema.plain_records import PlainRecords
from everhold.schema.planning import Change
from everhold.schema.rows import Rows
from everhold.schema.table import Table

_TRAITS = Traits(name="in_memory", words="portable", vectors="portable", commit_limit=1_000_000)


class InMemoryRecords(PlainRecords):
    """Records in dictionaries."""

    def __init__(self) -> None:
        super().__init__(_TRAITS)
        self._rows = Rows()
        self._drawn: dict[str, int] = {}

    def _rows_of(self, table: Table) -> list[Row]:
        return self._rows.all(table)

    def having(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        return self._rows.having(table, values)

    def _draw(self, table: Table) -> int:
        self._drawn[table.name] = self._drawn.get(table.name, 0) + 1
        return self._drawn[table.name]

    def _make(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._rows.set(change.table, change.key, change.after)
