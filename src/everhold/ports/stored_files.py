"""Files of a store outside its records: archived messages, contents of workspaces, uploaded data."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from everhold.ports.store_snapshot import StoreSnapshot


class StoredFile(NamedTuple):
    """A file that rows name. Its content never changes.

    `folder` distinguishes files of one kind and organization with the same address. `user_id` is the file's owner.
    """

    kind: str
    organization: str
    folder: str
    address: str
    user_id: str | None = None


class StoredFiles(Protocol):
    """The files of one store."""

    def list_files(self, snapshot: StoreSnapshot) -> Iterator[StoredFile]:
        """Yield the files that the rows of a snapshot name."""
        ...

    def read(self, file: StoredFile) -> Iterator[bytes]:
        """Yield the content of a file in parts. Raise NotFound if the store does not have it."""
        ...

    def write(self, file: StoredFile, parts: Iterable[bytes]) -> None:
        """Store a file whose rows are already in the store.

        Raise InvalidInput if `kind` is not a known kind of file.
        """
        ...
