"""Up to which number the change feed is settled: no transaction that is still running can add a lower one.

A transaction gets its id before it draws numbers, and transactions that begin later draw higher numbers than those
visible now. So a line that is missing below the highest visible number belongs to a transaction that is running now.
Once all of those have ended, every line up to that number is visible or was rolled back.
"""

import threading
from typing import NamedTuple


class _Mark(NamedTuple):
    """The highest visible number at some moment, and the id that the next transaction would have got."""

    number: int
    next_transaction: int


class SettledNumber:
    """The highest settled number as far as this process has observed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._mark: _Mark | None = None

    def advance(self, last: int, oldest: int, next_transaction: int) -> int:
        """Return the highest settled number after an observation of one moment.

        `last` is the highest visible number, `oldest` the id of the oldest running transaction, and `next_transaction`
        the id that the next one gets; without a running transaction the two ids are equal.
        """
        with self._lock:
            if last < self._number:  # the database was replaced by an older copy
                self._number, self._mark = 0, None
            if oldest == next_transaction:
                self._number, self._mark = max(self._number, last), None
            elif self._mark is None:
                self._mark = _Mark(last, next_transaction)
            elif oldest >= self._mark.next_transaction:
                self._number = max(self._number, self._mark.number)
                self._mark = _Mark(last, next_transaction)
            return self._number
