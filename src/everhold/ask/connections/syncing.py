"""Brings the stored rows of a database's tables in line with what its catalog says now."""

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

# What belongs to a row, not to what it describes.
_KEPT = frozenset(
    {"id", "version", "created_at", "created_by_id", "is_deleted", "deleted_at", "deletion_id", "table_id"}
)
_TOUCHED = frozenset({"updated_at", "last_updated_by_id"})


@dataclass(frozen=True)
class TableChange:
    """How a table differs from what was known of it. `columns` are "name type", before and after a change of type."""

    table: str
    kind: Literal["added", "removed", "changed"]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class SyncedTables:
    """The tables with the ids that they are stored under, how the schema changed, and the operations to commit."""

    tables: tuple[DescribedTable, ...]
    changes: tuple[TableChange, ...]
    operations: tuple[Operation, ...]


def sync_tables(
    deps: DataDeps, before: Sequence[DescribedTable], after: Sequence[DescribedTable], now: datetime
) -> SyncedTables:
    """Return the operations after which the tables `after` are stored instead of `before`.

    A table or column of the same name keeps its id. Rows that say the same as before are not written.
    """
    known = {each.table.table_name: each for each in before}
    kept = [_take_ids(each, known.get(each.table.table_name)) for each in after]
    names = {each.table.table_name for each in after}
    gone = [each for each in before if each.table.table_name not in names]
    operations: list[Operation] = [*_remove(gone)]
    new = [each for each in kept if each.table.table_name not in known]
    operations += add_rows(deps, [each.table for each in new])
    operations += add_rows(deps, [field for each in new for field in each.fields])
    for each in kept:
        if each.table.table_name in known:
            operations += _update(deps, known[each.table.table_name], each, now)
    changes = [
        *(_compare(known.get(each.table.table_name), each) for each in kept),
        *(TableChange(each.table.table_name, "removed") for each in gone),
    ]
    return SyncedTables(tuple(kept), tuple(change for change in changes if change is not None), tuple(operations))


def _take_ids(each: DescribedTable, before: DescribedTable | None) -> DescribedTable:
    if before is None:
        return each
    table = _keep(each.table, before.table)
    known = {field.name: field for field in before.fields}
    fields = [field.evolve(table_id=table.id) for field in each.fields]
    return DescribedTable(table, tuple(_keep(field, known.get(field.name)) for field in fields))


def _keep(row: E, before: E | None) -> E:
    return (
        row if before is None else row.evolve(**{name: getattr(before, name) for name in _KEPT & row.__dict__.keys()})
    )


def _remove(gone: Sequence[DescribedTable]) -> Iterator[Operation]:
    for each in gone:
        yield from note_purge()
        yield Delete(TableMetadata, (each.table.organization_id, each.table.id))
        for row in (each.table, *each.fields):
            yield Put(make_announcement(row, "delete"))


def _update(deps: DataDeps, before: DescribedTable, after: DescribedTable, now: datetime) -> list[Operation]:
    """Return the operations for a table that was known. A change of a column is also one of its table."""
    known = {field.name: field for field in before.fields}
    operations: list[Operation] = []
    names = {field.name for field in after.fields}
    for field in before.fields:
        if field.name not in names:
            operations += [*note_purge(), Delete(FieldMetadata, (field.organization_id, field.id))]
            operations.append(Put(make_announcement(field, "delete")))
    operations += add_rows(deps, [field for field in after.fields if field.name not in known])
    for field in after.fields:
        if field.name in known:
            operations += _patch(deps, "field", known[field.name], field, now)
    return [*_patch(deps, "table", before.table, after.table, now, is_touched=bool(operations)), *operations]


def _patch(
    deps: DataDeps, kind: str, before: Entity, after: Entity, now: datetime, *, is_touched: bool = False
) -> list[Operation]:
    changed = _list_changes(before, after)
    if not changed:
        touch = Patch(type(before), (before.organization_id, before.id), {"updated_at": now}, version=before.version)
        return [touch] if is_touched else []
    values = {**changed, "updated_at": now, "last_updated_by_id": after.last_updated_by_id}
    keys = find_chunk_keys(deps, before.organization_id, kind, [before.id])
    return [
        Patch(type(before), (before.organization_id, before.id), values, version=before.version),
        *[Delete(Chunk, key) for key in keys],
        *map(Put, deps.make_chunks([after])[0]),
        Put(make_announcement(after)),
    ]


def _list_changes(before: Entity, after: Entity) -> Mapping[str, Any]:
    ignored = _KEPT | _TOUCHED
    return {
        name: value for name, value in after.__dict__.items() if name not in ignored and value != before.__dict__[name]
    }


def _compare(before: DescribedTable | None, after: DescribedTable) -> TableChange | None:
    name = after.table.table_name
    if before is None:
        return TableChange(name, "added")
    if before.table.fingerprint == after.table.fingerprint:
        return None
    old, new = ({f"{field.name} {field.data_type}": None for field in each.fields} for each in (before, after))
    added, removed = (tuple(one for one in these if one not in those) for these, those in ((new, old), (old, new)))
    return TableChange(name, "changed", added, removed)
