"""Conditions, judged in Python: the meaning that every store's own judgement must equal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from everhold.model.base import Row
from everhold.model.scope import SHORT_TERM, Scope
from everhold.schema.operations import AllOf, AnyOf, Condition, Not, Op, Where


def within(scope: Scope) -> list[Condition]:
    """Return the conditions that every memory meets which the scope may read: the rule of `Scope.can_read`."""
    conditions: list[Condition] = [*equal(scope.limits)]
    if scope.is_open:
        is_long = Where("namespace", Op.NE, SHORT_TERM)
        conditions.append(AnyOf((is_long, Where("session_id", Op.EQ, scope.session))))
    return conditions


def equal(columns: Mapping[str, Any]) -> list[Where]:
    """Return the conditions that columns have these values."""
    return [Where(column, Op.EQ, value) for column, value in columns.items()]


def meets(row: Row, conditions: Sequence[Condition]) -> bool:
    """Return whether a row meets all conditions."""
    values = row.__dict__
    return all(judge(values, condition) for condition in conditions)


def judge(values: Mapping[str, Any], condition: Condition) -> bool:
    """Return whether fields meet a condition: true or false, never unknown."""
    if isinstance(condition, Where):  # by far the most frequent
        return holds(value_at(values, condition.field), condition)
    if isinstance(condition, Not):
        return not judge(values, condition.condition)
    combine = all if isinstance(condition, AllOf) else any
    return combine(judge(values, part) for part in condition.conditions)


def list_fields(conditions: Iterable[Condition]) -> Iterator[str]:
    """Yield the fields that conditions look at, without the places inside JSON."""
    for condition in conditions:
        if isinstance(condition, Where):
            yield condition.field.partition(".")[0]
        elif isinstance(condition, Not):
            yield from list_fields((condition.condition,))
        else:
            yield from list_fields(condition.conditions)


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """A field, or what lies inside a JSON field, or nothing."""
    name, _, rest = path.partition(".")
    value: Any = values[name]
    for step in rest.split(".") if rest else ():
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return value


def holds(value: Any, condition: Where) -> bool:
    wanted = condition.value
    match condition.op:
        case Op.EQ:
            return same(value, wanted)
        case Op.NE:
            return not same(value, wanted)
        case Op.IN:
            if isinstance(wanted, frozenset):  # of ids, and perhaps very many
                return value in wanted
            return any(same(value, one) for one in wanted)
        case Op.CONTAINS:
            return _contains(value, wanted)
        case Op.LT | Op.LE | Op.GT | Op.GE:
            return _ordered(value, condition.op, wanted)


def same(left: Any, right: Any) -> bool:
    """Equal, and not merely because Python takes True for 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str) and isinstance(wanted, str):
        return wanted.casefold() in value.casefold()
    return isinstance(value, list) and any(same(one, wanted) for one in value)


def _ordered(value: Any, op: Op, wanted: Any) -> bool:
    if value is None or wanted is None:
        return False
    try:
        less, equal = value < wanted, value == wanted
    except TypeError:
        return False
    match op:
        case Op.LT:
            return bool(less)
        case Op.LE:
            return bool(less or equal)
        case Op.GT:
            return not (less or equal)
        case _:
            return not less
