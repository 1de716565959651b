"""The catalog's rules, kept in Python: for stores that cannot keep them, and as the meaning of those that can.

A row is judged in this order: its values, its key, its unique rules, its references. The rules over several fields are
judged with the values if the row is new, and last if it changes. The first rule that is broken is the error. Everything
is asked of a `Reader`, so any store that can find rows by some of their values can use it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from everhold.errors import AlreadyExists, BatchTooLarge, BrokenReference, Conflict, InvalidInput, UnknownField
from everhold.model.base import Row, RowRule
from everhold.model.validation import explain_errors
from everhold.schema.catalog import TABLES, table_of
from everhold.schema.operations import Ensure, Hide, Increment, Operation, Patch, Put
from everhold.schema.table import TENANT, Column, Kind, Reference, Table, Unique

_LARGEST = 2**63 - 1


class Reader(Protocol):
    """How the rules look at a store."""

    def having(self, table: Table, values: Mapping[str, Any]) -> Iterable[Row]:
        """Every row, deleted or not, that holds these values; an absent value equals an absent one."""
        ...


@dataclass(frozen=True)
class Place:
    """A row and the table it is in."""

    table: Table
    row: Row

    @property
    def key(self) -> tuple[Any, ...]:
        return key_of(self.table, self.row)


@dataclass(frozen=True)
class Purge:
    """What goes when a row is purged, and which columns of what stays are emptied."""

    removed: list[Place]
    emptied: list[tuple[Place, tuple[str, ...]]]


def key_of(table: Table, row: Row) -> tuple[Any, ...]:
    values = row.__dict__
    return tuple(values[name] for name in table.key)


# names and sizes


def check_size(operations: Sequence[object], limit: int) -> None:
    """BatchTooLarge before anything is written."""
    if len(operations) > limit:
        raise BatchTooLarge(f"{len(operations)} operations in one commit", remedy=f"at most {limit} fit, so split it")


def check_fields(table: Table, names: Iterable[str]) -> None:
    for name in names:
        if name not in table.by_name:
            raise UnknownField(
                f"{table.name} has no field {name!r}", value=name, remedy=f"it has {', '.join(table.names)}"
            )


def check_changes(table: Table, changes: Mapping[str, Any]) -> None:
    """InvalidInput for a value that no row could take, whether or not the row to be changed is there."""
    check_fields(table, changes)
    for name, value in changes.items():
        _check_value(table, table.by_name[name], value)


def check_operation(operation: Operation) -> None:
    """InvalidInput for an operation that is refused whatever the store holds.

    Whether the other values of a new row fit their columns is left to the store.
    """
    match operation:
        case Put(row) | Ensure(row):
            check_row_rules(table_of(type(row)), type(row).rules, row.__dict__)
        case Patch(entity, _, changes) | Increment(entity, _, _, changes):
            check_changes(table_of(entity), changes)


def rules_about(entity: type[Row], names: Iterable[str]) -> tuple[RowRule, ...]:
    """Return the rules over several fields of which one is among `names`."""
    changed = set(names)
    return tuple(rule for rule in entity.rules if not changed.isdisjoint(rule.fields))


def check_row_rules(table: Table, rules: Iterable[RowRule], values: Mapping[str, Any]) -> None:
    """InvalidInput unless the values keep the rules."""
    for rule in rules:
        try:
            rule.check(values)
        except PydanticCustomError as error:
            raise InvalidInput.from_sentence(f"{table.name}: {error}") from None
        except ValidationError as error:
            raise explain_errors(error, table.name, ()) from None


def check_order(table: Table, order: str | None) -> None:
    column = table.by_name.get(order) if order else None
    if order and (column is None or column.nullable or column.kind is Kind.JSON):
        raise InvalidInput(
            f"rows cannot be ordered by {order!r}",
            value=order,
            remedy="choose a field that is never absent, such as 'created_at'",
        )


# values


def check_row(table: Table, row: Row) -> None:
    """InvalidInput unless every value is one that its column can hold."""
    values = row.__dict__
    for column in table.columns:
        if column.name != table.drawn:
            _check_value(table, column, values[column.name])


def check_new_row(table: Table, row: Row) -> None:
    """InvalidInput unless every value is one that its column can hold, and the values fit together."""
    check_row(table, row)
    check_row_rules(table, type(row).rules, row.__dict__)


def _check_value(table: Table, column: Column, value: Any) -> None:
    reason = _refusal(column, value)
    if reason:
        raise InvalidInput.from_sentence(f"{table.name}.{column.name} {reason}", value)


def _refusal(column: Column, value: Any) -> str:
    if value is None:
        return "" if column.nullable else "cannot be absent; pass a value"
    if column.kind is Kind.TEXT:
        return _text_refusal(column, value)
    if column.kind is Kind.INTEGER and not -_LARGEST - 1 <= value <= _LARGEST:
        return f"is {value}, which does not fit 64 bits; use a smaller number"
    if (column.low is not None and value < column.low) or (column.high is not None and value > column.high):
        return f"is {value}; it must lie between {column.low} and {column.high}"
    return ""


def _text_refusal(column: Column, value: str) -> str:
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
    """Whether some row of some store can hold a value: no lone surrogates, no integers beyond 64 bits."""
    if isinstance(value, str):
        return value.isascii() or _is_unicode(value)
    return not isinstance(value, int) or -_LARGEST - 1 <= value <= _LARGEST


# keys and unique rules


def check_key(reader: Reader, table: Table, row: Row) -> None:
    if any(True for _ in reader.having(table, {name: row.__dict__[name] for name in table.key})):
        raise _taken(table, "key")


def check_uniques(reader: Reader, table: Table, row: Row) -> None:
    """AlreadyExists if another row has what only one may have."""
    for unique in table.uniques:
        if not applies(table, unique, row):
            continue
        names = (TENANT, *unique.columns) if TENANT in table.by_name else unique.columns
        for other in reader.having(table, {name: row.__dict__[name] for name in names}):
            if key_of(table, other) != key_of(table, row) and applies(table, unique, other):
                raise _taken(table, unique.name)


def applies(table: Table, unique: Unique, row: Row) -> bool:
    """Whether a unique rule is about a row at all."""
    values = row.__dict__
    if unique.when and values[unique.when] is None:
        return False
    if unique.unless and values[unique.unless] is not None:
        return False
    return unique.always or not table.soft or not values["is_deleted"]


def _taken(table: Table, rule: str) -> AlreadyExists:
    return AlreadyExists(f"{table.name}: a live row with the same {rule} exists", table=table.name, rule=rule)


# references


def check_references(reader: Reader, table: Table, row: Row) -> None:
    """BrokenReference if the row refers to one that is not there. The row itself may be the one it refers to."""
    for reference in table.references:
        wanted = target_values(reference, row)
        if wanted and not any(True for _ in reader.having(TABLES[reference.target], wanted)):
            raise BrokenReference(
                f"{table.name}: no row of {reference.target} with {wanted}", remedy="create that one first"
            )


def check_still_referred(reader: Reader, table: Table, before: Row, after: Row) -> None:
    """BrokenReference if a change takes away what others refer to."""
    for child, reference in REFERRERS[table.name]:
        wanted = child_values(reference, before)
        if wanted != child_values(reference, after) and any(True for _ in reader.having(child, wanted)):
            raise BrokenReference(
                f"{table.name}: rows of {child.name} refer to what would change", remedy="delete them first"
            )


def purge(reader: Reader, root: Place) -> Purge:
    """What purging a row does to it and to all that refers to it."""
    removed = {(root.table.name, root.key): root}
    emptied: dict[tuple[str, tuple[Any, ...]], tuple[Place, tuple[str, ...]]] = {}
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        for child, reference in REFERRERS[parent.table.name]:
            for row in reader.having(child, child_values(reference, parent.row)):
                place = Place(child, row)
                at = (child.name, place.key)
                if reference.on_delete == "set_null":
                    emptied[at] = (place, (*emptied.get(at, (place, ()))[1], *reference.columns))
                elif at not in removed:
                    removed[at] = place
                    waiting.append(place)
    return Purge(list(removed.values()), [one for at, one in emptied.items() if at not in removed])


def target_values(reference: Reference, row: Row) -> dict[str, Any]:
    """What a row's target holds, or nothing if the row refers to none this way."""
    values = row.__dict__
    given = [values[name] for name in reference.columns]
    if None in given or (reference.kind and values[reference.kind[0]] != reference.kind[1]):
        return {}
    if reference.target == "organizations":
        return {"id": given[0]}
    return {TENANT: values[TENANT], **dict(zip(reference.target_columns, given, strict=True))}


