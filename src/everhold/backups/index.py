"""The index of a table at a backup: digests of all rows, by which the next backup finds the changes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everhold.errors import StoreDamaged
from everhold.ports.row_packing import Digests

Mask = NDArray[np.bool_]
_WIDTH = 8
_NONE = np.array([], np.uint64)


@dataclass(frozen=True)
class TableIndex:
    """The digests of the key and of the values of each row, in the order of the key digests.

    `numbers` are the store's internal row numbers, if the store tracks changes by them.
    """

    keys: Digests
    hashes: Digests
    numbers: Digests | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def hash(self) -> int:
        """The sum of all digests of rows modulo 2**64, which does not depend on their order."""
        return int(self.hashes.sum(dtype=np.uint64)) if len(self.hashes) else 0

    @property
    def has_unique_keys(self) -> bool:
        """Whether all rows have different key digests. Otherwise the index cannot distinguish some rows."""
        return bool((self.keys[1:] != self.keys[:-1]).all())

    def is_same_as(self, other: "TableIndex") -> bool:
        """Return whether both indexes have the same rows with the same numbers."""
        if self.numbers is None or other.numbers is None:
            return self.numbers is other.numbers and np.array_equal(self.keys, other.keys)
        return np.array_equal(self.numbers, other.numbers) and np.array_equal(self.keys, other.keys)

    def find_changed(self, keys: Digests, hashes: Digests) -> Mask:
        """Return a mask of these rows that selects new rows and rows whose values have changed."""
        if not len(self.keys):
            return np.ones(len(keys), bool)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        is_changed: Mask = (self.keys[places] != keys) | (self.hashes[places] != hashes)
        return is_changed

    def find_by_numbers(self, numbers: Digests) -> Mask:
        """Return a mask of the rows of the index that have one of these numbers."""
        return np.zeros(len(self.keys), bool) if self.numbers is None else np.isin(self.numbers, numbers)

    def without(self, mask: Mask) -> "TableIndex":
        """Return the index without the rows that the mask selects."""
        numbers = None if self.numbers is None else self.numbers[~mask]
        return TableIndex(self.keys[~mask], self.hashes[~mask], numbers)

    def encode(self) -> bytes:
        numbers = _NONE if self.numbers is None else self.numbers
        return b"".join(column.astype("<u8", copy=False).data for column in (self.keys, self.hashes, numbers))

    @classmethod
    def decode(cls, content: bytes, count: int, *, is_tracked: bool) -> "TableIndex":
        columns = 3 if is_tracked else 2
        if len(content) != columns * count * _WIDTH:
            raise StoreDamaged("the index of a table has a wrong length", remedy="delete the latest backup")
        values = np.frombuffer(content, "<u8").astype(np.uint64).reshape(columns, count)
        return cls(values[0], values[1], values[2] if is_tracked else None)


class IndexBuilder:
    """Collects digests of rows, and makes an index of them together with rows of an earlier index."""

    def __init__(self, *, is_tracked: bool) -> None:
        self._is_tracked = is_tracked
        self._parts: list[TableIndex] = []

    def add(self, part: TableIndex) -> None:
        if part.numbers is None:
            self._is_tracked = False
        self._parts.append(part)

    def build(self) -> TableIndex:
        keys = np.concatenate([_NONE, *(part.keys for part in self._parts)])
        order = np.argsort(keys)
        hashes = np.concatenate([_NONE, *(part.hashes for part in self._parts)])[order]
        if not self._is_tracked:
            return TableIndex(keys[order], hashes)
        numbers = np.concatenate([_NONE, *(part.numbers for part in self._parts if part.numbers is not None)])
        return TableIndex(keys[order], hashes, numbers[order])
