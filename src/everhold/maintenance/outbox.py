"""Trim the change feed.

At least a week of the feed stays: an idempotency key is valid for a week, and a follower may be offline for some days.
A follower that was offline longer compares itself with the records or is rebuilt; trimming never waits for it. Lines
have no time, so every trimming stores the number of the newest line as the `OutboxMark` of its day. Lines up to a mark
older than a week are older than a week. The last line always stays, because a store numbers new lines from it. Lines
are compared by their numbers here; a position in the feed may be something else.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta

from everhold.model import Outbox, OutboxMark
from everhold.ports.feed_start import note_trimmed, read_trimmed
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Where

_RETENTION = timedelta(days=7)


def count_trimmable(records: Records, *, now: datetime) -> int:
    """Return how many lines trimming would delete now."""
    last = min(_find_last_old(_read_old_marks(records, now)), _read_last(records) - 1)
    return records.count(Outbox, None, [Where("sequence", Op.LE, last)])


def trim(
    records: Records,
    commit: Callable[[Sequence[Operation]], None],
    *,
    now: datetime,
    batch: int,
    progress: Callable[[int], None],
) -> None:
    """Delete the lines that are older than a week, batch by batch."""
    last = _read_last(records)
    commit([Ensure(OutboxMark(day=now.date().isoformat(), last_sequence=last))])
    old_marks = _read_old_marks(records, now)
    last_old = _find_last_old(old_marks)
    while lines := _read_lines(records, min(last_old, last - 1), batch):
        commit([*[Delete(Outbox, (line.sequence,)) for line in lines], *note_trimmed(lines[-1].sequence)])
        progress(len(lines))
    # Marks are deleted after the lines, so that after a crash in between the next run still knows the old lines.
    obsolete_marks = [mark for mark in old_marks if mark.last_sequence < last_old]
    if obsolete_marks:
        commit([Delete(OutboxMark, (mark.day,)) for mark in obsolete_marks])


def _read_last(records: Records) -> int:
    newest = records.scan(Outbox, None, descending=True, limit=1)
    return newest[0].sequence if newest else 0


def _read_old_marks(records: Records, now: datetime) -> list[OutboxMark]:
    """Return the marks older than a week. A mark has no time of day, so marks of the day a week ago are left out."""
    oldest_kept = (now - _RETENTION).date()
    return [mark for mark in records.scan(OutboxMark, None) if date.fromisoformat(mark.day) < oldest_kept]


def _find_last_old(marks: list[OutboxMark]) -> int:
    return max((mark.last_sequence for mark in marks), default=0)


def _read_lines(records: Records, last: int, batch: int) -> list[Outbox]:
    return [line for line in records.read_settled(read_trimmed(records), limit=batch).lines if line.sequence <= last]
