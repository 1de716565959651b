"""Which fields a store holds encrypted: a counter per field, 0 while plain rows may be left and 1 afterwards.

The counter of a field that is no longer encrypted is -1. A reader needs this to recognise fields that earlier settings
named.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from everhold.errors import StoreReadOnly
from everhold.model import Counter, Organization
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Op, Operation, Patch, Where

_PREFIX = "encrypted field "
_INCOMPLETE, _COMPLETE, _NOT_ENCRYPTED = 0, 1, -1


def read_recorded(records: Records) -> dict[str, bool]:
    """Return the fields that the store may hold encrypted, each with whether every row is."""
    # The character after the space ends the range of names with this prefix.
    where = [Where("name", Op.GE, _PREFIX), Where("name", Op.LT, _PREFIX[:-1] + "!")]
    rows = records.scan(Counter, None, where)
    encrypted = [row for row in rows if row.value != _NOT_ENCRYPTED]
    return {row.name.removeprefix(_PREFIX): row.value == _COMPLETE for row in encrypted}


def record_fields(records: Records, fields: Iterable[str]) -> None:
    """Record fields before the first of their values is encrypted. An empty store has no plain rows."""
    is_empty = not records.scan(Organization, None, limit=1, deleted=True)
    with suppress(StoreReadOnly):  # nothing will be encrypted
        _set_all(records, dict.fromkeys(fields, _COMPLETE if is_empty else _INCOMPLETE))


def mark_incomplete(records: Records, fields: Iterable[str]) -> None:
    """Record that rows have to be looked at again: plain ones, or ones with old keys, may be left."""
    _set_all(records, dict.fromkeys(fields, _INCOMPLETE))


def mark_complete(records: Records, complete: Iterable[str], dropped: Iterable[str]) -> None:
    """Record that every row has these fields encrypted, and that no row has the dropped ones encrypted."""
    _set_all(records, {**dict.fromkeys(complete, _COMPLETE), **dict.fromkeys(dropped, _NOT_ENCRYPTED)})


def _set_all(records: Records, values: Mapping[str, int]) -> None:
    operations: list[Operation] = []
    for field, value in values.items():
        name = _PREFIX + field
        operations += [Ensure(Counter(name=name)), Patch(Counter, (name,), {"value": value})]
    if operations:
        records.commit(operations)
