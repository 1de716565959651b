"""Folders of Chroma that are verified before they are opened.

Chroma 1.5 does not check its index files: a damaged one ends the process by a segmentation fault, or hides entries
without an error. So a folder is opened only if every file is unchanged since the folder was closed. Closing writes a
file with the digests of all other files last, and opening removes it first. While a folder is open, only this process's
calls change its index files. If a file changes between two calls, another program has changed it.
"""

import fcntl
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import IO, Any

from everhold.adapters.chroma.failures import Damaged, Unavailable
from everhold.files import open_lock, write_private

_DIGESTS_FILE = "closed.json"
_DATABASE = "chroma.sqlite3"
_MARKER_FILE = "everhold"  # a file that shows that Everhold created the database
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAGIC = b"SQLite format 3\x00"

Signature = tuple[tuple[str, int, int], ...]


class Folder:
    """The folder of one collection, while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: Signature = ()

    def create(self) -> None:
        """Create an empty folder; an existing one is deleted."""
        self.remove()
        self.path.mkdir(parents=True, mode=0o700)

    def open(self) -> None:
        """Open the folder. Raise Damaged unless every file is as it was at closing."""
        try:
            digests = json.loads((self.path / _DIGESTS_FILE).read_bytes())
        except (OSError, ValueError):
            raise Damaged(f"{self.path} does not exist or was not closed") from None
        if digests != self._compute_digests():
            raise Damaged(f"files of {self.path} have changed since it was closed")
        (self.path / _DIGESTS_FILE).unlink()

    def check(self) -> None:
        """Raise Damaged if another program has changed a file since `sign`."""
        if self._state != self._compute_signature() or not _is_database(self.path / _DATABASE):
            raise Damaged(f"files of {self.path} were changed by another program")

    def sign(self) -> None:
        """Record the state of the files after this process has changed them."""
        self._state = self._compute_signature()

    def close(self) -> None:
        """Write the digests of all files, so that the folder can be opened again."""
        self.check()
        write_private(self.path / _DIGESTS_FILE, json.dumps(self._compute_digests()).encode(), overwrite=True)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _list_files(self) -> list[Path]:
        return sorted(file for file in self.path.rglob("*") if file.is_file() and not _is_digests_file(file))

    def _compute_digests(self) -> dict[str, str]:
        digests = {}
        for path in self._list_files():
            with path.open("rb") as file:
                digests[str(path.relative_to(self.path))] = hashlib.file_digest(file, "blake2b").hexdigest()
        return digests

    def _compute_signature(self) -> Signature:
        """Return the inode of each file, and its time and size except for the database, which changes when read."""
        try:
            stats = [(path.name, path.stat()) for path in self._list_files()
                     if not path.name.startswith(f"{_DATABASE}-")]  # fmt: skip
        except OSError as error:
            raise Damaged(f"files of {self.path} are gone ({error.strerror})") from None
        return tuple(
            (name, stat.st_ino, 0 if name == _DATABASE else stat.st_mtime_ns ^ stat.st_size) for name, stat in stats
        )


class MainFolder(Folder):
    """A folder that contains the main collection itself and, in subfolders, the other collections.

    Another program expects the collection in this folder and may have created its own database here, which is never
    deleted.
    """

    def create(self) -> None:
        """Create an empty folder. Raise Unavailable if it contains a database of another program."""
        if (self.path / _DATABASE).exists() and not (self.path / _MARKER_FILE).exists():
            raise Unavailable(
                f"{self.path} has a Chroma database of another program; move it away, or name another folder"
            )
        self.remove()
        self.path.mkdir(parents=True, mode=0o700, exist_ok=True)
        write_private(self.path / _MARKER_FILE, b"Everhold writes the database in this folder.\n", overwrite=True)

    def remove(self) -> None:
        if (self.path / _MARKER_FILE).exists():
            for path in [*self._list_files(), self.path / _DIGESTS_FILE]:
                path.unlink(missing_ok=True)

    def _list_files(self) -> list[Path]:
        """Return the files of Chroma: its database, and the indexes in folders whose names are UUIDs."""
        indexes = (folder for folder in self.path.glob("*-*-*-*-*") if _UUID.fullmatch(folder.name))
        files = [*self.path.glob(f"{_DATABASE}*"), *(file for folder in indexes for file in folder.rglob("*"))]
        return sorted(file for file in files if file.is_file())


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


def _is_digests_file(path: Path) -> bool:
    return path.name.startswith(_DIGESTS_FILE)


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False
