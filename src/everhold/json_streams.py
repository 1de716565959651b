"""Read JSON that is too large to load, one value at a time, within limits of size and depth."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TextIO

from everhold.errors import InvalidInput

# The most characters of one value that is read at once, and the most values in it. A short value such as {} takes
# about 100 bytes of memory, so that both limits together keep one value below 200 MB.
MAX_CHARACTERS = 16_000_000
MAX_VALUES = 1_000_000

_BLOCK = 65_536
_BLANK = " \t\r\n"
_DECODER = json.JSONDecoder()


class JsonStream:
    """A JSON file as nested iterators. Only the requested value is in memory.

    The iterators of an outer value must be used up, or left, in the order of the file.
    """

    def __init__(self, file: Path | BinaryIO, name: str = "") -> None:
        self._name = name or (file.name if isinstance(file, Path) else "the file")
        self._file: TextIO = open_text(file)
        self._buffer = ""
        self._position = 0
        self._is_complete = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def peek(self) -> str:
        """Return the next character that is not blank, or an empty text at the end."""
        while True:
            while self._position < len(self._buffer) and self._buffer[self._position] in _BLANK:
                self._position += 1
            if self._position < len(self._buffer):
                return self._buffer[self._position]
            if not self._read_more():
                return ""

    def iterate_items(self) -> Iterator[int]:
        """Yield the index of each item of a list. The caller reads or skips each item before the next."""
        self._expect("[")
        index = 0
        while self.peek() != "]":
            if index:
                self._expect(",")
            yield index
            index += 1
        self._expect("]")

    def iterate_members(self) -> Iterator[str]:
        """Yield the name of each member of an object. The caller reads or skips each value before the next."""
        self._expect("{")
        is_first = True
        while self.peek() != "}":
            if not is_first:
                self._expect(",")
            is_first = False
            if self.peek() != '"':
                raise self._make_error("a name in quotation marks is missing")
            name = self.read_value()
            self._expect(":")
            yield str(name)
        self._expect("}")

    def read_value(self) -> Any:
        """Return the next value, of any type."""
        if not self.peek():
            raise self._make_error("it ends in the middle of a value")
        size = _BLOCK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._position)
            except RecursionError:
                raise self._make_error("a value is nested too deeply") from None
            except ValueError as error:
                # The value may be cut off by the end of the buffer. Reading twice as much each time keeps this linear.
                if not self._is_complete and self._fill(size):
                    size *= 2
                    continue
                raise self._make_error(getattr(error, "msg", str(error)).lower()) from None
            # A number may continue after the end of the buffer.
            if end < len(self._buffer) or not self._fill(size):
                self._position = end
                return value

    def skip_value(self) -> None:
        """Pass over the next value without holding it in memory."""
        depth = 0
        while True:
            character = self.peek()
            if character in "[{" and character:
                depth += 1
                self._position += 1
            elif character in "]}" and character:
                depth -= 1
                self._position += 1
            elif character in ",:" and character and depth:
                self._position += 1
            else:
                self.read_value()
            if depth <= 0:
                return

    def require_end(self) -> None:
        """Raise InvalidInput if anything follows the value that was read."""
        if self.peek():
            raise self._make_error("something follows the first value")

    def _expect(self, character: str) -> None:
        if self.peek() != character:
            raise self._make_error(f"{character!r} is missing")
        self._position += 1

    def _read_more(self) -> bool:
        """Drop what was read, and read another block; return whether there was one."""
        return self._fill(_BLOCK)

    def _fill(self, count: int) -> bool:
        if self._is_complete:
            return False
        pending = self._buffer[self._position :]
        if len(pending) > MAX_CHARACTERS:
            raise self._make_error(f"a value has more than {MAX_CHARACTERS:,} characters")
        try:
            block = self._file.read(count)
        except UnicodeDecodeError as error:
            raise self._make_error(f"it is not UTF-8: {error.reason}") from None
        self._is_complete = not block
        self._buffer, self._position = pending + block, 0
        if len(self._buffer) > 4 * _BLOCK and _count_values(self._buffer) > MAX_VALUES:
            raise self._make_error(f"a value holds more than {MAX_VALUES:,} others")
        return bool(block)

    def _make_error(self, reason: str) -> InvalidInput:
        return InvalidInput(
            f"{self._name} is not JSON that can be read: {reason}", remedy="correct or convert the file"
        )


def open_text(file: Path | BinaryIO) -> TextIO:
    """Open UTF-8 text, with or without a byte order mark; a wrong byte raises UnicodeDecodeError when it is read."""
    raw = file.open("rb") if isinstance(file, Path) else file
    return io.TextIOWrapper(raw, encoding="utf-8-sig", errors="strict", newline="")


def read_lines(file: Path | BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Yield each non-blank line of a text with its number. Raise InvalidInput for a line that is too long."""
    with open_text(file) as lines:
        number = 0
        while True:
            try:
                line = lines.readline(MAX_CHARACTERS + 1)
            except UnicodeDecodeError as error:
                raise InvalidInput(
                    f"{name} is not UTF-8 after line {number}: {error.reason}", remedy="convert the file to UTF-8"
                ) from None
            if not line:
                return
            number += 1
            if len(line) > MAX_CHARACTERS:
                raise InvalidInput(
                    f"line {number} of {name} has more than {MAX_CHARACTERS:,} characters", remedy="split the file"
                )
            if line.strip():
                yield number, line


def parse_line(line: str) -> Any:
    """Return the JSON value of a line. Raise ValueError with the reason if it is not JSON, too deep or too large."""
    if len(line) > 4 * _BLOCK and _count_values(line) > MAX_VALUES:
        raise ValueError(f"the line holds more than {MAX_VALUES:,} values")
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON: {error.msg.lower()}") from None


def _count_values(text: str) -> int:
    """Return an upper bound of the number of members of all lists and objects in a JSON text."""
    return text.count(",") + text.count("[") + text.count("{")
