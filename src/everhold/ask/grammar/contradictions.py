"""Find conditions that no single row can meet, so that two rows are meant: "a singer above 40 and one below 30"."""

from collections.abc import Sequence
from itertools import pairwise

from everhold.ask.frame import Predicate
from everhold.ask.grammar.draft import PlacedPredicate

_LOWER, _UPPER = (">", ">="), ("<", "<=")


def find_contradiction(placed: Sequence[PlacedPredicate]) -> tuple[PlacedPredicate, PlacedPredicate] | None:
    """Return two neighbouring conditions on the same column that exclude each other; None if there are none."""
    for first, second in pairwise(placed):
        if first.predicate.left == second.predicate.left and (
            _are_exclusive(first, second) or _are_exclusive(second, first)
        ):
            return first, second
    return None


def _are_exclusive(above: PlacedPredicate, below: PlacedPredicate) -> bool:
    if above.predicate.operator not in _LOWER or below.predicate.operator not in _UPPER:
        return False
    values = (*above.predicate.values, *below.predicate.values)
    if len(values) != 2 or not all(isinstance(value, int | float) for value in values):
        return False
    return float(values[0]) >= float(values[1])


def are_disjoint(first: Predicate, second: Predicate) -> bool:
    """Return whether two conditions are periods without a common day."""
    if not (first.half_open and second.half_open and first.operator == second.operator == "between"):
        return False
    (start, end), (other_start, other_end) = map(str, first.values), map(str, second.values)
    return end <= other_start or other_end <= start
