"""Folders of Chroma that are verified before they are opened.

Chroma 1.5 does not check its index files: a damaged one ends the process by a segmentation fault, or hides entries
without an error. So a folder is opened only if every byte is as it was when the folder was closed. A note with the
digest of each file is written last and removed first. While a folder is open, only our own calls change its index
files. If a file changes between two calls, another program has changed it.
"""

import fcntl
import hashlib
import json
import shutil
from pathlib import Path
from typing import IO, Any

from everhold.adapters.chroma.failures import Damaged, Unavailable
from everhold.files import open_lock, write_private

_NOTE = "closed.json"
_DATABASE = "chroma.sqlite3"
_MAGIC = b"SQLite format 3\x00"

Signature = tuple[tuple[str, int, int], ...]


class Folder:
    """The folder of one collection, while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._signature: Signature = ()

    def create(self) -> None:
        """Create the folder empty, whatever was there."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, mode=0o700)

    def open(self) -> None:
        """Damaged unless everything is as it was closed."""
        try:
            noted = json.loads((self.path / _NOTE).read_bytes())
        except (OSError, ValueError):
            raise Damaged(f"{self.path} is not there or was not closed") from None
        if noted != _digests(self.path):
            raise Damaged(f"files of {self.path} have changed since it was closed")
        (self.path / _NOTE).unlink()

    def check(self) -> None:
        """Raise Damaged if another program has changed a file since `sign`."""
        if self._signature != _signature(self.path) or not _is_database(self.path / _DATABASE):
            raise Damaged(f"files of {self.path} were changed by another program")

    def sign(self) -> None:
        """Record the state of the files after our own changes."""
        self._signature = _signature(self.path)

    def close(self) -> None:
        """Vouches for the files as they are."""
        self.check()
        write_private(self.path / _NOTE, json.dumps(_digests(self.path)).encode(), overwrite=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def lock(folder: Path) -> IO[Any]:
    """Lock a folder against other processes until the returned file is closed or this process ends."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = open_lock(folder / "lock")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Unavailable(f"{folder} is in use by another process; use a Chroma server to share it") from None
    return file


def _files(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file() and not one.name.startswith(_NOTE))


def _digests(path: Path) -> dict[str, str]:
    found = {}
    for one in _files(path):
        with one.open("rb") as file:
            found[str(one.relative_to(path))] = hashlib.file_digest(file, "blake2b").hexdigest()
    return found


def _signature(path: Path) -> Signature:
    """Of the database, which file it is; of the others, which state too."""
    try:
        stats = [(one.name, one.stat()) for one in _files(path) if not one.name.startswith(f"{_DATABASE}-")]
    except OSError as error:
        raise Damaged(f"files of {path} are gone ({error.strerror})") from None
    return tuple(
        (name, stat.st_ino, 0 if name == _DATABASE else stat.st_mtime_ns ^ stat.st_size) for name, stat in stats
    )


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
