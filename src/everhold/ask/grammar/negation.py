"""Read related rows that are absent: "customers without orders", "who visited no museum opened after 2010".

The letters in the pattern are the codes of `language/cues.py` and `linking/mention.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from everhold.ask.frame import Expression, Membership, Predicate, QueryFrame
from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.joins import find_joins
from everhold.ask.schema import AskSchema
from everhold.errors import InvalidInput


def read_absences(draft: FrameDraft) -> list[Membership]:
    """Read the tables that a negation is about, with the conditions after the negation."""
    absences: list[Membership] = []
    entity = draft.entity()
    for match in draft.find(r"n[^n.,CV]*?T"):
        tables = [
            (position, table) for position, table in draft.tables() if position > match.start() and table != entity
        ]
        if not tables or entity is None:
            continue
        inner = [placed for placed in draft.where if placed.start > match.start() and not placed.negated]
        names = [table.name for _, table in tables]
        absence = exclude_related(draft.schema, entity.name, names, [placed.predicate for placed in inner])
        if absence:
            absences.append(absence)
            draft.where = [placed for placed in draft.where if placed not in inner]
            draft.take(match.start(), *(position for position, _ in tables))
    return absences


def exclude_related(
    schema: AskSchema, entity: str, tables: Sequence[str], conditions: Sequence[Predicate]
) -> Membership | None:
    """Return the condition that no related row of the tables meets the conditions; None if no key connects them."""
    related = include_related(schema, entity, tables, conditions)
    return replace(related, negated=True) if related else None


def include_related(
    schema: AskSchema, entity: str, tables: Sequence[str], conditions: Sequence[Predicate]
) -> Membership | None:
    """Return the condition that a related row of the tables meets the conditions; None if no key connects them."""
    try:
        tree = find_joins(schema, [entity, *tables])
    except InvalidInput:
        return None
    key = next((key for key in tree.keys if entity in (key.table, key.to_table)), None)
    if key is None:
        return None
    entity_ref, related_ref = (key.ref, key.to_ref) if key.table == entity else (key.to_ref, key.ref)
    frame = QueryFrame(related_ref.table, (Expression(related_ref),), where=tuple(conditions), joined=tuple(tables))
    return Membership(entity_ref, frame)
