"""The port to the place of backups: files with names, in a folder or an object store."""

from collections.abc import Iterator
from typing import Protocol


class BackupPlace(Protocol):
    """Files by name. A name has parts of letters, digits, `-` and `.`, separated by `/`. Thread-safe."""

    @property
    def address(self) -> str:
        """The address of the place, without a password in it."""

    def write(self, name: str, content: bytes) -> None:
        """Store a file atomically. A file with the same name is replaced.

        A power cut may undo this until `sync` has been called for the file's folder. Raise StoreFull if there is no
        room, StoreUnavailable if the place cannot be written.
        """
        ...

    def sync(self, folder: str = "") -> None:
        """Make the files that any process has written into a folder durable. The empty name is the place itself."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """Return a file's content.

        Raise NotFound if the file is missing, StoreDamaged if it is longer than `limit` bytes.
        """
        ...

    def has(self, name: str) -> bool: ...

    def list_names(self, folder: str) -> Iterator[str]:
        """Yield the names of all files in a folder and its subfolders, in no particular order."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        ...
