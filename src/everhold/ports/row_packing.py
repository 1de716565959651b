"""The encoding of rows as bytes in a backup, and the compression of these bytes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from everhold.schema.plain_values import PlainRow
from everhold.schema.table import Table

Digests = NDArray[np.uint64]


@dataclass(frozen=True)
class RowShape:
    """The key columns of a table's plain rows, and the column that the store generates, if any."""

    key: tuple[int, ...]
    generated: int | None

    @classmethod
    def of(cls, table: Table) -> "RowShape":
        """Return the shape of a table's rows."""
        return cls.of_columns(table, table.names)

    @classmethod
    def of_columns(cls, table: Table, names: Sequence[str]) -> "RowShape":
        """Return the shape of a table's rows that have these columns, among them the key."""
        positions = {name: position for position, name in enumerate(names)}
        generated = positions[table.generated] if table.generated else None
        return cls(tuple(positions[name] for name in table.key), generated)


@dataclass(frozen=True)
class PackedRows:
    """Rows as bytes, one item each, and for each row the digest of its key and of its values.

    The digest of the values leaves out the number that a store generates, so that it is the same in every store.
    """

    items: Sequence[bytes]
    keys: Digests
    hashes: Digests


class RowPacker(Protocol):
    """Packs the rows of one table, each as it is read."""

    @property
    def add(self) -> Callable[[PlainRow], None]:
        """A function that packs a row."""

    def take(self) -> PackedRows:
        """Return the rows that were added since the last call."""
        ...


class RowPacking(Protocol):
    """Packs rows into bytes and compresses bytes. The same rows always give the same bytes."""

    def make_packer(self, shape: RowShape) -> RowPacker:
        """Return an object that packs rows of this shape."""
        ...

    def digest_keys(self, keys: Sequence[PlainRow], shape: RowShape) -> Digests:
        """Return the digests of keys, the same as a packer computes for the rows that have them."""
        ...

    def compress(self, content: bytes) -> bytes: ...

    def decompress(self, content: bytes, size: int) -> bytes:
        """Decompress content. Raise StoreDamaged if it is not the compressed form of exactly `size` bytes."""
        ...

    def unpack(self, content: bytes, size: int) -> Iterator[list[Any]]:
        """Yield the rows of compressed items of `size` bytes. Raise StoreDamaged if they are not rows.

        Little memory is used for content that would expand to more than `size` bytes.
        """
        ...
