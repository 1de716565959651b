"""Packs rows with MessagePack, computes their digests with XXH3, and compresses bytes with Zstandard."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from operator import itemgetter
from typing import Any

import msgpack
import numpy as np
import zstandard
from xxhash import xxh3_64_intdigest

from everhold.errors import StoreDamaged
from everhold.ports.row_packing import Digests, PackedRows, RowPacker, RowShape
from everhold.schema.plain_values import PlainRow

_LEVEL = 3
_PIECE = 1024 * 1024
# A row with the largest JSON that the engine writes fits.
_MAX_ITEM_BYTES = 1024 * 1024 * 1024
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
_MAX_COLUMNS = 1000
_LONG_ARRAY = 0xDC  # the first byte of an array of 16 or more values; two bytes with its length follow
_REMEDY = "use another backup"
_Pack = Callable[[Any], bytes]


class MessagePacking:
    """Rows as MessagePack arrays. Thread-safe."""

    def __init__(self) -> None:
        self._local = threading.local()  # a compressor must not be used by two threads at once

    def make_packer(self, shape: RowShape) -> RowPacker:
        return _KeyedPacker(shape) if shape.generated is None else _NumberedPacker(shape.generated)

    def digest_keys(self, keys: Sequence[PlainRow], shape: RowShape) -> Digests:
        if shape.generated is not None:
            return np.array([key[0] for key in keys], np.uint64)
        pack = _make_pack()
        if len(shape.key) == 1:  # as `itemgetter` returns it
            keys = [key[0] for key in keys]
        return _digest(map(pack, keys))

    def compress(self, content: bytes) -> bytes:
        compressor = getattr(self._local, "compressor", None)
        if compressor is None:
            compressor = self._local.compressor = zstandard.ZstdCompressor(_LEVEL)
        compressed: bytes = compressor.compress(content)
        return compressed

    def decompress(self, content: bytes, size: int) -> bytes:
        return b"".join(_read_pieces(content, size))

    def unpack(self, content: bytes, size: int) -> Iterator[list[Any]]:
        unpacker = msgpack.Unpacker(
            raw=False,
            unicode_errors="surrogatepass",
            max_buffer_size=_MAX_ITEM_BYTES,
            max_array_len=_MAX_COLUMNS,
            max_map_len=0,
            max_ext_len=0,
        )
        for piece in _read_pieces(content, size):
            unpacker.feed(piece)
            yield from _unpack_rows(unpacker)
        if unpacker.tell() != size:
            raise StoreDamaged("the last row of an object is cut short", remedy=_REMEDY)


class _KeyedPacker:
    """Packs rows that have a key of their own."""

    def __init__(self, shape: RowShape) -> None:
        self._items: list[bytes] = []
        self._keys: list[bytes] = []
        pack, get_key = _make_pack(), itemgetter(*shape.key)
        add_item, add_key = self._items.append, self._keys.append

        def add(row: PlainRow) -> None:
            add_item(pack(row))
            add_key(pack(get_key(row)))

        self.add = add

    def take(self) -> PackedRows:
        items = self._items.copy()
        packed = PackedRows(items, _digest(self._keys), _digest(items))
        self._items.clear()
        self._keys.clear()
        return packed


class _NumberedPacker:
    """Packs rows whose key is a number that the store generates."""

    def __init__(self, place: int) -> None:
        self._items: list[bytes] = []
        self._numbers: list[int] = []
        self._befores: list[tuple[Any, ...]] = []
        self._pack = pack = _make_pack()
        add_item, add_number, add_before = self._items.append, self._numbers.append, self._befores.append

        def add(row: PlainRow) -> None:
            add_item(pack(row))
            add_number(row[place])
            add_before(tuple(row[:place]))

        self.add = add

    def take(self) -> PackedRows:
        items = self._items.copy()
        head = 1 if items and items[0][0] < _LONG_ARRAY else 3
        # The values before the number are few and repeat: organizations. So each combination is measured once.
        starts = {before: head + sum(len(self._pack(value)) for value in before) for before in set(self._befores)}
        rows = zip(items, map(starts.__getitem__, self._befores), map(_measure_number, self._numbers), strict=True)
        hashes = _digest([item[:start] + item[start + length :] for item, start, length in rows])
        packed = PackedRows(items, np.array(self._numbers, np.uint64), hashes)
        for column in (self._items, self._numbers, self._befores):
            column.clear()
        return packed


def _make_pack() -> _Pack:
    # Stores hold no text that is invalid in UTF-8. With an error handler, MessagePack would copy each text.
    pack: _Pack = msgpack.Packer(use_bin_type=True).pack
    return pack


def _digest(contents: Iterable[bytes]) -> Digests:
    return np.array([*map(xxh3_64_intdigest, contents)], np.uint64)


def _measure_number(number: int) -> int:
    """Return how many bytes a number that a store generates has in MessagePack."""
    if number < 1 << 16:
        return 1 if number < 1 << 7 else 2 if number < 1 << 8 else 3
    return 5 if number < 1 << 32 else 9


def _unpack_rows(unpacker: "msgpack.Unpacker") -> Iterator[list[Any]]:
    while True:
        try:
            row = next(unpacker)
        except StopIteration:
            return
        except (ValueError, msgpack.UnpackException) as error:
            raise StoreDamaged(f"an object of the backup holds no rows ({error})", remedy=_REMEDY) from None
        if not isinstance(row, list):
            raise StoreDamaged("an object of the backup holds something that is not a row", remedy=_REMEDY)
        yield row


def _read_pieces(content: bytes, size: int) -> Iterator[bytes]:
    """Yield the decompressed content in pieces; raise StoreDamaged if it does not have exactly `size` bytes."""
    left = size
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(BytesIO(content)) as reader:
            while piece := reader.read(_PIECE):
                left -= len(piece)
                if left < 0:
                    break
                yield piece
    except zstandard.ZstdError as error:
        raise StoreDamaged(f"an object of the backup cannot be decompressed ({error})", remedy=_REMEDY) from None
    if left:
        raise StoreDamaged(f"an object of the backup has not the {size} bytes that it should have", remedy=_REMEDY)
