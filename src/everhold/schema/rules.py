"""The catalog's rules in Python: for stores that cannot enforce them, and as the reference for stores that can.

A row is checked in this order: values, key, unique rules, references. Rules over several fields are checked with the
values if the row is new, and last if it changes. The first broken rule is the error. The rules read rows through a
`Reader`, so any store that can find rows by some of their values can use them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from everhold.errors import AlreadyExists, BatchTooLarge, BrokenReference, Conflict, InvalidInput, UnknownField
from everhold.model.base import Row, RowRule
from everhold.model.encrypted_values import is_encrypted
from everhold.model.validation import explain_errors
from everhold.schema.catalog import TABLES, get_key, get_table
from everhold.schema.operations import Ensure, Hide, Increment, Operation, Patch, Put
from everhold.schema.table import TENANT, Column, Kind, Reference, Table, Unique
from everhold.values import Value, value_class

_MAX_INTEGER = 2**63 - 1  # the largest integer that every database stores


class Reader(Protocol):
    """Access to the rows of a store."""

    def find_rows(self, table: Table, values: Mapping[str, Any]) -> Iterable[Row]:
        """Return every row with these values, including deleted rows. None equals None."""
        ...


@dataclass(frozen=True)
class TableRow:
    """A row and the table it is in."""

    table: Table
    row: Row

    @property
    def key(self) -> tuple[Any, ...]:
        return get_key(self.row)


@value_class
class PurgePlan(Value):
    """The rows that a purge removes, and the columns that it sets to None in rows that stay."""

    removed: list[TableRow]
    emptied: list[tuple[TableRow, tuple[str, ...]]]


# names and sizes


def check_size(operations: Sequence[object], limit: int) -> None:
    """Raise BatchTooLarge if there are more operations than a commit may have."""
    if len(operations) > limit:
        raise BatchTooLarge(
            f"a commit has {len(operations)} operations; the limit is {limit}", remedy="split it into several commits"
        )


def check_fields(table: Table, names: Iterable[str]) -> None:
    """Raise UnknownField for a name that is not a column of the table."""
    for name in names:
        if name not in table.by_name:
            raise UnknownField(
                f"{table.name} has no field {name!r}", value=name, remedy=f"it has {', '.join(table.names)}"
            )


def check_changes(table: Table, changes: Mapping[str, Any]) -> None:
    """Raise InvalidInput for values that do not fit their columns, even if the row does not exist."""
    check_fields(table, changes)
    for name, value in changes.items():
        _check_value(table, table.by_name[name], value)


def check_operation(operation: Operation) -> None:
    """Raise InvalidInput for an operation that is invalid for any content of the store.

    The store itself checks whether the values of a new row fit their columns.
    """
    match operation:
        case Put(row) | Ensure(row):
            check_row_rules(get_table(type(row)), type(row).rules, row.__dict__)
        case Patch(entity, _, changes) | Increment(entity, _, _, changes):
            check_changes(get_table(entity), changes)


def find_rules(entity: type[Row], names: Iterable[str]) -> tuple[RowRule, ...]:
    """Return the entity's rules over several fields that read one of `names`."""
    changed_fields = set(names)
    return tuple(rule for rule in entity.rules if not changed_fields.isdisjoint(rule.fields))


def check_row_rules(table: Table, rules: Iterable[RowRule], values: Mapping[str, Any]) -> None:
    """Raise InvalidInput if the values break one of the rules.

    Encrypted values are skipped: they were checked before they were encrypted.
    """
    for rule in rules:
        if any(is_encrypted(values[name]) for name in rule.fields):
            continue
        try:
            rule.check(values)
        except PydanticCustomError as error:
            raise InvalidInput.from_sentence(f"{table.name}: {error}") from None
        except ValidationError as error:
            raise explain_errors(error, table.name, ()) from None


def check_order(table: Table, order: str | None) -> None:
    """Raise InvalidInput if rows cannot be ordered by a field."""
    column = table.by_name.get(order) if order else None
    if order and (column is None or column.nullable or column.kind is Kind.JSON):
        raise InvalidInput(
            f"rows cannot be ordered by {order!r}",
            value=order,
            remedy="choose a field that always has a value, such as 'created_at'",
        )


# values


def check_row(table: Table, row: Row) -> None:
    """Raise InvalidInput for a value that its column cannot hold."""
    values = row.__dict__
    for column in table.columns:
        if column.name != table.generated:
            _check_value(table, column, values[column.name])


def check_new_row(table: Table, row: Row) -> None:
    """Raise InvalidInput for a value that its column cannot hold, or values that break a rule over several fields."""
    check_row(table, row)
    check_row_rules(table, type(row).rules, row.__dict__)


