"""Up to which line the change feed was trimmed, so that a reader knows whether it has missed lines."""

from everhold.model import Counter
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Operation, Patch, Where

FEED_TRIMMED = "change feed trimmed"


def note_trimmed(last: int) -> list[Operation]:
    """Return the operations that note the number of the last trimmed line, for the commit that trims it."""
    return [Ensure(Counter(name=FEED_TRIMMED)), Patch(Counter, (FEED_TRIMMED,), {"value": last})]


def read_trimmed(records: Records) -> int:
    """Return the number of the last line that was trimmed; 0 if none was."""
    rows = records.scan(Counter, None, [Where("name", Op.EQ, FEED_TRIMMED)], limit=1)
    return rows[0].value if rows else 0
