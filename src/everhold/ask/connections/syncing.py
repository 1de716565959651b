"""Update the stored rows of a database's tables to what its catalog says now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from everhold.ask.sources.deps import DataDeps
from everhold.ask.sources.pipeline import add_rows, find_chunk_keys
from everhold.ask.sources.rows import DescribedTable
from everhold.model import Chunk, FieldMetadata, TableMetadata
from everhold.model.announcement import make_announcement
from everhold.model.base import Entity
from everhold.ports.erasure import note_purge
from everhold.schema.operations import Delete, Operation, Patch, Put

E = TypeVar("E", bound=Entity)

# The columns that identify the row. They do not describe the table or column, so a row keeps them.
_IDENTITY_COLUMNS = frozenset(
    {"id", "version", "created_at", "created_by_id", "is_deleted", "deleted_at", "deletion_id", "table_id"}
)
# The columns that every change of a row sets.
_TOUCHED = frozenset({"updated_at", "last_updated_by_id"})


@dataclass(frozen=True)
class TableChange:
    """A table that was added, removed or changed. `added` and `removed` are its columns, each as "name type".

    A column whose type has changed is in both.
    """

    table: str
    kind: Literal["added", "removed", "changed"]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class SyncedTables:
    """The tables with their stored ids, the changes of the schema, and the operations to commit."""

    tables: tuple[DescribedTable, ...]
    changes: tuple[TableChange, ...]
    operations: tuple[Operation, ...]


def sync_tables(
    deps: DataDeps, before: Sequence[DescribedTable], after: Sequence[DescribedTable], now: datetime
) -> SyncedTables:
    """Return the operations that replace the stored tables `before` with the tables `after`.

    A table or column of the same name keeps its id. Unchanged rows are not written.
    """
    stored = {described.table.table_name: described for described in before}
    tables = [_take_ids(described, stored.get(described.table.table_name)) for described in after]
    names = {described.table.table_name for described in after}
    removed_tables = [described for described in before if described.table.table_name not in names]
    operations: list[Operation] = [*_remove(removed_tables)]
    added_tables = [described for described in tables if described.table.table_name not in stored]
    operations += add_rows(deps, [described.table for described in added_tables])
    operations += add_rows(deps, [field for described in added_tables for field in described.fields])
    for described in tables:
        if described.table.table_name in stored:
            operations += _update(deps, stored[described.table.table_name], described, now)
    changes = [
        *(_compare(stored.get(described.table.table_name), described) for described in tables),
        *(TableChange(described.table.table_name, "removed") for described in removed_tables),
    ]
    return SyncedTables(tuple(tables), tuple(change for change in changes if change is not None), tuple(operations))


def _take_ids(described: DescribedTable, before: DescribedTable | None) -> DescribedTable:
    """Return a table whose rows have the ids of the stored rows, where there are such."""
    if before is None:
        return described
    table = _keep_identity(described.table, before.table)
    stored_fields = {field.name: field for field in before.fields}
    fields = [field.evolve(table_id=table.id) for field in described.fields]
    return DescribedTable(table, tuple(_keep_identity(field, stored_fields.get(field.name)) for field in fields))


def _keep_identity(row: E, before: E | None) -> E:
    if before is None:
        return row
    return row.evolve(**{name: getattr(before, name) for name in _IDENTITY_COLUMNS & row.__dict__.keys()})


def _remove(removed_tables: Sequence[DescribedTable]) -> Iterator[Operation]:
    for described in removed_tables:
        yield from note_purge()
        yield Delete(TableMetadata, (described.table.organization_id, described.table.id))
        for row in (described.table, *described.fields):
            yield Put(make_announcement(row, "delete"))


def _update(deps: DataDeps, before: DescribedTable, after: DescribedTable, now: datetime) -> list[Operation]:
    """Return the operations for a table that is stored already. If a column changes, the table's row is updated too."""
    stored_fields = {field.name: field for field in before.fields}
    operations: list[Operation] = []
    names = {field.name for field in after.fields}
    for field in before.fields:
        if field.name not in names:
            operations += [*note_purge(), Delete(FieldMetadata, (field.organization_id, field.id))]
            operations.append(Put(make_announcement(field, "delete")))
    operations += add_rows(deps, [field for field in after.fields if field.name not in stored_fields])
    for field in after.fields:
        if field.name in stored_fields:
            operations += _patch(deps, "field", stored_fields[field.name], field, now)
    return [*_patch(deps, "table", before.table, after.table, now, has_changed_parts=bool(operations)), *operations]


def _patch(
    deps: DataDeps, kind: str, before: Entity, after: Entity, now: datetime, *, has_changed_parts: bool = False
) -> list[Operation]:
    """Return the operations that change a row. With `has_changed_parts`, an unchanged row gets a new time of change."""
    changed = _list_changes(before, after)
    if not changed:
        touch = Patch(type(before), (before.organization_id, before.id), {"updated_at": now}, version=before.version)
        return [touch] if has_changed_parts else []
    values = {**changed, "updated_at": now, "last_updated_by_id": after.last_updated_by_id}
    keys = find_chunk_keys(deps, before.organization_id, kind, [before.id])
    return [
        Patch(type(before), (before.organization_id, before.id), values, version=before.version),
        *[Delete(Chunk, key) for key in keys],
        *map(Put, deps.make_chunks([after])[0]),
        Put(make_announcement(after)),
    ]


def _list_changes(before: Entity, after: Entity) -> Mapping[str, Any]:
    ignored = _IDENTITY_COLUMNS | _TOUCHED
    return {
        name: value for name, value in after.__dict__.items() if name not in ignored and value != before.__dict__[name]
    }


def _compare(before: DescribedTable | None, after: DescribedTable) -> TableChange | None:
    name = after.table.table_name
    if before is None:
        return TableChange(name, "added")
    if before.table.fingerprint == after.table.fingerprint:
        return None
    old, new = ([f"{field.name} {field.data_type}" for field in described.fields] for described in (before, after))
    added = tuple(column for column in new if column not in old)
    removed = tuple(column for column in old if column not in new)
    return TableChange(name, "changed", added, removed)
