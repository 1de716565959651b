"""Two keys between the same tables: "from Berlin" and "to Paris" decide which of them is meant."""

from collections.abc import Sequence
from dataclasses import replace

from everhold.ask.frame import Expression, Membership, Predicate, QueryFrame
from everhold.ask.grammar.draft import FrameDraft, PlacedPredicate
from everhold.ask.language.stems import stem
from everhold.ask.schema import AskSchema, ForeignKey

_ORIGIN = frozenset(map(stem, ("from", "depart", "departs", "departing", "leave", "leaving", "origin", "source", "start",
                               "departure", "outgoing", "home", "sender", "begin")))  # fmt: skip
_GOAL = frozenset(map(stem, ("to", "arrive", "arriving", "arrival", "land", "landing", "destination", "into", "end",
                             "incoming", "away", "receiver", "toward", "reach")))  # fmt: skip
_REACH = 3  # items before a value in which a direction is looked for


def split_directed(
    draft: FrameDraft, placed: Sequence[PlacedPredicate]
) -> tuple[list[Membership | Predicate], list[PlacedPredicate]]:
    """Return the conditions on tables that two keys lead to, as conditions on the key that is meant, and the rest."""
    directed: list[Membership | Predicate] = []
    others: list[PlacedPredicate] = []
    for condition in placed:
        membership = None if condition.negated else _direct(draft, condition)
        if membership:
            directed.append(membership)
        else:
            others.append(condition)
    return directed, others


def _direct(draft: FrameDraft, condition: PlacedPredicate) -> Membership | Predicate | None:
    column = condition.predicate.left.column
    entity = draft.entity()
    if column is None or condition.predicate.left.is_aggregate or entity is None:
        return None
    if column.table == entity.name:
        return None
    keys = _find_parallel_keys(draft.schema, column.table)
    chosen = next((key for key in keys if _read_direction(draft, condition) & _get_directions(draft.schema, key)), None)
    if chosen is None:
        return None
    if column == chosen.to_ref:
        return replace(condition.predicate, left=Expression(chosen.ref))
    inner = QueryFrame(column.table, (Expression(chosen.to_ref),), where=(condition.predicate,))
    return Membership(chosen.ref, inner)


def _find_parallel_keys(schema: AskSchema, table: str) -> list[ForeignKey]:
    """Return the keys to a table from tables that refer to it more than once."""
    keys = [key for key in schema.keys_at(table) if key.to_table == table]
    owners = [key.table for key in keys]
    return [key for key in keys if owners.count(key.table) > 1]


def _read_direction(draft: FrameDraft, condition: PlacedPredicate) -> frozenset[str]:
    """Return "origin" or "goal" by the nearest word that says one, within the condition and before it."""
    for position in range(condition.end, max(-1, condition.start - _REACH - 1), -1):
        words = {stem(word) for word in draft.pieces[position].text.split()}
        if words & _GOAL:
            return frozenset({"goal"})
        if words & _ORIGIN:
            return frozenset({"origin"})
    return frozenset()


def _get_directions(schema: AskSchema, key: ForeignKey) -> frozenset[str]:
    words = set(schema.column(key.ref).words)
    return frozenset(
        name for name, meaning in (("origin", _ORIGIN), ("goal", _GOAL)) if words & meaning
    )
