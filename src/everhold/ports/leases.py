"""Leases ensure that at most one of several processes on a store does a piece of work at a time.

Each lease is one row. A process takes it by writing its own id and an expiry time, on the condition that the row still
has the version that the process has read, so only one process can succeed. Every commit through the lease also extends
it on the same condition. So a slow process that has lost its lease cannot commit any more. The lease of a process that
dies expires.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from everhold import clock
from everhold.errors import AlreadyExists, StaleVersion
from everhold.interrupts import uninterrupted
from everhold.model import Lease
from everhold.ports.records import Records
from everhold.schema.operations import Op, Operation, Patch, Put, Where

logger = logging.getLogger(__name__)

DURATION = timedelta(seconds=60)
# The duration of a lease for work of which one step may take minutes.
LONG_DURATION = timedelta(minutes=10)
_MAX_PART_LENGTH = 150  # a lease's name, "work/part", has at most 255 characters


class HeldLease:
    """A lease that this process holds. `is_lost` says whether a commit failed because another process has taken it."""

    def __init__(self, records: Records, row: Lease, duration: timedelta) -> None:
        self._records = records
        self._row = row
        self._duration = duration
        self._version = row.version
        self._until = row.until
        self.is_lost = False

    @property
    def name(self) -> str:
        return self._row.name

    def commit(self, operations: Sequence[Operation] = ()) -> None:
        """Commit operations and extend the lease in one transaction. Raise StaleVersion if another process has taken
        it."""
        self._commit(operations, {"until": clock.now() + self._duration})

    def release(self) -> None:
        """Make the lease available to others. Raise StaleVersion if another process has taken it."""
        self._commit((), {"holder": None, "until": clock.now()})

    def extend_if_due(self) -> None:
        """Extend the lease if half of its time has passed. Raise StaleVersion if another process has taken it."""
        if self._until - clock.now() < self._duration / 2:
            self.commit()

    def _commit(self, operations: Sequence[Operation], changes: dict[str, Any]) -> None:
        patch = Patch(Lease, (self.name,), changes, version=self._version)
        with uninterrupted:  # a commit without the new version here would make the next one fail
            try:
                self._records.commit([*operations, patch])
            except StaleVersion:
                self.is_lost = self._has_other_version()
                if self.is_lost:
                    logger.warning("lost the lease %r: another process has taken it over", self.name)
                raise
            self._version += 1
            self._until = changes["until"]

    def _has_other_version(self) -> bool:
        """Return whether another process has changed the lease. Otherwise another operation of the commit was stale."""
        rows = self._records.scan(Lease, None, [Where("name", Op.EQ, self.name)], limit=1)
        return not rows or rows[0].version != self._version


@contextmanager
def hold_lease(
    records: Records, work: str, part: str = "", duration: timedelta = DURATION
) -> Iterator[HeldLease | None]:
    """Hold the lease of a piece of work inside the `with` block; yield None if another process holds it."""
    lease = None
    try:
        with uninterrupted:  # an interrupt is raised after the assignment, so that the lease is released
            lease = take_lease(records, f"{work}/{_shorten(part)}" if part else work, duration)
        yield lease
    finally:
        if lease is not None:
            with uninterrupted, suppress(StaleVersion):
                lease.release()


def take_lease(records: Records, name: str, duration: timedelta) -> HeldLease | None:
    """Take the lease with this name; return None if another process holds it."""
    now = clock.now()
    rows = records.scan(Lease, None, [Where("name", Op.EQ, name)], limit=1)
    if rows and rows[0].holder is not None and rows[0].until > now:
        return None
    holder, until = clock.make_id("run"), now + duration
    try:
        if not rows:
            row = Lease(name=name, holder=holder, until=until)
            records.commit([Put(row)])
        else:
            row = rows[0].model_copy(update={"holder": holder, "until": until, "version": rows[0].version + 1})
            changes = {"holder": holder, "until": until}
            records.commit([Patch(Lease, (name,), changes, version=rows[0].version)])
    except (AlreadyExists, StaleVersion):
        return None
    if rows and rows[0].holder is not None:
        logger.info("took over the lease %r, which its holder had not extended", name)
    return HeldLease(records, row, duration)


def _shorten(part: str) -> str:
    return part if len(part) <= _MAX_PART_LENGTH else hashlib.sha256(part.encode()).hexdigest()
