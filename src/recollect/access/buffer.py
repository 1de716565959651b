"""Lines about reads, and the counts of what was read, written a moment later and together.

A recall must not wait for a disk. Its line in the access log and the access counts of what it returned are kept here
and written within a second; a crash loses at most that second of them. In strict mode they are written at once.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime

from recollect.errors import StoreError
from recollect.model import AccessLog, Memory
from recollect.ports.records import Records
from recollect.schema.operations import Increment, Operation, Put

_MOST_WAITING = 10_000


class AccessBuffer:
    """Collects lines and counts; a thread of its own writes them."""

    def __init__(self, records: Records, *, seconds: float, strict: bool, after: Callable[[], None]) -> None:
        self._records = records
        self._seconds = seconds
        self._strict = strict
        self._after = after
        self._lines: list[AccessLog] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[str, str], datetime] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self.failure: StoreError | None = None

    def note(self, line: AccessLog, read: Iterable[str] = ()) -> None:
        """Takes a line, and the ids of the memories that were read."""
        with self._lock:
            self._lines.append(line)
            for memory_id in read:
                key = (line.organization_id, memory_id)
                self._counts[key] += 1
                self._last[key] = line.timestamp
            full = len(self._lines) >= _MOST_WAITING
            if self._thread is None and not self._strict and not self._closing:
                self._thread = threading.Thread(target=self._run, name="recollect-access", daemon=True)
                self._thread.start()
        if self._strict or full:
            self.flush()

    def flush(self) -> None:
        """Writes all that waits. What cannot be written goes on waiting."""
        with self._writing:
            with self._lock:
                lines, self._lines = self._lines, []
                counts, self._counts = self._counts, Counter()
                last, self._last = self._last, {}
            if not lines and not counts:
                return
            operations: list[Operation] = [Put(line) for line in lines]
            operations += [
                Increment(Memory, key, {"access_count": count}, {"last_accessed": last[key]})
                for key, count in counts.items()
            ]
            try:
                self._records.commit(operations)
            except BaseException:
                with self._lock:
                    self._lines = lines + self._lines
                    self._counts.update(counts)
                    self._last = {**last, **self._last}
                raise

    def close(self) -> None:
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(self._seconds)
            try:
                self.flush()
                self._after()
                self.failure = None
            except StoreError as error:
                self.failure = error  # shown by doctor; the lines wait for the next round
