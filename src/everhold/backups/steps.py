"""Undo changes of a row whose times and earlier values are known."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

STAMPS = frozenset(
    {"version", "updated_at", "last_updated_by_id", "is_deleted", "deleted_at", "deletion_id", "access_count",
     "last_accessed", "strength"}
)  # fmt: skip
"""Columns that are not part of a row's content, or that change without a new version."""
ANYTHING = frozenset({"*"})
"""For `RowStep.unknown`: any column may have changed."""
LIVE: Mapping[str, Any] = {"is_deleted": False, "deleted_at": None, "deletion_id": None}


class RowStep(NamedTuple):
    """One change of a row.

    `before` has the earlier values of the changed columns. `versions` is the number by which the change raised the
    row's version. `is_update` says whether it set `updated_at`. `unknown` are changed columns with unknown earlier
    values.
    """

    at: datetime
    before: Mapping[str, Any]
    versions: int = 1
    is_update: bool = True
    unknown: frozenset[str] = frozenset()


class UndoneRow(NamedTuple):
    """A row as it was at a moment, after undoing its later changes, and the columns whose values are unknown."""

    values: dict[str, Any]
    unknown: frozenset[str] = frozenset()


def undo_steps(
    values: Mapping[str, Any], steps: Sequence[RowStep], moment: datetime, updated_at: datetime | None
) -> UndoneRow:
    """Return a row as it was at a moment, by undoing the steps after it. `steps` are in the order of their times.

    `updated_at` is the row's time of update before the first step.
    """
    state, unknown = dict(values), frozenset[str]()
    undone = [step for step in reversed(steps) if step.at > moment]
    for step in undone:
        state.update(step.before)
        unknown = (unknown - step.before.keys()) | step.unknown
    if "version" in state:
        state["version"] -= sum(step.versions for step in undone)
    if any(step.is_update for step in undone):
        earlier_updates = [step.at for step in steps if step.is_update and step.at <= moment]
        state["updated_at"] = max(earlier_updates, default=updated_at)
    return UndoneRow(state, unknown)


def add_visible_steps(
    values: Mapping[str, Any], earlier: Mapping[str, Any] | None, steps: Sequence[RowStep], since: datetime
) -> list[RowStep]:
    """Return the steps of a row together with the steps that the row itself shows: its deletion and its last update.

    The columns that the last update changed are known only if it was the only change since the earlier backup.
    """
    all_steps = list(steps)
    deleted_at, updated_at = values.get("deleted_at"), values.get("updated_at")
    if values.get("is_deleted") and deleted_at is not None and deleted_at > since:
        all_steps.append(RowStep(deleted_at, LIVE, is_update=False))
    first_update = (
        earlier["updated_at"] if earlier is not None and "updated_at" in earlier else values.get("created_at")
    )
    is_listed = any(step.is_update and step.at == updated_at for step in all_steps)
    if updated_at is not None and updated_at != first_update and updated_at > since and not is_listed:
        all_steps.append(_make_update_step(values, earlier, all_steps, updated_at))
    return sorted(all_steps, key=lambda step: (step.at, not step.is_update))


def _make_update_step(
    values: Mapping[str, Any], earlier: Mapping[str, Any] | None, steps: Sequence[RowStep], at: datetime
) -> RowStep:
    if at == values.get("deleted_at"):
        return RowStep(at, {})  # a deletion that has checked the version
    has_content_steps = any(step.before.keys() - STAMPS for step in steps)
    if earlier is None or has_content_steps:
        return RowStep(at, {}, unknown=ANYTHING)
    before = {name: value for name, value in earlier.items() if name not in STAMPS}
    if "last_updated_by_id" in earlier:
        before["last_updated_by_id"] = earlier["last_updated_by_id"]
    return RowStep(at, before)
