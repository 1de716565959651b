"""The state at a time between two backups, from both.

A row of the later backup that was last changed before the time is what the row was then. A row that was changed after
the time is taken from the earlier backup; if that does not have it, from the later one. A row that the later backup no
longer has was deleted at an unknown time, and is taken from the earlier one. The log, and what describes the store
itself, are those of the earlier backup.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from everhold.backups.manifest import Manifest
from everhold.backups.reading import BackupReader
from everhold.model.base import Row
from everhold.schema.catalog import CATALOG
from everhold.schema.table import TENANT, Table

_Key = tuple[Any, ...]
_RowName = tuple[str, str, str]
_RESTORED = {"is_deleted": False, "deleted_at": None, "deletion_id": None}
_OF_EARLIER = ("memory_access_logs", "log_heads", "outbox")


@dataclass
class TakenRows:
    """How many rows are exactly as they were at the time, as in the earlier backup, or as in the later one."""

    exact: int = 0
    earlier: int = 0
    later: int = 0


@dataclass
class RowsBetween:
    """Reads tables as they were at a time between two backups. It takes the place of the reader of one backup."""

    earlier: BackupReader
    later: BackupReader
    at: datetime
    taken: TakenRows = field(default_factory=TakenRows)
    _from_earlier: set[_RowName] = field(default_factory=set)
    _from_later: set[_RowName] = field(default_factory=set)

    @property
    def manifest(self) -> Manifest:
        return self.earlier.manifest

    @property
    def unreadable(self) -> dict[str, int]:
        return self.earlier.unreadable

    def list_entities(self) -> list[type[Row]]:
        self.taken, self._from_earlier, self._from_later = TakenRows(), set(), set()
        return self.earlier.list_entities()

    def read_fields(self, entity: type[Row]) -> Iterator[dict[str, Any]]:
        table = CATALOG[entity]
        if table.name in _OF_EARLIER or table.name not in self.later.manifest.tables:
            yield from self.earlier.read_fields(entity)
            return
        before = {_get_key(table, values): values for values in self.earlier.read_fields(entity)}
        for values in self.later.read_fields(entity):
            chosen = self._choose(table, values, before.pop(_get_key(table, values), None))
            if chosen is not None:
                yield chosen
        for values in before.values():
            self._note(table, values)
            self.taken.earlier += 1
            yield values

    def _choose(self, table: Table, values: dict[str, Any], earlier: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return a row of the later backup, the same row of the earlier one, or None if it did not exist yet."""
        # What belongs to a row is of the same backup as the row.
        if self._belongs_to(self._from_earlier, table, values):
            self.taken.earlier += earlier is not None
            return earlier
        if self._belongs_to(self._from_later, table, values):
            self.taken.later += 1
            return values
        created, updated = values.get("created_at") or values.get("known_from"), values.get("updated_at")
        if created is not None and created > self.at:
            return earlier
        if updated is None or updated <= self.at:
            self.taken.exact += 1
            return self._take_back(values)
        if earlier is not None:
            self._note(table, earlier)
            self.taken.earlier += 1
            return earlier
        self._note(table, values, self._from_later)
        self.taken.later += 1
        return values

    def _take_back(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return a row without what was done to it after the time, where that leaves its own time."""
        deleted, known_to = values.get("deleted_at"), values.get("known_to")
        if deleted is not None and deleted > self.at:
            return values | _RESTORED
        return values | {"known_to": None} if known_to is not None and known_to > self.at else values

    def _belongs_to(self, rows: set[_RowName], table: Table, values: Mapping[str, Any]) -> bool:
        return any(
            (reference.target, str(values.get(TENANT)), str(values[reference.columns[0]])) in rows
            for reference in table.references
            if reference.on_delete == "cascade" and reference.target in _CONTENT_PARENTS
        )

    def _note(self, table: Table, values: Mapping[str, Any], rows: set[_RowName] | None = None) -> None:
        if table.name in _CONTENT_PARENTS:
            (self._from_earlier if rows is None else rows).add((table.name, str(values.get(TENANT)), str(values["id"])))


# Tables whose rows have parts that must be of the same moment: the chunks and tags of a memory.
_CONTENT_PARENTS = ("memories", "messages", "blocks")


def _get_key(table: Table, values: Mapping[str, Any]) -> _Key:
    return tuple(values[name] for name in table.key)
