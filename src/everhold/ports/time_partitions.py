"""The port to a store that divides the table of memories into partitions by time."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol


def find_month(moment: datetime) -> datetime:
    """Return the beginning of the month of a time in UTC."""
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


class TimePartitions(Protocol):
    """Creates partitions for times in the past. Thread-safe."""

    def add_months(self, months: Collection[datetime]) -> None:
        """Create the partitions that memories of these months need and that do not exist yet.

        Rows of a month without a partition go to the default partition. That happens if the store has many
        partitions already, if it has rows of that month elsewhere, or if other sessions hold the table for long.
        """
        ...
