"""Copy the file that a caller names to a folder of our own, with its size and SHA-256."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from everhold.errors import MissingExtra, UnreadableFile
from everhold.progress import ReportProgress, StepProgress

_BLOCK = 1024 * 1024
_MAX_FIRST_LINE = 32 * _BLOCK  # enough for a long line even in UTF-32
_BINARY_SIGNATURES = (b"PK", b"\x1f\x8b", b"PAR1", b"SQLite format 3")


def fetch_file(
    address: str, target: Path, report: ReportProgress, *, max_bytes: int, allows_addresses: bool
) -> tuple[str, int, str]:
    """Copy the file at a path or an address; return its name, its size and its SHA-256.

    Raise UnreadableFile if the file does not exist, is not a regular file, or is too large.
    """
    digest, size, head_check = hashlib.sha256(), 0, _HeadCheck()
    with _open(address, allows_addresses) as (source, total), target.open("xb") as file:
        if total is not None and total > max_bytes:
            raise _make_size_error(max_bytes)
        while block := source.read(_BLOCK):
            size += len(block)
            if size > max_bytes:
                raise _make_size_error(max_bytes)
            head_check.check(block)
            digest.update(block)
            file.write(block)
            report(StepProgress("copying", size, total))
    name = PurePosixPath(urlsplit(address).path if "://" in address else address).name
    return name, size, digest.hexdigest()


class _HeadCheck:
    """Refuses, by its first bytes, a large file that cannot be a table, before all of it is copied."""

    def __init__(self) -> None:
        self._size = 0
        self._is_checked = False

    def check(self, block: bytes) -> None:
        if self._is_checked:
            return
        if not self._size and (block.startswith(_BINARY_SIGNATURES) or block.lstrip()[:1] in (b"{", b"[")):
            self._is_checked = True  # not lines of text
            return
        # Every second byte of UTF-16 may be NUL, and three of four in UTF-32.
        if not self._size and len(block) == _BLOCK and block.count(0) > 0.8 * len(block):
            raise UnreadableFile("the file is neither text nor a known kind of data file", remedy="choose another")
        self._size += len(block)
        if b"\n" in block or b"\r" in block:
            self._is_checked = True
        elif self._size > _MAX_FIRST_LINE:
            raise UnreadableFile(
                f"the first line has more than {_MAX_FIRST_LINE // _BLOCK} MB",
                remedy="check the line breaks of the file",
            )


@contextmanager
def _open(address: str, allows_addresses: bool) -> Iterator[tuple[IO[bytes], int | None]]:
    """Yield an open file and its size, if known. `address` is a path or the address of a file elsewhere."""
    if "://" in address:
        if not allows_addresses:
            raise UnreadableFile(
                "files at addresses are not read", value=address, remedy="pass a path, or set uploads.addresses to true"
            )
        with _open_address(address) as file:
            yield file, getattr(file, "size", None)
        return
    try:
        # A pipe would block until another process writes into it.
        descriptor = os.open(address, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no such path"
        raise UnreadableFile(
            f"the file {address!r} cannot be opened: {reason}", value=address, remedy="check the path"
        ) from None
    details = os.fstat(descriptor)
    if not stat.S_ISREG(details.st_mode):
        os.close(descriptor)
        description = "a folder" if stat.S_ISDIR(details.st_mode) else "not a regular file"
        raise UnreadableFile(f"{address!r} is {description}", value=address, remedy="name a file")
    with os.fdopen(descriptor, "rb") as file:
        yield file, details.st_size


@contextmanager
def _open_address(address: str) -> Iterator[IO[bytes]]:
    import fsspec

    try:
        remote_file = fsspec.open(address, "rb", compression=None)
        with remote_file as file:
            yield file
    except ImportError as error:
        raise MissingExtra(f"this address needs another package: {error}", remedy="install the package") from error
    except (OSError, ValueError) as error:
        raise UnreadableFile(
            f"the file at this address cannot be read: {error}", value=address, remedy="check the address"
        ) from None


def _make_size_error(max_bytes: int) -> UnreadableFile:
    return UnreadableFile(
        f"the file has more than {max_bytes / 1e6:,.0f} MB", remedy="split it, or raise uploads.max_megabytes"
    )
