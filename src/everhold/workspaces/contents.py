"""The contents of files, each stored once per organization, compressed, and named by its SHA-256.

A row is written before its content and deleted after it, so that a crash leaves no content without a row. The commit
of a file or a snapshot also changes the rows of the contents that it names, on the condition of their versions. It
fails if garbage collection has begun to delete one of them. Storing that content again uses the next generation, which
has another address, so that the collection deletes only the old one.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from everhold import clock
from everhold.errors import AlreadyExists, NotFound, StaleVersion, StoreBusy, StoreDamaged
from everhold.model import Blob
from everhold.ports.blobs import NamedBlobs
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, retry
from everhold.schema.operations import Delete, Operation, Patch, Put

GetContent = Callable[[str], bytes]
_PACKED, _RAW = b"z", b"r"
_LEVEL = 6  # zlib's default
_WRITERS = 16  # contents that are written at the same time


def hash_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class PackedContent(NamedTuple):
    """A content as it is stored."""

    stored: bytes
    size: int
    compression: str | None


@dataclass(frozen=True)
class Contents:
    """The contents of one store's workspaces."""

    records: Records
    blobs: NamedBlobs

    def store(self, organization: str, hashes: Iterable[str], get_content: GetContent) -> list[Operation]:
        """Store contents that are missing; return operations for the commit that names them.

        That commit raises StaleVersion if one of the contents is being deleted. Call this again then.
        """
        names = sorted(set(hashes))
        pack_once = cache(lambda name: _pack_content(get_content(name)))

        def make_rows(_: int) -> dict[str, Blob]:
            return self._ensure_rows(organization, names, pack_once)

        busy = StoreBusy("contents of the workspace kept changing while they were stored")
        conflicts = (AlreadyExists, StaleVersion)
        rows = retry("store contents", make_rows, CONFLICTS, on=conflicts, give_up=lambda _: busy)
        self._write_missing(organization, list(rows.values()), lambda name: pack_once(name).stored)
        now = clock.now()
        return [Patch(Blob, (organization, row.id), {"updated_at": now}, row.version) for row in rows.values()]

    def _write_missing(self, organization: str, rows: Sequence[Blob], get_stored: GetContent) -> None:
        def write(row: Blob) -> None:
            address = find_address(row)
            if not self.blobs.has(organization, address):
                self.blobs.write(organization, address, get_stored(row.sha256))

        if len(rows) == 1:
            write(rows[0])
            return
        # Most of the time is spent waiting for the disk, which makes several files durable at once, or for a network.
        with ThreadPoolExecutor(_WRITERS) as pool:
            for _ in pool.map(write, rows):
                pass

    def _ensure_rows(
        self, organization: str, names: Sequence[str], pack: Callable[[str], PackedContent]
    ) -> dict[str, Blob]:
        """Return the rows of stored contents by name; store the contents that are missing or about to be deleted."""
        rows = self.records.get(Blob, organization, names)
        now = clock.now()
        missing_rows: dict[str, Blob] = {}
        operations: list[Operation] = []
        for name in names:
            row = rows.get(name)
            if row is None:
                missing_rows[name] = _make_row(organization, name, pack(name))
                operations.append(Put(missing_rows[name]))
            elif row.is_leaving:
                # The collection that marked it may have crashed before it deleted the content.
                self.blobs.delete(organization, find_address(row))
                changes = {"is_leaving": False, "generation": row.generation + 1, "updated_at": now}
                operations.append(Patch(Blob, (organization, name), changes, row.version))
                missing_rows[name] = row.evolve(**changes, version=row.version + 1)
        if operations:
            self.records.commit(operations)
        return {**rows, **missing_rows}

    def load(self, organization: str, sha256: str) -> bytes:
        """Return a content; raise NotFound if this store does not have it, and StoreDamaged if its hash is wrong."""
        row = self.records.get(Blob, organization, [sha256]).get(sha256)
        if row is None or row.is_leaving:
            raise NotFound(
                f"the content {sha256} is not in this store", value=sha256, remedy="restore the blobs from a backup"
            )
        content = unpack(self.blobs.read(organization, find_address(row)), row.size)
        if content is None or hash_content(content) != sha256:
            raise StoreDamaged(f"the content {sha256} is damaged", value=sha256, remedy="restore it from a backup")
        return content

    def copy_from(self, source: "Contents") -> None:
        """Copy the bytes of the contents that have a row in this store from another store."""
        for row in self.records.scan(Blob, None):
            organization, address = row.organization_id, find_address(row)
            if not row.is_leaving and not self.blobs.has(organization, address):
                try:
                    self.blobs.write(organization, address, source.blobs.read(organization, address))
                except NotFound:  # a writer died before it stored them, and nothing names them
                    continue

    def delete(self, row: Blob) -> bool:
        """Delete a content that nothing names, then its row; return False if another process uses the content again."""
        organization, key = row.organization_id, (row.organization_id, row.id)
        try:
            if not row.is_leaving:
                self.records.commit([Patch(Blob, key, {"is_leaving": True}, row.version)])
                row = row.evolve(is_leaving=True, version=row.version + 1)
            self.blobs.delete(organization, find_address(row))
            # The version fails the commit if a writer has stored the content again in the meantime.
            self.records.commit([Patch(Blob, key, {"is_leaving": True}, row.version), Delete(Blob, key)])
        except StaleVersion:
            return False
        return True


def _make_row(organization: str, sha256: str, packed: PackedContent) -> Blob:
    now = clock.now()
    return Blob(
        id=sha256,
        organization_id=organization,
        created_at=now,
        updated_at=now,
        sha256=sha256,
        size=packed.size,
        compression=packed.compression,
    )


def find_address(row: Blob) -> str:
    """Return the name under which the bytes of a content are stored."""
    if row.generation == 0:
        return row.sha256
    return hashlib.sha256(f"{row.sha256}/{row.generation}".encode()).hexdigest()


def _pack_content(content: bytes) -> PackedContent:
    """Compress a content; one that does not shrink is stored as it is."""
    compressed = zlib.compress(content, _LEVEL)
    if len(compressed) < len(content):
        return PackedContent(_PACKED + compressed, len(content), "zlib")
    return PackedContent(_RAW + content, len(content), None)


def unpack(stored: bytes, size: int) -> bytes | None:
    """Return the content of stored bytes; None if they are damaged. At most `size` + 1 bytes are decompressed."""
    if stored[:1] == _RAW:
        return stored[1:]
    if stored[:1] != _PACKED:
        return None
    try:
        content = zlib.decompressobj().decompress(stored[1:], size + 1)
    except zlib.error:
        return None
    return content if len(content) == size else None
