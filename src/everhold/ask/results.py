"""Compare the results of two statements."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

Rows = Sequence[tuple[Any, ...]]
_DECIMALS = 6
_MAX_ORDERS = 5_000  # the maximum number of column orders to try; there are more only if many columns are equal


def are_equal(expected: Rows, actual: Rows, is_ordered: bool) -> bool:
    """Return whether two results have the same rows the same number of times. Columns may be in any order.

    The order of rows matters only if `is_ordered` is true. Numbers are equal if they agree in six decimals. A day
    equals the midnight at which it begins.
    """
    if expected and actual and len(expected[0]) != len(actual[0]):
        return False
    return _contains(expected, actual, is_ordered)


def have_same_rows(first: Rows, second: Rows) -> bool:
    """Return whether two results have the same rows in any order. One of them may have additional columns."""
    narrow, wide = sorted((first, second), key=lambda rows: len(rows[0]) if rows else 0)
    return _contains(narrow, wide, is_ordered=False)


def _contains(narrow: Rows, wide: Rows, is_ordered: bool) -> bool:
    """Return whether the wide result has the rows of the narrow one if it is reduced to some of its columns."""
    if len(narrow) != len(wide):
        return False
    if not narrow:
        return True
    left, right = [_normalise(row) for row in narrow], [_normalise(row) for row in wide]
    for number, order in enumerate(_match_columns(left, right)):
        if number >= _MAX_ORDERS:
            return False
        arranged = [tuple(row[index] for index in order) for row in right]
        if (arranged == left) if is_ordered else (Counter(arranged) == Counter(left)):
            return True
    return False


def _normalise(row: Sequence[Any]) -> tuple[str, ...]:
    return tuple(_write_cell(cell) for cell in row)


def _write_cell(cell: Any) -> str:
    # The prefix distinguishes the number 1 from the text "1".
    if isinstance(cell, int | float | Decimal):
        return f"n{round(float(cell), _DECIMALS)}"
    if isinstance(cell, datetime) and cell.time() == time():
        cell = cell.date()
    return f"t{cell.isoformat()!r}" if isinstance(cell, date) else f"t{cell!r}"


def _match_columns(left: Sequence[tuple[str, ...]], right: Sequence[tuple[str, ...]]) -> Iterator[list[int]]:
    """Yield selections of right columns in which each column has the same values as the left column at its position."""
    right_columns = [sorted(row[index] for row in right) for index in range(len(right[0]))]
    choices = []
    for index in range(len(left[0])):
        left_column = sorted(row[index] for row in left)
        choices.append([position for position, column in enumerate(right_columns) if column == left_column])
    yield from _select_distinct(choices, [])


def _select_distinct(choices: Sequence[Sequence[int]], chosen: list[int]) -> Iterator[list[int]]:
    """Yield each way to add to `chosen` one number from each of the next `choices`, without repeating a number."""
    if len(chosen) == len(choices):
        yield list(chosen)
        return
    for index in choices[len(chosen)]:
        if index not in chosen:
            yield from _select_distinct(choices, [*chosen, index])
