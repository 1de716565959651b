"""Raise the scores of memories that superseded a good hit or are related to one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.recall.image import Image, Mask
from everhold.recall.question import Question
from everhold.recall.recipe import Recipe
from everhold.recall.signals import Signal

# The lowest sum of signals of a memory that is about the question. Sums of unrelated memories are around -5.
_ON_TOPIC = -3.5


def compute_link_gains(
    image: Image, eligible: Mask | None, totals: Signal, recipe: Recipe, question: Question
) -> dict[str, Signal]:
    """Return what each row gains because it superseded a good hit ("replaced"), or is related to one ("related").

    If the question asks for what was true before a change, the superseded row gains instead of its successor.
    """
    gains: dict[str, Signal] = {}
    with_successors = totals.copy()
    if question.intent.replaced:
        superseded, successors = _find_asked_rows(image, question.anchor)
        best = np.maximum(totals[successors], totals[superseded])
        strong = best >= _ON_TOPIC
        np.maximum.at(with_successors, superseded[strong], best[strong] + recipe.predecessor_gain)
    else:
        superseded, successors = image.compute_once("successors", _find_successor_rows)
        np.maximum.at(with_successors, successors, totals[superseded] - recipe.successor_loss)
    if len(superseded):
        gains["replaced"] = with_successors - totals
    sources, targets = image.compute_once("links", _find_link_rows)
    if len(sources):
        with_related = with_successors.copy()
        strong = with_successors[sources] >= 0.0
        if eligible is not None:
            strong &= eligible[sources]
        np.maximum.at(with_related, targets[strong], with_successors[sources[strong]] - recipe.related_loss)
        gains["related"] = with_related - with_successors
    return gains


def _find_asked_rows(image: Image, anchor: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows of superseded memories that a question about the past may ask for, and the rows that replaced them.

    The successor has all terms of the anchor ("Denver" in "before Denver"). If there is none, it is a current memory.
    """
    superseded, successors, current = image.compute_once("predecessors", _find_predecessor_rows)
    has_anchor, repeats_anchor = np.ones((2, len(superseded)), np.bool_)
    for term in anchor:
        rows = image.postings.find(term).rows
        has_anchor &= np.isin(successors, rows)
        repeats_anchor &= np.isin(superseded, rows)
    asked = has_anchor & ~repeats_anchor if anchor else current
    if not asked.any():
        asked = current & ~repeats_anchor
    return superseded[asked], successors[asked]


def _find_predecessor_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any], Mask]:
    """Return rows of superseded memories, the rows of their direct successors, and whether these are current."""
    rows = _map_rows_by_owner(image)
    pairs = [
        (row, successor_row, successor not in image.successors)
        for superseded_id, successor in image.successors.items()
        for row in rows.get(superseded_id, ())
        for successor_row in rows.get(successor, ())
    ]
    superseded, successors, current = zip(*pairs, strict=True) if pairs else ((), (), ())
    return np.array(superseded, np.int64), np.array(successors, np.int64), np.array(current, np.bool_)


def _find_successor_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two arrays of equal length: rows of superseded memories, and the rows of their latest successors."""
    rows = _map_rows_by_owner(image)
    superseded: list[int] = []
    successors: list[int] = []
    for superseded_id in image.successors:
        successor, steps = image.successors[superseded_id], 0
        while successor in image.successors and steps < len(image.successors):
            successor, steps = image.successors[successor], steps + 1
        for row in rows.get(superseded_id, ()):
            superseded += [row] * len(rows.get(successor, ()))
            successors += rows.get(successor, ())
    return np.array(superseded, np.int64), np.array(successors, np.int64)


def _find_link_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    rows = _map_rows_by_owner(image)
    pairs = [
        (row, linked_row)
        for owner, linked_owners in image.links.items()
        for row in rows.get(owner, ())
        for linked_owner in linked_owners
        for linked_row in rows.get(linked_owner, ())
    ]
    source_rows, linked_rows = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(source_rows, np.int64), np.array(linked_rows, np.int64)


def _map_rows_by_owner(image: Image) -> dict[str, list[int]]:
    rows_by_owner: dict[str, list[int]] = {}
    for row in np.flatnonzero(image.column("alive")).tolist():
        rows_by_owner.setdefault(image.owners[row], []).append(row)
    return rows_by_owner
