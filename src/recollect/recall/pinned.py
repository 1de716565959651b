"""The memories that are always at hand, whatever is asked."""

from collections.abc import Sequence
from datetime import datetime

from recollect.model import Memory, Scope
from recollect.ports.records import Records
from recollect.schema.conditions import within
from recollect.schema.operations import Op, Where

MOST_PINNED = 200


def pinned(records: Records, scope: Scope, include: Sequence[str], now: datetime) -> tuple[Memory, ...]:
    """The scope's pinned memories that hold now, and those of the wider reaches included; what matters most first."""
    marked = Where("pinned", Op.EQ, True)
    found = _scan(records, scope, [*within(scope), marked])
    if include:
        reaching = [marked, Where("scope", Op.IN, list(include))]
        for user in dict.fromkeys([scope.user, None]):
            found += _scan(records, scope, [*reaching, Where("user_id", Op.EQ, user)])
    own = {one.id: one for one in found if _in_sight(scope, include, one) and one.holds_at(now)}
    return tuple(sorted(own.values(), key=lambda one: (-one.importance, one.id))[:MOST_PINNED])


def _scan(records: Records, scope: Scope, where: Sequence[Where]) -> list[Memory]:
    current = Where("superseded_by", Op.EQ, None)
    return records.scan(
        Memory, scope.organization, [*where, current], order="importance", descending=True, limit=2 * MOST_PINNED
    )


def _in_sight(scope: Scope, include: Sequence[str], memory: Memory) -> bool:
    """Whether a memory is the scope's own, or reaches it from a wider scope that is included."""
    if scope.covers(memory):
        return True
    compatible = all(memory.__dict__[name] in (None, value) for name, value in scope.columns.items())
    return compatible and memory.scope in include
