"""The encoding of a text file, and the same text as UTF-8 without NUL bytes."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from everhold.adapters.data_files.refusal import Refusal

_BLOCK = 1024 * 1024
MAX_LINE = 8 * _BLOCK
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
         (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_NUL_SHARE = 0.3
_BINARY_SHARE = 0.02  # a file with a larger share of control characters is not text


@dataclass(frozen=True)
class TextFile:
    """A text file as UTF-8."""

    path: Path
    encoding: str
    notes: tuple[str, ...] = ()


def read_text_file(path: Path, target: Path, *, has_lines: bool = True) -> TextFile:
    """Return the file itself if it is UTF-8 without NUL bytes; otherwise write such a copy to `target` and return it.

    With `has_lines`, refuse a file with a line that is too long for a row of a table.
    """
    with path.open("rb") as file:
        head = file.read(_BLOCK)
    encoding = _detect_by_head(head)
    if encoding is None and head.count(0) > _NUL_SHARE * len(head):
        raise Refusal("the file is neither text nor a known kind of data file", "save its table as CSV or .xlsx")
    nul_count, is_utf8 = _scan(path, MAX_LINE if has_lines else None)
    if encoding is None:
        encoding = "utf-8" if is_utf8 else "cp1252"
    if encoding == "utf-8" and not nul_count:
        _refuse_binary(head)
        return TextFile(path, "UTF-8")
    has_replacements = _transcode(path, target, encoding)
    with target.open("rb") as file:
        _refuse_binary(file.read(_BLOCK))
    notes = []
    if nul_count and encoding in ("utf-8", "utf-8-sig", "cp1252"):
        notes.append(f"{nul_count:,} NUL bytes were removed")
    if has_replacements:
        notes.append("some bytes are not text of this encoding and became the sign �")
    return TextFile(target, {"utf-8-sig": "UTF-8"}.get(encoding, encoding.upper()), tuple(notes))


def _detect_by_head(head: bytes) -> str | None:
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return encoding
    # UTF-16 without a mark: every second byte of western text is NUL.
    sample = head[: 4096 - 4096 % 2]
    if len(sample) >= 16:
        even_nuls, odd_nuls = sample[::2].count(0), sample[1::2].count(0)
        half = len(sample) // 2
        if odd_nuls > 0.7 * half and even_nuls < 0.1 * half:
            return "utf-16-le"
        if even_nuls > 0.7 * half and odd_nuls < 0.1 * half:
            return "utf-16-be"
    return None


def _scan(path: Path, max_line: int | None) -> tuple[int, bool]:
    """Return how many NUL bytes a file has and whether it is UTF-8; raise Refusal for a line that is too long."""
    nul_count, is_utf8, line_length = 0, True, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            nul_count += block.count(b"\x00")
            last_break = block.rfind(b"\n")
            line_length = line_length + len(block) if last_break < 0 else len(block) - last_break
            if max_line is not None and line_length > max_line:
                raise Refusal(f"a line has more than {max_line // _BLOCK} MB", "check the line breaks of the file")
            if is_utf8 and not block.isascii():
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    is_utf8 = False
            elif is_utf8 and decoder.getstate()[0]:
                is_utf8 = False  # the previous block ended inside a character, which an ASCII block cannot complete
    return nul_count, is_utf8 and not decoder.getstate()[0]


def _transcode(path: Path, target: Path, encoding: str) -> bool:
    """Write a file as UTF-8; return whether bytes had to be replaced."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    has_replacements = False
    with path.open("rb") as source, target.open("xb") as file:
        while True:
            block = source.read(_BLOCK)
            text = decoder.decode(block, final=not block).replace("\x00", "")
            has_replacements = has_replacements or "�" in text
            file.write(text.encode("utf-8", "replace"))
            if not block:
                return has_replacements


def _refuse_binary(head: bytes) -> None:
    control_characters = sum(head.count(byte) for byte in [*range(1, 9), *range(14, 27), *range(28, 32)])
    if head and control_characters > _BINARY_SHARE * len(head):
        raise Refusal("the file is neither text nor a known kind of data file", "save its table as CSV or .xlsx")
