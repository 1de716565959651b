"""Purging for good what was deleted, or has expired, longer ago than a grace period.

Memories go first, with all that hangs on them. Of what stands above memories a row goes only when nothing that could
be restored belongs to it any more, so that purging never takes a live row with it. Several processes may purge at
once: each organization, and the feed, is one process's at a time, and the others leave it to that one.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from everhold.errors import StaleVersion
from everhold.model import Job, Memory, Organization, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import announcement
from everhold.model.base import Row
from everhold.ports.erasure import note_purge
from everhold.ports.leases import Lease, leased
from everhold.ports.log_heads import record_log_purge
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG, ENTITIES, key_of, table_of
from everhold.schema.operations import Delete, Op, Operation, Page, Put, Where
from everhold.schema.table import TENANT, Table
from everhold.upkeep.outbox import trim

_OPERATIONS_PER_ROW = 3

Report = Callable[[int], None]


class Purged(NamedTuple):
    """How many deleted rows went, how many expired memories, and how many lines of the feed."""

    deleted: int
    expired: int
    lines: int


Eraser = Callable[[Sequence[Memory], datetime, bool], list[Operation]]
"""Returns what else a purge of memories must do. The flag says whether derived memories are purged too."""


def purge(
    records: Records,
    *,
    grace: timedelta,
    now: datetime,
    interface: str = "library",
    erase: Eraser = lambda memories, now, with_derived: [],
    batch: int = 500,
    progress: Report | None = None,
) -> Purged:
    """Purge in batches, each one commit. If it is stopped, finished batches stay purged; call it again for the rest."""
    report = progress or _nobody
    size = max(1, min(batch, (records.traits.commit_limit - 1) // _OPERATIONS_PER_ROW))  # one for the lease
    before = now - grace
    deleted = expired = 0
    for organization in _organizations_with_something(records, before):
        with leased(records, "purge", organization) as lease, suppress(StaleVersion):
            if lease is not None:
                purging = _Purging(records, lease, organization, now, interface, size, report, erase)
                for gone, reason in _of_organization(purging, before):
                    expired += gone if reason == "expired" else 0
                    deleted += gone if reason == "deleted" else 0
    with leased(records, "trim") as lease:
        lines = trim(records, now=now, batch=size) if lease is not None else 0
    return Purged(deleted, expired, lines)


def _organizations_with_something(records: Records, before: datetime) -> list[str]:
    """Organizations that may have something to purge, found with one query per table: there may be very many, and
    most have nothing."""
    found = {one for (one,) in records.columns(Memory, None, (TENANT,), [Where("expires_at", Op.LE, before)])}
    soft: list[type[Row]] = [Memory, *_above_memories()]
    for entity in soft:
        tenant = table_of(entity).tenant or TENANT
        found.update(one for (one,) in records.columns(entity, None, (tenant,), _long_deleted(before), deleted=True))
    return sorted(found)


def _of_organization(purging: "_Purging", before: datetime) -> Iterator[tuple[int, str]]:
    """Purges batch by batch; how many rows each took, and why. StaleVersion if another process has taken over."""
    for gone in _purge_memories(purging, [Where("expires_at", Op.LE, before)], "expired"):
        yield gone, "expired"
    for gone in _purge_memories(purging, _long_deleted(before), "deleted"):
        yield gone, "deleted"
    for entity in _above_memories():
        for gone in _purge_rows(purging, entity, before):
            yield gone, "deleted"


@dataclass(frozen=True)
class _Purging:
    """One organization's purge."""

    records: Records
    lease: Lease
    organization: str
    now: datetime
    interface: str
    size: int
    report: Report
    erase: Eraser

    def commit(self, operations: Sequence[Operation], rows: int) -> int:
        """Only while the lease is held."""
        self.records.commit([*operations, self.lease.kept()])
        self.report(rows)
        return rows


def _nobody(_: int) -> None:
    """Nobody wants to know."""


def _long_deleted(before: datetime) -> list[Where]:
    return [Where("is_deleted", Op.EQ, True), Where("deleted_at", Op.LE, before)]


def _above_memories() -> Iterator[type[Row]]:
    """Every other entity that is hidden before it is purged, what belongs before what it belongs to."""
    return (entity for entity, table in reversed(list(CATALOG.items())) if table.soft and entity is not Memory)


def _purge_memories(purging: _Purging, where: Sequence[Where], reason: str) -> Iterator[int]:
    organization, size = purging.organization, purging.size
    for memories in _pages(purging.records, Memory, organization, where, size, deleted=reason == "deleted"):
        # Expiry ends a memory but keeps what was derived from it; deletion removes that too.
        operations = [*purging.erase(memories, purging.now, reason == "deleted"), *note_purge()]
        for memory in memories:
            request = {"memory": memory.id, "hard": True, "purged": reason}
            scope = Scope(organization=organization)
            line = make_access_line(
                scope, "delete", purging.now, request, interface=purging.interface, memory_id=memory.id
            )
            operations += [Delete(Memory, (organization, memory.id)), Put(line), Put(announcement(memory, "delete"))]
        yield purging.commit(operations, len(memories))


def _purge_rows(purging: _Purging, entity: type[Row], before: datetime) -> Iterator[int]:
    table, organization = table_of(entity), purging.organization
    for rows in _pages(purging.records, entity, organization, _long_deleted(before), purging.size, deleted=True):
        needed = _still_needed(purging.records, table, organization, rows)
        going = [row for row in rows if row.__dict__.get("id") not in needed]
        operations: list[Operation] = [Delete(entity, key_of(row)) for row in going]
        if entity is Organization:  # it takes its log with it
            operations = [*record_log_purge(purging.records, organization), *operations] if going else []
        else:
            operations += [Put(_make_line(purging, table, row)) for row in going]
        if going:
            yield purging.commit([*operations, *note_purge()], len(going))


def _make_line(purging: _Purging, table: Table, row: Row) -> Row:
    what = "/".join(str(row.__dict__[name]) for name in table.key[1:])
    request = {"table": table.name, "row": what, "hard": True, "purged": "deleted"}
    scope = Scope(organization=purging.organization)
    return make_access_line(scope, "delete", purging.now, request, interface=purging.interface)


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
