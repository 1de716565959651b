"""Pinned memories: those that every recall and every context returns."""

from collections.abc import Sequence
from datetime import datetime

from everhold.model import Memory, Scope
from everhold.ports.records import Records
from everhold.recall.filters import make_visibility_check
from everhold.schema.conditions import make_scope_conditions
from everhold.schema.operations import Condition, Op, Where

MAX_PINNED = 200


def list_pinned(records: Records, scope: Scope, include: Sequence[str], now: datetime) -> tuple[Memory, ...]:
    """Return the pinned memories of the scope and of the included reaches that are valid now, most important first."""
    marked = Where("pinned", Op.EQ, True)
    memories = _scan(records, scope, [*make_scope_conditions(scope), marked])
    if include:
        reaching = [marked, Where("reach", Op.IN, list(include))]
        for user in dict.fromkeys([scope.user, None]):
            memories += _scan(records, scope, [*reaching, Where("user_id", Op.EQ, user)])
    is_visible = make_visibility_check(scope, include)
    own = {memory.id: memory for memory in memories if is_visible(memory) and memory.is_current_at(now)}
    return tuple(sorted(own.values(), key=lambda memory: (-memory.importance, memory.id))[:MAX_PINNED])


def _scan(records: Records, scope: Scope, where: Sequence[Condition]) -> list[Memory]:
    current = Where("superseded_by", Op.EQ, None)
    return records.scan(
        Memory, scope.organization, [*where, current], order="importance", descending=True, limit=2 * MAX_PINNED
    )
