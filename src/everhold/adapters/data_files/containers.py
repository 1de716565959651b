"""Detect the kind of a file by its first bytes, and unpack the files inside zip and gzip files."""

import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from everhold.adapters.data_files.refusal import Refusal

_BLOCK = 1024 * 1024
_MAX_ENTRIES = 10_000
# Tables of repeated values are compressed about 50 times, zip bombs 1,000 times and more.
_MAX_RATIO = 250
_FREE_BYTES = 16 * _BLOCK  # up to this size, a file is unpacked at any ratio of compression
_MAX_LAYERS = 3
_OTHER_FILES = {
    b"%PDF": "a PDF", b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"GIF8": "a picture",
    b"\x7fELF": "a program", b"MZ": "a program", b"\xd0\xcf\x11\xe0": "an old Excel or Word file (.xls, .doc)",
    b"7z\xbc\xaf": "a 7-Zip archive", b"Rar!": "a RAR archive", b"BZh": "a bzip2 file", b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file", b"ORC": "an ORC file", b"Obj\x01": "an Avro file",
}  # fmt: skip
_IGNORED = re.compile(r"(^|/)(__MACOSX/|\.[^./][^/]*$|Thumbs\.db$)")


def detect_kind(path: Path) -> str:
    """Return "gzip", "zip", "xlsx", "parquet", "sqlite", "json" or "text"; raise Refusal for another kind of file."""
    with path.open("rb") as file:
        head = file.read(4096)
        if not head:
            raise Refusal("the file is empty", "choose a file with a table")
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "xlsx" if _is_workbook(path) else "zip"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"SQLite format 3\x00"):
        return "sqlite"
    for signature, description in _OTHER_FILES.items():
        # A text may begin with the same letters as a program, but does not contain NUL bytes.
        if head.startswith(signature) and (signature[0] > 127 or b"\x00" in head or signature == b"%PDF"):
            raise Refusal(f"the file is {description}", "save its table as CSV or .xlsx")
    return "json" if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") else "text"


def _is_workbook(path: Path) -> bool:
    with open_zip(path) as archive:
        return "xl/workbook.xml" in archive.namelist()


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip file; raise Refusal if it is damaged or has too many entries."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError) as error:
        raise Refusal(f"the zip file is damaged ({error})", "save it again") from None
    if len(archive.infolist()) > _MAX_ENTRIES:
        raise Refusal(f"the zip file has {len(archive.infolist()):,} entries", f"use at most {_MAX_ENTRIES:,}")
    return archive


def count_entries(path: Path) -> int:
    """Return how many files a zip file contains; 1 if the file is not a zip file."""
    if not zipfile.is_zipfile(path) or detect_kind(path) != "zip":
        return 1
    with open_zip(path) as archive:
        return len(archive.infolist())


class UnpackingBudget:
    """The number of bytes that may still be unpacked from one upload."""

    def __init__(self, packed_bytes: int, max_bytes: int) -> None:
        self._left = min(max_bytes, max(_FREE_BYTES, packed_bytes * _MAX_RATIO))

    def spend(self, count: int) -> None:
        """Subtract a number of bytes; raise Refusal if fewer are left."""
        self._left -= count
        if self._left < 0:
            raise Refusal("the file becomes far larger when it is unpacked", "unpack it and upload its tables")


def copy_stream(stream: IO[bytes] | gzip.GzipFile, target: Path, budget: UnpackingBudget) -> None:
    """Write a stream to a file, and refuse it when it exceeds the budget; the size that it declares is not trusted."""
    with target.open("xb") as file:
        try:
            while block := stream.read(_BLOCK):
                budget.spend(len(block))
                file.write(block)
        except (EOFError, OSError, zlib.error, zipfile.BadZipFile, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "password" not in str(error) and "encrypted" not in str(error):
                raise Refusal(f"the packed file is damaged ({error})", "pack it again") from None
            reason = "is encrypted" if isinstance(error, RuntimeError) else f"is damaged ({error})"
            raise Refusal(f"the packed file {reason}", "unpack it and upload its tables") from None


def unpack(
    path: Path, name: str, folder: Path, budget: UnpackingBudget, layers: int = 0
) -> Iterator[tuple[Path, str, str]]:
    """Yield path, name and kind of the file, or of each file in it if it is packed.

    Files are written under new names, so that a path in an archive cannot point outside the folder.
    """
    kind = detect_kind(path)
    if kind not in ("gzip", "zip"):
        yield path, name, kind
        return
    if layers == _MAX_LAYERS:
        raise Refusal("the file is packed more than three times", "unpack it and upload its tables")
    if kind == "gzip":
        target = folder / f"unpacked-{layers}-0"
        with gzip.open(path) as stream:
            copy_stream(stream, target, budget)
        yield from unpack(target, name.removesuffix(".gz"), folder, budget, layers + 1)
        return
    with open_zip(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir() and not _IGNORED.search(entry.filename)]
        if not entries:
            raise Refusal("the zip file holds no file", "put a table in it")
        for index, entry in enumerate(entries):
            target = folder / f"unpacked-{layers}-{index}"
            try:
                with archive.open(entry) as stream:
                    copy_stream(stream, target, budget)
            except (zipfile.BadZipFile, RuntimeError, OSError) as error:
                raise Refusal(f"the zip file is damaged or encrypted ({error})", "unpack it first") from None
            inner_name = entry.filename.rpartition("/")[2]
            yield from unpack(target, inner_name, folder, budget, layers + 1)
            target.unlink(missing_ok=True)
