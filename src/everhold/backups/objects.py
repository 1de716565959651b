"""Read and write objects: files of a backup that never change, each named by its SHA-256.

An object with rows is a pack of frames. Each frame has rows of one owner. It is compressed and, if the store has keys,
encrypted with the owner's key. The directory at the beginning of a pack has the owner of each frame. All frames of an
encrypted pack belong to one organization, and the directory is encrypted with its key.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from everhold.backups.manifest import MAX_FILE_BYTES, USE_ANOTHER, ObjectEntry
from everhold.backups.sealing import RowOwner, Sealing
from everhold.errors import StoreDamaged
from everhold.model.fields import Count, Id
from everhold.ports.backup_place import BackupPlace
from everhold.ports.row_packing import RowPacking

_MAGIC = b"EVHPACK1"
_LENGTHS = struct.Struct("<II")
_MAX_DIRECTORY = 256 * 1024 * 1024
# In bytes, without compression. A frame has at least one row, and the largest JSON of a row is smaller than this.
_MAX_FRAME = 1024 * 1024 * 1024
_PREFIX = "objects"


class FrameEntry(NamedTuple):
    """The position of a frame in the body of its pack, its owner, and its number of uncompressed bytes and of rows."""

    organization: Id | None
    user_id: Id | None
    start: Count
    length: Count
    size: Count
    rows: Count


_DIRECTORY = TypeAdapter(list[FrameEntry], config={"defer_build": True})


class Frame(NamedTuple):
    """Packed rows of one owner."""

    owner: RowOwner
    items: Sequence[bytes]


class OpenedFrame(NamedTuple):
    """A frame whose content is still compressed. The content is None if the owner's key was destroyed."""

    owner: RowOwner
    content: bytes | None
    size: int
    rows: int


@dataclass(frozen=True)
class Objects:
    """The objects at one place."""

    place: BackupPlace
    packing: RowPacking
    sealing: Sealing

    def put(self, content: bytes, count: int = 0, organization: str | None = None) -> ObjectEntry:
        """Store an object, unless it exists already. It is durable when a manifest that names it is written."""
        address = hashlib.sha256(content).hexdigest()
        name = name_object(address)
        if not self.place.has(name):
            self.place.write(name, content)
        return ObjectEntry(sha256=address, size=len(content), count=count, organization=organization)

    def has(self, entry: ObjectEntry) -> bool:
        return self.place.has(name_object(entry.sha256))

    def get(self, entry: ObjectEntry) -> bytes:
        """Return the content of an object. Raise StoreDamaged if its checksum is wrong."""
        content = self.place.read(name_object(entry.sha256), MAX_FILE_BYTES + _MAX_FRAME)
        if len(content) != entry.size or hashlib.sha256(content).hexdigest() != entry.sha256:
            raise StoreDamaged(
                f"{name_object(entry.sha256)} at {self.place.address} is damaged",
                value=entry.sha256,
                remedy="use another backup, or delete this file and run `everhold backup`, which stores it again",
            )
        return content

    # contents other than rows: indexes, digests of deleted rows, parts of files

    def put_bytes(self, content: bytes, owner: RowOwner, context: str, count: int = 0) -> ObjectEntry:
        """Compress bytes, encrypt them for their owner, and store them."""
        sealed = self.sealing.seal(owner, self.packing.compress(content), context)
        return self.put(len(content).to_bytes(8, "little") + sealed, count, owner.organization)

    def get_bytes(self, entry: ObjectEntry, owner: RowOwner, context: str) -> bytes | None:
        """Return bytes that were stored; None if their owner's key was destroyed."""
        content = self.get(entry)
        size = int.from_bytes(content[:8], "little")
        if size > _MAX_FRAME:
            raise StoreDamaged(f"{name_object(entry.sha256)} claims {size:,} bytes", remedy=USE_ANOTHER)
        opened = self.sealing.unseal(owner, content[8:], context)
        return None if opened is None else self.packing.decompress(opened, size)

    # packs of rows

    def put_pack(self, frames: Sequence[Frame], table: str) -> ObjectEntry:
        """Store frames of rows."""
        directory: list[FrameEntry] = []
        bodies: list[bytes] = []
        start = 0
        for owner, items in frames:
            content = b"".join(items)
            body = self.sealing.seal(owner, self.packing.compress(content), f"rows/{table}")
            directory.append(FrameEntry(owner.organization, owner.user_id, start, len(body), len(content), len(items)))
            bodies.append(body)
            start += len(body)
        organization = frames[0].owner.organization
        text = json.dumps(directory).encode()
        sealed = self.sealing.seal(RowOwner(organization), self.packing.compress(text), f"directory/{table}")
        head = _MAGIC + _LENGTHS.pack(len(sealed), len(text)) + sealed
        return self.put(b"".join((head, *bodies)), sum(len(frame.items) for frame in frames), organization)

    def read_pack(self, entry: ObjectEntry, table: str) -> Iterator[OpenedFrame]:
        """Yield the frames of a pack of rows."""
        content = self.get(entry)
        directory_start = len(_MAGIC) + _LENGTHS.size
        if not content.startswith(_MAGIC) or len(content) < directory_start:
            raise _make_pack_error(entry, "it is not a pack of rows")
        length, size = _LENGTHS.unpack_from(content, len(_MAGIC))
        if size > _MAX_DIRECTORY:
            raise _make_pack_error(entry, f"its directory claims {size:,} bytes")
        sealed = self.sealing.unseal(
            RowOwner(entry.organization), content[directory_start : directory_start + length], f"directory/{table}"
        )
        if sealed is None:  # the whole organization was erased
            yield OpenedFrame(RowOwner(entry.organization), None, 0, entry.count)
            return
        try:
            directory = _DIRECTORY.validate_json(self.packing.decompress(sealed, size))
        except ValidationError:
            raise _make_pack_error(entry, "its directory cannot be read") from None
        body = memoryview(content)[directory_start + length :]
        for frame in directory:
            if frame.start + frame.length > len(body) or frame.size > _MAX_FRAME:
                raise _make_pack_error(entry, "its directory names bytes that it does not have")
            owner = RowOwner(frame.organization, frame.user_id)
            stored = bytes(body[frame.start : frame.start + frame.length])
            yield OpenedFrame(owner, self.sealing.unseal(owner, stored, f"rows/{table}"), frame.size, frame.rows)


def name_object(address: str) -> str:
    """Return the name of an object's file."""
    return f"{_PREFIX}/{address}"


def sync_objects(place: BackupPlace) -> None:
    """Make all objects durable, also those that an interrupted backup has written."""
    place.sync(_PREFIX)


def list_objects(place: BackupPlace) -> Iterator[str]:
    """Yield the SHA-256 of all objects at a place."""
    for name in place.list_names(_PREFIX):
        yield name.rpartition("/")[2]


def _make_pack_error(entry: ObjectEntry, reason: str) -> StoreDamaged:
    return StoreDamaged(
        f"{name_object(entry.sha256)} is not one that Everhold wrote: {reason}", value=entry.sha256, remedy=USE_ANOTHER
    )
