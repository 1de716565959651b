"""Whether two results are the same, and how difficult a query is."""

from collections import Counter
from collections.abc import Iterator, Sequence

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from everhold.ports.table_content import Cell

Rows = Sequence[tuple[Cell, ...]]
LEVELS = ("easy", "medium", "hard", "extra")
_DECIMALS = 6
_MOST_ORDERS = 5_000  # orders of columns that are tried; more only arise where many columns are equal


def are_equal(expected: Rows, actual: Rows, is_ordered: bool) -> bool:
    """Say whether two results have the same rows, each as often. Columns may be in any order.

    The order of rows counts only if `is_ordered`. Numbers are equal if they agree in six decimals.
    """
    if len(expected) != len(actual):
        return False
    if not expected:
        return True
    if len(expected[0]) != len(actual[0]):
        return False
    left, right = [_normalise(row) for row in expected], [_normalise(row) for row in actual]
    for number, order in enumerate(_match_columns(left, right)):
        if number >= _MOST_ORDERS:
            return False
        arranged = [tuple(row[place] for place in order) for row in right]
        if (arranged == left) if is_ordered else (Counter(arranged) == Counter(left)):
            return True
    return False


def _normalise(row: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(f"n{round(float(cell), _DECIMALS)}" if isinstance(cell, int | float) else f"t{cell!r}" for cell in row)


def _match_columns(left: Sequence[tuple[str, ...]], right: Sequence[tuple[str, ...]]) -> Iterator[list[int]]:
    """Yield the orders of the right columns in which each has the values of the left column at its place."""
    width = len(left[0])
    contents = [sorted(row[place] for row in right) for place in range(width)]
    choices = []
    for place in range(width):
        content = sorted(row[place] for row in left)
        choices.append([other for other in range(width) if contents[other] == content])
    yield from _arrange(choices, [])


def _arrange(choices: Sequence[Sequence[int]], chosen: list[int]) -> Iterator[list[int]]:
    if len(chosen) == len(choices):
        yield list(chosen)
        return
    for place in choices[len(chosen)]:
        if place not in chosen:
            yield from _arrange(choices, [*chosen, place])


def is_sorted(sql: str) -> bool:
    """Say whether the outermost query has an ORDER BY."""
    return _parse(sql).args.get("order") is not None


def is_single_table(sql: str) -> bool:
    """Say whether a query is one SELECT from one table, without set operations or inner queries."""
    query = _parse(sql)
    return isinstance(query, exp.Select) and len(list(query.find_all(exp.Select))) == 1 and _count_tables(query) == 1


def find_level(sql: str) -> str:
    """Return the difficulty of a query.

    A point is given for each further table, each condition after the first, GROUP BY, HAVING and ORDER BY, and two for
    each inner query or set operation: none is easy, up to two is medium, three hard, more extra.
    """
    query = _parse(sql)
    selects = list(query.find_all(exp.Select))
    conditions = sum(len(list(where.find_all(exp.Predicate))) for where in query.find_all(exp.Where))
    points = _count_tables(query) - len(selects) + 2 * (len(selects) - 1) + max(0, conditions - 1)
    points += sum(bool(query.find(kind)) for kind in (exp.Group, exp.Having, exp.Order))
    return LEVELS[0 if points <= 0 else 1 if points <= 2 else 2 if points == 3 else 3]


def _count_tables(query: exp.Expr) -> int:
    return len(list(query.find_all(exp.Table)))


def _parse(sql: str) -> exp.Expr:
    try:
        return parse_one(sql, read="sqlite")
    except SqlglotError:
        return exp.Select()
