"""Which fields a store holds encrypted: a counter per field, 0 while plain rows may be left and 1 afterwards.

A reader needs this to recognise fields that earlier settings named.
"""

from collections.abc import Iterable
from contextlib import suppress

from everhold.errors import StoreReadOnly
from everhold.model import Counter, Organization
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Patch, Where

_PREFIX = "encrypted field "


def read_recorded(records: Records) -> dict[str, bool]:
    """Return the fields that the store may hold encrypted, each with whether every row is."""
    # The character after the space ends the range of names with this prefix.
    where = [Where("name", Op.GE, _PREFIX), Where("name", Op.LT, _PREFIX[:-1] + "!")]
    rows = records.scan(Counter, None, where)
    return {row.name.removeprefix(_PREFIX): row.value == 1 for row in rows}


def record_fields(records: Records, fields: Iterable[str]) -> None:
    """Record fields before the first of their values is encrypted. An empty store has no plain rows."""
    is_empty = not records.scan(Organization, None, limit=1, deleted=True)
    operations = [Ensure(Counter(name=_PREFIX + field, value=int(is_empty))) for field in fields]
    with suppress(StoreReadOnly):  # nothing will be encrypted
        if operations:
            records.commit(operations)


def mark_incomplete(records: Records, fields: Iterable[str]) -> None:
    """Record that rows have to be looked at again: plain ones, or ones with old keys, may be left."""
    operations: list[Operation] = []
    for field in fields:
        operations += [Ensure(Counter(name=_PREFIX + field)), Patch(Counter, (_PREFIX + field,), {"value": 0})]
    records.commit(operations)


def mark_complete(records: Records, complete: Iterable[str], dropped: Iterable[str]) -> None:
    """Record that every row has these fields encrypted, and that no row has the dropped ones encrypted."""
    operations: list[Operation] = []
    for field in complete:
        operations += [Ensure(Counter(name=_PREFIX + field)), Patch(Counter, (_PREFIX + field,), {"value": 1})]
    operations += [Delete(Counter, (_PREFIX + field,)) for field in dropped]
    if operations:
        records.commit(operations)
