"""The journal of changes that can be undone."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.model import Change, Scope


def make_change(
    scope: Scope,
    kind: str,
    memory_ids: Sequence[str],
    now: datetime,
    reason: str | None,
    *,
    before: dict[str, Any],
    after: dict[str, Any],
) -> Change:
    """Return the journal's entry of a change to memories, with what undoing it needs."""
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
    )
