"""Hold the lease with which only one process at a time changes the backups of a store."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from everhold.errors import StaleVersion, StoreBusy
from everhold.interrupts import uninterrupted
from everhold.ports.leases import HeldLease, take_lease
from everhold.ports.records import Records

_NAME = "backup"
# The lease is extended after every batch of rows. After a process is killed, others wait at most this long.
_DURATION = timedelta(seconds=30)
_WAIT_SECONDS = 35.0  # longer than the lease of a killed process lasts
_PAUSE_SECONDS = 0.5


@contextmanager
def hold_backup_lease(records: Records) -> Iterator[HeldLease]:
    """Hold the lease inside the `with` block. Before, wait for the lease of a killed process to expire.

    Raise StoreBusy if another process keeps extending its lease.
    """
    lease = None
    try:
        deadline = time.monotonic() + _WAIT_SECONDS
        while lease is None:
            with uninterrupted:  # an interrupt is raised after the assignment, so that the lease is released
                lease = take_lease(records, _NAME, _DURATION)
            if lease is None:
                if time.monotonic() > deadline:
                    raise StoreBusy("another backup of this store is running", remedy="wait until it has ended")
                time.sleep(_PAUSE_SECONDS)
        yield lease
    finally:
        if lease is not None:
            with uninterrupted, suppress(StaleVersion):
                lease.release()
