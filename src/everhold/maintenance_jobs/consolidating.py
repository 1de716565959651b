"""The job that consolidates memories."""

from collections import Counter
from datetime import timedelta

from everhold import clock
from everhold.maintenance.pipeline import Counts, JobRun
from everhold.parts import Parts
from everhold.remember.consolidation import consolidate, count_steps
from everhold.remember.owners import Owner, find_changed_owners, find_writers, note_consolidated


def count_changes(parts: Parts) -> Counts:
    counts: Counter[str] = Counter()
    if parts.settings.maintenance.consolidate:
        idle, _ = _split_by_idleness(parts, find_changed_owners(parts.records).owners)
        for owner in idle:
            counts.update(count_steps(parts.write_deps, owner))
    return counts


def consolidate_memories(parts: Parts, run: JobRun) -> None:
    if not parts.settings.maintenance.consolidate:
        return
    changed_owners = find_changed_owners(parts.records)
    idle, busy = _split_by_idleness(parts, changed_owners.owners)
    for owner in idle:
        for step in consolidate(parts.journal_under(run.run_id).write_deps, owner):
            run.add(step)
        run.check_time()
    if busy:
        run.leave({"users": len(busy)})
    elif changed_owners.owners:
        run.commit(note_consolidated(changed_owners.last_line))


def _split_by_idleness(parts: Parts, owners: list[Owner]) -> tuple[list[Owner], list[Owner]]:
    """Split the owners into those whose memories may be consolidated and those who have written too recently."""
    minutes = parts.settings.maintenance.idle_minutes
    writers = find_writers(parts.records, clock.now() - timedelta(minutes=minutes)) if minutes else set()
    return [owner for owner in owners if owner not in writers], [owner for owner in owners if owner in writers]
