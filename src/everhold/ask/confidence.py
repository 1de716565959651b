"""Estimate the probability that a reading of a question is right, by logistic regression.

The features say what was understood and how much had to be assumed. The weights are in confidence.json, which
`everhold eval fit-sql` writes from questions whose SQL is known.
"""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from everhold.ask.frame import AnyPredicate, Membership, QueryFrame
from everhold.ask.frame_parts import list_tables
from everhold.ask.grammar.draft import FrameDraft
from everhold.ask.linking.beam import Assignment
from everhold.ask.linking.mention import TABLE

_DECIMALS = 4

# Codes of items in a draft (see `language/cues.py`) that the grammar has not used: words that name nothing; columns,
# values, numbers and periods; and cues that change a result.
_UNKNOWN_WORD = "x"
_MENTION_CODES = "CVNP"
_CUE_CODES = "nB|s><ck}mae$SAlw#"

# After "list", "how many", "and" or a comma, unknown words before "of", "in" or "is": "list the xyz of each customer".
_UNKNOWN_HEAD = re.compile(r"[L#&,]x+[fi=]")

_MIN_WHOLE_SCORE = 0.95  # a mention with at least this score matches the whole name
_MAX_CLOSE_MARGIN = 0.15  # with a smaller lead in score, the next reading is close


class Features(NamedTuple):
    """The inputs of the model, each from 0 to 1. A count is divided by a number that it rarely exceeds."""

    unexplained: float
    """The number of words that name nothing."""
    unread: float
    """The number of columns, values, numbers and periods that the grammar did not use."""
    unread_cues: float
    """The number of cues that the grammar did not use."""
    unread_tables: float
    """The number of tables that the question names and the query lacks."""
    weakest: float
    """The lowest score of a mention."""
    mean: float
    """The mean score of the mentions."""
    margin: float
    """The lead over the next reading."""
    tables: float
    """The number of joined tables."""
    nested: float
    """The number of conditions with a subquery."""
    combined: float
    """Whether the query is a union, an intersection or a difference."""
    grouped: float
    ordered: float
    filters: float
    """The number of conditions of the query."""
    length: float
    """The number of tokens of the question."""
    uncertain: float
    """Whether a name was matched by its spelling or by a similar word, or is unknown."""
    shown: float
    """The number of columns of the result."""
    sentences: float
    """Whether the question has more than one sentence."""
    repeats: float
    """Whether a join may repeat rows of the result."""
    clean: float
    """Whether every word was used and every name is whole."""
    close: float
    """Whether the lead over the next reading is small."""
    implied_group: float
    """Whether the query has groups that the question does not ask for."""
    key_group: float
    """Whether the query has groups over joined tables."""
    flat: float
    """Whether the query reads one table without groups and subqueries."""
    missing_head: float
    """Whether the words that say what to show name nothing."""


def measure_features(
    frame: QueryFrame, draft: FrameDraft, assignment: Assignment, margin: float, length: int
) -> Features:
    """Return the features of a reading. `margin` is its lead in score, `length` the question's number of tokens."""
    scores = [min(mention.score, 1.0) for mention in assignment.mentions] or [0.0]
    tables = set(list_tables(frame))
    subqueries = [condition for condition in frame.where if _is_nested(condition)]
    subquery_tables = {table for condition in subqueries for table in _list_subquery_tables(condition)}
    plain_columns = [item for item in frame.select if not item.is_aggregate]
    unknown, unread, unread_cues = (
        _count_unused(draft, codes) for codes in (_UNKNOWN_WORD, _MENTION_CODES, _CUE_CODES)
    )
    unread_tables = {table.name for position, table in draft.tables() if draft.codes[position] == TABLE}
    return Features(
        unexplained=_scale_count(unknown, 4),
        unread=_scale_count(unread, 3),
        unread_cues=_scale_count(unread_cues, 3),
        unread_tables=_scale_count(len(unread_tables - tables - subquery_tables), 2),
        weakest=min(scores),
        mean=sum(scores) / len(scores),
        margin=max(0.0, min(margin, 1.0)),
        tables=_scale_count(len(tables) - 1, 3),
        nested=_scale_count(len(subqueries), 2),
        combined=float(frame.combined is not None),
        grouped=float(bool(frame.group)),
        ordered=float(bool(frame.order)),
        filters=_scale_count(len(frame.where), 3),
        length=_scale_count(length, 30),
        uncertain=float(any(mention.why in ("similar", "similar word", "unknown") for mention in assignment.mentions)),
        shown=_scale_count(len(frame.select), 4),
        sentences=_scale_count(draft.originals.rstrip(".").count("."), 1),
        repeats=float(bool(plain_columns) and len(tables) > 1 and not frame.group and not frame.distinct),
        clean=float(unknown + unread + unread_cues == 0 and min(scores) >= _MIN_WHOLE_SCORE),
        close=float(margin < _MAX_CLOSE_MARGIN),
        implied_group=float(bool(frame.group) and not draft.group and not frame.having and not draft.most),
        key_group=float(len(tables) > 1 and bool(frame.group)),
        missing_head=float(_UNKNOWN_HEAD.search(draft.originals) is not None),
        flat=float(len(tables) == 1 and not subqueries and not frame.group and not frame.combined),
    )


def _count_unused(draft: FrameDraft, codes: str) -> int:
    """Return how many items with these codes the grammar has not used."""
    return sum(draft.codes.count(code) for code in codes)


def _is_nested(condition: object) -> bool:
    if isinstance(condition, AnyPredicate):
        return any(choice.frame for choice in condition.choices)
    return isinstance(condition, Membership) or getattr(condition, "frame", None) is not None


def _list_subquery_tables(condition: object) -> list[str]:
    return list(list_tables(condition.frame)) if isinstance(condition, Membership) else []


def _scale_count(count: float, maximum: int) -> float:
    return max(0.0, min(count / maximum, 1.0))


def estimate_confidence(features: Features, weights: Mapping[str, float] | None = None) -> float:
    """Return the probability that a reading with these features is right; by default, with the fitted weights.

    The weight "base" is the intercept.
    """
    weights = WEIGHTS if weights is None else weights
    log_odds = weights["base"] + sum(weights[name] * value for name, value in features._asdict().items())
    return round(1 / (1 + math.exp(-log_odds)), _DECIMALS)


WEIGHTS: Mapping[str, float] = json.loads(Path(__file__).with_name("confidence.json").read_text("utf-8"))["weights"]
