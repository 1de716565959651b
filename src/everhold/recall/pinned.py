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
    """Return the pinned memories that are valid at `now`, of the scope and of the reaches in `include`.

    They are in order of importance, the most important first.
    """
    pinned_condition = Where("pinned", Op.EQ, True)
    memories = _scan(records, scope, [*make_scope_conditions(scope), pinned_condition])
    if include:
        shared_conditions = [pinned_condition, Where("reach", Op.IN, list(include))]
        for user in dict.fromkeys([scope.user, None]):
            memories += _scan(records, scope, [*shared_conditions, Where("user_id", Op.EQ, user)])
    is_visible = make_visibility_check(scope, include)
    visible_memories = {memory.id: memory for memory in memories if is_visible(memory) and memory.is_current_at(now)}
    return tuple(sorted(visible_memories.values(), key=lambda memory: (-memory.importance, memory.id))[:MAX_PINNED])


def _scan(records: Records, scope: Scope, where: Sequence[Condition]) -> list[Memory]:
    current = Where("superseded_by", Op.EQ, None)
    return records.scan(
        Memory, scope.organization, [*where, current], order="importance", descending=True, limit=2 * MAX_PINNED
    )
