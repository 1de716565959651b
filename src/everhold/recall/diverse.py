"""Hits that say the same as a better hit are left out."""

from collections.abc import Sequence

import numpy as np

from everhold.facts.conflicts import MIN_SIMILARITY, is_near_duplicate
from everhold.model import Memory
from everhold.model.base import Entity
from everhold.model.searchable import SEARCHABLE
from everhold.recall.scoring import Scored

Found = tuple[Scored, Entity]


class SeenTexts:
    """The hits so far, to compare the next ones with."""

    def __init__(self) -> None:
        self._said: list[Found] = []
        self._ids: set[tuple[str, str]] = set()

    def take_new(self, found: Sequence[Found]) -> list[Found]:
        """Return those of these hits that say something new, best first, and remember them.

        A fact and the message that it was drawn from say the same, whichever comes first.
        """
        every = [*self._said, *found]
        close = _close_pairs(every)
        if not close and not self._said and not any(_origin(record) for _, record in found):
            self._said = list(found)  # nothing repeats anything, as is usual
            self._ids = {(one.pool.image.kind, record.id) for one, record in found}
            return self._said.copy()
        taken = set(range(len(self._said)))
        kept = []
        for at, (one, record) in enumerate(found, len(self._said)):
            name = (one.pool.image.kind, record.id)
            origin = _origin(record)
            source = None if origin is None else ("memory", origin)
            if name in self._ids or source in self._ids:
                continue
            if at in close and any(
                is_near_duplicate(_text(every[other]), _text((one, record)), likeness)
                for other, likeness in close[at]
                if other in taken
            ):
                continue
            taken.add(at)
            self._ids.add(name)
            if source is not None:
                self._ids.add(source)
            kept.append((one, record))
        self._said += kept
        return kept


def _origin(record: Entity) -> str | None:
    """Return the id of the memory that a fact was drawn from."""
    return record.source_id if isinstance(record, Memory) and record.provenance else None


def _text(found: Found) -> str:
    return SEARCHABLE[found[0].kind].text(found[1])


def _close_pairs(found: Sequence[Found]) -> dict[int, list[tuple[int, float]]]:
    """Return for each hit, by its position, the earlier hits with very similar vectors, and how similar they are."""
    if len(found) < 2:
        return {}
    pools = {id(one.pool): one.pool for one, _ in found}
    if len(pools) == 1:
        (pool,) = pools.values()
        vectors = pool.image.vectors[[pool.rows[one.at] for one, _ in found]]
    else:
        vectors = np.array([one.image.vectors[one.row] for one, _ in found])
    likeness = np.vecdot(vectors[:, None], vectors)
    near = likeness >= MIN_SIMILARITY
    close: dict[int, list[tuple[int, float]]] = {}
    blanks = any(pool.image.has_blanks for pool in pools.values())
    if blanks or np.count_nonzero(near) > len(found):  # each but a blank one is near to itself
        for at, other in np.argwhere(near).tolist():
            if other < at:
                close.setdefault(at, []).append((other, float(likeness[at, other])))
    return close
