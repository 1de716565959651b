"""The store of large contents, addressed by their SHA-256 and separated by organization."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Protocol


class Blobs(Protocol):
    """A content-addressed store. Contents never change; storing the same content twice stores it once."""

    def put(self, organization_id: str, content: bytes) -> str:
        """Store a content durably and return its address."""
        ...

    def get(self, organization_id: str, address: str) -> bytes:
        """Return the content at an address.

        Raise NotFound if it is not stored, and StoreDamaged if its SHA-256 no longer equals its address.
        """
        ...

    def delete(self, organization_id: str, address: str) -> None:
        """Delete a content; do nothing if it does not exist."""
        ...

    def list_addresses(self, organization_id: str) -> Iterator[str]:
        """Yield the addresses of the organization's contents, in no particular order."""
        ...


class NamedBlobs(Protocol):
    """A store of bytes under names of 64 hexadecimal digits, which the caller chooses. The bytes are not checked."""

    def write(self, organization_id: str, name: str, content: bytes) -> None:
        """Store bytes durably and atomically. Bytes that are stored under the same name are replaced."""
        ...

    def read(self, organization_id: str, name: str) -> bytes:
        """Return the bytes of a name. Raise NotFound if nothing is stored under it."""
        ...

    def has(self, organization_id: str, name: str) -> bool: ...

    def delete(self, organization_id: str, address: str) -> None:
        """Delete the bytes of a name, if any are stored."""
        ...

    def delete_others(self, organization_ids: Iterable[str]) -> int:
        """Delete all bytes of organizations other than these; return how many names were deleted."""
        ...


class BlobFiles(Blobs, Protocol):
    """A content-addressed store that also takes and returns files, which may be larger than the memory."""

    def put_file(self, organization_id: str, path: Path, address: str | None = None) -> str:
        """Store the content of a file durably and return its address. The file may be moved.

        `address` is its SHA-256, if the caller knows it.
        """
        ...

    def fetch_file(self, organization_id: str, address: str, target: Path) -> Path:
        """Return a local file with the content: the store's own file, which must not be changed, or a copy at
        `target`."""
        ...

    def delete_others(self, organization_ids: Iterable[str]) -> int:
        """Delete all contents of organizations other than these; return how many there were."""
        ...

    def delete_stale(self, organization_ids: Iterable[str], before: datetime, *, dry_run: bool = False) -> int:
        """Delete the contents of each organization that is not in `organization_ids` and has stored nothing since
        `before`.

        Return how many there were; with `dry_run` they are only counted.
        """
        ...
