"""Look up a memory of a scope by its id or key."""

from everhold.errors import NotFound, Remedy, Verb
from everhold.model import Memory, Scope
from everhold.ports.records import Records
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Op, Where


def require_memory(records: Records, scope: Scope, name: str, *, deleted: bool = False) -> Memory:
    """Return the scope's memory with this id or key; raise NotFound if the scope cannot read such a memory."""
    memory = records.get(Memory, scope.organization, [name], deleted=deleted).get(name)
    if memory is None or not scope.can_read(memory):
        memory = find_by_key(records, scope, name)
    if memory is None:
        raise NotFound(
            f"no memory {name!r} in scope {scope}",
            value=name,
            remedy=Remedy("{} shows what is there", Verb("list")),
        )
    return memory


def find_by_key(records: Records, scope: Scope, key: str) -> Memory | None:
    """Return the memory of the scope with this key; None if there is none or more than one.

    If several sessions have one, return that of the scope's own session.
    """
    for searched_scope in (scope.confine(), scope) if scope.is_open else (scope,):
        keyed = records.scan(
            Memory, scope.organization, [*make_scope_conditions(searched_scope), Where("key", Op.EQ, key)], limit=2
        )
        if len(keyed) == 1:  # limit=2 is enough to detect an ambiguous key
            return keyed[0]
    return None
