"""Packs rows with MessagePack, computes their digests with XXH3, and compresses bytes with Zstandard."""

import threading
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from operator import itemgetter
from typing import Any

import msgpack
import numpy as np
import zstandard
from xxhash import xxh3_64_intdigest

from everhold.errors import StoreDamaged
from everhold.ports.row_packing import Digests, PackedRows, RowShape
from everhold.schema.plain_values import PlainRow

_LEVEL = 3
_PIECE = 1024 * 1024
# A row with the largest JSON that the engine writes fits.
_MAX_ITEM_BYTES = 1024 * 1024 * 1024
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
_MAX_COLUMNS = 1000
_SHORT_ARRAY = 16  # MessagePack writes the length of a shorter array in one byte
_REMEDY = "use another backup"
_Pack = Callable[[Any], bytes]


class MessagePacking:
    """Rows as MessagePack arrays. Thread-safe."""

    def __init__(self) -> None:
        self._local = threading.local()  # a compressor must not be used by two threads at once

    def pack(self, rows: Sequence[PlainRow], shape: RowShape) -> PackedRows:
        pack = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass").pack
        items = [*map(pack, rows)]
        get_key = itemgetter(*shape.key)
        if shape.generated is not None:
            place = shape.generated
            keys = [*map(get_key, rows)]  # a generated number is a key by itself
            hashes = _digest_without(items, rows, place, pack)
        else:
            keys = [*map(xxh3_64_intdigest, map(pack, map(get_key, rows)))]
            hashes = [*map(xxh3_64_intdigest, items)]
        return PackedRows(items, np.array(keys, np.uint64), np.array(hashes, np.uint64))

    def digest_keys(self, keys: Sequence[PlainRow], shape: RowShape) -> Digests:
        if shape.generated is not None:
            return np.array([key[0] for key in keys], np.uint64)
        pack = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass").pack
        if len(shape.key) == 1:  # as `itemgetter` returns it
            keys = [key[0] for key in keys]
        return np.array([xxh3_64_intdigest(pack(key)) for key in keys], np.uint64)

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


def _digest_without(items: Sequence[bytes], rows: Sequence[PlainRow], place: int, pack: _Pack) -> list[int]:
    """Return the digests of packed rows without the generated number, which is at a place of each."""
    # The values before the number are few and repeat: organizations. So each combination is measured once.
    starts: dict[tuple[Any, ...], int] = {}
    digests: list[int] = []
    for item, row in zip(items, rows, strict=True):
        before = tuple(row[:place])
        start = starts.get(before)
        if start is None:
            head = 1 if len(row) < _SHORT_ARRAY else 3
            start = starts[before] = head + sum(len(pack(value)) for value in before)
        end = start + _measure_number(row[place])
        digests.append(xxh3_64_intdigest(item[:start] + item[end:]))
    return digests


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
            raise StoreDamaged("an object of the backup holds something that is no row", remedy=_REMEDY)
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
