"""The chance that a reading is right: a logistic model of what was understood and how much had to be assumed.

The weights are in confidence.json; `everhold eval fit-sql` makes that file from questions whose SQL is known.
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

_DECIMALS = 4


class Features(NamedTuple):
    """What confidence is computed from, each from 0 to 1.

    unexplained, unread and unread_cues count words that nothing names, mentions and cues that the grammar did not use;
    weakest and mean are scores of mentions; margin is the lead over the next reading, close that it is small; clean
    says that every word was used and every name is whole; flat that one table is read without groups;
    missing_head that a word nothing explains stands where the question says what it wants.
    """

    unexplained: float
    unread: float
    unread_cues: float
    unread_tables: float
    weakest: float
    mean: float
    margin: float
    tables: float
    nested: float
    combined: float
    grouped: float
    ordered: float
    filters: float
    length: float
    uncertain: float
    shown: float
    sentences: float
    repeats: float
    clean: float
    close: float
    implied_group: float
    key_group: float
    flat: float
    missing_head: float


def measure_features(
    frame: QueryFrame, draft: FrameDraft, assignment: Assignment, margin: float, length: int
) -> Features:
    """Return the features of a reading. `margin` is in units of score, `length` the number of tokens."""
    scores = [min(mention.score, 1.0) for mention in assignment.mentions] or [0.0]
    tables = set(list_tables(frame))
    inner = [condition for condition in frame.where if _is_nested(condition)]
    left = draft.codes
    plain = [item for item in frame.select if not item.is_aggregate]
    problems = sum(left.count(code) for code in "xCVNPnB|s><ck}mae$SAlw#")
    named = {table.name for place, table in draft.tables() if left[place] == "T"}
    return Features(
        unexplained=_scale(left.count("x"), 4),
        unread=_scale(sum(left.count(code) for code in "CVNP"), 3),
        unread_cues=_scale(sum(left.count(code) for code in "nB|s><ck}mae$SAlw#"), 3),
        unread_tables=_scale(len(named - tables - {t for c in inner for t in _inner_tables(c)}), 2),
        weakest=min(scores),
        mean=sum(scores) / len(scores),
        margin=max(0.0, min(margin, 1.0)),
        tables=_scale(len(tables) - 1, 3),
        nested=_scale(len(inner), 2),
        combined=float(frame.combined is not None),
        grouped=float(bool(frame.group)),
        ordered=float(bool(frame.order)),
        filters=_scale(len(frame.where), 3),
        length=_scale(length, 30),
        uncertain=float(any(mention.why in ("similar", "similar word", "unknown") for mention in assignment.mentions)),
        shown=_scale(len(frame.select), 4),
        sentences=_scale(draft.originals.rstrip(".").count("."), 1),
        repeats=float(bool(plain) and len(tables) > 1 and not frame.group and not frame.distinct),
        clean=float(problems == 0 and min(scores) >= 0.95),
        close=float(margin < 0.15),
        implied_group=float(bool(frame.group) and not draft.group and not frame.having and not draft.most),
        key_group=float(len(tables) > 1 and bool(frame.group)),
        missing_head=float(re.search(r"[L#&,]x+[fi=]", draft.originals) is not None),
        flat=float(len(tables) == 1 and not inner and not frame.group and not frame.combined),
    )


def _is_nested(condition: object) -> bool:
    if isinstance(condition, AnyPredicate):
        return any(choice.frame for choice in condition.choices)
    return isinstance(condition, Membership) or getattr(condition, "frame", None) is not None


def _inner_tables(condition: object) -> list[str]:
    return list(list_tables(condition.frame)) if isinstance(condition, Membership) else []


def _scale(count: float, most: int) -> float:
    return max(0.0, min(count / most, 1.0))


def estimate_confidence(features: Features, weights: Mapping[str, float] | None = None) -> float:
    """Return the chance, from 0 to 1, that a reading with these features is right."""
    chosen = WEIGHTS if weights is None else weights
    total = chosen["base"] + sum(chosen[name] * value for name, value in features._asdict().items())
    return round(1 / (1 + math.exp(-total)), _DECIMALS)


_FITTED = json.loads(Path(__file__).with_name("confidence.json").read_text("utf-8"))
WEIGHTS: Mapping[str, float] = _FITTED["weights"]