def child_values(reference: Reference, parent: Row) -> dict[str, Any]:
    """What the rows that refer to a parent hold."""
    values = parent.__dict__
    held = {mine: values[theirs] for mine, theirs in zip(reference.columns, reference.target_columns, strict=True)}
    if reference.kind:
        held[reference.kind[0]] = reference.kind[1]
    return held if reference.target == "organizations" else {TENANT: values[TENANT], **held}


REFERRERS: Mapping[str, list[tuple[Table, Reference]]] = {
    name: [
        (child, reference) for child in TABLES.values() for reference in child.references if reference.target == name
    ]
    for name in TABLES
}


def problems(reader: Reader, table: Table, rows: Iterable[Row]) -> Iterator[str]:
    """What is wrong with these rows of a table, each by its key."""
    for row in rows:
        try:
            check_new_row(table, row)
            check_uniques(reader, table, row)
            check_references(reader, table, row)
        except (Conflict, InvalidInput) as error:
            yield f"{table.name} {key_of(table, row)}: {error}"


# soft deletion


def descent(root: Table) -> Iterator[tuple[Table, Reference]]:
    """Every soft-deletable table below `root` with each reference that leads there.

    The catalog names parents before children, so all that leads to a table comes before all that leads on from it.
    """
    reached = {root.name}
    for table in TABLES.values():
        for reference in table.references:
            if table.soft and reference.on_delete == "cascade" and reference.target in reached:
                reached.add(table.name)
                yield table, reference


