"""Purging for good what was deleted, or has expired, longer ago than a grace period.

Memories go first, with all that hangs on them. Of what stands above memories a row goes only when nothing that could
be restored belongs to it any more, so that purging never takes a live row with it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from recollect.model import Job, Memory, Organization, Scope
from recollect.model.access import access_line
from recollect.model.announcement import announcement
from recollect.model.base import Row
from recollect.ports.records import Records
from recollect.schema.catalog import CATALOG, ENTITIES, key_of, table_of
from recollect.schema.operations import Delete, Op, Operation, Page, Put, Where
from recollect.schema.table import Table
from recollect.upkeep.outbox import trim

_OPERATIONS_PER_ROW = 3

Report = Callable[[int], None]


class Purged(NamedTuple):
    """How many deleted rows went, how many expired memories, and how many lines of the feed."""

    deleted: int
    expired: int
    lines: int


def purge(
    records: Records, *, grace: timedelta, now: datetime, batch: int = 500, progress: Report | None = None
) -> Purged:
    """Purges in batches, each one commit; what is stopped has purged what it has, and may be called again."""
    report = progress or _nobody
    size = max(1, min(batch, records.traits.commit_limit // _OPERATIONS_PER_ROW))
    before = now - grace
    deleted = expired = 0
    everyone = [organization.id for organization in records.scan(Organization, None, deleted=True)]
    for organization in everyone:
        where = [Where("expires_at", Op.LE, before)]
        expired += _purge_memories(records, organization, where, "expired", now, size, report)
        deleted += _purge_memories(records, organization, _long_deleted(before), "deleted", now, size, report)
        for entity in _above_memories():
            deleted += _purge_rows(records, entity, organization, before, now, size, report)
    return Purged(deleted, expired, trim(records, now=now, batch=size))


def _nobody(_: int) -> None:
    """Nobody wants to know."""


def _long_deleted(before: datetime) -> list[Where]:
    return [Where("is_deleted", Op.EQ, True), Where("deleted_at", Op.LE, before)]


def _above_memories() -> Iterator[type[Row]]:
    """Every other entity that is hidden before it is purged, what belongs before what it belongs to."""
    return (entity for entity, table in reversed(list(CATALOG.items())) if table.soft and entity is not Memory)


def _purge_memories(
    records: Records,
    organization: str,
    where: Sequence[Where],
    reason: str,
    now: datetime,
    size: int,
    report: Report,
) -> int:
    purged = 0
    for memories in _pages(records, Memory, organization, where, size, deleted=reason == "deleted"):
        operations: list[Operation] = []
        for memory in memories:
            request = {"memory": memory.id, "hard": True, "purged": reason}
            line = access_line(Scope(organization=organization), "delete", now, request)
            operations += [Delete(Memory, (organization, memory.id)), Put(line), Put(announcement(memory, "delete"))]
        records.commit(operations)
        purged += len(memories)
        report(len(memories))
    return purged


def _purge_rows(
    records: Records, entity: type[Row], organization: str, before: datetime, now: datetime, size: int, report: Report
) -> int:
    table, purged = table_of(entity), 0
    for rows in _pages(records, entity, organization, _long_deleted(before), size, deleted=True):
        needed = _still_needed(records, table, organization, rows)
        going = [row for row in rows if row.__dict__.get("id") not in needed]
        operations: list[Operation] = [Delete(entity, key_of(row)) for row in going]
        if entity is not Organization:  # an organization takes its log with it
            operations += [Put(_line(table, organization, row, now)) for row in going]
        if operations:
            records.commit(operations)
        purged += len(going)
        report(len(going))
    return purged


def _line(table: Table, organization: str, row: Row, now: datetime) -> Row:
    what = "/".join(str(row.__dict__[name]) for name in table.key[1:])
    request = {"table": table.name, "row": what, "hard": True, "purged": "deleted"}
    return access_line(Scope(organization=organization), "delete", now, request)


def _still_needed(records: Records, table: Table, organization: str, rows: Sequence[Row]) -> set[str]:
    """The ids among these rows that others, which are kept, belong to."""
    ids = [row.__dict__["id"] for row in rows if "id" in table.by_name]
    needed: set[str] = set()
    for child, column in _belonging(table):
        where = [] if table.name == "organizations" else [Where(column, Op.IN, ids)]
        for (named,) in records.columns(ENTITIES[child.name], organization, (column,), where, deleted=True):
            needed.add(named)
            if table.name == "organizations":
                return needed
    return needed


def _belonging(table: Table) -> Iterator[tuple[Table, str]]:
    """What would be purged along with rows of a table though it could be restored, and by which column. A job is
    nobody's memory: it goes along."""
    for entity, child in CATALOG.items():
        for reference in child.references:
            if child.soft and entity is not Job and reference.target == table.name and reference.on_delete == "cascade":
                yield child, reference.columns[0]


def _pages(
    records: Records, entity: Any, organization: str, where: Sequence[Where], size: int, *, deleted: bool
) -> Iterator[list[Any]]:
    after: Page | None = None
    while rows := records.scan(entity, organization, where, after=after, limit=size, deleted=deleted):
        yield rows
        after = Page(None, key_of(rows[-1]))
