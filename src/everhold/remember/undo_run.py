"""Undo a run of maintenance: every change that the journal has under the id of the run, latest first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from everhold import clock
from everhold.batches import split_into_batches
from everhold.errors import AlreadyExists, NotFound, Remedy, StaleVersion, StoreDamaged, Verb
from everhold.model import Change, MaintenanceRun, Memory, Scope
from everhold.ports.records import Records
from everhold.remember.deps import WriteDeps
from everhold.remember.undo import UNDOABLE, can_be_undone, find_faults, reverse_change
from everhold.schema.operations import Op, Patch, Where

_BATCH = 500
# Kinds of changes whose undoing restores all values of a memory, so that a later change of the memory would be lost.
_WHOLE_MEMORY_KINDS = ("revise", "supersede", "merge", "remember")


@dataclass(frozen=True)
class SkippedChange:
    """A change of a run that was not undone, and why."""

    change: Change
    reason: str


@dataclass(frozen=True)
class UndoneRun:
    """The number of changes of a run that were undone, and the changes that were not."""

    run_id: str
    count: int
    skipped: tuple[SkippedChange, ...] = ()


def undo_run(deps: WriteDeps, run_id: str, progress: Callable[[int], None] = lambda count: None) -> UndoneRun:
    """Undo the changes of a run, each in one commit, so that an interrupted call can be repeated.

    A change is skipped if undoing it would lose a later change of the same memory.
    """
    _require_run(deps.records, run_id)
    count, skipped = 0, []
    later_changes = _LaterChanges(deps.records, run_id)
    for changes in _read_changes(deps.records, run_id):
        faults = find_faults(deps.records, changes[0].organization_id, changes)
        for change in changes:
            reason = faults.get(change.id) or _undo_change(deps, change, later_changes)
            if reason is None:
                count += 1
            else:
                skipped.append(SkippedChange(change, reason))
            progress(1)
    if not skipped:
        deps.records.commit([Patch(MaintenanceRun, (run_id,), {"undone_at": clock.now()})])
    if count:
        deps.drop_cached_texts()
    return UndoneRun(run_id, count, tuple(skipped))


def _require_run(records: Records, run_id: str) -> None:
    # The run must be one of this store: an imported bundle may contain journal entries with any run id.
    if not records.scan(MaintenanceRun, None, [Where("id", Op.EQ, run_id)], limit=1):
        raise NotFound(
            f"no run {run_id!r} of maintenance",
            value=run_id,
            remedy=Remedy("{} lists the runs", Verb("runs")),
        )


def _read_changes(records: Records, run_id: str) -> Iterator[list[Change]]:
    """Yield batches of the changes of a run that have not been undone, latest first within each organization."""
    where = [Where("run_id", Op.EQ, run_id), Where("undone_at", Op.EQ, None)]
    keys_by_organization: dict[str, list[tuple[datetime, str]]] = {}
    for organization, created_at, change_id in records.columns(
        Change, None, ("organization_id", "created_at", "id"), where
    ):
        keys_by_organization.setdefault(organization, []).append((created_at, change_id))
    for organization, keys in keys_by_organization.items():
        # Changes of one commit have the same time, but their ids sort in the order of creation.
        ids = [change_id for _, change_id in sorted(keys, reverse=True)]
        for batch in split_into_batches(ids, _BATCH):
            changes = records.get(Change, organization, batch)
            if changes:
                yield [changes[change_id] for change_id in batch if change_id in changes]


class _LaterChanges:
    """Finds memories that were changed by anything other than the run after the run changed them."""

    def __init__(self, records: Records, run_id: str) -> None:
        self._records, self._run_id = records, run_id
        self._times: dict[str, dict[str, datetime]] = {}

    def find_changed(self, change: Change) -> str | None:
        """Return the id of a memory of the change that was changed again later, or None."""
        organization = change.organization_id
        if organization not in self._times:
            self._times[organization] = self._read_times(organization)
        times = self._times[organization]
        return next(
            (
                memory_id
                for memory_id in change.memory_ids
                if memory_id in times and times[memory_id] > change.created_at
            ),
            None,
        )

    def _read_times(self, organization: str) -> dict[str, datetime]:
        """Return for each memory the time of its last change since the run began that is not part of the run."""
        run_times = self._records.columns(
            Change, organization, ("created_at",), [Where("run_id", Op.EQ, self._run_id)], deleted=True
        )
        start = min(created_at for (created_at,) in run_times)
        where = [
            Where("created_at", Op.GE, start),
            Where("undone_at", Op.EQ, None),
            Where("kind", Op.IN, list(UNDOABLE)),
        ]
        times: dict[str, datetime] = {}
        columns = ("memory_ids", "created_at", "run_id")
        for memory_ids, created_at, run_id in self._records.columns(Change, organization, columns, where):
            if run_id != self._run_id:
                times |= {memory_id: max(created_at, times.get(memory_id, created_at)) for memory_id in memory_ids}
        return times


def _undo_change(deps: WriteDeps, change: Change, later_changes: _LaterChanges) -> str | None:
    """Undo one change; return why it was not undone, or None."""
    if change.kind in _WHOLE_MEMORY_KINDS and (changed_id := later_changes.find_changed(change)) is not None:
        return f"memory {changed_id!r} was changed again later"
    scope = Scope(organization=change.organization_id, user=change.user_id)
    stored = deps.records.get(Memory, change.organization_id, change.memory_ids, deleted=True)
    memories = [stored[memory_id] for memory_id in change.memory_ids if memory_id in stored]
    if change.kind in UNDOABLE and not can_be_undone(change, memories):
        return "its memories were purged or forgotten later"
    try:
        reverse_change(deps, scope, change, memories)
    except (AlreadyExists, StaleVersion, StoreDamaged) as error:
        return str(error)
    return None
