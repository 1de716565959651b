"""Up to which number the change feed is settled: no transaction that is still running can add a lower one.

A transaction gets its id before it draws numbers. So a transaction that may still add a number below the highest
visible one has an id already, lower than that of a transaction that begins now. A mark is that number and such an id.
Once no transaction up to the id is running, every line up to the number is visible or was rolled back. The end of a
snapshot is not such an id: running transactions may be beyond it.
"""

import threading
from typing import NamedTuple


class _Mark(NamedTuple):
    number: int
    transaction: int


class SettledNumber:
    """The highest settled number as far as this process has observed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._mark: _Mark | None = None

    def settle(self, last: int, oldest: int) -> int:
        """Return the highest settled number, given the highest visible one and the oldest running transaction."""
        with self._lock:
            if last < self._number:  # the database was replaced by an older copy
                self._number, self._mark = 0, None
            if self._mark is not None and oldest > self._mark.transaction:
                self._number, self._mark = max(self._number, self._mark.number), None
            return self._number

    def needs_mark(self, last: int) -> bool:
        """Return whether lines up to `last` are waiting to be settled, without a mark for any of them."""
        return last > self._number and self._mark is None

    def mark(self, number: int, transaction: int) -> None:
        """Note a visible number, and a transaction that began after it was seen."""
        with self._lock:
            if self._mark is None:
                self._mark = _Mark(number, transaction)
