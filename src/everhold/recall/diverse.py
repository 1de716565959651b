"""Remove hits that repeat what a better hit says."""

from collections.abc import Sequence

import numpy as np

from everhold.facts.conflicts import MIN_SIMILARITY, is_near_duplicate
from everhold.model import Memory
from everhold.model.base import Entity
from everhold.model.searchable import SEARCHABLE
from everhold.recall.scoring import Scored

ScoredRecord = tuple[Scored, Entity]


class SeenTexts:
    """The hits accepted so far, with which the next candidates are compared.

    With `by_text`, a candidate that says the same as an earlier hit in nearly the same words is left out. With
    `by_message`, a memory is left out if its message was a hit, and a message if a memory derived from it was a hit.
    """

    def __init__(self, *, by_text: bool = True, by_message: bool = False) -> None:
        self._by_text, self._by_message = by_text, by_message
        self._accepted: list[ScoredRecord] = []

    def take_new(self, candidates: Sequence[ScoredRecord]) -> list[ScoredRecord]:
        """Return the candidates that do not repeat an earlier hit, best first, and remember them.

        A fact and the message that it was derived from count as the same, whichever comes first.
        """
        all_records = [*self._accepted, *candidates]
        close = _close_pairs(all_records) if self._by_text else {}
        if not close and not self._accepted and not any(self._find_origins(record) for _, record in candidates):
            self._accepted = list(candidates)  # the usual case: there are no duplicates
            return self._accepted.copy()
        taken_names = set().union(*map(self._list_names, self._accepted))
        taken_indexes = set(range(len(self._accepted)))
        new = []
        for index, (scored, record) in enumerate(candidates, len(self._accepted)):
            names = self._list_names((scored, record))
            if not taken_names.isdisjoint(names):
                continue
            if index in close and any(
                is_near_duplicate(_text(all_records[earlier]), _text((scored, record)), similarity)
                for earlier, similarity in close[index]
                if earlier in taken_indexes
            ):
                continue
            taken_indexes.add(index)
            taken_names.update(names)
            new.append((scored, record))
        self._accepted += new
        return new

    def _list_names(self, scored_record: ScoredRecord) -> list[tuple[str, str]]:
        """Return the kind and the id of a record, and those of the records that it was derived from."""
        scored, record = scored_record
        return [(scored.kind, record.id), *self._find_origins(record)]

    def _find_origins(self, record: Entity) -> list[tuple[str, str]]:
        """Return the kind and the id of the memory that a fact was derived from, and of its messages."""
        if not isinstance(record, Memory) or not record.provenance:
            return []
        messages = [("message", message_id) for message_id in record.message_ids] if self._by_message else []
        return [("memory", record.source_id), *messages] if record.source_id is not None else messages


def _text(scored_record: ScoredRecord) -> str:
    return SEARCHABLE[scored_record[0].kind].text(scored_record[1])


def _close_pairs(scored_records: Sequence[ScoredRecord]) -> dict[int, list[tuple[int, float]]]:
    """Return for each hit, by its position, the earlier hits with very similar vectors, and how similar they are."""
    if len(scored_records) < 2:
        return {}
    pools = [scored.pool for scored, _ in scored_records]
    pool = pools[0]
    if len(set(map(id, pools))) == 1:
        vectors = pool.image.vectors.take([pool.rows[scored.pool_index] for scored, _ in scored_records], axis=0)
        has_blanks = pool.image.has_blanks
    else:
        vectors = np.array([scored.image.vectors[scored.row] for scored, _ in scored_records])
        has_blanks = any(pool.image.has_blanks for pool in pools)
    similarity = np.vecdot(vectors[:, None], vectors)
    is_close = similarity >= MIN_SIMILARITY
    close_pairs: dict[int, list[tuple[int, float]]] = {}
    # Every vector is close to itself, except a zero vector. More matches than vectors mean that two hits are close.
    if has_blanks or np.count_nonzero(is_close) > len(scored_records):
        for later, earlier in np.argwhere(is_close).tolist():
            if earlier < later:
                close_pairs.setdefault(later, []).append((earlier, float(similarity[later, earlier])))
    return close_pairs
