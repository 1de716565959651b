"""Trim the change feed.

The outbox always holds the newest part of history, a week of it at least: an idempotency key is honoured for a week,
and a follower may be offline for some days. A follower that was away longer compares itself with the records or is
rebuilt; no follower holds the feed back. Lines carry no time, so every trimming notes the last line of its day as an
`OutboxMark`. Lines up to a mark older than a week are older than a week. The last line always stays, because a store
numbers new lines from it. Lines are compared by their numbers here; a position in the feed may be something else.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta

from everhold.model import Outbox, OutboxMark
from everhold.ports.feed_start import note_trimmed, read_trimmed
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Where

KEPT = timedelta(days=7)


def count_trimmable(records: Records, *, now: datetime) -> int:
    """Return how many lines trimming would delete now."""
    last = min(_find_covered(_read_old_marks(records, now)), _read_last(records) - 1)
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
    old = _read_old_marks(records, now)
    covered = _find_covered(old)
    while lines := _read_lines(records, min(covered, last - 1), batch):
        commit([*[Delete(Outbox, (line.sequence,)) for line in lines], *note_trimmed(lines[-1].sequence)])
        progress(len(lines))
    # Marks go after the lines: if a crash comes in between, the next run still knows which lines are old.
    superseded = [mark for mark in old if mark.last_sequence < covered]
    if superseded:
        commit([Delete(OutboxMark, (mark.day,)) for mark in superseded])


def _read_last(records: Records) -> int:
    newest = records.scan(Outbox, None, descending=True, limit=1)
    return newest[0].sequence if newest else 0


def _read_old_marks(records: Records, now: datetime) -> list[OutboxMark]:
    """Return the marks from before the week that is kept. A mark's hour is unknown, so the first day does not count."""
    first = (now - KEPT).date()
    return [mark for mark in records.scan(OutboxMark, None) if date.fromisoformat(mark.day) < first]


def _find_covered(marks: list[OutboxMark]) -> int:
    return max((mark.last_sequence for mark in marks), default=0)


def _read_lines(records: Records, last: int, batch: int) -> list[Outbox]:
    return [line for line in records.read_settled(read_trimmed(records), limit=batch).lines if line.sequence <= last]
