"""Plan a commit in Python: which rows change, according to the catalog's rules.

This is for stores that cannot enforce the rules themselves. Such a store answers queries for its rows, receives the
changes of a plan and applies all of them atomically.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from everhold.errors import StaleVersion
from everhold.model.base import Row
from everhold.schema import rules
from everhold.schema.catalog import TABLES, get_key, get_table
from everhold.schema.operations import Delete, Ensure, Hide, Increment, Operation, Patch, Put, Require, Unhide
from everhold.schema.rows import Key, Rows, copy_row
from everhold.schema.rules import Reader, TableRow
from everhold.schema.table import Table


class RowChange(NamedTuple):
    """A row before and after a commit; `before` is None for a new row, `after` for a deleted one."""

    table: Table
    key: Key
    before: Row | None
    after: Row | None


def plan(stored: Reader, operations: Sequence[Operation], generate_number: Callable[[Table], int]) -> list[RowChange]:
    """Return the changes that the operations make, in the order in which rows are first touched.

    Raises the error of the first operation that breaks a rule. `generate_number` returns a table's next number; the
    numbers of a commit that fails are not used again.
    """
    commit = _Plan(stored, generate_number)
    for operation in operations:
        commit.add(operation)
    return commit.list_changes()


class _Plan:
    """The rows as they will be after the commit: the changed rows over the stored ones."""

    def __init__(self, stored: Reader, generate_number: Callable[[Table], int]) -> None:
        self._stored = stored
        self._generate_number = generate_number
        self._changed = Rows()
        self._before: dict[tuple[str, Key], Row | None] = {}

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> list[Row]:
        rows = self._stored.find_rows(table, values)
        unchanged = [row for row in rows if (table.name, get_key(row)) not in self._before]
        return unchanged + self._changed.find_rows(table, values)

    def get(self, table: Table, key: Key) -> Row | None:
        if (table.name, key) in self._before:
            return self._changed.get(table, key)
        return next(iter(self._stored.find_rows(table, dict(zip(table.key, key, strict=True)))), None)

    def list_changes(self) -> list[RowChange]:
        changes = (
            RowChange(TABLES[name], key, before, self._changed.get(TABLES[name], key))
            for (name, key), before in self._before.items()
        )
        # A row that the commit adds and deletes again is not a change.
        return [change for change in changes if change.before is not None or change.after is not None]

    def add(self, operation: Operation) -> None:
        """Apply an operation to the plan."""
        match operation:
            case Put(row):
                self._add(get_table(type(row)), row, unless_taken=False)
            case Ensure(row):
                self._add(get_table(type(row)), row, unless_taken=True)
            case Patch():
                self._patch(operation)
            case Increment():
                self._increment(operation)
            case Hide(entity, _, deletion_id, at):
                stamp = {"is_deleted": True, "deleted_at": at, "deletion_id": deletion_id}
                for hidden_row in rules.find_rows_to_hide(self, operation, get_table(entity)):
                    self._replace(hidden_row, {**stamp, "version": hidden_row.row.__dict__["version"] + 1})
            case Unhide(organization_id, deletion_id):
                stamp = {"is_deleted": False, "deleted_at": None, "deletion_id": None}
                for restored_row in rules.find_rows_to_restore(self, organization_id, deletion_id):
                    self._replace(restored_row, {**stamp, "version": restored_row.row.__dict__["version"] + 1})
            case Delete(entity, key):
                self._purge(get_table(entity), tuple(key))
            case Require(entity, key):
                required = self.get(get_table(entity), tuple(key))
                is_live = required is not None and not required.__dict__.get("is_deleted")
                rules.check_live(get_table(entity), key, is_live)

    def _set(self, table: Table, key: Key, row: Row | None) -> None:
        if (table.name, key) not in self._before:
            self._before[table.name, key] = self.get(table, key)
        self._changed.set(table, key, row)

    def _add(self, table: Table, row: Row, *, unless_taken: bool) -> None:
        if table.generated:
            row = row.model_copy(update={table.generated: self._generate_number(table)})
        rules.check_new_row(table, row)
        if unless_taken and self.get(table, get_key(row)) is not None:
            return
        rules.check_key(self, table, row)
        rules.check_uniques(self, table, row)
        self._set(table, get_key(row), copy_row(row))
        rules.check_references(self, table, row)

    def _patch(self, patch: Patch) -> None:
        table = get_table(patch.entity)
        rules.check_changes(table, patch.changes)
        row = self.get(table, tuple(patch.key))
        if row is None or patch.version not in (None, row.__dict__.get("version")):
            version = f" at version {patch.version}" if patch.version is not None else ""
            raise StaleVersion(
                f"{table.name} {patch.key[-1]!r} does not exist{version}", remedy="read it again and retry"
            )
        next_version = {"version": row.__dict__["version"] + 1} if table.versioned else {}
        self._replace(TableRow(table, row), {**patch.changes, **next_version})

    def _increment(self, increment: Increment) -> None:
        table = get_table(increment.entity)
        rules.check_fields(table, increment.amounts)
        rules.check_changes(table, increment.changes)
        row = self.get(table, tuple(increment.key))
        if row is not None:
            values = row.__dict__
            sums = {
                name: None if values[name] is None else values[name] + amount
                for name, amount in increment.amounts.items()
            }
            self._replace(TableRow(table, row), {**increment.changes, **sums})

    def _replace(self, table_row: TableRow, changes: Mapping[str, Any]) -> None:
        # The rules are checked in the order that the databases use, so that every store raises the same error.
        table, before = table_row.table, table_row.row
        after = before.model_copy(update=dict(changes))
        rules.check_row(table, after)
        if get_key(after) != table_row.key:
            rules.check_key(self, table, after)
            self._set(table, table_row.key, None)
        rules.check_uniques(self, table, after)
        self._set(table, get_key(after), copy_row(after))
        rules.check_references(self, table, after)
        rules.check_still_referred(self, table, before, after)
        rules.check_row_rules(table, rules.find_rules(type(after), changes), after.__dict__)

    def _purge(self, table: Table, key: Key) -> None:
        row = self.get(table, key)
        if row is None:
            return
        purge = rules.plan_purge(self, TableRow(table, row))
        for removed_row in purge.removed:
            self._set(removed_row.table, removed_row.key, None)
        for referrer, columns in purge.emptied:
            self._replace(referrer, dict.fromkeys(columns))