def _check_value(table: Table, column: Column, value: Any) -> None:
    problem = _describe_problem(column, value)
    if problem:
        raise InvalidInput.from_sentence(f"{table.name}.{column.name} {problem}", value)


def _describe_problem(column: Column, value: Any) -> str:
    """Return what is wrong with a value and the remedy; empty if the column can hold it."""
    if value is None:
        return "" if column.nullable else "is missing; pass a value"
    if column.kind is Kind.TEXT:
        return _describe_text_problem(column, value)
    if column.kind is Kind.INTEGER and not -_MAX_INTEGER - 1 <= value <= _MAX_INTEGER:
        return f"is {value}, which does not fit 64 bits; use a smaller number"
    if (column.low is not None and value < column.low) or (column.high is not None and value > column.high):
        return f"is {value}; it must lie between {column.low} and {column.high}"
    return ""


def _describe_text_problem(column: Column, value: str) -> str:
    if column.one_of and value not in column.one_of:
        return f"is {value!r}; use one of {', '.join(column.one_of)}"
    if column.width is not None and len(value) > column.width:
        return f"has {len(value)} characters; at most {column.width} fit"
    return (
        ""
        if value.isascii() or _is_unicode(value)
        else "holds a lone surrogate; decode the source with errors='replace'"
    )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_storable(value: Any) -> bool:
    """Return whether stores can hold a value. They cannot hold lone surrogates and integers beyond 64 bits."""
    if isinstance(value, str):
        return value.isascii() or _is_unicode(value)
    return not isinstance(value, int) or -_MAX_INTEGER - 1 <= value <= _MAX_INTEGER


# keys and unique rules


def check_key(reader: Reader, table: Table, row: Row) -> None:
    """Raise AlreadyExists if a row has the same key."""
    if any(True for _ in reader.find_rows(table, {name: row.__dict__[name] for name in table.key})):
        raise _make_taken_error(table, "key")


def check_uniques(reader: Reader, table: Table, row: Row) -> None:
    """Raise AlreadyExists if another row has the same values of a unique rule."""
    for unique in table.uniques:
        if not is_rule_active(table, unique, row):
            continue
        names = (TENANT, *unique.columns) if TENANT in table.by_name else unique.columns
        for other in reader.find_rows(table, {name: row.__dict__[name] for name in names}):
            if get_key(other) != get_key(row) and is_rule_active(table, unique, other):
                raise _make_taken_error(table, unique.name)


def is_rule_active(table: Table, unique: Unique, row: Row) -> bool:
    """Return whether a unique rule applies to a row."""
    values = row.__dict__
    if unique.when and values[unique.when] is None:
        return False
    if unique.unless and values[unique.unless] is not None:
        return False
    return unique.always or not table.soft or not values["is_deleted"]


def _make_taken_error(table: Table, rule: str) -> AlreadyExists:
    return AlreadyExists(f"{table.name}: a live row with the same {rule} exists", table=table.name, rule=rule)


# references


def check_references(reader: Reader, table: Table, row: Row) -> None:
    """Raise BrokenReference if the row refers to a row that does not exist. It may refer to itself."""
    for reference in table.references:
        target = get_target_values(reference, row)
        if target and not any(True for _ in reader.find_rows(TABLES[reference.target], target)):
            raise BrokenReference(
                f"{table.name}: no row of {reference.target} with {target}", remedy="create that row first"
            )


def check_live(table: Table, key: Sequence[Any], is_live: bool) -> None:
    """Raise BrokenReference if a required row is not live."""
    if not is_live:
        raise BrokenReference(
            f"{table.name} {key[-1]!r} does not exist or has been deleted", remedy="restore it or use another id"
        )


def check_still_referred(reader: Reader, table: Table, before: Row, after: Row) -> None:
    """Raise BrokenReference if a change removes values that other rows refer to."""
    for child, reference in list_referrers(table.name):
        values = get_child_values(reference, before)
        if values != get_child_values(reference, after) and any(True for _ in reader.find_rows(child, values)):
            raise BrokenReference(
                f"{table.name}: rows of {child.name} refer to the values that would change",
                remedy=f"delete the rows of {child.name} first",
            )


