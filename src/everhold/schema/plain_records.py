"""Records over anything that can hold rows: everything but holding them.

A store that keeps no rules and answers no queries of its own supplies four things: the rows of a table, those that hold
some values, the next number of a table, and a way to make changes all at once.
"""

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from everhold.errors import StoreUnavailable
from everhold.interrupts import uninterrupted
from everhold.model.base import Row
from everhold.model.housekeeping import Outbox
from everhold.schema import rules
from everhold.schema.catalog import TABLES, table_of
from everhold.schema.conditions import list_fields, meets
from everhold.schema.operations import Condition, Feed, Operation, Page, Traits
from everhold.schema.planning import Change, plan
from everhold.schema.rows import copied
from everhold.schema.table import Table

E = TypeVar("E", bound=Row)


class ReadRecords:
    """The verbs that read. One caller at a time."""

    def __init__(self, traits: Traits) -> None:
        self.traits = traits
        self._turn = threading.RLock()
        self._closed = False

    # what a store supplies

    @abstractmethod
    def _rows_of(self, table: Table) -> Iterable[Row]:
        """Every row of a table, deleted or not."""

    @abstractmethod
    def having(self, table: Table, values: Mapping[str, Any]) -> Iterable[Row]:
        """Every row, deleted or not, that holds these values; an absent value equals an absent one."""

    def _release(self) -> None:
        """Gives back what the store holds when it is closed."""

    # reading

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        table = table_of(entity)
        found: dict[str, E] = {}
        with self._turn:
            self._require_open()
            for one in dict.fromkeys(ids):
                if table.tenant == "id" and one != organization_id:
                    continue
                wanted = {"id": one, **({table.tenant: organization_id} if table.tenant else {})}
                for row in self.having(table, wanted):
                    if deleted or is_live(table, row):
                        found[one] = cast("E", copied(row))
        return found

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
        table = table_of(entity)
        rules.check_order(table, order)
        names = tuple(dict.fromkeys(([order] if order else []) + list(table.key)))
        placed = [
            (tuple(row.__dict__[name] for name in names), row)
            for row in self._meeting(table, organization_id, where, deleted)
        ]
        if after is not None:
            given = dict(zip(table.key, after.key, strict=True)) | ({order: after.value} if order else {})
            last = tuple(given[name] for name in names)
            placed = [one for one in placed if (one[0] < last if descending else one[0] > last)]
        placed.sort(key=lambda one: one[0], reverse=descending)
        return [cast("E", copied(row)) for _, row in placed[:limit]]

    def columns(
        self,
        entity: type[Row],
        organization_id: str | None,
        names: Sequence[str],
        where: Sequence[Condition] = (),
        *,
        deleted: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        table = table_of(entity)
        rules.check_fields(table, names)
        for row in self._meeting(table, organization_id, where, deleted):
            values = copied(row).__dict__
            yield tuple(values[name] for name in names)

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        return len(self._meeting(table_of(entity), organization_id, where, deleted))

    def _meeting(
        self, table: Table, organization_id: str | None, where: Sequence[Condition], deleted: bool
    ) -> list[Row]:
        rules.check_fields(table, list_fields(where))
        mine = table.tenant if organization_id is not None else None
        return [
            row
            for row in self._likely(table, organization_id, where)
            if (mine is None or row.__dict__[mine] == organization_id)
            and (deleted or is_live(table, row))
            and meets(row, where)
        ]

    def _likely(self, table: Table, organization_id: str | None, where: Sequence[Condition]) -> list[Row]:
        """Rows as of one moment, all of a tenant's among them that meet the conditions."""
        with self._turn:
            self._require_open()
            return list(self._rows_of(table))

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        due = sorted((line for line in self._lines() if line.sequence > after), key=lambda line: line.sequence)[:limit]
        return Feed(due, due[-1].sequence if due else after)

    def head(self) -> int:
        return max((line.sequence for line in self._lines()), default=0)

    def _lines(self) -> list[Outbox]:
        with self._turn:
            self._require_open()
            return [cast("Outbox", row) for row in self._rows_of(table_of(Outbox))]

    # care

    def maintain(self, *, erased: bool = False) -> bool:
        """Do nothing, unless the store overrides this."""
        self._require_open()
        return True

    def problems(self) -> list[str]:
        with self._turn:
            self._require_open()
            return [
                problem for table in TABLES.values() for problem in rules.problems(self, table, self._rows_of(table))
            ]

    def close(self) -> None:
        with uninterrupted, self._turn:
            if not self._closed:
                self._closed = True
                self._release()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"this {self.traits.name} store has been closed", remedy="open it again")


class PlainRecords(ReadRecords):
    """All verbs of a store of record."""

    @abstractmethod
    def _draw(self, table: Table) -> int:
        """A number greater than all drawn before for this table, also by a process that has ended."""

    @abstractmethod
    def _make(self, changes: Sequence[Change]) -> None:
        """Makes all changes, durably, or none."""

    def commit(self, operations: Sequence[Operation]) -> None:
        rules.check_size(operations, self.traits.commit_limit)
        with uninterrupted, self._turn:
            self._require_open()
            self._make(plan(self, operations, self._draw))


def is_live(table: Table, row: Row) -> bool:
    return not table.soft or not row.__dict__["is_deleted"]
