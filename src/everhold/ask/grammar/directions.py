"""Choose between two keys that connect the same tables, by words such as "from Berlin" and "to Paris"."""

from collections.abc import Sequence
from dataclasses import replace

from everhold.ask.frame import Expression, Membership, Predicate, QueryFrame
from everhold.ask.grammar.draft import FrameDraft, PlacedPredicate
from everhold.ask.language.stems import stem
from everhold.ask.schema import AskSchema, ForeignKey

_ORIGIN = frozenset(map(stem, ("from", "depart", "departs", "departing", "leave", "leaving", "origin", "source",
                               "start", "departure", "outgoing", "home", "sender", "begin")))  # fmt: skip
_GOAL = frozenset(map(stem, ("to", "arrive", "arriving", "arrival", "land", "landing", "destination", "into", "end",
                             "incoming", "away", "receiver", "toward", "reach")))  # fmt: skip
_MAX_DISTANCE = 3  # a word for the direction may be at most this many items before the condition


def split_directed(
    draft: FrameDraft, placed: Sequence[PlacedPredicate]
) -> tuple[list[Membership | Predicate], list[PlacedPredicate]]:
    """Return the conditions on a table that several keys of one table refer to, and the other conditions.

    Those of the first list are rewritten for the key that the question means.
    """
    keys = [None if condition.negated else _choose_key(draft, condition) for condition in placed]
    chosen = [key for key in keys if key]
    directed: list[Membership | Predicate] = []
    others: list[PlacedPredicate] = []
    for condition, key in zip(placed, keys, strict=True):
        if key is None:
            others.append(condition)
        elif condition.predicate.left.column != key.to_ref and len(chosen) == 1:
            draft.via.append(key.ref)
            others.append(condition)
        else:
            directed.append(_rewrite_for_key(condition.predicate, key))
    return directed, others


def _rewrite_for_key(predicate: Predicate, key: ForeignKey) -> Membership | Predicate:
    """Rewrite a condition on a table as a condition on the key that refers to it, so that the table can be used
    twice."""
    if predicate.left.column == key.to_ref:
        return replace(predicate, left=Expression(key.ref))
    return Membership(key.ref, QueryFrame(key.to_table, (Expression(key.to_ref),), where=(predicate,)))


def _choose_key(draft: FrameDraft, condition: PlacedPredicate) -> ForeignKey | None:
    column = condition.predicate.left.column
    entity = draft.entity()
    if column is None or condition.predicate.left.is_aggregate or entity is None:
        return None
    if column.table == entity.name:
        return None
    keys = _find_parallel_keys(draft.schema, column.table)
    direction = _read_direction(draft, condition)
    directed = [key for key in keys if direction & _get_directions(draft.schema, key)]
    hinted = [key for key in keys if key.ref in draft.via]
    return next(iter([*directed, *hinted]), None)


def _find_parallel_keys(schema: AskSchema, table: str) -> list[ForeignKey]:
    """Return the keys to a table from tables that refer to it more than once."""
    keys = [key for key in schema.keys_at(table) if key.to_table == table]
    owners = [key.table for key in keys]
    return [key for key in keys if owners.count(key.table) > 1]


def _read_direction(draft: FrameDraft, condition: PlacedPredicate) -> frozenset[str]:
    """Return "origin" or "goal" by the nearest word for a direction in the condition or before it; empty without
    one."""
    for position in range(condition.end, max(-1, condition.start - _MAX_DISTANCE - 1), -1):
        words = {stem(word) for word in draft.pieces[position].text.split()}
        if words & _GOAL:
            return frozenset({"goal"})
        if words & _ORIGIN:
            return frozenset({"origin"})
    return frozenset()


def _get_directions(schema: AskSchema, key: ForeignKey) -> frozenset[str]:
    words = set(schema.column(key.ref).words)
    return frozenset(name for name, stems in (("origin", _ORIGIN), ("goal", _GOAL)) if words & stems)
