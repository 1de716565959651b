"""What the records remember of a projection, among the projection states.

    chroma/<address>/<collection>               the watermark, when it was at the end, and the generation that serves
    chroma/<address>/<collection>/building      the generation being built, and where the feed was when it began
    chroma/<address>/<collection>/retired/<n>   a generation that is to be dropped
    chroma/<address>/<collection>/lease/<n>     who feeds, and until when

Every commit of whoever feeds renews the lease too and fails if it is gone, so a feeder that was thought dead moves
nothing.
"""

import threading
from datetime import datetime, timedelta

from everhold import clock
from everhold.adapters.chroma.failures import Behind
from everhold.errors import StaleVersion
from everhold.model import ProjectionState
from everhold.ports.leases import Lease, take
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Patch, Put, Where

PREFIX = "chroma/"
KEPT = timedelta(days=6)
"""The feed is kept for a week. Who has slept longer than this compares everything instead of following."""
_AT_END = timedelta(minutes=1)


class State:
    """The rows of one projection. `_lock` guards the lease: a question may be told its loss while it is taken anew."""

    def __init__(self, records: Records, name: str, lease_seconds: float) -> None:
        self._records = records
        self._name = f"{PREFIX}{name}"
        self._lease_time = timedelta(seconds=lease_seconds)
        self._lock = threading.RLock()
        self._lease: Lease | None = None
        self._fresh_until: datetime | None = None
        self._at_end: datetime | None = None

    # reading

    def serving(self) -> ProjectionState | None:
        """The generation that serves and how far it has been fed; None before the first."""
        found = self._records.scan(ProjectionState, None, [Where("projection", Op.EQ, self._name)], limit=1)
        return found[0] if found else None

    def building(self) -> ProjectionState | None:
        return self._below("building").get("")

    def retired(self) -> list[int]:
        return [row.generation for row in self._below("retired").values()]

    def _below(self, what: str) -> dict[str, ProjectionState]:
        start = f"{self._name}/{what}"
        rows = self._records.scan(ProjectionState, None)
        return {row.projection.removeprefix(start).lstrip("/"): row for row in rows if row.projection.startswith(start)}

    # the lease

    @property
    def holds(self) -> bool:
        until = self._fresh_until
        return until is not None and clock.now() < until

    def take(self) -> bool:
        """Whether the lease is ours now, because it was, because nobody's, or because its holder has gone."""
        with self._lock:
            if self._lease is not None and self._committed([]):
                return True
            self._lease = take(self._records, f"{self._name}/lease", self._lease_time)
            self._fresh_until = None if self._lease is None else clock.now() + self._lease_time
            return self._lease is not None

    def release(self) -> None:
        with self._lock:
            lease = self._lease if self.holds else None
            self._lease = self._fresh_until = None
            if lease is not None:
                self._records.commit([lease.ended()])

    def _committed(self, operations: list[Operation]) -> bool:
        """Makes changes if the lease is still ours, and renews it."""
        with self._lock:
            until = clock.now() + self._lease_time
            if self._lease is None:
                return False
            try:
                self._records.commit([*operations, self._lease.kept()])
            except StaleVersion:
                self._lease = self._fresh_until = None
                return False
            self._fresh_until = until
            return True

    # moving on

    def renew_if_due(self) -> None:
        """Behind if the lease has gone to another."""
        until = self._fresh_until
        if until is None or until - clock.now() < self._lease_time / 2:
            self._commit([])

    def move(self, position: int) -> None:
        """Everything up to a position is in the generation that serves."""
        self._commit([Patch(ProjectionState, (self._name,), {"applied_sequence": position})])

    def reached_the_end(self) -> None:
        """Nothing lies beyond the watermark now. Not written down at every look."""
        if self._at_end is None or clock.now() - self._at_end > _AT_END:
            now = clock.now()
            self._commit([Patch(ProjectionState, (self._name,), {"lease_until": now})])
            self._at_end = now

    def has_slept(self, serving: ProjectionState) -> bool:
        """Whether the watermark is so old that lines beyond it may have been trimmed."""
        at_end = serving.lease_until
        return at_end is not None and clock.now() - at_end > KEPT

    def begin(self, generation: int, position: int) -> None:
        row = ProjectionState(projection=f"{self._name}/building", generation=generation, applied_sequence=position)
        self._commit([*self._abandon(), Put(row)])

    def abandon(self) -> None:
        """What is being built is no good."""
        self._commit(self._abandon())

    def _abandon(self) -> list[Operation]:
        building = self.building()
        if building is None:
            return []
        return [Delete(ProjectionState, (building.projection,)), self._retire(building.generation)]

    def swap(self, built: ProjectionState, position: int) -> None:
        """What was built serves, in one commit; what served is to be dropped."""
        serving = self.serving()
        changes = {"generation": built.generation, "applied_sequence": position}
        self._commit(
            [
                Ensure(ProjectionState(projection=self._name)),
                Patch(ProjectionState, (self._name,), changes),
                Delete(ProjectionState, (built.projection,)),
                *([self._retire(serving.generation)] if serving is not None and serving.generation else []),
            ]
        )

    def dropped(self, generation: int) -> None:
        self._commit([Delete(ProjectionState, (f"{self._name}/retired/{generation}",))])

    def _retire(self, generation: int) -> Operation:
        return Ensure(ProjectionState(projection=f"{self._name}/retired/{generation}", generation=generation))

    def _commit(self, operations: list[Operation]) -> None:
        if not self._committed(operations):
            raise Behind("another process has taken over feeding Chroma")
