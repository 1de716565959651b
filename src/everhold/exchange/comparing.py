"""Compare the rows of a bundle with the rows that an organization has under the same keys."""

from collections.abc import Sequence
from enum import Enum, auto
from itertools import groupby
from typing import Any

from everhold.model import Agent, Change, Memory, Organization, Project, Session, User
from everhold.model.base import Entity, Row
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG, get_key
from everhold.schema.operations import Op, Where
from everhold.schema.table import TENANT, Reference, Table

# The engine creates these rows when a scope first names them, so equal ids mean the same entity.
_NAMED_BY_SCOPES = (Organization, User, Project, Agent, Session)

_CHANGED_BY_READS = ("access_count", "last_accessed")

RowKey = tuple[Any, ...]


class RowVerdict(Enum):
    """The action of an import on a row of a bundle."""

    ADD = auto()
    """The row is missing and is added."""
    EXISTING = auto()
    """The store has the same row already."""
    SKIP = auto()
    """The store has another version of the row, or of the entity it belongs to, which is not replaced."""
    COLLIDE = auto()
    """The store has a different entity under the row's key."""


class Comparison:
    """Decides what to do with each row of a bundle, in their order.

    If the store has another version of an entity, the entity is skipped with every row of the bundle that belongs to
    it, so that no memory gets the chunks or tags of another version. `empty` names tables that are known to be empty.
    """

    def __init__(self, records: Records, organization: str, empty: frozenset[str] = frozenset()) -> None:
        self._records, self._organization = records, organization
        self._is_empty: dict[str, bool] = dict.fromkeys(empty, True)
        self._skipped_stored: dict[str, set[str]] = {}
        """The ids of skipped entities of which the store has another version, by table."""
        self._skipped_missing: dict[str, set[str]] = {}
        """The ids of skipped entities that the store does not have, by table."""
        self._memory_ids: set[str] = set()

    @property
    def empty_tables(self) -> frozenset[str]:
        """The names of the bundle's tables in which the organization has no rows."""
        return frozenset(name for name, is_empty in self._is_empty.items() if is_empty)

    def judge(self, rows: Sequence[tuple[int, Row]]) -> list[RowVerdict]:
        """Return the verdict on each row, in their order."""
        verdicts: list[RowVerdict] = []
        for entity, group in groupby((row for _, row in rows), type):
            same_type = list(group)
            table, stored = CATALOG[entity], self._read_stored(entity, same_type)
            differing_ids = self._find_differing(same_type) if entity is Change else set()
            for row in same_type:
                verdict = self._judge(table, row, stored.get(get_key(row)), differing_ids)
                if verdict is RowVerdict.SKIP and isinstance(row, Entity) and not isinstance(row, _NAMED_BY_SCOPES):
                    skipped_ids = self._skipped_stored if get_key(row) in stored else self._skipped_missing
                    skipped_ids.setdefault(table.name, set()).add(row.id)
                verdicts.append(verdict)
        return verdicts

    def describe(self, row: Row) -> str:
        """Return the table and the key of a row, for a message."""
        table = CATALOG[type(row)]
        key = "/".join(str(value) for name, value in zip(table.key, get_key(row), strict=True) if name != TENANT)
        return f"{table.name} {key!r}"

    def _judge(self, table: Table, row: Row, stored: Row | None, differing_ids: set[str]) -> RowVerdict:
        if any(self._depends_on_skipped(reference, row) for reference in table.references):
            return RowVerdict.SKIP
        if isinstance(row, Change) and not differing_ids.isdisjoint(row.memory_ids):
            return RowVerdict.SKIP  # undoing the change would apply it to other versions of these memories
        if stored is None:
            return RowVerdict.ADD
        if _select_compared_values(row) == _select_compared_values(stored):
            return RowVerdict.EXISTING
        return RowVerdict.SKIP if _is_same_entity(table, row, stored) else RowVerdict.COLLIDE

    def _depends_on_skipped(self, reference: Reference, row: Row) -> bool:
        """Return whether a row belongs to a skipped entity, or refers to a skipped one that the store does not have."""
        if reference.kind is not None and row.__dict__[reference.kind[0]] != reference.kind[1]:
            return False
        target_id = row.__dict__[reference.columns[0]]
        if target_id in self._skipped_missing.get(reference.target, ()):
            return True
        return reference.on_delete == "cascade" and target_id in self._skipped_stored.get(reference.target, ())

    def _find_differing(self, changes: Sequence[Row]) -> set[str]:
        """Return the ids of memories of these changes that differ between the store and the bundle."""
        skipped_ids = self._skipped_stored.get("memories", set()) | self._skipped_missing.get("memories", set())
        change_memory_ids = {memory_id for change in changes for memory_id in change.__dict__["memory_ids"]}
        other_ids = sorted(change_memory_ids - self._memory_ids)
        stored = self._records.get(Memory, self._organization, other_ids, deleted=True) if other_ids else {}
        return (change_memory_ids & skipped_ids) | set(stored)

    def _read_stored(self, entity: type[Row], rows: Sequence[Row]) -> dict[RowKey, Row]:
        """Return the organization's rows with the same keys as these rows, by key."""
        table = CATALOG[entity]
        if entity is Memory:
            self._memory_ids.update(row.__dict__["id"] for row in rows)
        if self._is_table_empty(entity, table):
            return {}
        if "id" in table.key:
            ids = [row.__dict__["id"] for row in rows]
            stored = self._records.get(entity, self._organization, ids, deleted=True)
            return {get_key(row): row for row in stored.values()}
        column = next(name for name in table.key if name != TENANT)
        where = [Where(column, Op.IN, list(dict.fromkeys(row.__dict__[column] for row in rows)))]
        return {get_key(row): row for row in self._records.scan(entity, self._organization, where, deleted=True)}

    def _is_table_empty(self, entity: type[Row], table: Table) -> bool:
        # Most imports go into an empty organization: one count per table then saves a lookup for every row.
        if table.name not in self._is_empty:
            self._is_empty[table.name] = not self._records.count(entity, self._organization, deleted=True)
        return self._is_empty[table.name]


def _select_compared_values(row: Row) -> dict[str, Any]:
    if isinstance(row, Memory):  # reading a memory changes only these columns
        return {name: value for name, value in row.__dict__.items() if name not in _CHANGED_BY_READS}
    return row.__dict__


def _is_same_entity(table: Table, row: Row, stored: Row) -> bool:
    """Return whether two rows under one key are versions of one entity: same owners, created at the same time."""
    if not isinstance(row, Entity | Organization):
        return True  # a tag or a chunk is identified by its key alone
    cascading = [reference for reference in table.references if reference.on_delete == "cascade"]
    owners = [name for reference in cascading for name in reference.columns]
    identity = owners if isinstance(row, _NAMED_BY_SCOPES) else [*owners, "created_at"]
    return all(row.__dict__[name] == stored.__dict__[name] for name in identity)
