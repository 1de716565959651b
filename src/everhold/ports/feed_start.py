"""The beginning of the change feed, by which a reader notices missed lines or the feed of a different store."""

from typing import NamedTuple

from everhold import clock
from everhold.model import Counter
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Operation, Patch, Where

FEED_TRIMMED = "change feed trimmed"
_EPOCH, _RESTORED = "change feed epoch", "change feed restored"


class FeedStart(NamedTuple):
    """The identity of a store's feed, and the number of the line before its first.

    `epoch` is 0, or for a restored store the time of the restoration in microseconds since 1970. Lines up to
    `last_missing` were trimmed, or are from before the restore.
    """

    epoch: int = 0
    last_missing: int = 0


def read_feed_start(records: Records) -> FeedStart:
    """Return the identity and the beginning of a store's feed."""
    where = [Where("name", Op.IN, [FEED_TRIMMED, _EPOCH, _RESTORED])]
    values = {counter.name: counter.value for counter in records.scan(Counter, None, where)}
    return FeedStart(values.get(_EPOCH, 0), max(values.get(FEED_TRIMMED, 0), values.get(_RESTORED, 0)))


def begin_feed(records: Records) -> None:
    """Begin a new feed in a restored store, so that a reader of the earlier store's feed notices the restoration."""
    values = {_EPOCH: clock.micros(clock.now()), _RESTORED: records.read_settled(0, limit=1).last}
    operations: list[Operation] = [Ensure(Counter(name=name)) for name in values]
    records.commit([*operations, *[Patch(Counter, (name,), {"value": value}) for name, value in values.items()]])


def note_trimmed(last: int) -> list[Operation]:
    """Return the operations that note the number of the last trimmed line, for the commit that trims it."""
    return [Ensure(Counter(name=FEED_TRIMMED)), Patch(Counter, (FEED_TRIMMED,), {"value": last})]


def read_trimmed(records: Records) -> int:
    """Return the number of the last line that was trimmed; 0 if none was."""
    rows = records.scan(Counter, None, [Where("name", Op.EQ, FEED_TRIMMED)], limit=1)
    return rows[0].value if rows else 0
