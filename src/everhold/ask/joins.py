"""Find the cheapest way to join tables over declared and inferred keys."""

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from everhold.ask.schema import AskSchema, ColumnRef, ForeignKey
from everhold.errors import InvalidInput

_MAX_PERMUTED = 4  # up to this many tables, every order of joining them is tried
# The additional cost of an inferred key with confidence 0. Below a confidence of 0.6, one inferred key costs more than
# two declared keys.
_DOUBT_COST = 2.5


@dataclass(frozen=True)
class JoinTree:
    """Tables connected by keys. Each key connects one table to the tables before it."""

    tables: tuple[str, ...]
    keys: tuple[ForeignKey, ...]
    cost: float = 0.0

    def drop(self, table: str) -> "JoinTree":
        """Return the tree without a table that only one key connects to the others."""
        keys = tuple(key for key in self.keys if table not in (key.table, key.to_table))
        return JoinTree(tuple(name for name in self.tables if name != table), keys, self.cost)


def find_joins(schema: AskSchema, terminals: Sequence[str], via: Collection[ColumnRef] = ()) -> JoinTree:
    """Return the cheapest tree that contains all `terminals`. Keys in `via`, which the question names, cost less.

    Raise InvalidInput if no keys connect the tables.
    """
    distinct = list(dict.fromkeys(terminals))
    orders: Iterable[Sequence[str]] = permutations(distinct) if len(distinct) <= _MAX_PERMUTED else [distinct]
    trees = [tree for order in orders if (tree := _grow_tree(schema, order, via)) is not None]
    if not trees:
        fact = f"no keys connect the tables {', '.join(distinct)}"
        raise InvalidInput(fact, value=distinct, remedy="ask about tables that are connected")
    return min(trees, key=lambda tree: tree.cost)


def has_several_rows(schema: AskSchema, table: str, related: str) -> bool:
    """Return whether a row of a table may have several related rows in another table, as customers have orders."""
    current_table = table
    for key in _find_path(schema, [table], related, ()) or ():
        if key.table == current_table:
            current_table = key.to_table
        elif schema.column(key.ref).is_unique:
            current_table = key.table
        else:
            return True
    return False


def _grow_tree(schema: AskSchema, order: Sequence[str], via: Collection[ColumnRef]) -> JoinTree | None:
    tables, keys, cost = [order[0]], [], 0.0
    for terminal in order[1:]:
        if terminal in tables:
            continue
        path = _find_path(schema, tables, terminal, via)
        if path is None:
            return None
        for key in path:
            keys.append(key)
            cost += _compute_cost(key, via)
            tables.extend(name for name in (key.table, key.to_table) if name not in tables)
    return JoinTree(tuple(tables), tuple(keys), cost)


def _compute_cost(key: ForeignKey, via: Collection[ColumnRef]) -> float:
    return (1.0 + _DOUBT_COST * (1.0 - key.confidence)) * key.preference * (0.5 if key.ref in via else 1.0)


def _find_path(
    schema: AskSchema, starts: Sequence[str], goal: str, via: Collection[ColumnRef]
) -> list[ForeignKey] | None:
    """Return the keys on the cheapest path from any of the starts to the goal, in order from the start."""
    # The number after the cost is the order of adding: of two paths with the same cost, the first is taken.
    queue: list[tuple[float, int, str, list[ForeignKey]]] = [(0.0, 0, start, []) for start in starts]
    reached: set[str] = set()
    number = 0
    while queue:
        cost, _, table, path = heapq.heappop(queue)
        if table == goal:
            return path
        if table in reached:
            continue
        reached.add(table)
        for key in schema.keys_at(table):
            other = key.to_table if key.table == table else key.table
            if other not in reached:
                number += 1
                heapq.heappush(queue, (cost + _compute_cost(key, via), number, other, [*path, key]))
    return None
