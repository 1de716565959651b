"""The manifest of a backup: a list of its content with checksums.

A manifest file is the SHA-256 of the rest in hexadecimal, a line feed, and the compressed JSON of the manifest. All
files that it names are named by their own SHA-256, so a single changed byte anywhere is noticed.
"""

import hashlib
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from everhold.errors import InvalidInput, StoreDamaged
from everhold.model.fields import Count, Id, Name, Sha256, Text, Time
from everhold.ports.row_packing import RowPacking

FORMAT = 1
USE_ANOTHER = "use another backup; `everhold backups` lists them"
_SIZE_DIGITS = 10
_MAX_SIZE = 1024 * 1024 * 1024
MAX_FILE_BYTES = 256 * 1024 * 1024
# A document begins with its checksum in hexadecimal and its uncompressed size, each followed by a line feed.
_CHECKSUM_BYTES = 64 + 1
_HEADER_BYTES = _CHECKSUM_BYTES + _SIZE_DIGITS + 1

# A pattern is checked much faster than a `Name`, and a manifest has hundreds of columns.
ColumnName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Digest64 = Annotated[int, Field(strict=True, ge=0, lt=2**64)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ObjectEntry(_Part):
    """An object: a file that never changes, named by its SHA-256. `count` is its number of rows, keys or bytes.

    `organization` is set if all rows in it belong to one organization.
    """

    sha256: Sha256
    size: Count
    count: Count = 0
    organization: Id | None = None


class Layer(_Part):
    """The part of a table that one backup stored: added and changed rows, and digests of the keys of deleted rows."""

    rows: tuple[ObjectEntry, ...] = ()
    deleted: tuple[ObjectEntry, ...] = ()


class TableEntry(_Part):
    """The rows of a table as layers, oldest first. Each layer replaces rows of earlier layers.

    `hash` is the sum of the digests of all rows modulo 2**64. `index` has the digests of each row, for the next backup;
    `is_tracked` says whether it also has the numbers of the rows. `index_changes` has the changes since the backup that
    stored `index`.
    """

    columns: tuple[ColumnName, ...]
    rows: Count
    hash: Digest64
    layers: tuple[Layer, ...]
    index: ObjectEntry | None = None
    index_changes: ObjectEntry | None = None
    is_tracked: bool = False


class BackedUpFile(_Part):
    """A file outside the records, such as an archive of messages, in parts of limited size.

    `kind` is the kind of the file, `folder` and `address` its location in the store, and `user_id` its owner.
    """

    kind: Name
    organization: Id
    folder: Text
    address: Sha256
    user_id: Id | None = None
    parts: tuple[ObjectEntry, ...]


class Manifest(_Part):
    """One backup.

    `sequence` is the number of the last line of the change feed at the moment of the backup. `previous` is the previous
    backup at the same place, and `previous_sha256` the checksum of its manifest.
    """

    format: int = FORMAT
    id: Name
    store: Name
    kind: Name
    at: Time
    sequence: Count
    mark: Text = ""
    schema_version: Count
    is_encrypted: bool = False
    has_user_keys: bool = False
    """Whether the rows of each user are encrypted with the user's own key."""
    previous: Name | None = None
    previous_sha256: Sha256 | None = None
    tables: dict[str, TableEntry]
    files: tuple[BackedUpFile, ...] = ()

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())

    def list_objects(self, *, with_indexes: bool) -> dict[str, ObjectEntry]:
        """Return the objects that the backup needs, by their SHA-256. Indexes are needed only by the next backup."""
        entries = [part for file in self.files for part in file.parts]
        for table in self.tables.values():
            for layer in table.layers:
                entries += [*layer.rows, *layer.deleted]
            if with_indexes:
                entries += [entry for entry in (table.index, table.index_changes) if entry is not None]
        return {entry.sha256: entry for entry in entries}


def encode_manifest(manifest: Manifest, packing: RowPacking) -> bytes:
    """Return the content of a manifest's file."""
    return encode_document(manifest.model_dump_json(exclude_defaults=True).encode(), packing)


def encode_document(text: bytes, packing: RowPacking) -> bytes:
    """Return a JSON text in compressed form with its checksum."""
    body = f"{len(text):0{_SIZE_DIGITS}d}\n".encode() + packing.compress(text)
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode_document(content: bytes, name: str, packing: RowPacking, remedy: str = USE_ANOTHER) -> bytes:
    """Return JSON that `encode_document` has compressed.

    Raise StoreDamaged if it is damaged. `name` and `remedy` are for the error: the document's name, and what to do.
    """
    if hashlib.sha256(content[_CHECKSUM_BYTES:]).hexdigest().encode() + b"\n" != content[:_CHECKSUM_BYTES]:
        raise StoreDamaged(f"{name} is damaged: it does not have its checksum", remedy=remedy)
    size = content[_CHECKSUM_BYTES:_HEADER_BYTES]
    if not size[:-1].isdigit() or not size.endswith(b"\n") or int(size) > _MAX_SIZE:
        raise StoreDamaged(f"{name} cannot be read", remedy=remedy)
    return packing.decompress(content[_HEADER_BYTES:], int(size))


def decode_manifest(content: bytes, backup_id: str, packing: RowPacking) -> Manifest:
    """Return the manifest in a file. Raise StoreDamaged if it is damaged, InvalidInput if it has an unknown format."""
    text = decode_document(content, f"the manifest of backup {backup_id}", packing)
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        _check_format(_read_format(text), backup_id)
        first_error = error.errors()[0]
        location = ".".join(map(str, first_error["loc"]))
        raise StoreDamaged(
            f"the manifest of backup {backup_id} is not one that Everhold wrote ({location}: {first_error['msg']})",
            value=backup_id,
            remedy=USE_ANOTHER,
        ) from None
    _check_format(manifest.format, backup_id)
    if manifest.id != backup_id:
        raise StoreDamaged(f"the manifest of backup {backup_id} is that of {manifest.id}", remedy=USE_ANOTHER)
    return manifest


def _read_format(text: bytes) -> int:
    """Return the format of a manifest that this version cannot read; this version's if it names none."""
    try:
        return _FormatOnly.model_validate_json(text).format
    except ValidationError:
        return FORMAT


def _check_format(version: int, backup_id: str) -> None:
    if version != FORMAT:
        raise InvalidInput(
            f"backup {backup_id} has format {version}, and this program reads {FORMAT}",
            value=version,
            remedy="use the version of Everhold that wrote it, or upgrade",
        )


class _FormatOnly(BaseModel):
    model_config = ConfigDict(defer_build=True)

    format: int = FORMAT
