"""The interface of a store: a few methods with the same meaning in every store.

Every read names an organization. Reads hide soft-deleted rows by default. A commit is a list of operations and is
atomic: either all of them are stored durably, or none is and an error says why.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from everhold.model.base import Row
from everhold.schema.operations import Condition, Feed, Operation, Page, SettledLines, Traits

if TYPE_CHECKING:
    from everhold.ports.store_snapshot import StoreSnapshot

E = TypeVar("E", bound=Row)


class Records(Protocol):
    """A store. Thread-safe."""

    @property
    def traits(self) -> Traits:
        """The store's name, abilities and limits."""

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        """Return the live rows with these ids, by id; with `deleted` also soft-deleted rows."""
        ...

    def scan(
        self,
        entity: type[E],
        organization_id: str | None,
        where: Sequence[Condition] = (),
        *,
        order: str | None = None,
        descending: bool = False,
        after: Page | None = None,
        limit: int | None = None,
        deleted: bool = False,
    ) -> list[E]:
        """Return the rows that meet every condition, ordered by `order` (a field that is never None), then by key.

        If `organization_id` is None, rows of all organizations are returned. That is for tables without an
        organization, for maintenance and for reports.
        """
        ...

    def columns(
        self,
        entity: type[Row],
        organization_id: str | None,
        names: Sequence[str],
        where: Sequence[Condition] = (),
        *,
        deleted: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the named fields of every row that meets the conditions, in no particular order.

        Cheaper than `scan`, because no entities are built.
        """
        ...

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        """Return the number of rows that meet every condition."""
        ...

    def commit(self, operations: Sequence[Operation]) -> None:
        """Apply all operations in this order and make them durable, or apply none and raise."""
        ...

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        """Return at most `limit` lines of the change feed after a position; 0 is the beginning."""
        ...

    def head(self) -> int:
        """Return the position of the end of the change feed."""
        ...

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        """Return at most `limit` lines of the change feed whose numbers are greater than `after`, in their order.

        Each line is returned once to a caller that continues after the last number. `feed` may repeat lines.
        """
        ...

    def read_snapshot(self) -> "AbstractContextManager[StoreSnapshot]":
        """Return a context with all rows of the store as they are at one moment, while others keep writing.

        Raise StoreBusy if the store cannot read all of its rows between two commits.
        """
        ...

    def maintain(self, *, erased: bool = False) -> bool:
        """Run the store's periodic maintenance: return free pages, refresh statistics.

        `erased` is true if rows were purged since the last run, so that their remains must also be removed from the
        store's files. Return whether they are removed; if False, call again later.
        """
        ...

    def find_problems(self) -> list[str]:
        """Check the store and return sentences about its problems, or an empty list. This may take long."""
        ...

    def close(self) -> None: ...
