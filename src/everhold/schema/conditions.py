"""Evaluate conditions in Python. Every store's own evaluation must give the same result."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from everhold.model.base import Row
from everhold.model.scope import SHORT_TERM, Scope
from everhold.schema.operations import AllOf, AnyOf, Condition, Not, Op, Where


def make_scope_conditions(scope: Scope) -> list[Condition]:
    """Return the conditions for the memories that the scope may read. They state the rule of `Scope.can_read`."""
    conditions: list[Condition] = [*make_equalities(scope.limits)]
    if scope.is_open:
        is_long_term = Where("namespace", Op.NE, SHORT_TERM)
        conditions.append(AnyOf((is_long_term, Where("session_id", Op.EQ, scope.session))))
    return conditions


def make_equalities(columns: Mapping[str, Any]) -> list[Where]:
    """Return the conditions that the columns have these values."""
    return [Where(column, Op.EQ, value) for column, value in columns.items()]


def is_match(row: Row, conditions: Sequence[Condition]) -> bool:
    """Return whether a row meets all conditions."""
    values = row.__dict__
    return all(evaluate(values, condition) for condition in conditions)


def evaluate(values: Mapping[str, Any], condition: Condition) -> bool:
    """Return whether the values meet a condition: true or false, never unknown as in SQL."""
    if isinstance(condition, Where):  # first, because nearly all conditions are comparisons
        return is_satisfied(read_path(values, condition.field), condition)
    if isinstance(condition, Not):
        return not evaluate(values, condition.condition)
    combine = all if isinstance(condition, AllOf) else any
    return combine(evaluate(values, part) for part in condition.conditions)


def list_fields(conditions: Iterable[Condition]) -> Iterator[str]:
    """Yield the names of the fields that the conditions compare, without paths inside JSON."""
    for condition in conditions:
        if isinstance(condition, Where):
            yield condition.field.partition(".")[0]
        elif isinstance(condition, Not):
            yield from list_fields((condition.condition,))
        else:
            yield from list_fields(condition.conditions)


def read_path(values: Mapping[str, Any], path: str) -> Any:
    """Return a field, or the value at a path inside a JSON field; None if there is nothing at the path."""
    name, _, subpath = path.partition(".")
    value: Any = values[name]
    for step in subpath.split(".") if subpath else ():
        if not isinstance(value, dict) or step not in value:
            return None
        value = value[step]
    return value


def is_satisfied(value: Any, condition: Where) -> bool:
    """Return whether a value meets a comparison."""
    operand = condition.value
    match condition.op:
        case Op.EQ:
            return is_equal(value, operand)
        case Op.NE:
            return not is_equal(value, operand)
        case Op.IN:
            if isinstance(operand, frozenset):  # a set of ids, perhaps very many
                return value in operand
            return any(is_equal(value, member) for member in operand)
        case Op.CONTAINS:
            return _has_part(value, operand)
        case Op.LT | Op.LE | Op.GT | Op.GE:
            return _is_in_order(value, condition.op, operand)


def is_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal. Unlike in Python, True does not equal 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _has_part(value: Any, operand: Any) -> bool:
    if isinstance(value, str) and isinstance(operand, str):
        return operand.casefold() in value.casefold()
    return isinstance(value, list) and any(is_equal(member, operand) for member in value)


def _is_in_order(value: Any, op: Op, operand: Any) -> bool:
    """Return whether `value op operand` is true for one of the operators <, <=, > and >=."""
    if value is None or operand is None:
        return False
    try:
        less, equal = value < operand, value == operand
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
