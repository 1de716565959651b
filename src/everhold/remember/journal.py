"""The journal of changes that can be undone."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.model import Change, Scope
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where


def make_change(
    scope: Scope,
    kind: str,
    memory_ids: Sequence[str],
    now: datetime,
    reason: str | None,
    *,
    before: dict[str, Any],
    after: dict[str, Any],
    run_id: str | None,
) -> Change:
    """Return the journal entry of a change to memories. `before` and `after` have what undoing it needs.

    `run_id` is the run of maintenance that makes the change, or None if a caller makes it.
    """
    return Change(
        id=clock.make_id("chg"),
        organization_id=scope.organization,
        created_at=now,
        updated_at=now,
        created_by_id=scope.actor,
        user_id=scope.user,
        kind=kind,
        memory_ids=list(memory_ids),
        before=before,
        after=after,
        reason=reason,
        run_id=run_id,
    )


def find_undone_ids(records: Records, organization: str, kind: str) -> set[str]:
    """Return the ids of the memories with a change of this kind by maintenance that was undone.

    Maintenance skips these, so that the next run does not repeat what a person has undone.
    """
    where = [Where("kind", Op.EQ, kind), Where("run_id", Op.NE, None), Where("undone_at", Op.NE, None)]
    return {
        memory_id
        for (memory_ids,) in records.columns(Change, organization, ("memory_ids",), where)
        for memory_id in memory_ids
    }
