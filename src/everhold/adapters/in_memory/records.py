"""A store of record in the memory of this process. Its rows are lost when the process ends."""

from collections.abc import Mapping, Sequence
from typing import Any

from everhold.model.base import Row
from everhold.schema.operations import Traits
from everhold.schema.plain_records import PlainRecords
from everhold.schema.planning import RowChange
from everhold.schema.rows import Rows
from everhold.schema.table import Table

_TRAITS = Traits(name="in_memory", words="portable", vectors="portable", commit_limit=1_000_000)


class InMemoryRecords(PlainRecords):
    """Records in dictionaries."""

    def __init__(self) -> None:
        super().__init__(_TRAITS)
        self._rows = Rows()
        self._numbers: dict[str, int] = {}

    def _read_rows(self, table: Table) -> list[Row]:
        return self._rows.list_rows(table)

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        return self._rows.find_rows(table, values)

    def _generate_number(self, table: Table) -> int:
        self._numbers[table.name] = self._numbers.get(table.name, 0) + 1
        return self._numbers[table.name]

    def _apply_changes(self, changes: Sequence[RowChange]) -> None:
        for change in changes:
            self._rows.set(change.table, change.key, change.after)
