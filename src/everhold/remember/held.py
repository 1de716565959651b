"""Memories that a scope already holds."""

from everhold.errors import NotFound, Remedy, Verb
from everhold.model import Memory, Scope
from everhold.ports.records import Records
from everhold.schema.conditions import within
from everhold.schema.operations import Op, Where


def held(records: Records, scope: Scope, name: str, *, deleted: bool = False) -> Memory:
    """The scope's memory of this id or key. NotFound does not tell whether another scope has it."""
    found = records.get(Memory, scope.organization, [name], deleted=deleted).get(name)
    if found is None or not scope.covers(found):
        keyed = records.scan(Memory, scope.organization, [*within(scope), Where("key", Op.EQ, name)], limit=2)
        if len(keyed) != 1:
            raise NotFound(
                f"no memory {name!r} in scope {scope}",
                value=name,
                remedy=Remedy("{} shows what is there", Verb("list")),
            )
        found = keyed[0]
    return found
