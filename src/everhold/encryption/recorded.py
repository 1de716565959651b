"""Record in the store which fields are encrypted, so that readers recognise fields that earlier settings named.

There is a counter for each field: 0 while plain rows may be left, 1 afterwards, and -1 if it is no longer encrypted.
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
    """Return the fields that may be encrypted in the store.

    The value says whether every row has the field encrypted.
    """
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
    """Record that rows must be checked again, because some may be plain or encrypted with old keys."""
    _set_all(records, dict.fromkeys(fields, _INCOMPLETE))


def mark_complete(records: Records, complete: Iterable[str], dropped: Iterable[str]) -> None:
    """Record that every row has the fields in `complete` encrypted, and no row those in `dropped`."""
    _set_all(records, {**dict.fromkeys(complete, _COMPLETE), **dict.fromkeys(dropped, _NOT_ENCRYPTED)})


def _set_all(records: Records, values: Mapping[str, int]) -> None:
    operations: list[Operation] = []
    for field, value in values.items():
        name = _PREFIX + field
        operations += [Ensure(Counter(name=name)), Patch(Counter, (name,), {"value": value})]
    if operations:
        records.commit(operations)
