"""Folders of Chroma that are verified before they are opened.

Chroma 1.5 does not check its index files: a damaged one ends the process by a segmentation fault, or hides entries
without an error. So a folder is opened only if every byte is as it was when the folder was closed. A file with the
digest of each other file is written last at closing, and removed first at opening. While a folder is open, only our own
calls change its index files. If a file changes between two calls, another program has changed it.
"""

import fcntl
import hashlib
import json
import shutil
from pathlib import Path
from typing import IO, Any

from everhold.adapters.chroma.failures import Damaged, Unavailable
from everhold.files import open_lock, write_private

_DIGESTS_FILE = "closed.json"
_DATABASE = "chroma.sqlite3"
_MAGIC = b"SQLite format 3\x00"

Signature = tuple[tuple[str, int, int], ...]


class Folder:
    """The folder of one collection, while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: Signature = ()

    def create(self) -> None:
        """Create an empty folder; an existing one is deleted."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, mode=0o700)

    def open(self) -> None:
        """Open the folder. Raise Damaged unless every file is as it was at closing."""
        try:
            digests = json.loads((self.path / _DIGESTS_FILE).read_bytes())
        except (OSError, ValueError):
            raise Damaged(f"{self.path} does not exist or was not closed") from None
        if digests != _compute_digests(self.path):
            raise Damaged(f"files of {self.path} have changed since it was closed")
        (self.path / _DIGESTS_FILE).unlink()

    def check(self) -> None:
        """Raise Damaged if another program has changed a file since `sign`."""
        if self._state != _compute_signature(self.path) or not _is_database(self.path / _DATABASE):
            raise Damaged(f"files of {self.path} were changed by another program")

    def sign(self) -> None:
        """Record the state of the files after our own changes."""
        self._state = _compute_signature(self.path)

    def close(self) -> None:
        """Write the digests of all files, so that the folder can be opened again."""
        self.check()
        write_private(self.path / _DIGESTS_FILE, json.dumps(_compute_digests(self.path)).encode(), overwrite=True)

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


def _list_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith(_DIGESTS_FILE))


def _compute_digests(path: Path) -> dict[str, str]:
    digests = {}
    for path_of_file in _list_files(path):
        with path_of_file.open("rb") as file:
            digests[str(path_of_file.relative_to(path))] = hashlib.file_digest(file, "blake2b").hexdigest()
    return digests


def _compute_signature(path: Path) -> Signature:
    """Return the inode of each file, and its time and size except for the database, which changes when it is read."""
    try:
        stats = [(file.name, file.stat()) for file in _list_files(path) if not file.name.startswith(f"{_DATABASE}-")]
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
