"""An inverted index that can grow: it says which rows have a term, and how often.

Most rows are in flat arrays sorted by term. Newer rows are in small lists until there are enough of them to merge.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Counts = NDArray[np.float32]

_MERGE_AFTER = 128
_MERGE_SHARE = 0.03


class Posting(NamedTuple):
    """The rows that have a term, in ascending order, and how often each row has it."""

    rows: Rows
    counts: Counts


_NO_NUMBERS = np.empty(0, np.int32)
_NONE = Posting(np.empty(0, np.int32), np.empty(0, np.float32))


class Postings:
    """Maps terms to rows. Rows are numbered from 0 in the order in which they are added."""

    def __init__(self) -> None:
        # A new term gets the next number.
        self._numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        self._starts = np.zeros(1, np.int64)
        self._rows = _NONE.rows
        self._counts = _NONE.counts
        self._added: dict[int, list[tuple[int, int]]] = {}
        self._added_rows = 0
        self._next_row = 0

    def extend(self, documents: Sequence[str]) -> NDArray[np.int32]:
        """Add one row per document of space-separated terms, and return how many terms each has."""
        if self._added_rows + len(documents) > max(_MERGE_AFTER, _MERGE_SHARE * self._next_row):
            return self.load([documents])
        split = [document.split() for document in documents]
        for words in split:
            self._add(words)
        return np.fromiter(map(len, split), np.int32, len(split))

    def load(self, blocks: Iterable[Sequence[str]]) -> NDArray[np.int32]:
        """Add many documents, and return how many terms each has.

        To save memory, only the numbers of their terms are kept until all blocks are read.
        """
        terms, lengths = [_NO_NUMBERS], [_NO_NUMBERS]
        for documents in blocks:
            split = [document.split() for document in documents]
            lengths.append(np.fromiter(map(len, split), np.int32, len(split)))
            terms.append(self._number_terms(split))
        counted = np.concatenate(lengths)
        self._merge(np.concatenate(terms), counted)
        return counted

    def _number_terms(self, split: list[list[str]]) -> NDArray[np.int32]:
        words = itertools.chain.from_iterable(split)
        return np.fromiter(map(self._numbers.__getitem__, words), np.int32)

    @property
    def terms(self) -> Collection[str]:
        """All terms that were ever added. Some may be in no live row anymore."""
        return self._numbers.keys()

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
        """Return the terms of these rows, in no particular order, as `extend` takes them."""
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
            number = self._numbers[word]
            counts[number] = counts.get(number, 0) + 1
        for number, count in counts.items():
            self._added.setdefault(number, []).append((row, count))

    def _merge(self, fresh: NDArray[np.int32], lengths: NDArray[np.int32]) -> None:
        """Sort the old rows, the added rows and new documents into flat arrays.

        `fresh` has the term numbers of all new documents, one document after another, and `lengths` how many belong to
        each.
        """
        terms, rows, counts = self._flat()
        first, self._next_row = self._next_row, self._next_row + len(lengths)
        width = max(self._next_row, 1)
        keys = fresh.astype(np.int64) * width
        keys += np.repeat(np.arange(first, self._next_row), lengths)
        keys, repeated = np.unique(keys, return_counts=True)
        if len(terms):
            keys = np.concatenate([terms * width + rows, keys])
            repeated = np.concatenate([counts, repeated])
            order = np.argsort(keys)
            keys, repeated = keys[order], repeated[order]
        self._rows = (keys % width).astype(np.int32)
        self._counts = repeated.astype(np.float32)
        self._starts = np.searchsorted(keys, np.arange(len(self._numbers) + 1) * width)
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
