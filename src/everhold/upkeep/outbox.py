"""Trimming the feed.

The outbox is always an unbroken end of history: a week of it at the least, because an idempotency key is honoured for
a week and because a follower may be offline. After a longer absence it compares with the records, or rebuilds: nobody
holds the feed back. Lines carry no time, so every trimming leaves a mark of the last line there was that day,
`outbox/<date>` among the projection states. What a mark older than a week covers is older than a week. The last line
always stays: it is the number from which a store counts on. Lines are told apart by their numbers here; a position in
the feed may be something else.
"""

from datetime import date, datetime, timedelta

from everhold.model import Outbox, ProjectionState
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure

KEPT = timedelta(days=7)
PREFIX = "outbox/"


def trim(records: Records, *, now: datetime, batch: int) -> int:
    """Deletes the lines that nobody needs any more and says how many."""
    newest = records.scan(Outbox, None, descending=True, limit=1)
    last = newest[0].sequence if newest else 0
    mark = ProjectionState(projection=f"{PREFIX}{now.date().isoformat()}", applied_sequence=last)
    records.commit([Ensure(mark)])
    old = [state for state in records.scan(ProjectionState, None) if _is_past(state, (now - KEPT).date())]
    covered = max((state.applied_sequence for state in old), default=0)
    trimmed = _delete(records, min(covered, last - 1), batch)
    useless = [state for state in old if state.applied_sequence < covered]
    if useless:
        records.commit([Delete(ProjectionState, (state.projection,)) for state in useless])
    return trimmed


def _is_past(state: ProjectionState, day: date) -> bool:
    """Whether a mark was left on an earlier day. Its hour is not known, so the day itself does not count."""
    named = state.projection
    return named.startswith(PREFIX) and date.fromisoformat(named.removeprefix(PREFIX)) < day


def _delete(records: Records, last: int, batch: int) -> int:
    deleted = 0
    while True:
        lines: list[Outbox] = [line for line in records.feed(0, limit=batch).lines if line.sequence <= last]
        if not lines:
            return deleted
        records.commit([Delete(Outbox, (line.sequence,)) for line in lines])
        deleted += len(lines)