def hidden_by(reader: Reader, hide: Hide, root: Table) -> list[Place]:
    """The rows that soft-deleting one hides: it, and all live rows that belong to what this deletion id has hidden."""
    hidden: dict[tuple[str, tuple[Any, ...]], Place] = {}
    for row in reader.having(root, dict(zip(root.key, hide.key, strict=True))):
        if not row.__dict__["is_deleted"]:
            hidden[root.name, hide.key] = Place(root, row)
    for child, reference in descent(root):
        parents = list(_stamped(reader, TABLES[reference.target], hide.key[0], hide.deletion_id))
        parents += [place.row for place in hidden.values() if place.table.name == reference.target]
        for parent in parents:
            for row in reader.having(child, child_values(reference, parent)):
                place = Place(child, row)
                if not row.__dict__["is_deleted"]:
                    hidden[child.name, place.key] = place
    return list(hidden.values())


def restored_by(reader: Reader, organization_id: str, deletion_id: str) -> list[Place]:
    """The rows that one deletion id has hidden."""
    return [
        Place(table, row)
        for table in TABLES.values()
        if table.soft and table.tenant
        for row in _stamped(reader, table, organization_id, deletion_id)
    ]


def _stamped(reader: Reader, table: Table, organization_id: str, deletion_id: str) -> Iterable[Row]:
    if not table.tenant or not table.soft:
        return ()
    return reader.having(table, {table.tenant: organization_id, "deletion_id": deletion_id})
