"""Words by reading the terms of every chunk of the scope: exact, and slow for the very large."""

import math
from collections.abc import Iterator, Sequence

from everhold.adapters.portable.chunks import read_current_chunks
from everhold.ports.candidates import Statistics
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace


class ScannedWords:
    """Proposes by a pass over the chunk rows."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        whole = statistics.chunks
        worth = {term: math.log(1 + whole / count) for term, count in statistics.holding.items() if count}
        best: dict[str, float] = {}
        for owner_id, held in self._chunks(space):
            gain = sum(worth[term] for term in worth if term in held)
            if gain > best.get(owner_id, 0.0):
                best[owner_id] = gain
        return sorted(best, key=lambda owner_id: (-best[owner_id], owner_id))[:limit]

    def statistics(self, space: SearchSpace, terms: Sequence[str]) -> Statistics:
        chunks = list(self._chunks(space))
        return Statistics(len(chunks), {term: sum(term in held for _, held in chunks) for term in terms})

    def _chunks(self, space: SearchSpace) -> Iterator[tuple[str, frozenset[str]]]:
        for owner_id, terms in read_current_chunks(self._records, space, "terms"):
            yield owner_id, frozenset(terms.split())
