"""Purge rows that were deleted, or have expired, longer ago than a grace period.

Memories are purged first, with the rows that belong to them. Any other deleted row is purged only when no row that
could be restored belongs to it, so purging never removes a live row. Every entity with an `expires_at` can expire.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everhold.model import Job, Memory, Message, Organization, Scope, SessionArchive
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.base import Row
from everhold.ports.erasure import note_purge
from everhold.ports.log_heads import record_log_purge
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG, ENTITIES, get_key, get_table
from everhold.schema.operations import Delete, Op, Operation, Page, Put, Where
from everhold.schema.table import TENANT, Table

_OPERATIONS_PER_ROW = 3  # a memory's deletion, its log line and its announcement

# Returns the further operations of a purge of memories. The flag says whether derived memories are purged too.
Eraser = Callable[[Sequence[Memory], datetime, bool], list[Operation]]

# Returns the operations that purge the memories that were derived from messages.
MessageEraser = Callable[[Sequence[Message], datetime], list[Operation]]

# Puts the messages of archives back into their table; messages of a deleted archive are marked as deleted.
PutBack = Callable[[str, Sequence[Where]], object]


@dataclass(frozen=True)
class PurgeWork:
    """The input of a purge.

    Rows that were deleted or expired at or before `before` are purged. Each batch is one call of `commit`, followed by
    one call of `add` with the table and the number of rows. After an interruption, the next purge continues.
    """

    records: Records
    before: datetime
    now: datetime
    commit: Callable[[Sequence[Operation]], None]
    add: Callable[[str, int], None]
    erase: Eraser
    erase_derived: MessageEraser = lambda messages, now: []
    put_back: PutBack | None = None
    interface: str = "library"
    batch: int = 500

    @property
    def batch_size(self) -> int:
        """The number of rows in a batch: at most `batch`, and no more than one commit can take."""
        limit = self.records.traits.commit_limit - 1  # one operation is the lease's
        return max(1, min(self.batch, limit // _OPERATIONS_PER_ROW))


def purge_expired(work: PurgeWork) -> None:
    """Purge every row whose `expires_at` is before the grace period."""
    for entity in _find_expiring():
        where = _make_expired_conditions(work.before)
        for organization in _find_organizations(work.records, entity, where, deleted=False):
            for rows in _read_pages(work, entity, organization, where, deleted=False):
                if entity is Memory:
                    _purge_memories(work, organization, rows, "expired")
                else:
                    _purge_rows(work, entity, organization, rows, "expired")


def purge_deleted(work: PurgeWork) -> None:
    """Purge every row that was deleted before the grace period, except parents of rows that are kept."""
    for entity in _find_deletable():
        where = _make_deleted_conditions(work.before)
        for organization in _find_organizations(work.records, entity, where, deleted=True):
            for rows in _read_pages(work, entity, organization, where, deleted=True):
                if entity is Memory:
                    _purge_memories(work, organization, rows, "deleted")
                else:
                    parent_ids = _find_parents(work.records, get_table(entity), organization, rows)
                    childless = [row for row in rows if row.__dict__.get("id") not in parent_ids]
                    _purge_rows(work, entity, organization, childless, "deleted")


def count_expired(records: Records, before: datetime) -> dict[str, int]:
    """Return how many rows of each table have expired up to a time."""
    return {
        get_table(entity).name: records.count(entity, None, _make_expired_conditions(before))
        for entity in _find_expiring()
    }


def count_deleted(records: Records, before: datetime) -> dict[str, int]:
    """Return how many rows of each table were deleted up to a time.

    A purge may report fewer: rows that are purged with their parent are not counted, and needed parents are kept.
    """
    where = _make_deleted_conditions(before)
    counts = {
        get_table(entity).name: records.count(entity, None, where, deleted=True)
        for entity in _find_deletable()
        if entity is not SessionArchive
    }
    archived = records.columns(SessionArchive, None, ("message_ids",), where, deleted=True)
    return {**counts, "messages": counts["messages"] + sum(len(message_ids) for (message_ids,) in archived)}


def _find_expiring() -> list[type[Row]]:
    """Return every entity that can expire, memories first."""
    expiring = [entity for entity, table in CATALOG.items() if "expires_at" in table.by_name]
    return sorted(expiring, key=lambda entity: entity is not Memory)


def _find_deletable() -> list[type[Row]]:
    """Return every entity that is hidden before it is purged: memories first, then children before their parents."""
    entities = [entity for entity, table in reversed(list(CATALOG.items())) if table.soft and entity is not Memory]
    return [Memory, *entities]


def _make_expired_conditions(before: datetime) -> list[Where]:
    return [Where("expires_at", Op.LE, before)]


def _make_deleted_conditions(before: datetime) -> list[Where]:
    return [Where("is_deleted", Op.EQ, True), Where("deleted_at", Op.LE, before)]


def _find_organizations(records: Records, entity: type[Row], where: Sequence[Where], *, deleted: bool) -> Sequence[str]:
    """Return the organizations with rows to purge, by one query: there may be very many, and most have none."""
    tenant = get_table(entity).tenant or TENANT
    return sorted({name for (name,) in records.columns(entity, None, (tenant,), where, deleted=deleted)})


def _purge_memories(work: PurgeWork, organization: str, memories: Sequence[Memory], reason: str) -> None:
    # Memories derived from an expired memory stay; those derived from a deleted one are purged too.
    operations = [*work.erase(memories, work.now, reason == "deleted"), *note_purge()]
    scope = Scope(organization=organization)
    for memory in memories:
        request = {"memory": memory.id, "hard": True, "purged": reason}
        line = make_access_line(scope, "delete", work.now, request, interface=work.interface, memory_id=memory.id)
        # A hidden memory was announced as deleted when it was hidden.
        announcement = make_announcement(memory, "reindex" if memory.is_deleted else "delete")
        operations += [Delete(Memory, (organization, memory.id)), Put(line), Put(announcement)]
    work.commit(operations)
    work.add("memories", len(memories))


def _purge_rows(work: PurgeWork, entity: type[Row], organization: str, rows: Sequence[Row], reason: str) -> None:
    """Purge rows of one table in one commit, with lines in the access log that name the reason."""
    if not rows:
        return
    if entity is SessionArchive and work.put_back is not None:
        # The messages are then purged like other deleted messages, with the memories that were derived from them.
        work.put_back(organization, [Where("id", Op.IN, [row.__dict__["id"] for row in rows])])
        return
    if entity is Message:
        # Derived memories are purged first, so that after a crash in between the next run still finds them by the
        # messages.
        erasures = work.erase_derived([row for row in rows if isinstance(row, Message)], work.now)
        for start in range(0, len(erasures), work.batch_size):
            work.commit(erasures[start : start + work.batch_size])
    table = get_table(entity)
    operations: list[Operation] = [Delete(entity, get_key(row)) for row in rows]
    if entity is Organization:  # purging it also purges its log, so there is no line to add
        operations = [*record_log_purge(work.records, organization), *operations]
    else:
        operations += [Put(_make_line(work, table, organization, row, reason)) for row in rows]
    work.commit([*operations, *note_purge()])
    work.add(table.name, len(rows))


def _make_line(work: PurgeWork, table: Table, organization: str, row: Row, reason: str) -> Row:
    name = "/".join(str(row.__dict__[column]) for column in table.key[1:])
    request = {"table": table.name, "row": name, "hard": True, "purged": reason}
    return make_access_line(Scope(organization=organization), "delete", work.now, request, interface=work.interface)


def _find_parents(records: Records, table: Table, organization: str, rows: Sequence[Row]) -> set[str]:
    """Return the ids of the rows that have children which could still be restored."""
    ids = [row.__dict__["id"] for row in rows if "id" in table.by_name]
    parent_ids: set[str] = set()
    for child, column in _find_children(table):
        where = [] if table.name == "organizations" else [Where(column, Op.IN, ids)]
        for (parent,) in records.columns(ENTITIES[child.name], organization, (column,), where, deleted=True):
            parent_ids.add(parent)
            if table.name == "organizations":
                return parent_ids
    return parent_ids


def _find_children(table: Table) -> Iterator[tuple[Table, str]]:
    """Yield each table with restorable rows that the store would purge with a row of `table`, and the column.

    A job cannot be restored, so it does not keep its parent.
    """
    for entity, child in CATALOG.items():
        for reference in child.references:
            if child.soft and entity is not Job and reference.target == table.name and reference.on_delete == "cascade":
                yield child, reference.columns[0]


def _read_pages(
    work: PurgeWork, entity: Any, organization: str, where: Sequence[Where], *, deleted: bool
) -> Iterator[list[Any]]:
    after: Page | None = None
    while rows := work.records.scan(entity, organization, where, after=after, limit=work.batch_size, deleted=deleted):
        yield rows
        # Parents of other rows stay in the table, so reading from the start again would never end.
        after = Page(None, get_key(rows[-1]))
