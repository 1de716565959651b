"""Classify a query by its difficulty and by the clauses that it contains."""

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

LEVELS = ("easy", "medium", "hard", "extra")


def is_sorted(sql: str) -> bool:
    """Return whether the outermost query has an ORDER BY."""
    return _parse(sql).args.get("order") is not None


def is_single_table(sql: str) -> bool:
    """Return whether a query is one SELECT from one table, without set operations or inner queries."""
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
