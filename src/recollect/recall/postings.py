"""An inverted index that grows: which rows hold a term, and how often.

Most rows lie in flat arrays sorted by term. Rows added since lie in small lists beside them, until there are enough
to be merged.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Counts = NDArray[np.float32]

_MERGE_AFTER = 128
_MERGE_SHARE = 0.03


class Posting(NamedTuple):
    """The rows that hold a term, ascending, and how often each holds it."""

    rows: Rows
    counts: Counts


_NONE = Posting(np.empty(0, np.int32), np.empty(0, np.float32))


class Postings:
    """Terms to rows. Rows are numbered from 0 in the order they are added."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._starts = np.zeros(1, np.int64)
        self._rows = _NONE.rows
        self._counts = _NONE.counts
        self._added: dict[int, list[tuple[int, int]]] = {}
        self._added_rows = 0
        self._next_row = 0

    def extend(self, documents: Sequence[str]) -> NDArray[np.int32]:
        """Adds one row per document of space-separated terms; returns how many terms each has."""
        split = [document.split() for document in documents]
        if self._added_rows + len(split) > max(_MERGE_AFTER, _MERGE_SHARE * self._next_row):
            self._merge(split)
        else:
            for words in split:
                self._add(words)
        return np.fromiter(map(len, split), np.int32, len(split))

    def find(self, term: str) -> Posting:
        number = self._numbers.get(term)
        if number is None:
            return _NONE
        base = _NONE
        if number + 1 < len(self._starts):
            part = slice(self._starts[number], self._starts[number + 1])
            base = Posting(self._rows[part], self._counts[part])
        added = self._added.get(number)
        if not added:
            return base
        rows, counts = zip(*added, strict=True)
        return Posting(
            np.concatenate([base.rows, np.array(rows, np.int32)]),
            np.concatenate([base.counts, np.array(counts, np.float32)]),
        )

    def documents(self, kept: Rows) -> list[str]:
        """The terms of these rows, in no particular order, as `extend` takes them."""
        names = list(self._numbers)
        terms, rows, counts = self._flat()
        words: dict[int, list[str]] = {int(row): [] for row in kept}
        for number, row, count in zip(terms.tolist(), rows.tolist(), counts.tolist(), strict=True):
            if row in words:
                words[row] += [names[number]] * int(count)
        return [" ".join(words[int(row)]) for row in kept]

    @property
    def size_in_bytes(self) -> int:
        return self._rows.nbytes + self._counts.nbytes + self._starts.nbytes + 120 * len(self._numbers)

    def _add(self, words: list[str]) -> None:
        row = self._next_row
        self._next_row += 1
        self._added_rows += 1
        counts: dict[int, int] = {}
        for word in words:
            number = self._numbers.setdefault(word, len(self._numbers))
            counts[number] = counts.get(number, 0) + 1
        for number, count in counts.items():
            self._added.setdefault(number, []).append((row, count))

    def _merge(self, split: list[list[str]]) -> None:
        """Sorts everything into flat arrays again: what was there, what was added, and these documents."""
        terms, rows, counts = self._flat()
        numbers = self._numbers
        lengths = np.fromiter(map(len, split), np.int64, len(split))
        fresh = np.fromiter(
            (numbers.setdefault(word, len(numbers)) for words in split for word in words), np.int64, int(lengths.sum())
        )
        at = np.repeat(np.arange(self._next_row, self._next_row + len(split), dtype=np.int64), lengths)
        self._next_row += len(split)
        width = max(self._next_row, 1)
        keys, repeated = np.unique(fresh * width + at, return_counts=True)
        terms = np.concatenate([terms, keys // width])
        rows = np.concatenate([rows, (keys % width).astype(np.int32)])
        counts = np.concatenate([counts, repeated.astype(np.float32)])
        order = np.lexsort((rows, terms))
        self._rows, self._counts = rows[order], counts[order]
        self._starts = np.searchsorted(terms[order], np.arange(len(numbers) + 1))
        self._added, self._added_rows = {}, 0

    def _flat(self) -> tuple[NDArray[np.int64], Rows, Counts]:
        terms = np.repeat(np.arange(len(self._starts) - 1, dtype=np.int64), np.diff(self._starts))
        added = [(number, row, count) for number, pairs in self._added.items() for row, count in pairs]
        if not added:
            return terms, self._rows, self._counts
        columns = np.array(added, np.int64)
        return (
            np.concatenate([terms, columns[:, 0]]),
            np.concatenate([self._rows, columns[:, 1].astype(np.int32)]),
            np.concatenate([self._counts, columns[:, 2].astype(np.float32)]),
        )
