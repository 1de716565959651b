"""The index of a table at a backup: digests of all rows, by which the next backup finds the changes.

An index is stored as a base, which several backups share, and the changes since then. So a backup after few changes
writes little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everhold.errors import StoreDamaged
from everhold.ports.row_packing import Digests

Mask = NDArray[np.bool_]
_DIGEST_BYTES = 8
_NO_DIGESTS = np.array([], np.uint64)
_REMEDY = "delete the latest backup"
# A larger share of changed rows is stored as a new base, because each backup writes all changes since the base again.
_MAX_CHANGED = 0.125


@dataclass(frozen=True)
class DigestedRows:
    """The digests of the key and of the values of rows, in the order of the key digests.

    `numbers` are the store's internal row numbers, if the store tracks changes by them.
    """

    keys: Digests
    hashes: Digests
    numbers: Digests | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def hash(self) -> int:
        """The sum of all digests of values modulo 2**64, which does not depend on the order."""
        return int(self.hashes.sum(dtype=np.uint64)) if len(self.hashes) else 0

    def has_unique_keys(self) -> bool:
        """Return whether all rows have different key digests."""
        return bool((self.keys[1:] != self.keys[:-1]).all())

    def equals(self, other: "DigestedRows") -> bool:
        """Return whether both have the same rows with the same numbers."""
        if not len(self) and not len(other):
            return True
        if self.numbers is None or other.numbers is None:
            is_same = self.numbers is other.numbers
        else:
            is_same = np.array_equal(self.numbers, other.numbers)
        return is_same and np.array_equal(self.keys, other.keys) and np.array_equal(self.hashes, other.hashes)

    def find(self, keys: Digests) -> tuple[NDArray[np.intp], Mask]:
        """Return for each key the position of its row, and a mask of the keys that have a row."""
        if not len(self.keys):
            return np.zeros(len(keys), np.intp), np.zeros(len(keys), bool)
        positions = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return positions, self.keys[positions] == keys

    def mark(self, keys: Digests) -> Mask:
        """Return a mask of the rows that have one of these keys."""
        positions, has_row = self.find(keys)
        mask = np.zeros(len(self.keys), bool)
        mask[positions[has_row]] = True
        return mask

    def select(self, mask: Mask) -> "DigestedRows":
        return DigestedRows(self.keys[mask], self.hashes[mask], None if self.numbers is None else self.numbers[mask])

    def encode(self) -> bytes:
        numbers = _NO_DIGESTS if self.numbers is None else self.numbers
        return b"".join(column.astype("<u8", copy=False).data for column in (self.keys, self.hashes, numbers))

    @classmethod
    def decode(cls, content: bytes, count: int, *, is_tracked: bool) -> "DigestedRows":
        columns = 3 if is_tracked else 2
        if len(content) != columns * count * _DIGEST_BYTES:
            raise StoreDamaged("the index of a table has a wrong length", remedy=_REMEDY)
        values = np.frombuffer(content, "<u8").astype(np.uint64, copy=False).reshape(columns, count)
        return cls(values[0], values[1], values[2] if is_tracked else None)


_NO_ROWS = DigestedRows(_NO_DIGESTS, _NO_DIGESTS)
_NO_TRACKED_ROWS = DigestedRows(_NO_DIGESTS, _NO_DIGESTS, _NO_DIGESTS)


def combine(parts: Sequence[DigestedRows]) -> DigestedRows:
    """Return the rows of all parts, which need not be in order. They have numbers only if all parts have them."""
    keys = np.concatenate([_NO_DIGESTS, *(part.keys for part in parts)])
    order = np.argsort(keys)
    hashes = np.concatenate([_NO_DIGESTS, *(part.hashes for part in parts)])[order]
    numbers = [part.numbers for part in parts if part.numbers is not None]
    if len(numbers) < len(parts):
        return DigestedRows(keys[order], hashes)
    return DigestedRows(keys[order], hashes, np.concatenate([_NO_DIGESTS, *numbers])[order])


@dataclass(frozen=True)
class TableIndex:
    """The digests of all rows of a table: those of `base` without the keys in `removed`, and those of `added`.

    `removed` are keys of `base`, in order.
    """

    base: DigestedRows
    removed: Digests
    added: DigestedRows

    @classmethod
    def of(cls, rows: DigestedRows) -> "TableIndex":
        """Return the index of rows, all of them in its base."""
        return cls(rows, _NO_DIGESTS, _NO_ROWS if rows.numbers is None else _NO_TRACKED_ROWS)

    def __len__(self) -> int:
        return len(self.base) - len(self.removed) + len(self.added)

    @property
    def hash(self) -> int:
        """The sum of the digests of all rows modulo 2**64, which does not depend on their order."""
        positions, _ = self.base.find(self.removed)
        removed = int(self.base.hashes[positions].sum(dtype=np.uint64)) if len(positions) else 0
        return (self.base.hash - removed + self.added.hash) % 2**64

    @property
    def is_tracked(self) -> bool:
        return self.base.numbers is not None

    @property
    def has_many_changes(self) -> bool:
        """Whether the changes since the base are so many that they should become a base of their own."""
        return len(self.removed) + len(self.added) > _MAX_CHANGED * len(self.base)

    def has_unique_keys(self) -> bool:
        """Return whether all rows have different key digests. If not, the index cannot distinguish some rows."""
        _, is_in_base = self.base.find(self.added.keys)
        is_replacing = np.isin(self.added.keys[is_in_base], self.removed).all()
        return bool(is_replacing) and self.added.has_unique_keys() and self.base.has_unique_keys()

    def find_changed(self, keys: Digests, hashes: Digests) -> Mask:
        """Return a mask of the rows with these keys and hashes: those that are new or whose values have changed."""
        is_same = np.zeros(len(keys), bool)
        for rows in (self.base, self.added):
            positions, has_row = rows.find(keys)
            is_same[has_row] |= rows.hashes[positions[has_row]] == hashes[has_row]
            if rows is self.base and len(self.removed):
                is_same &= ~np.isin(keys, self.removed)
        return ~is_same

    def find_by_numbers(self, numbers: Digests) -> DigestedRows:
        """Return the rows that have one of these numbers."""
        assert self.base.numbers is not None
        assert self.added.numbers is not None
        in_base = self.base.select(np.isin(self.base.numbers, numbers))
        current = in_base.select(~np.isin(in_base.keys, self.removed))
        return combine([current, self.added.select(np.isin(self.added.numbers, numbers))])

    def find_by_keys(self, keys: Digests) -> DigestedRows:
        """Return the rows that have one of these keys."""
        in_base = self.base.select(self.base.mark(keys))
        current = in_base.select(~np.isin(in_base.keys, self.removed))
        return combine([current, self.added.select(np.isin(self.added.keys, keys))])

    def replace(self, before: DigestedRows, after: DigestedRows) -> "TableIndex":
        """Return the index with the rows `after` in place of its rows `before`."""
        if before.equals(after):
            return self
        _, is_in_base = self.base.find(before.keys)
        removed = np.union1d(self.removed, before.keys[is_in_base])
        added = combine([self.added.select(~np.isin(self.added.keys, before.keys)), after])
        if (added.numbers is None) == self.is_tracked:
            return TableIndex.of(combine([self.base.select(~self.base.mark(removed)), added]))
        return TableIndex(self.base, removed, added)

    def list_keys(self) -> Digests:
        """Return the key digests of all rows, in no particular order."""
        return np.concatenate([self.base.keys[~self.base.mark(self.removed)], self.added.keys])

    def merge(self) -> DigestedRows:
        """Return all rows."""
        if not len(self.removed) and not len(self.added):
            return self.base
        return combine([self.base.select(~self.base.mark(self.removed)), self.added])

    def encode_changes(self) -> bytes:
        """Return the changes since the base in the form that `decode` reads."""
        return (
            len(self.added).to_bytes(_DIGEST_BYTES, "little")
            + self.added.encode()
            + self.removed.astype("<u8").tobytes()
        )

    @classmethod
    def decode(cls, base: DigestedRows, changes: bytes) -> "TableIndex":
        """Return the index that has this base and these encoded changes."""
        is_tracked, count = base.numbers is not None, int.from_bytes(changes[:_DIGEST_BYTES], "little")
        end = _DIGEST_BYTES + count * _DIGEST_BYTES * (3 if is_tracked else 2)
        if end > len(changes) or (len(changes) - end) % _DIGEST_BYTES:
            raise StoreDamaged("the changes of an index have a wrong length", remedy=_REMEDY)
        added = DigestedRows.decode(changes[_DIGEST_BYTES:end], count, is_tracked=is_tracked)
        removed = np.frombuffer(changes[end:], "<u8").astype(np.uint64, copy=False)
        if not base.find(removed)[1].all():
            raise StoreDamaged("the changes of an index do not fit its base", remedy=_REMEDY)
        return cls(base, removed, added)
