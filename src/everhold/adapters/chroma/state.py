"""The stored state of one projection: a row per generation, and the lease of the process that feeds it.

One generation serves queries; its row says how far it has followed the change feed and when it last reached the end.
Another may be being built, and retired ones wait to be dropped. Every commit of the feeding process extends the lease,
and fails if the process has lost it. So a process that was only slow cannot change the state after another took over.
"""

import threading
from datetime import datetime, timedelta
from typing import Any

from everhold import clock
from everhold.adapters.chroma.failures import NotReady
from everhold.errors import StaleVersion
from everhold.model import ProjectionState
from everhold.ports.feed_follower import MAX_ABSENCE
from everhold.ports.leases import HeldLease, take_lease
from everhold.ports.records import Records
from everhold.schema.catalog import get_key
from everhold.schema.operations import Delete, Op, Operation, Patch, Put, Where

PREFIX = "chroma/"
_END_INTERVAL = timedelta(minutes=1)  # how often `caught_up_at` is written at most


class State:
    """The rows of one projection. `_lock` guards the lease: a query may lose it while a thread takes it."""

    def __init__(self, records: Records, name: str, lease_seconds: float) -> None:
        self._records = records
        self._name = f"{PREFIX}{name}"
        self._lease_time = timedelta(seconds=lease_seconds)
        self._lock = threading.RLock()
        self._lease: HeldLease | None = None
        self._lease_until: datetime | None = None
        self._end_noted_at: datetime | None = None

    # reading

    def get_serving(self) -> ProjectionState | None:
        """Return the generation that serves and how far it has been fed; None before the first."""
        return next(iter(self._read("serving")), None)

    def get_building(self) -> ProjectionState | None:
        """Return the generation being built, with the position of the feed when it began."""
        return next(iter(self._read("building")), None)

    def list_retired(self) -> list[int]:
        return [row.generation for row in self._read("retired")]

    def _read(self, status: str) -> list[ProjectionState]:
        where = [Where("projection", Op.EQ, self._name), Where("status", Op.EQ, status)]
        return self._records.scan(ProjectionState, None, where)

    # the lease

    @property
    def has_lease(self) -> bool:
        """Whether this process has the lease, as far as it knows without a query."""
        until = self._lease_until
        return until is not None and clock.now() < until

    def take(self) -> bool:
        """Take or extend the lease. Return whether this process has it now."""
        with self._lock:
            if self._lease is not None and self._try_commit([]):
                return True
            self._lease = take_lease(self._records, self._name, self._lease_time)
            self._lease_until = None if self._lease is None else clock.now() + self._lease_time
            return self._lease is not None

    def release(self) -> None:
        with self._lock:
            lease = self._lease if self.has_lease else None
            self._lease = self._lease_until = None
            if lease is not None:
                lease.release()

    def _try_commit(self, operations: list[Operation]) -> bool:
        """Commit changes and extend the lease; return whether the lease was still held."""
        with self._lock:
            until = clock.now() + self._lease_time
            if self._lease is None:
                return False
            try:
                self._lease.commit(operations)
            except StaleVersion:
                self._lease = self._lease_until = None
                return False
            self._lease_until = until
            return True

    # moving on

    def renew_if_due(self) -> None:
        """Extend the lease after half its time. Raise NotReady if another process has it."""
        until = self._lease_until
        if until is None or until - clock.now() < self._lease_time / 2:
            self._commit([])

    def move(self, position: int) -> None:
        """Record that the serving generation has applied the feed up to a position."""
        self._commit([self._patch_serving({"applied_sequence": position})])

    def note_end_reached(self) -> None:
        """Record that the serving generation has reached the end of the feed; at most once a minute."""
        if self._end_noted_at is None or clock.now() - self._end_noted_at > _END_INTERVAL:
            now = clock.now()
            self._commit([self._patch_serving({"caught_up_at": now})])
            self._end_noted_at = now

    def _patch_serving(self, changes: dict[str, Any]) -> Operation:
        serving = self.get_serving()
        if serving is None:
            raise NotReady("no generation serves")
        return Patch(ProjectionState, get_key(serving), changes)

    def may_have_missed_lines(self, serving: ProjectionState) -> bool:
        """Return whether lines that this generation has not applied may have been trimmed from the feed."""
        return serving.caught_up_at is not None and clock.now() - serving.caught_up_at > MAX_ABSENCE

    def begin(self, generation: int, position: int, *, in_place: bool = False) -> None:
        """Begin a generation, which will follow the feed from a position.

        With `in_place`, retire the serving generation at once, because the new one uses the same collection.
        """
        row = ProjectionState(
            projection=self._name, generation=generation, status="building", applied_sequence=position
        )
        retirements = self._retire(self.get_serving()) if in_place else []
        self._commit([*self._retire(self.get_building()), *retirements, Put(row)])

    def abandon(self) -> None:
        """Retire the generation being built."""
        self._commit(self._retire(self.get_building()))

    def swap(self, built: ProjectionState, position: int) -> None:
        """Make the new generation the serving one and retire the previous one, in one commit."""
        changes = {"status": "serving", "applied_sequence": position, "caught_up_at": clock.now()}
        self._commit([*self._retire(self.get_serving()), Patch(ProjectionState, get_key(built), changes)])

    def forget_retired(self, generation: int) -> None:
        """Delete the row of a retired generation that Chroma no longer has."""
        self._commit([Delete(ProjectionState, (self._name, generation))])

    def _retire(self, row: ProjectionState | None) -> list[Operation]:
        return [] if row is None else [Patch(ProjectionState, get_key(row), {"status": "retired"})]

    def _commit(self, operations: list[Operation]) -> None:
        if not self._try_commit(operations):
            raise NotReady("another process has taken over feeding Chroma")
