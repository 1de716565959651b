"""Pack rows with MessagePack, compute their digests with XXH3, and compress bytes with Zstandard."""

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

# Level 3, the default of Zstandard, takes twice as long, and makes rows with vectors 2 % smaller, texts 5 to 10 %.
_LEVEL = 1
_PIECE_BYTES = 1024 * 1024
# A row with the largest JSON that the engine writes fits.
_MAX_ITEM_BYTES = 1024 * 1024 * 1024
_MAX_AT_ONCE = 64 * 1024 * 1024  # bytes; larger contents are decompressed in pieces
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
_MAX_COLUMNS = 1000
_LONG_ARRAY = 0xDC  # the first byte of an array of 16 or more values; two bytes with its length follow
# A number below the first limit takes the first size in bytes, and so on.
_NUMBER_LIMITS = np.array([1 << 7, 1 << 8, 1 << 16, 1 << 32], np.uint64)
_NUMBER_SIZES = np.array([1, 2, 3, 5, 9])
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
        return _compute_digests(map(pack, keys))

    def compress(self, content: bytes) -> bytes:
        compressor = getattr(self._local, "compressor", None)
        if compressor is None:
            compressor = self._local.compressor = zstandard.ZstdCompressor(_LEVEL)
        compressed: bytes = compressor.compress(content)
        return compressed

    def decompress(self, content: bytes, size: int) -> bytes:
        if size > _MAX_AT_ONCE:
            return b"".join(_read_pieces(content, size))
        try:
            # The size that the content itself claims must be right, because this much memory is taken at once.
            if zstandard.frame_content_size(content) == size:
                decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
                decompressed: bytes = decompressor.decompress(content, allow_extra_data=False)
                return decompressed
        except zstandard.ZstdError as error:
            raise _make_compression_error(error) from None
        raise _make_size_error(size)

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
        self._rows: list[PlainRow] = []
        # Rows are packed in loops that do not run Python code for each row.
        self.add = self._rows.append
        self._pack, self._get_key = _make_pack(), itemgetter(*shape.key)

    def take(self) -> PackedRows:
        items = [*map(self._pack, self._rows)]
        keys = map(self._pack, map(self._get_key, self._rows))
        packed = PackedRows(items, _compute_digests(keys), _compute_digests(items))
        self._rows.clear()
        return packed


class _NumberedPacker:
    """Packs rows whose key is a number that the store generates."""

    def __init__(self, position: int) -> None:
        """`position` is that of the number in a row."""
        self._rows: list[PlainRow] = []
        self.add = self._rows.append
        self._pack, self._get_number = _make_pack(), itemgetter(position)
        self._get_values_before = itemgetter(slice(position))

    def take(self) -> PackedRows:
        items = [*map(self._pack, self._rows)]
        numbers = np.array([*map(self._get_number, self._rows)], np.uint64)
        values_before = [tuple(values) for values in map(self._get_values_before, self._rows)]
        header_size = 1 if items and items[0][0] < _LONG_ARRAY else 3
        # The values before the number are few and repeat: organizations. So each combination is measured once.
        number_starts = {
            values: header_size + sum(len(self._pack(value)) for value in values) for values in set(values_before)
        }
        starts = [number_starts[values] for values in values_before]
        # The digest of a row does not include its number, which another store generates itself.
        items_without_numbers = [
            item[:start] + item[start + size :]
            for item, start, size in zip(items, starts, _measure_numbers(numbers), strict=True)
        ]
        packed = PackedRows(items, numbers, _compute_digests(items_without_numbers))
        self._rows.clear()
        return packed


def _make_pack() -> _Pack:
    # Stores hold no text that is invalid in UTF-8. With an error handler, MessagePack would copy each text.
    pack: _Pack = msgpack.Packer(use_bin_type=True).pack
    return pack


def _compute_digests(contents: Iterable[bytes]) -> Digests:
    return np.array([*map(xxh3_64_intdigest, contents)], np.uint64)


def _measure_numbers(numbers: Digests) -> list[int]:
    """Return how many bytes each number that a store generates has in MessagePack."""
    sizes: list[int] = _NUMBER_SIZES[np.searchsorted(_NUMBER_LIMITS, numbers, "right")].tolist()
    return sizes


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
    bytes_left = size
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(BytesIO(content)) as reader:
            while piece := reader.read(_PIECE_BYTES):
                bytes_left -= len(piece)
                if bytes_left < 0:
                    break
                yield piece
    except zstandard.ZstdError as error:
        raise _make_compression_error(error) from None
    if bytes_left:
        raise _make_size_error(size)


def _make_compression_error(error: zstandard.ZstdError) -> StoreDamaged:
    return StoreDamaged(f"an object of the backup cannot be decompressed ({error})", remedy=_REMEDY)


def _make_size_error(size: int) -> StoreDamaged:
    return StoreDamaged(f"an object of the backup has not the {size} bytes that it should have", remedy=_REMEDY)
