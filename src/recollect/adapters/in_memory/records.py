"""A store of record in this process's memory.

It keeps every rule of the catalog in Python and forgets everything when it is closed. Rows are handed in and out as
copies, so nothing a caller does to a value reaches the store.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from recollect.adapters.in_memory.rows import Key, Rows
from recollect.errors import Conflict, InvalidInput, StaleVersion, StoreUnavailable
from recollect.model.base import Row
from recollect.model.housekeeping import Outbox
from recollect.ports.records import Feed, Traits
from recollect.schema import rules
from recollect.schema.catalog import CATALOG, TABLES, table_of
from recollect.schema.codec import json_text
from recollect.schema.conditions import meets
from recollect.schema.operations import Delete, Ensure, Hide, Increment, Operation, Page, Patch, Put, Unhide, Where
from recollect.schema.rules import Place, key_of
from recollect.schema.table import Kind, Table

E = TypeVar("E", bound=Row)
_TRAITS = Traits(name="in_memory", words="portable", vectors="portable", commit_limit=1_000_000)
_JSON = {
    entity: tuple(column.name for column in table.columns if column.kind is Kind.JSON)
    for entity, table in CATALOG.items()
}


class InMemoryRecords:
    """Records in dictionaries."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._turn = threading.Lock()
        self._closed = False

    @property
    def traits(self) -> Traits:
        return _TRAITS

    # reading

    def get(self, entity: type[E], organization_id: str, ids: Sequence[str], *, deleted: bool = False) -> dict[str, E]:
        table = table_of(entity)
        found: dict[str, E] = {}
        with self._turn:
            self._require_open()
            for one in dict.fromkeys(ids):
                wanted = {"id": one, table.tenant: organization_id} if table.tenant not in (None, "id") else {"id": one}
                if table.tenant == "id" and one != organization_id:
                    continue
                for row in self._rows.having(table, cast("Mapping[str, Any]", wanted)):
                    if deleted or _is_live(table, row):
                        found[one] = cast("E", _copied(row))
        return found

    def scan(
        self,
        entity: type[E],
        organization_id: str | None,
        where: Sequence[Where] = (),
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
        return [cast("E", _copied(row)) for _, row in placed[:limit]]

    def columns(
        self,
        entity: type[Row],
        organization_id: str | None,
        names: Sequence[str],
        where: Sequence[Where] = (),
        *,
        deleted: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        table = table_of(entity)
        rules.check_fields(table, names)
        for row in self._meeting(table, organization_id, where, deleted):
            values = _copied(row).__dict__
            yield tuple(values[name] for name in names)

    def count(
        self, entity: type[Row], organization_id: str | None, where: Sequence[Where] = (), *, deleted: bool = False
    ) -> int:
        return len(self._meeting(table_of(entity), organization_id, where, deleted))

    def _meeting(self, table: Table, organization_id: str | None, where: Sequence[Where], deleted: bool) -> list[Row]:
        rules.check_fields(table, (condition.field.partition(".")[0] for condition in where))
        with self._turn:
            self._require_open()
            rows = self._rows.all(table)
        mine = table.tenant if organization_id is not None else None
        return [
            row
            for row in rows
            if (mine is None or row.__dict__[mine] == organization_id)
            and (deleted or _is_live(table, row))
            and meets(row, where)
        ]

    def feed(self, after: int, *, limit: int = 1000) -> Feed:
        with self._turn:
            self._require_open()
            lines = [cast("Outbox", row) for row in self._rows.all(table_of(Outbox))]
        due = sorted((line for line in lines if line.sequence > after), key=lambda line: line.sequence)[:limit]
        return Feed(due, due[-1].sequence if due else after)

    def head(self) -> int:
        with self._turn:
            self._require_open()
            lines = [cast("Outbox", row) for row in self._rows.all(table_of(Outbox))]
        return max((line.sequence for line in lines), default=0)

    # writing

    def commit(self, operations: Sequence[Operation]) -> None:
        rules.check_size(operations, _TRAITS.commit_limit)
        with self._turn:
            self._require_open()
            with self._rows.all_or_nothing():
                for operation in operations:
                    self._apply(operation)

    def _apply(self, operation: Operation) -> None:
        match operation:
            case Put(row):
                self._add(table_of(type(row)), row, unless_taken=False)
            case Ensure(row):
                self._add(table_of(type(row)), row, unless_taken=True)
            case Patch():
                self._patch(operation)
            case Increment():
                self._increment(operation)
            case Hide(entity, _, deletion_id, at):
                stamp = {"is_deleted": True, "deleted_at": at, "deletion_id": deletion_id}
                for place in rules.hidden_by(self._rows, operation, table_of(entity)):
                    self._replace(place, {**stamp, "version": place.row.__dict__["version"] + 1})
            case Unhide(organization_id, deletion_id):
                stamp = {"is_deleted": False, "deleted_at": None, "deletion_id": None}
                for place in rules.restored_by(self._rows, organization_id, deletion_id):
                    self._replace(place, {**stamp, "version": place.row.__dict__["version"] + 1})
            case Delete(entity, key):
                self._purge(table_of(entity), tuple(key))

    def _add(self, table: Table, row: Row, *, unless_taken: bool) -> None:
        if table.drawn:
            row = row.model_copy(update={table.drawn: self._rows.draw(table)})
        rules.check_row(table, row)
        if unless_taken and self._rows.get(table, key_of(table, row)) is not None:
            return
        rules.check_key(self._rows, table, row)
        rules.check_uniques(self._rows, table, row)
        self._rows.set(table, key_of(table, row), _copied(row))
        rules.check_references(self._rows, table, row)

    def _patch(self, patch: Patch) -> None:
        table = table_of(patch.entity)
        rules.check_fields(table, patch.changes)
        row = self._rows.get(table, tuple(patch.key))
        if row is None or patch.version not in (None, row.__dict__.get("version")):
            wanted = f" at version {patch.version}" if patch.version is not None else ""
            raise StaleVersion(f"{table.name} {patch.key[-1]!r} is not there{wanted}; read it again and retry")
        counted = {"version": row.__dict__["version"] + 1} if table.versioned else {}
        self._replace(Place(table, row), {**patch.changes, **counted})

    def _increment(self, increment: Increment) -> None:
        table = table_of(increment.entity)
        rules.check_fields(table, [*increment.amounts, *increment.changes])
        row = self._rows.get(table, tuple(increment.key))
        if row is not None:
            held = row.__dict__
            sums = {
                name: None if held[name] is None else held[name] + amount for name, amount in increment.amounts.items()
            }
            self._replace(Place(table, row), {**increment.changes, **sums})

    def _replace(self, place: Place, changes: Mapping[str, Any]) -> None:
        table, before = place.table, place.row
        after = before.model_copy(update=dict(changes))
        rules.check_row(table, after)
        if key_of(table, after) != place.key:
            rules.check_key(self._rows, table, after)
            self._rows.set(table, place.key, None)
        rules.check_uniques(self._rows, table, after)
        self._rows.set(table, key_of(table, after), _copied(after))
        rules.check_references(self._rows, table, after)
        rules.check_still_referred(self._rows, table, before, after)

    def _purge(self, table: Table, key: Key) -> None:
        row = self._rows.get(table, key)
        if row is None:
            return
        purge = rules.purge(self._rows, Place(table, row))
        for place in purge.removed:
            self._rows.set(place.table, place.key, None)
        for place, columns in purge.emptied:
            self._replace(place, dict.fromkeys(columns))

    # care

    def upkeep(self) -> None:
        """Memory needs none."""

    def problems(self) -> list[str]:
        with self._turn:
            self._require_open()
            return [problem for table in TABLES.values() for problem in self._problems(table)]

    def _problems(self, table: Table) -> Iterator[str]:
        for row in self._rows.all(table):
            try:
                rules.check_row(table, row)
                rules.check_uniques(self._rows, table, row)
                rules.check_references(self._rows, table, row)
            except (Conflict, InvalidInput) as error:
                yield f"{table.name} {key_of(table, row)}: {error}"

    def close(self) -> None:
        with self._turn:
            self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("this store in memory has been closed; open another")


def _is_live(table: Table, row: Row) -> bool:
    return not table.soft or not row.__dict__["is_deleted"]


def _copied(row: Row) -> Row:
    """The same row with JSON values of its own, as they would come back from any other store."""
    values = row.__dict__
    own = {name: json.loads(json_text(values[name])) for name in _JSON[type(row)] if values[name] is not None}
    return row.model_copy(update=own) if own else row
