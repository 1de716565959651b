"""Files of archived messages, in the blob store that the settings name.

A row names each file before it is written and until it is deleted, so that a crash leaves no unnamed file. The commit
of an archive also changes the row of its file, at the version that was read. So the commit fails if another process
has begun to delete the file.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everhold.errors import MasterKeyMissing, StaleVersion
from everhold.model import ArchiveFile, SessionArchive
from everhold.ports.blobs import Blobs
from everhold.ports.data_keys import DataKeys, make_context
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Op, Operation, Patch, Put, Where

# The beginning of an encrypted file. A plain file begins with the first byte of compressed data, 0x78.
_ENCRYPTED = b"everhold-encrypted\0"


def _make_file_context(organization: str) -> bytes:
    return make_context("archive file", organization)


@dataclass(frozen=True)
class ArchiveFiles:
    """The files of one store's archives."""

    records: Records
    blobs: Blobs
    keys: DataKeys | None = None
    """The keys that encrypt new files. Without them files are plain."""

    def put(self, organization: str, content: bytes, user_ids: Sequence[str] = ()) -> tuple[str, Operation]:
        """Write a file; return its address, and an operation for the commit of the archive that names it.

        If all messages are of one user, they are encrypted with that user's key.
        """
        if self.keys is not None:
            user_id = user_ids[0] if len(user_ids) == 1 else None
            content = _ENCRYPTED + self.keys.encrypt(organization, user_id, content, _make_file_context(organization))
        address = hashlib.sha256(content).hexdigest()
        self.records.commit([Put(ArchiveFile(address=address, whose=organization))])
        self.blobs.put(organization, content)
        return address, Patch(ArchiveFile, (address,), {"is_leaving": False}, version=1)

    def get(self, organization: str, address: str) -> bytes:
        """Return the content of a file; raise NotFound if it does not exist."""
        content = self.blobs.get(organization, address)
        if not content.startswith(_ENCRYPTED):
            return content
        if self.keys is None:
            raise MasterKeyMissing(
                "archived messages are encrypted, and the settings name no master key",
                remedy="set encryption.master_key to the store's master key",
            )
        return self.keys.decrypt(organization, content.removeprefix(_ENCRYPTED), _make_file_context(organization))

    def release(self, address: str) -> Operation:
        """Return the operation that marks a file for deletion, for the commit that deletes its archive.

        Call `delete` after that commit.
        """
        return Patch(ArchiveFile, (address,), {"is_leaving": True})

    def delete(self, organization: str, address: str) -> None:
        """Delete a file that no archive names, and then its row."""
        self.blobs.delete(organization, address)
        self.records.commit([Delete(ArchiveFile, (address,))])

    def find_unneeded(self) -> list[ArchiveFile]:
        """Return the files that no archive names: they were left by a crash, or their session was purged."""
        files = self.records.scan(ArchiveFile, None)
        # Archives are read after the files. An archive that is committed in between is either read here, or its commit
        # has changed the row of its file, so that `sweep` gets StaleVersion.
        rows = self.records.columns(SessionArchive, None, ("address",), [Where("address", Op.NE, None)], deleted=True)
        named_addresses = {address for (address,) in rows}
        return [file for file in files if file.address not in named_addresses]

    def sweep(self, add: Callable[[int], None] = lambda _: None) -> None:
        """Delete the files that no archive names; call `add` after each."""
        for file in self.find_unneeded():
            try:
                # After this commit, a process that is still writing the file can no longer commit its archive.
                self.records.commit([Patch(ArchiveFile, (file.address,), {"is_leaving": True}, version=file.version)])
            except StaleVersion:
                continue
            self.delete(file.whose, file.address)
            add(1)

    def copy_from(self, source: "ArchiveFiles") -> None:
        """Copy the files that the other store's archives name; files that exist here are not replaced."""
        names = ("organization_id", "address")
        where = [Where("address", Op.NE, None)]
        for organization, address in list(source.records.columns(SessionArchive, None, names, where, deleted=True)):
            self.records.commit([Ensure(ArchiveFile(address=address, whose=organization))])
            self.blobs.put(organization, source.blobs.get(organization, address))
