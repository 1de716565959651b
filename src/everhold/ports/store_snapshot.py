"""All rows of a store at one moment, for backups."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from everhold.model.base import Row
from everhold.schema.plain_values import PlainRow
from everhold.schema.snapshots import ChangedRows, CollectRow, RowBatch


class StoreSnapshot(Protocol):
    """The rows of a store at one moment. One thread reads it, one table after the other."""

    @property
    def sequence(self) -> int:
        """The highest number that the change feed has assigned."""

    @property
    def mark(self) -> str:
        """A name of this moment for `read_changes` of a later snapshot; empty if the store does not track changes."""

    def count(self, entity: type[Row]) -> int:
        """Return the number of rows of a table, deleted ones included."""
        ...

    def read(self, entity: type[Row], collect: CollectRow) -> Iterator[RowBatch]:
        """Pass all rows of a table to `collect`, deleted ones included, in no particular order.

        Yield after some rows, so that the caller can use what was collected. `collect` must not read the store.
        """
        ...

    def read_keys(self, entity: type[Row]) -> Iterator[Sequence[PlainRow]]:
        """Yield the values of the key columns of all rows of a table, some rows at a time."""
        ...

    def read_changes(self, entity: type[Row], mark: str, collect: CollectRow) -> ChangedRows | None:
        """Return the rows that may have changed since the moment that `mark` names. `collect` is as in `read`.

        Return None if the store does not know; then all rows must be compared.
        """
        ...
