"""Pass relevance on from memories to those that superseded them or are related to them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.recall.image import Image, Mask
from everhold.recall.recipe import Recipe
from everhold.recall.signals import Signal


def compute_link_gains(image: Image, eligible: Mask | None, totals: Signal, recipe: Recipe) -> dict[str, Signal]:
    """Return what rows gain from the memories that they superseded, and from good hits that they are related to."""
    gains: dict[str, Signal] = {}
    with_successors = totals.copy()
    olds, successors = image.compute_once("successors", _find_successor_rows)
    if len(olds):
        np.maximum.at(with_successors, successors, totals[olds] - recipe.successor_loss)
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
    """Return pairs of rows: those of superseded memories, and those of the memories that superseded them."""
    rows = _map_rows_by_owner(image)
    olds: list[int] = []
    successors: list[int] = []
    for old in image.successors:
        successor, steps = image.successors[old], 0
        while successor in image.successors and steps < len(image.successors):
            successor, steps = image.successors[successor], steps + 1
        for row in rows.get(old, ()):
            olds += [row] * len(rows.get(successor, ()))
            successors += rows.get(successor, ())
    return np.array(olds, np.int64), np.array(successors, np.int64)


def _find_link_rows(image: Image) -> tuple[NDArray[Any], NDArray[Any]]:
    rows = _map_rows_by_owner(image)
    pairs = [
        (row, linked_row)
        for owner, linked_owners in image.links.items()
        for row in rows.get(owner, ())
        for linked_owner in linked_owners
        for linked_row in rows.get(linked_owner, ())
    ]
    source_rows, linked_owners = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(source_rows, np.int64), np.array(linked_owners, np.int64)


def _map_rows_by_owner(image: Image) -> dict[str, list[int]]:
    rows_by_owner: dict[str, list[int]] = {}
    for row in np.flatnonzero(image.column("alive")).tolist():
        rows_by_owner.setdefault(image.owners[row], []).append(row)
    return rows_by_owner
