"""Words of a scope too large to be held, from FTS5 over our own terms and from the few chunks not yet folded in."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everhold.adapters.sqlite.dialect import space_words
from everhold.adapters.sqlite.records import SqliteRecords
from everhold.adapters.sqlite.words import UNFOLDED
from everhold.model import Chunk
from everhold.ports.search_indexes import Statistics
from everhold.ports.search_space import SearchSpace

_COUNT = 'SELECT count(*) FROM "chunk_words" WHERE "chunk_words" MATCH ?'
_ROWS = 'SELECT rowid FROM "chunk_words" WHERE "chunk_words" MATCH ?'
_RECENT = f'SELECT c."owner_id", c."terms" {UNFOLDED}'
_COMMON = 50_000
_BATCH = 500
_NO_ROWS, _NO_GAINS = np.empty(0, np.int64), np.empty(0)


class SqliteWords:
    """Proposes by words. The scope is a word of the index, so that it comes before ranking."""

    def __init__(self, records: SqliteRecords) -> None:
        self._records = records

    def find_by_words(self, space: SearchSpace, statistics: Statistics, limit: int) -> list[str]:
        place = _match(space)
        rows, gains, found = [_NO_ROWS], [_NO_GAINS], 0
        for term, holding in sorted(statistics.chunks_with_term.items(), key=lambda one: one[1]):
            if not holding or (holding > _COMMON and found >= limit):
                continue
            held = self._records.query(_ROWS, (f'{place} AND "{term}"',))
            rows.append(np.fromiter((row for (row,) in held), np.int64, len(held)))
            gains.append(np.full(len(held), math.log(1 + statistics.chunks / holding)))
            found += len(held)
        best = _worth_most(np.concatenate(rows), np.concatenate(gains), limit)
        wanted = statistics.chunks_with_term.keys()
        recent = [owner for owner, held in self._recent(space) if wanted & held]
        return list(dict.fromkeys(recent + self._owners(best)))

    def count_terms(self, space: SearchSpace, terms: Sequence[str]) -> Statistics:
        place = _match(space)
        recent = [held for _, held in self._recent(space)]
        return Statistics(
            self._count(place) + len(recent),
            {term: self._count(f'{place} AND "{term}"') + sum(term in held for held in recent) for term in terms},
        )

    def _count(self, match: str) -> int:
        return int(self._records.query(_COUNT, (match,))[0][0])

    def _recent(self, space: SearchSpace) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the chunks that are not folded in yet, with their terms."""
        for owner_id, terms in self._records.query(*self.select_recent(space)):
            yield owner_id, frozenset(terms.split())

    def select_recent(self, space: SearchSpace) -> tuple[str, list[Any]]:
        """Return the statement that reads the chunks of a space that are not folded in yet."""
        read = self._records.compiler.read(Chunk, space.organization_id, space.chunks())
        return f"{_RECENT} AND {read.conditions}", read.values

    def _owners(self, rows: Sequence[int]) -> list[str]:
        owners: list[str] = []
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            marks = ", ".join("?" * len(batch))
            found = self._records.query(f'SELECT "row", "owner_id" FROM "chunks" WHERE "row" IN ({marks})', batch)
            by_row = dict(found)
            owners += [by_row[row] for row in batch if row in by_row]
        return list(dict.fromkeys(owners))


def _worth_most(rows: NDArray[np.int64], gains: NDArray[np.float64], limit: int) -> list[int]:
    """The rows whose gains add up to most, best first."""
    each, which = np.unique(rows, return_inverse=True)
    worth = np.bincount(which, gains, len(each))
    return [int(row) for row in each[np.lexsort((each, -worth))][:limit]]


def _match(space: SearchSpace) -> str:
    """Return the space as an expression of FTS5."""
    return "(" + " OR ".join(f'"{word}"' for word in space_words(space)) + ")"
