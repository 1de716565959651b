"""What a commit makes of the rows that are held, worked out in Python by the catalog's rules.

For stores that cannot keep the rules themselves: such a store says what it holds, takes the changes of a plan, and
makes all of them at once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from everhold.errors import StaleVersion
from everhold.model.base import Row
from everhold.schema import rules
from everhold.schema.catalog import TABLES, table_of
from everhold.schema.operations import Delete, Ensure, Hide, Increment, Operation, Patch, Put, Unhide
from everhold.schema.rows import Key, Rows, copied
from everhold.schema.rules import Place, Reader, key_of
from everhold.schema.table import Table


class Change(NamedTuple):
    """A row as it is and as it will be; None where it is not there, or will be gone."""

    table: Table
    key: Key
    before: Row | None
    after: Row | None


def plan(held: Reader, operations: Sequence[Operation], draw: Callable[[Table], int]) -> list[Change]:
    """All that the operations change, in the order in which rows are first touched, or the error that they meet.

    `draw` gives a table's next number. What was drawn for a commit that fails stays drawn.
    """
    planned = _Plan(held, draw)
    for operation in operations:
        planned.take(operation)
    return planned.changes()


class _Plan:
    """The rows as they will be: those touched so far, over those that are held."""

    def __init__(self, held: Reader, draw: Callable[[Table], int]) -> None:
        self._held = held
        self._draw = draw
        self._own = Rows()
        self._before: dict[tuple[str, Key], Row | None] = {}

    def having(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        kept = [row for row in self._held.having(table, values) if (table.name, key_of(table, row)) not in self._before]
        return kept + self._own.having(table, values)

    def get(self, table: Table, key: Key) -> Row | None:
        if (table.name, key) in self._before:
            return self._own.get(table, key)
        return next(iter(self._held.having(table, dict(zip(table.key, key, strict=True)))), None)

    def changes(self) -> list[Change]:
        made = (
            Change(TABLES[name], key, before, self._own.get(TABLES[name], key))
            for (name, key), before in self._before.items()
        )
        return [change for change in made if change.before is not None or change.after is not None]

    def take(self, operation: Operation) -> None:
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
                for place in rules.hidden_by(self, operation, table_of(entity)):
                    self._replace(place, {**stamp, "version": place.row.__dict__["version"] + 1})
            case Unhide(organization_id, deletion_id):
                stamp = {"is_deleted": False, "deleted_at": None, "deletion_id": None}
                for place in rules.restored_by(self, organization_id, deletion_id):
                    self._replace(place, {**stamp, "version": place.row.__dict__["version"] + 1})
            case Delete(entity, key):
                self._purge(table_of(entity), tuple(key))

    def _set(self, table: Table, key: Key, row: Row | None) -> None:
        if (table.name, key) not in self._before:
            self._before[table.name, key] = self.get(table, key)
        self._own.set(table, key, row)

    def _add(self, table: Table, row: Row, *, unless_taken: bool) -> None:
        if table.drawn:
            row = row.model_copy(update={table.drawn: self._draw(table)})
        rules.check_new_row(table, row)
        if unless_taken and self.get(table, key_of(table, row)) is not None:
            return
        rules.check_key(self, table, row)
        rules.check_uniques(self, table, row)
        self._set(table, key_of(table, row), copied(row))
        rules.check_references(self, table, row)

    def _patch(self, patch: Patch) -> None:
        table = table_of(patch.entity)
        rules.check_changes(table, patch.changes)
        row = self.get(table, tuple(patch.key))
        if row is None or patch.version not in (None, row.__dict__.get("version")):
            wanted = f" at version {patch.version}" if patch.version is not None else ""
            raise StaleVersion(f"{table.name} {patch.key[-1]!r} is not there{wanted}", remedy="read it again and retry")
        counted = {"version": row.__dict__["version"] + 1} if table.versioned else {}
        self._replace(Place(table, row), {**patch.changes, **counted})

    def _increment(self, increment: Increment) -> None:
        table = table_of(increment.entity)
        rules.check_fields(table, increment.amounts)
        rules.check_changes(table, increment.changes)
        row = self.get(table, tuple(increment.key))
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
            rules.check_key(self, table, after)
            self._set(table, place.key, None)
        rules.check_uniques(self, table, after)
        self._set(table, key_of(table, after), copied(after))
        rules.check_references(self, table, after)
        rules.check_still_referred(self, table, before, after)
        rules.check_row_rules(table, rules.rules_about(type(after), changes), after.__dict__)

    def _purge(self, table: Table, key: Key) -> None:
        row = self.get(table, key)
        if row is None:
            return
        purge = rules.purge(self, Place(table, row))
        for place in purge.removed:
            self._set(place.table, place.key, None)
        for place, columns in purge.emptied:
            self._replace(place, dict.fromkeys(columns))
