"""Read UTF-16, which Windows writes, as UTF-8."""

import codecs
import io
from typing import BinaryIO

_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def has_utf16_mark(head: bytes) -> bool:
    """Return whether a file begins with the byte order mark of UTF-16. That of UTF-32 begins like it."""
    return head.startswith(_MARKS) and not head.startswith(codecs.BOM_UTF32_LE)


class Utf16Reader(io.RawIOBase):
    """The bytes of a UTF-16 file as UTF-8. A wrong byte raises UnicodeDecodeError."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-16")()
        self._pending = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._pending:
            block = self._file.read(len(buffer))
            self._pending = self._decoder.decode(block, final=not block).encode()
            if not block:
                break
        count = min(len(buffer), len(self._pending))
        buffer[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count
