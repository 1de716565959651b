"""Buffer log lines and access counts of reads, and write them together in the background.

A recall must not wait for a disk. Its line in the access log and the access counts of its hits are buffered here and
written after a short interval; a crash loses at most that interval. In strict mode they are written at once.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from everhold.background import BackgroundThread
from everhold.errors import BrokenReference, StoreReadOnly
from everhold.interrupts import GuardedEvent, GuardedLock
from everhold.model import AccessLog, Memory
from everhold.model.access import AccessEvent, caller_address
from everhold.ports.records import Records
from everhold.retries import RetryPolicy, retry
from everhold.schema.operations import Increment, Put

_MAX_WAITING = 10_000  # bounds the memory used while writing fails; then the oldest lines are dropped
_RETRIES = RetryPolicy(attempts=4)

# An event to log, and the ids of the memories that it read.
BufferedEvent = tuple[AccessEvent, Sequence[str]]


class AccessBuffer:
    """Collects events; a background thread writes them as log lines and access counts, and then calls `seal`.

    The thread writes every `seconds`. With `strict`, `add` writes each event itself. `interface` is the program of the
    caller, for the log lines.
    """

    def __init__(
        self, records: Records, *, seconds: float, strict: bool, interface: str, seal: Callable[[], object]
    ) -> None:
        self._records = records
        self._seconds = seconds
        self._strict = strict
        self._seal = seal
        self._interface = interface
        self._waiting: list[BufferedEvent] = []
        self._lock = threading.Lock()
        # Guarded, because an interrupt between taking the lines from the buffer and writing them would lose them.
        self._writing = GuardedLock()
        self._closing = GuardedEvent()
        self._is_closed = False
        self._thread = BackgroundThread("everhold-access", self._run, self._closing)
        self._thread.start()

    @property
    def failure(self) -> Exception | None:
        """The error of the last attempt to write the log, or None if it succeeded."""
        return self._thread.failure

    @property
    def waiting(self) -> int:
        """The number of lines that wait to be written."""
        return len(self._waiting)

    def add(self, event: AccessEvent, memory_ids: Sequence[str] = ()) -> None:
        """Add an event, with the ids of the memories that were read."""
        address = caller_address.get()
        if address is not None:
            event = event._replace(ip_address=address)
        with self._lock:
            self._waiting.append((event, memory_ids))
            is_full = len(self._waiting) >= _MAX_WAITING and not self._strict
        if self._strict:
            self.flush()
        elif is_full:
            self._write_and_seal()

    def flush(self) -> None:
        """Write all buffered events; those that cannot be written stay in the buffer.

        A store that was opened read-only has no log: raise StoreReadOnly in strict mode only.
        """
        try:
            self._flush()
        except StoreReadOnly as error:
            self._thread.failure = error
            if self._strict:
                raise

    def _flush(self) -> None:
        with self._writing:
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            try:
                self._write(waiting)
            except BaseException:
                with self._lock:
                    self._waiting = (waiting + self._waiting)[-_MAX_WAITING:]
                raise

    def _write(self, waiting: Sequence[BufferedEvent]) -> None:
        lines = [event.make_line(self._interface) for event, _ in waiting]
        increments = _make_increments(waiting)

        def commit(attempt: int) -> None:
            # The first attempt fails with BrokenReference if an organization was purged after its lines were buffered.
            writable_lines = self._drop_orphans(lines) if attempt else lines
            self._records.commit([*map(Put, writable_lines), *increments])

        retry("write lines of the access log", commit, _RETRIES, on=BrokenReference)

    def _drop_orphans(self, lines: list[AccessLog]) -> list[AccessLog]:
        """Return the lines whose organizations still exist."""
        from everhold.model import Organization  # few lines are of an organization that was deleted

        organization_ids = {line.organization_id for line in lines}
        existing_ids = {
            organization_id
            for organization_id in organization_ids
            if self._records.get(Organization, organization_id, [organization_id], deleted=True)
        }
        return [line for line in lines if line.organization_id in existing_ids]

    def close(self) -> None:
        """Write the waiting lines and end the thread. A second call does nothing."""
        self._closing.set()
        self._thread.join()
        if not self._is_closed:
            self.flush()
            self._is_closed = True

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            self._write_and_seal()

    def _write_and_seal(self) -> None:
        """Write and seal the waiting lines. An error is not raised: `doctor` shows it, and the next call retries."""
        self._thread.attempt(self._flush_and_seal)

    def _flush_and_seal(self) -> None:
        self._flush()
        self._seal()


def _make_increments(waiting: Sequence[BufferedEvent]) -> list[Increment]:
    """Return one increment per memory: how often it was read, and when it was last read."""
    counts: Counter[tuple[str, str]] = Counter()
    last_read: dict[tuple[str, str], datetime] = {}
    for event, memory_ids in waiting:
        for memory_id in memory_ids:
            key = (event.scope.organization, memory_id)
            counts[key] += 1
            last_read[key] = event.at
    return [
        Increment(Memory, key, {"access_count": count}, {"last_accessed": last_read[key]})
        for key, count in counts.items()
    ]
