"""Delete an organization, user, project, agent or session with all that belongs to it, and restore it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from everhold import clock
from everhold.errors import NotFound, StaleVersion
from everhold.model import AgentState, Organization, Session
from everhold.model.announcement import make_announcement
from everhold.model.base import Row
from everhold.ports.erasure import note_purge
from everhold.ports.log_heads import record_log_purge
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.catalog import ENTITIES, TABLES, get_table
from everhold.schema.operations import Delete, Hide, Op, Operation, Put, Unhide, Where
from everhold.schema.rules import list_descendants
from everhold.schema.table import Reference
from everhold.tenancy.accounts import make_key, require_row

_RETRIES = replace(CONFLICTS, attempts=8)
_BATCH = 500  # parent ids in one query


@dataclass(frozen=True)
class Deleted:
    """The number of live rows of each table that were deleted, or with `preview` would be, dependent rows included.

    Tables without such rows are left out.
    """

    rows: Mapping[str, int]
    preview: bool = False


def delete(
    records: Records,
    kind: str,
    organization_id: str,
    name: str,
    *,
    hard: bool,
    line: Operation | None = None,
    update_summaries: Callable[[], list[Operation]] = list,
) -> None:
    """Hide a row and all rows that belong to it, or with `hard` purge them. Purging an organization purges its log too.

    `update_summaries` returns the operations that remove the deleted content from summaries that stay.
    """
    row = require_row(records, kind, organization_id, name, deleted=hard)
    entity = type(row)
    key = make_key(entity, organization_id, name)
    deletion_id, now = clock.make_id("del"), clock.now()

    def make_deletion(entity: type[Row], key: tuple[Any, ...]) -> Operation:
        return Delete(entity, key) if hard else Hide(entity, key, deletion_id, now)

    announcement = Put(make_announcement(row, "delete"))
    lines = [line] if line is not None else []

    def commit(_: int) -> None:
        # The head of the log keeps the count of purged lines, so that verification can distinguish a purge from a loss.
        log_purge = record_log_purge(records, organization_id) if hard and entity is Organization else []
        summary_changes = update_summaries()
        # The store deletes states with their agent, not with their session, so they are deleted one by one.
        state_keys = _find_session_states(records, kind, organization_id, name, deleted=hard)
        deletions = [*(make_deletion(AgentState, state_key) for state_key in state_keys), make_deletion(entity, key)]
        try:
            records.commit(
                [*log_purge, *(note_purge() if hard else ()), *summary_changes, *deletions, announcement, *lines]
            )
        except StaleVersion as error:
            if not log_purge and not summary_changes:
                raise
            raise TryAgain("the log was chained or a summary changed in the meantime") from error

    retry(f"delete a row of {get_table(entity).name}", commit, _RETRIES)


def restore(records: Records, kind: str, organization_id: str, name: str, line: Operation | None = None) -> None:
    """Restore a deleted row and exactly the rows that were deleted with it."""
    row = require_row(records, kind, organization_id, name, deleted=True)
    if row.deletion_id is None:
        raise NotFound(f"{kind} {name!r} is not deleted", remedy="there is nothing to restore")
    announcement = Put(make_announcement(row, "restore"))
    records.commit([Unhide(organization_id, row.deletion_id), announcement, *([line] if line is not None else [])])


def count_rows_under(
    records: Records, kind: str, organization_id: str, name: str, *, deleted: bool = False
) -> dict[str, int]:
    """Count the live rows that deleting a row would delete, by table, including the row itself.

    With `deleted`, rows that are already deleted are counted too.
    """
    row = require_row(records, kind, organization_id, name, deleted=deleted)
    root = get_table(type(row))
    if root.name == "organizations":
        tables = [table for table in TABLES.values() if table.soft and table.tenant and not table.internal]
        totals = {table.name: records.count(ENTITIES[table.name], organization_id) for table in tables}
        return _add_archived(records, organization_id, {name: count for name, count in totals.items() if count}, ())
    ids_by_table: dict[str, set[str]] = {root.name: {name}}
    keys_by_table: dict[str, set[tuple[object, ...]]] = {root.name: {(organization_id, name)}}
    for child, reference in list_descendants(root):
        parents = sorted(ids_by_table.get(reference.target, ()))
        keys = _find_children(records, organization_id, child.name, reference, parents, deleted=deleted)
        keys_by_table.setdefault(child.name, set()).update(keys)
        if child.key[-1] == "id":
            ids_by_table.setdefault(child.name, set()).update(str(key[-1]) for key in keys)
    state_keys = _find_session_states(records, kind, organization_id, name, deleted=deleted)
    keys_by_table.setdefault("agent_states", set()).update(state_keys)
    counts = {table: len(keys) for table, keys in keys_by_table.items() if keys and not TABLES[table].internal}
    return _add_archived(
        records, organization_id, counts, [Where("id", Op.IN, sorted(ids_by_table.get("sessions", ())))]
    )


def _add_archived(
    records: Records, organization_id: str, counts: dict[str, int], where: Sequence[Where]
) -> dict[str, int]:
    """Add the number of messages in cold storage, which have no rows, to the count of messages."""
    rows = records.columns(Session, organization_id, ("archived_messages",), where) if "sessions" in counts else ()
    archived_count = sum(count for (count,) in rows)
    return {**counts, "messages": counts.get("messages", 0) + archived_count} if archived_count else counts


def _find_session_states(
    records: Records, kind: str, organization_id: str, name: str, *, deleted: bool = False
) -> list[tuple[Any, ...]]:
    """Return the keys of the agents' states for the sessions that are deleted with a row.

    A state belongs to its agent and only refers to its session, but it may contain what was said there.
    """
    session_ids = [name] if kind == "session" else []
    if kind in ("user", "project"):
        where = [Where(f"{kind}_id", Op.EQ, name)]
        session_ids = [str(row[0]) for row in records.columns(Session, organization_id, ("id",), where, deleted=True)]
    reference = Reference(("session_id",), "sessions")
    return _find_children(records, organization_id, "agent_states", reference, sorted(session_ids), deleted=deleted)


def _find_children(
    records: Records,
    organization_id: str,
    table: str,
    reference: Reference,
    parent_ids: Sequence[str],
    *,
    deleted: bool = False,
) -> list[tuple[object, ...]]:
    """Return the keys of the live rows that refer to these parents; with `deleted`, those of deleted rows too.

    The first column of the reference has the parent's id.
    """
    kind_conditions = [Where(reference.kind[0], Op.EQ, reference.kind[1])] if reference.kind else []
    keys: list[tuple[object, ...]] = []
    for start in range(0, len(parent_ids), _BATCH):
        where = [*kind_conditions, Where(reference.columns[0], Op.IN, parent_ids[start : start + _BATCH])]
        keys += records.columns(ENTITIES[table], organization_id, TABLES[table].key, where, deleted=deleted)
    return keys
