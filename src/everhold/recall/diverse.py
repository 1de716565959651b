"""Leave out hits that say the same as a better hit."""

from collections.abc import Sequence

import numpy as np

from everhold.facts.conflicts import MIN_SIMILARITY, is_near_duplicate
from everhold.model import Memory
from everhold.model.base import Entity
from everhold.model.searchable import SEARCHABLE
from everhold.recall.scoring import Scored

ScoredRecord = tuple[Scored, Entity]


class SeenTexts:
    """The hits so far, to compare the next ones with."""

    def __init__(self) -> None:
        self._said: list[ScoredRecord] = []
        self._ids: set[tuple[str, str]] = set()

    def take_new(self, candidates: Sequence[ScoredRecord]) -> list[ScoredRecord]:
        """Return the candidates that do not repeat an earlier hit, best first, and remember them.

        A fact and the message that it was derived from count as the same, whichever comes first.
        """
        all_records = [*self._said, *candidates]
        close = _close_pairs(all_records)
        if not close and not self._said and not any(_origin(record) for _, record in candidates):
            self._said = list(candidates)  # the usual case: there are no duplicates
            self._ids = {(scored.pool.image.kind, record.id) for scored, record in candidates}
            return self._said.copy()
        taken_indexes = set(range(len(self._said)))
        new = []
        for index, (scored, record) in enumerate(candidates, len(self._said)):
            name = (scored.pool.image.kind, record.id)
            origin = _origin(record)
            source = None if origin is None else ("memory", origin)
            if name in self._ids or source in self._ids:
                continue
            if index in close and any(
                is_near_duplicate(_text(all_records[earlier]), _text((scored, record)), similarity)
                for earlier, similarity in close[index]
                if earlier in taken_indexes
            ):
                continue
            taken_indexes.add(index)
            self._ids.add(name)
            if source is not None:
                self._ids.add(source)
            new.append((scored, record))
        self._said += new
        return new


def _origin(record: Entity) -> str | None:
    """Return the id of the memory that a fact was derived from."""
    return record.source_id if isinstance(record, Memory) and record.provenance else None


def _text(scored_record: ScoredRecord) -> str:
    return SEARCHABLE[scored_record[0].kind].text(scored_record[1])


def _close_pairs(scored_records: Sequence[ScoredRecord]) -> dict[int, list[tuple[int, float]]]:
    """Return for each hit, by its position, the earlier hits with very similar vectors, and how similar they are."""
    if len(scored_records) < 2:
        return {}
    pools = {id(scored.pool): scored.pool for scored, _ in scored_records}
    if len(pools) == 1:
        (pool,) = pools.values()
        vectors = pool.image.vectors[[pool.rows[scored.pool_index] for scored, _ in scored_records]]
    else:
        vectors = np.array([scored.image.vectors[scored.row] for scored, _ in scored_records])
    similarity = np.vecdot(vectors[:, None], vectors)
    is_close = similarity >= MIN_SIMILARITY
    close_pairs: dict[int, list[tuple[int, float]]] = {}
    blanks = any(pool.image.has_blanks for pool in pools.values())
    if blanks or np.count_nonzero(is_close) > len(
        scored_records
    ):  # every vector is close to itself, except a zero vector
        for later, earlier in np.argwhere(is_close).tolist():
            if earlier < later:
                close_pairs.setdefault(later, []).append((earlier, float(similarity[later, earlier])))
    return close_pairs
