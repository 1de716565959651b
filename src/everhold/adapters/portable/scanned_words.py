"""Find candidates by words by scanning the terms of all chunks of a scope: exact, slow for large scopes."""

import math
from collections.abc import Iterator, Sequence

from everhold.adapters.portable.chunks import read_current_chunks
from everhold.ports.records import Records
from everhold.ports.search_indexes import Statistics
from everhold.ports.search_space import SearchSpace


class ScannedWords:
    """A word index without an index: every search scans the chunk rows."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def find_by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        chunks = statistics.chunks
        weights = {term: math.log(1 + chunks / count) for term, count in statistics.chunks_with_term.items() if count}
        best: dict[str, float] = {}
        for owner_id, terms in self._read_terms(space):
            score = sum(weights[term] for term in weights if term in terms)
            if score > best.get(owner_id, 0.0):
                best[owner_id] = score
        return sorted(best, key=lambda owner_id: (-best[owner_id], owner_id))[:limit]

    def count_terms(self, space: SearchSpace, terms: Sequence[str]) -> Statistics:
        chunks = [chunk_terms for _, chunk_terms in self._read_terms(space)]
        return Statistics(len(chunks), {term: sum(term in chunk for chunk in chunks) for term in terms})

    def _read_terms(self, space: SearchSpace) -> Iterator[tuple[str, frozenset[str]]]:
        for owner_id, terms in read_current_chunks(self._records, space, "terms"):
            yield owner_id, frozenset(terms.split())
