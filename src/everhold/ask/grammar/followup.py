"""Read fragments that change the previous question: "only 2014", "and for France?", "by month instead", "the top 5"."""

import re
from dataclasses import replace

from everhold.ask.frame import Expression, Predicate, QueryFrame
from everhold.ask.grammar.conditions import read_conditions
from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.grammar.metrics import read_metrics
from everhold.ask.grammar.ordering import read_limits, read_orderings, read_superlatives
from everhold.ask.grammar.selection import read_selection
from everhold.ask.grammar.values import read_values
from everhold.ask.language.cues import Cue
from everhold.ask.linking.beam import Assignment, Piece
from everhold.ask.linking.mention import TABLE, Mention
from everhold.ask.schema import AskSchema

# A question with one of these codes (how many, an aggregate, a table, …) is a new question, not a fragment.
_NEW_QUESTION = re.compile(r"[#amT$*]")


def patch_frame(
    schema: AskSchema, assignment: Assignment, previous: QueryFrame
) -> tuple[QueryFrame, FrameDraft] | None:
    """Return the previous frame changed by the conditions, groups and order of a fragment; None for a whole
    question."""
    draft = FrameDraft(schema, _put_subject_first(assignment.pieces, previous), is_fragment=True)
    fragment = draft.codes[2:]  # after the two pieces of the subject
    if _NEW_QUESTION.search(fragment) or re.match(r"[.,]*L", fragment) or _names_metric(draft):
        return None
    read_limits(draft)
    read_conditions(draft)
    read_values(draft)
    read_orderings(draft)
    read_superlatives(draft)
    read_selection(draft)
    read_metrics(draft)
    frame = _replace_conditions(previous, draft)
    frame = _replace_groups(frame, draft)
    frame = replace(frame, order=tuple(draft.order) or frame.order, limit=draft.limit or frame.limit)
    return None if frame == previous else (frame, draft)


def _names_metric(draft: FrameDraft) -> bool:
    """Return whether the first thing that a fragment names is a metric: "turnover of Spain" is a whole question."""
    first = next((piece.mention for piece in draft.pieces[2:] if piece.mention), None)
    metrics = {metric.ref for metric in draft.schema.metrics}
    return first is not None and first.column in metrics


def _put_subject_first(pieces: tuple[Piece, ...], previous: QueryFrame) -> tuple[Piece, ...]:
    """Return the pieces after a count of the previous question's entity, so that periods find its columns."""
    subject = Mention(0, 0, TABLE, 1.0, 1, table=previous.entity)
    return (Piece(0, 0, cue=Cue("#")), Piece(0, 0, mention=subject), *pieces)


def _replace_conditions(frame: QueryFrame, draft: FrameDraft) -> QueryFrame:
    """Return the frame with the conditions of the draft. Conditions on other columns are kept."""
    added = [placed.predicate for placed in sorted(draft.where, key=lambda placed: placed.start)]
    changed = {predicate.left for predicate in added}
    unchanged = [item for item in frame.where if not (isinstance(item, Predicate) and item.left in changed)]
    return replace(frame, where=(*unchanged, *added))


def _replace_groups(frame: QueryFrame, draft: FrameDraft) -> QueryFrame:
    if not draft.group:
        return frame
    groups = [
        Expression(draft.schema.table(item.of_table).key_ref) if item.of_table else item
        for item in (placed.expression for placed in draft.group)
    ]
    aggregates = [item for item in frame.select if item.is_aggregate]
    return replace(frame, select=(*groups, *aggregates), group=tuple(groups), order=(), limit=None)
