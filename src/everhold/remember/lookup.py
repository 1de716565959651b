"""Memories that a scope already holds."""

from everhold.errors import NotFound, Remedy, Verb
from everhold.model import Memory, Scope
from everhold.ports.records import Records
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Op, Where


def require_memory(records: Records, scope: Scope, name: str, *, deleted: bool = False) -> Memory:
    """The scope's memory of this id or key. NotFound does not tell whether another scope has it."""
    found = records.get(Memory, scope.organization, [name], deleted=deleted).get(name)
    if found is None or not scope.can_read(found):
        found = find_by_key(records, scope, name)
    if found is None:
        raise NotFound(
            f"no memory {name!r} in scope {scope}",
            value=name,
            remedy=Remedy("{} shows what is there", Verb("list")),
        )
    return found


def find_by_key(records: Records, scope: Scope, key: str) -> Memory | None:
    """Return the one memory of the scope that has this key; that of its own session, if several sessions have it."""
    for place in (scope.confine(), scope) if scope.is_open else (scope,):
        keyed = records.scan(
            Memory, scope.organization, [*make_scope_conditions(place), Where("key", Op.EQ, key)], limit=2
        )
        if len(keyed) == 1:
            return keyed[0]
    return None