def plan_purge(reader: Reader, root: TableRow) -> PurgePlan:
    """Return the effects of purging a row on all rows that refer to it, directly or not."""
    removed_rows = {(root.table.name, root.key): root}
    emptied_columns: dict[tuple[str, tuple[Any, ...]], tuple[TableRow, tuple[str, ...]]] = {}
    pending = [root]
    while pending:
        parent = pending.pop()
        for child, reference in list_referrers(parent.table.name):
            for row in reader.find_rows(child, get_child_values(reference, parent.row)):
                referrer = TableRow(child, row)
                identity = (child.name, referrer.key)
                if reference.on_delete == "set_null":
                    _, columns = emptied_columns.get(identity, (referrer, ()))
                    emptied_columns[identity] = (referrer, (*columns, *reference.columns))
                elif identity not in removed_rows:
                    removed_rows[identity] = referrer
                    pending.append(referrer)
    return PurgePlan(
        list(removed_rows.values()),
        [item for identity, item in emptied_columns.items() if identity not in removed_rows],
    )


def get_target_values(reference: Reference, row: Row) -> dict[str, Any]:
    """Return the values that identify the row that this row refers to; empty if it refers to none."""
    values = row.__dict__
    target_ids = [values[name] for name in reference.columns]
    if None in target_ids or (reference.kind and values[reference.kind[0]] != reference.kind[1]):
        return {}
    if reference.target == "organizations":
        return {"id": target_ids[0]}
    return {TENANT: values[TENANT], **dict(zip(reference.target_columns, target_ids, strict=True))}


def get_child_values(reference: Reference, parent: Row) -> dict[str, Any]:
    """Return the values that the rows referring to a parent have."""
    parent_values = parent.__dict__
    pairs = zip(reference.columns, reference.target_columns, strict=True)
    values = {column: parent_values[target_column] for column, target_column in pairs}
    if reference.kind:
        values[reference.kind[0]] = reference.kind[1]
    return values if reference.target == "organizations" else {TENANT: parent_values[TENANT], **values}


@cache
def list_referrers(name: str) -> list[tuple[Table, Reference]]:
    """Return the tables that refer to a table, with the reference of each."""
    return [
        (child, reference) for child in TABLES.values() for reference in child.references if reference.target == name
    ]


def find_problems(reader: Reader, table: Table, rows: Iterable[Row]) -> Iterator[str]:
    """Yield what is wrong with these rows of a table, with the key of each."""
    for row in rows:
        try:
            check_new_row(table, row)
            check_uniques(reader, table, row)
            check_references(reader, table, row)
        except (Conflict, InvalidInput) as error:
            yield f"{table.name} {get_key(row)}: {error}"


# soft deletion


def list_descendants(root: Table) -> Iterator[tuple[Table, Reference]]:
    """Yield every soft-deletable table below `root` with each reference that leads to it.

    The catalog lists parents before children, so all references to a table come before the references from it.
    """
    reached = {root.name}
    for table in TABLES.values():
        for reference in table.references:
            if table.soft and reference.on_delete == "cascade" and reference.target in reached:
                reached.add(table.name)
                yield table, reference


def find_rows_to_hide(reader: Reader, hide: Hide, root: Table) -> list[TableRow]:
    """Return the rows that a soft deletion hides: the row itself and all live rows below it.

    Rows below what the same deletion id has hidden before are included, so that a large deletion can be split into
    several commits.
    """
    hidden_rows: dict[tuple[str, tuple[Any, ...]], TableRow] = {}
    for row in reader.find_rows(root, dict(zip(root.key, hide.key, strict=True))):
        if not row.__dict__["is_deleted"]:
            hidden_rows[root.name, hide.key] = TableRow(root, row)
    for child, reference in list_descendants(root):
        parents = list(_find_rows_of_deletion(reader, TABLES[reference.target], hide.key[0], hide.deletion_id))
        parents += [hidden_row.row for hidden_row in hidden_rows.values() if hidden_row.table.name == reference.target]
        for parent in parents:
            for row in reader.find_rows(child, get_child_values(reference, parent)):
                if not row.__dict__["is_deleted"]:
                    hidden_rows[child.name, get_key(row)] = TableRow(child, row)
    return list(hidden_rows.values())


def find_rows_to_restore(reader: Reader, organization_id: str, deletion_id: str) -> list[TableRow]:
    """Return the rows that one deletion id has hidden."""
    return [
        TableRow(table, row)
        for table in TABLES.values()
        if table.soft and table.tenant
        for row in _find_rows_of_deletion(reader, table, organization_id, deletion_id)
    ]


def _find_rows_of_deletion(reader: Reader, table: Table, organization_id: str, deletion_id: str) -> Iterable[Row]:
    if not table.tenant or not table.soft:
        return ()
    return reader.find_rows(table, {table.tenant: organization_id, "deletion_id": deletion_id})
