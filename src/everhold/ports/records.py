"""The store of record: few verbs, the same everywhere.

Rows are reached through an organization, always. Reads hide deleted rows unless asked. A commit is a list of values
and is all-or-nothing: either every operation in it happened, durably, or none did and an error says why.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from everhold.model.base import Row
from everhold.schema.operations import Condition, Feed, Operation, Page, Traits

E = TypeVar("E", bound=Row)


class Records(Protocol):
    """A store of record."""

    @property
    def traits(self) -> Traits: ...

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        """The live rows with these ids; `deleted` also shows deleted ones."""
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
        """Rows that meet every condition, ordered by `order` (a field that is never absent) and then by key.

        With None as the organization, rows of all: for tables that belong to none, and for maintenance and reports.
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
        """The named fields of every row that meets the conditions, in no particular order, without building rows."""
        ...

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int: ...

    def commit(self, operations: Sequence[Operation]) -> None:
        """All of it, durably, in this order, or none of it."""
        ...

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        """What has changed since a position; 0 is the beginning. A limit cuts the lines, never the promise."""
        ...

    def head(self) -> int:
        """The feed's present position."""
        ...

    def maintain(self, *, erased: bool = False) -> bool:
        """Run the store's periodic maintenance: give back free pages, refresh statistics.

        With `erased`, rows have been purged since the last time: also remove what is left of them from the store's
        files. Return whether nothing is left there; False asks to be called again later.
        """
        ...

    def problems(self) -> list[str]:
        """What the store finds wrong with itself; nothing, if all is well. May take long."""
        ...

    def close(self) -> None: ...
