"""Raise the scores of memories that superseded a good hit or are related to one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.recall.image import Image, Mask
from everhold.recall.recipe import Recipe
from everhold.recall.signals import Signal


def compute_link_gains(image: Image, eligible: Mask | None, totals: Signal, recipe: Recipe) -> dict[str, Signal]:
    """Return what each row gains because it superseded a good hit ("replaced"), or is related to one ("related")."""
    gains: dict[str, Signal] = {}
    with_successors = totals.copy()
    superseded, successors = image.compute_once("successors", _find_successor_rows)
    if len(superseded):
        np.maximum.at(with_successors, successors, totals[superseded] - recipe.successor_loss)
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


def _find_successor_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two arrays of equal length: rows of superseded memories, and the rows of their latest successors."""
    rows = _map_rows_by_owner(image)
    superseded: list[int] = []
    successors: list[int] = []
    for old in image.successors:
        successor, steps = image.successors[old], 0
        while successor in image.successors and steps < len(image.successors):
            successor, steps = image.successors[successor], steps + 1
        for row in rows.get(old, ()):
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
