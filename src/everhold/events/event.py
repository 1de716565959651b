"""`ChangeEvent`, one event for programs."""

from dataclasses import dataclass
from typing import Literal

from everhold.model.announcement import ENTITY_NAMES
from everhold.model.change_feed import Outbox

EventOperation = Literal["put", "delete", "restore", "gap"]


@dataclass(frozen=True)
class ChangeEvent:
    """One change that the scope may see. Numbers increase from event to event, but not always by one.

    `operation` is "put" for a record that was created or changed, "delete", or "restore". Deleting or restoring a
    session, a user or another container does the same to all records in it, without an event for each. A "gap" has no
    entity: the events after the requested number, up to the number of the gap, have been deleted.
    """

    number: int
    operation: EventOperation
    entity: str | None = None
    id: str | None = None
    user: str | None = None
    project: str | None = None
    agent: str | None = None
    session: str | None = None


def make_event(line: Outbox, epoch: int) -> ChangeEvent:
    """Return the event for a line of the change feed. With the epoch added, numbers exceed those of earlier epochs."""
    assert line.operation != "reindex", "a change of search entries is not an event"
    return ChangeEvent(
        epoch + line.sequence,
        line.operation,
        ENTITY_NAMES.get(line.entity, line.entity),
        line.entity_id,
        line.user_id or None,
        line.project_id,
        line.agent_id,
        line.session_id,
    )


def make_gap(number: int) -> ChangeEvent:
    return ChangeEvent(number, "gap")
