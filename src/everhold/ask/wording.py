"""A frame in plain words, and what a reading takes for granted."""

from collections.abc import Iterator, Mapping, Sequence

from everhold.ask.frame import (
    AnyPredicate,
    Expression,
    Function,
    Membership,
    Ordering,
    Predicate,
    QueryFrame,
    WindowKind,
)
from everhold.ask.language.tokens import Token
from everhold.ask.linking.beam import Assignment
from everhold.ask.schema import ColumnRef

_FUNCTIONS: Mapping[Function, str] = {
    Function.COUNT: "number of", Function.SUM: "total", Function.AVERAGE: "average", Function.MINIMUM: "lowest",
    Function.MAXIMUM: "highest",
}  # fmt: skip
_WINDOWS: Mapping[WindowKind, str] = {
    WindowKind.SHARE: "share of the", WindowKind.RUNNING: "running", WindowKind.CHANGE: "change of the",
}  # fmt: skip
_OPERATORS: Mapping[str, str] = {
    "=": "is", "!=": "is not", "<": "is less than", "<=": "is at most", ">": "is more than", ">=": "is at least",
    "like": "matches", "between": "is between", "in": "is one of", "is null": "is missing",
}  # fmt: skip


def describe_frame(frame: QueryFrame) -> str:
    """Return what a frame asks for, as a phrase."""
    shown = ", ".join(_describe(item) for item in frame.select) or f"everything of {frame.entity}"
    parts = [f"different {shown}" if frame.distinct else shown]
    if not any(item.of_table or item.column for item in frame.select):
        parts.append(f"of {frame.entity}")
    if frame.group:
        parts.append("for each " + ", ".join(_describe(item) for item in frame.group))
    if frame.where or frame.having:
        parts.append("where " + " and ".join(_describe_condition(item) for item in (*frame.where, *frame.having)))
    if frame.order:
        parts.append("sorted by " + ", ".join(_describe_ordering(item) for item in frame.order))
    if frame.limit is not None:
        parts.append(f"first {frame.limit}")
    if frame.combined:
        operation, other = frame.combined
        parts.append(f"({operation} with: {describe_frame(other)})")
    return ", ".join(parts) if len(parts) > 3 else " ".join(parts)


def _name(ref: ColumnRef) -> str:
    return f"{ref.table}.{ref.column}"


def _describe(item: Expression) -> str:
    inner = _name(item.column) if item.column else f"rows of {item.of_table}" if item.of_table else "rows"
    inner = f"{item.grain} of {inner}" if item.grain else inner
    if item.function is None:
        return inner
    words = f"{_FUNCTIONS[item.function]} {'different ' if item.distinct else ''}{inner}"
    return f"{_WINDOWS[item.window]} {words}" if item.window else words


def _describe_condition(condition: Predicate | AnyPredicate | Membership) -> str:
    if isinstance(condition, AnyPredicate):
        return "(" + " or ".join(_describe_condition(choice) for choice in condition.choices) + ")"
    if isinstance(condition, Membership):
        word = "is not among" if condition.negated else "is among"
        return f"{_name(condition.column)} {word} ({describe_frame(condition.frame)})"
    values = " and ".join(str(value) for value in condition.values)
    right = f"({describe_frame(condition.frame)})" if condition.frame else values
    negation = "not: " if condition.negated else ""
    ending = " (end excluded)" if condition.half_open else ""
    return f"{negation}{_describe(condition.left)} {_OPERATORS[condition.operator]} {right}".strip() + ending


def _describe_ordering(ordering: Ordering) -> str:
    return f"{_describe(ordering.expression)}{' from high to low' if ordering.descending else ''}"


def list_assumptions(assignment: Assignment, tokens: Sequence[Token]) -> Iterator[str]:
    """Yield what was assumed about words that are not names or values as they stand."""
    for mention in assignment.mentions:
        text = " ".join(token.text for token in tokens[mention.start : mention.end])
        meant = _name(mention.column) if mention.column else mention.table
        if mention.why == "unknown":
            yield f"{text!r} is a value that no column holds"
        elif mention.why in ("similar", "derived") and mention.column:
            yield f"{text!r} means the value {mention.value!r} of {meant}"
        elif mention.why in ("synonym", "similar word", "part of the name", "name of the row"):
            yield f"{text!r} means {meant}"
