"""A store of record over any collection of rows.

A store without constraints and queries of its own supplies four things: the rows of a table, the rows with some values,
the next number of a table, and a way to apply changes atomically.
"""

import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from everhold.errors import StoreUnavailable
from everhold.interrupts import uninterrupted
from everhold.model.base import Row
from everhold.model.change_feed import Outbox
from everhold.schema import rules
from everhold.schema.catalog import TABLES, get_table
from everhold.schema.conditions import is_match, list_fields
from everhold.schema.operations import Condition, Feed, Operation, Page, SettledLines, Traits
from everhold.schema.planning import RowChange, plan
from everhold.schema.rows import copy_row
from everhold.schema.snapshots import UntrackedSnapshot, list_snapshot_entities, make_collected_snapshot
from everhold.schema.table import Table

E = TypeVar("E", bound=Row)


class ReadRecords:
    """The methods that read. A lock lets one caller in at a time."""

    def __init__(self, traits: Traits) -> None:
        self.traits = traits
        self._lock = threading.RLock()
        self._closed = False

    # supplied by the store

    @abstractmethod
    def _read_rows(self, table: Table) -> Iterable[Row]:
        """Return every row of a table, including deleted rows."""

    @abstractmethod
    def find_rows(self, table: Table, values: Mapping[str, Any]) -> Iterable[Row]:
        """Return every row with these values, including deleted rows. None equals None."""

    def _release(self) -> None:
        """Free the store's resources when it is closed."""

    # reading

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        table = get_table(entity)
        rows: dict[str, E] = {}
        with self._lock:
            self._require_open()
            for row_id in dict.fromkeys(ids):
                if table.tenant == "id" and row_id != organization_id:
                    continue
                values = {"id": row_id, **({table.tenant: organization_id} if table.tenant else {})}
                for row in self.find_rows(table, values):
                    if deleted or is_live(table, row):
                        rows[row_id] = cast("E", copy_row(row))
        return rows

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
        table = get_table(entity)
        rules.check_order(table, order)
        names = tuple(dict.fromkeys(([order] if order else []) + list(table.key)))
        rows_with_positions = [
            (tuple(row.__dict__[name] for name in names), row)
            for row in self._select_rows(table, organization_id, where, deleted)
        ]
        if after is not None:
            values = dict(zip(table.key, after.key, strict=True)) | ({order: after.value} if order else {})
            last = tuple(values[name] for name in names)
            rows_with_positions = [
                (position, row)
                for position, row in rows_with_positions
                if (position < last if descending else position > last)
            ]
        rows_with_positions.sort(key=lambda item: item[0], reverse=descending)
        return [cast("E", copy_row(row)) for _, row in rows_with_positions[:limit]]

    def columns(
        self,
        entity: type[Row],
        organization_id: str | None,
        names: Sequence[str],
        where: Sequence[Condition] = (),
        *,
        deleted: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        table = get_table(entity)
        rules.check_fields(table, names)
        for row in self._select_rows(table, organization_id, where, deleted):
            values = copy_row(row).__dict__
            yield tuple(values[name] for name in names)

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Condition] = (), *, deleted: bool = False
    ) -> int:
        return len(self._select_rows(get_table(entity), organization_id, where, deleted))

    def _select_rows(
        self, table: Table, organization_id: str | None, where: Sequence[Condition], deleted: bool
    ) -> list[Row]:
        rules.check_fields(table, list_fields(where))
        tenant = table.tenant if organization_id is not None else None
        return [
            row
            for row in self._read_superset(table, organization_id, where)
            if (tenant is None or row.__dict__[tenant] == organization_id)
            and (deleted or is_live(table, row))
            and is_match(row, where)
        ]

    def _read_superset(self, table: Table, organization_id: str | None, where: Sequence[Condition]) -> list[Row]:
        """Return rows of one moment: at least the organization's rows that meet the conditions."""
        with self._lock:
            self._require_open()
            return list(self._read_rows(table))

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        later_lines = (line for line in self._read_outbox() if line.sequence > after)
        lines = sorted(later_lines, key=lambda line: line.sequence)[:limit]
        return Feed(lines, lines[-1].sequence if lines else after)

    def head(self) -> int:
        return max((line.sequence for line in self._read_outbox()), default=0)

    def read_settled(self, after: int, *, limit: int = 1000) -> SettledLines:
        return SettledLines(self.feed(after, limit=limit).lines, self.head())

    def _read_outbox(self) -> list[Outbox]:
        with self._lock:
            self._require_open()
            return [cast("Outbox", row) for row in self._read_rows(get_table(Outbox))]

    @contextmanager
    def read_snapshot(self) -> Iterator[UntrackedSnapshot]:
        with self._lock:
            self._require_open()
            rows = {name: [*self._read_rows(TABLES[name])] for name in _list_snapshot_tables()}
            sequence = self._read_last_number()
        yield make_collected_snapshot(sequence, rows)

    def _read_last_number(self) -> int:
        """Return the highest number that the change feed has assigned."""
        return self.head()

    # maintenance

    def maintain(self, *, erased: bool = False) -> bool:
        """Do nothing, unless the store overrides this."""
        self._require_open()
        return True

    def find_problems(self) -> list[str]:
        with self._lock:
            self._require_open()
            return [
                problem
                for table in TABLES.values()
                for problem in rules.find_problems(self, table, self._read_rows(table))
            ]

    def close(self) -> None:
        with uninterrupted, self._lock:
            if not self._closed:
                self._closed = True
                self._release()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"this {self.traits.name} store has been closed", remedy="open it again")


class PlainRecords(ReadRecords):
    """All methods of a store of record."""

    @abstractmethod
    def _generate_number(self, table: Table) -> int:
        """Return a number greater than all earlier ones of this table, including those of processes that have ended."""

    @abstractmethod
    def _apply_changes(self, changes: Sequence[RowChange]) -> None:
        """Apply all changes durably, or none."""

    def commit(self, operations: Sequence[Operation]) -> None:
        rules.check_size(operations, self.traits.commit_limit)
        with uninterrupted, self._lock:
            self._require_open()
            self._apply_changes(plan(self, operations, self._generate_number))


def is_live(table: Table, row: Row) -> bool:
    return not table.soft or not row.__dict__["is_deleted"]


def _list_snapshot_tables() -> list[str]:
    return [get_table(entity).name for entity in list_snapshot_entities()]
