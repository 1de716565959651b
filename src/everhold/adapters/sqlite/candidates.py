"""The word index of a SQLite store: FTS5 over the engine's terms, and a scan of the few chunks not indexed yet."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.sqlite.dialect import list_space_words
from everhold.adapters.sqlite.records import SqliteRecords
from everhold.adapters.sqlite.words import UNINDEXED
from everhold.model import Chunk
from everhold.ports.search_indexes import Statistics
from everhold.ports.search_space import SearchSpace

_COUNT = 'SELECT count(*) FROM "chunk_words" WHERE "chunk_words" MATCH ?'
_ROWS = 'SELECT rowid FROM "chunk_words" WHERE "chunk_words" MATCH ?'
_RECENT = f'SELECT c."owner_id", c."terms" {UNINDEXED}'
_COMMON_COUNT = 50_000  # a term in more chunks than this is looked up only if rarer terms gave too few rows
_BATCH = 500  # rows in one query
_NO_ROWS, _NO_WEIGHTS = np.empty(0, np.int64), np.empty(0)


class SqliteWords:
    """Finds candidates by words. The search space is also a word of the index, so only its chunks are ranked."""

    def __init__(self, records: SqliteRecords) -> None:
        self._records = records

    def find_by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        space_match = _match_space(space)
        rows, weights, count = [_NO_ROWS], [_NO_WEIGHTS], 0
        for term, chunk_count in sorted(statistics.chunks_with_term.items(), key=lambda item: item[1]):
            if not chunk_count or (chunk_count > _COMMON_COUNT and count >= limit):
                continue
            matches = self._records.query(_ROWS, (f'{space_match} AND "{term}"',))
            rows.append(np.fromiter((row for (row,) in matches), np.int64, len(matches)))
            # This is the inverse document frequency: rarer terms weigh more.
            weights.append(np.full(len(matches), math.log(1 + statistics.chunks / chunk_count)))
            count += len(matches)
        best_rows = _rank_rows(np.concatenate(rows), np.concatenate(weights), limit)
        terms = statistics.chunks_with_term.keys()
        recent_owners = [owner for owner, chunk_terms in self._read_recent(space) if terms & chunk_terms]
        return list(dict.fromkeys(recent_owners + self._read_owners(best_rows)))

    def count_terms(self, space: SearchSpace, terms: Sequence[str]) -> Statistics:
        space_match = _match_space(space)
        recent_terms = [chunk_terms for _, chunk_terms in self._read_recent(space)]
        chunks_with_term = {
            term: self._count_matches(f'{space_match} AND "{term}"') + sum(term in chunk for chunk in recent_terms)
            for term in terms
        }
        return Statistics(self._count_matches(space_match) + len(recent_terms), chunks_with_term)

    def _count_matches(self, match: str) -> int:
        return int(self._records.query(_COUNT, (match,))[0][0])

    def _read_recent(self, space: SearchSpace) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the owner and the terms of each chunk that is not in the index yet."""
        for owner_id, terms in self._records.query(*self.select_recent(space)):
            yield owner_id, frozenset(terms.split())

    def select_recent(self, space: SearchSpace) -> tuple[str, list[Any]]:
        """Return the query for the chunks of a space that are not in the index yet."""
        read = self._records.compiler.compile_conditions(Chunk, space.organization_id, space.chunks())
        return f"{_RECENT} AND {read.conditions}", read.values

    def _read_owners(self, rows: Sequence[int]) -> list[str]:
        owners: list[str] = []
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            placeholders = ", ".join("?" * len(batch))
            sql = f'SELECT "row", "owner_id" FROM "chunks" WHERE "row" IN ({placeholders})'
            by_row = dict(self._records.query(sql, batch))
            owners += [by_row[row] for row in batch if row in by_row]
        return list(dict.fromkeys(owners))


def _rank_rows(rows: NDArray[np.int64], weights: NDArray[np.float64], limit: int) -> list[int]:
    """Return the rows with the largest sums of weights, best first."""
    unique_rows, positions = np.unique(rows, return_inverse=True)
    sums = np.bincount(positions, weights, len(unique_rows))
    return [int(row) for row in unique_rows[np.lexsort((unique_rows, -sums))][:limit]]


def _match_space(space: SearchSpace) -> str:
    """Return the FTS5 expression that matches the chunks of a space."""
    return "(" + " OR ".join(f'"{word}"' for word in list_space_words(space)) + ")"
