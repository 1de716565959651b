"""Find the settled number of the change feed: no running transaction can still add a line up to this number.

A transaction gets its id before it gets numbers for its lines. So a transaction that may still add a number below the
highest visible one has an id already, and it is lower than the id of a transaction that begins now. A mark consists of
the highest visible number and the id of such a new transaction. When no transaction up to this id is running, every
line up to the number is visible or was rolled back. The upper end of a snapshot cannot serve as the id: running
transactions may have higher ids.
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
        """Return whether lines up to `last` are not settled yet and no mark exists."""
        return last > self._number and self._mark is None

    def mark(self, number: int, transaction: int) -> None:
        """Remember a visible number, and the id of a transaction that began after the number was read."""
        with self._lock:
            if self._mark is None:
                self._mark = _Mark(number, transaction)
