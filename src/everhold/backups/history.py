"""Read and write the backups at a place: their manifests, and the state file, which is the only file that changes.

    objects/abcdef…       objects, named by their SHA-256
    backups/bak_….backup  manifests
    state                 the wrapped keys and the erasure list, rewritten by each backup and each erasure

A manifest is written after all files that it names, so an interrupted backup has no manifest and does not exist.
"""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from everhold.backups.manifest import (
    MAX_FILE_BYTES,
    USE_ANOTHER,
    Manifest,
    decode_document,
    decode_manifest,
    encode_document,
    encode_manifest,
)
from everhold.backups.objects import sync_objects
from everhold.errors import EverholdError, NotFound, StoreDamaged
from everhold.model import DataKey, UserErasure
from everhold.ports.backup_place import BackupPlace
from everhold.ports.records import Records
from everhold.ports.row_packing import RowPacking

logger = logging.getLogger(__name__)

_FOLDER, _SUFFIX = "backups", ".backup"
_STATE = "state"
_STATE_REMEDY = (
    "put back a copy of this file, or run `everhold backup TARGET --replace-state`, which writes it from the store"
)


class TargetState(BaseModel):
    """The content of the state file: the wrapped data keys that decrypt the backups, and the erasure list."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, ser_json_bytes="base64")

    format: int = 1
    keys: tuple[DataKey, ...] = ()
    erasures: tuple[UserErasure, ...] = Field(default=())


@dataclass(frozen=True)
class StoredManifest:
    """A manifest and the checksum of its file. If the manifest cannot be read, it is None and `problem` says why."""

    backup_id: str
    sha256: str
    manifest: Manifest | None
    problem: EverholdError | None = None


@dataclass(frozen=True)
class History:
    """The backups at one place."""

    place: BackupPlace
    packing: RowPacking

    def list_ids(self) -> list[str]:
        """Return the ids of all backups, oldest first."""
        names = (name.rpartition("/")[2] for name in self.place.list_names(_FOLDER))
        return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def read(self, backup_id: str) -> StoredManifest:
        """Read a manifest.

        Raise NotFound if there is no backup with this id. A damaged manifest is returned with its problem.
        """
        try:
            content = self.place.read(_name_manifest(backup_id), MAX_FILE_BYTES)
        except NotFound:
            backup_ids = self.list_ids()
            newest = f"; the newest is {backup_ids[-1]}" if backup_ids else ""
            raise NotFound(
                f"no backup {backup_id!r} at {self.place.address}{newest}",
                value=backup_id,
                remedy="`everhold backups` lists them",
            ) from None
        sha256 = hashlib.sha256(content).hexdigest()
        try:
            return StoredManifest(backup_id, sha256, decode_manifest(content, backup_id, self.packing))
        except EverholdError as problem:
            return StoredManifest(backup_id, sha256, None, problem)

    def require(self, backup_id: str) -> Manifest:
        """Return a manifest. Raise NotFound if there is none, StoreDamaged or InvalidInput if it cannot be read."""
        stored = self.read(backup_id)
        if stored.manifest is None:
            raise stored.problem or StoreDamaged(f"backup {backup_id} cannot be read", remedy=USE_ANOTHER)
        return stored.manifest

    def read_all(self, known: Sequence[StoredManifest] = ()) -> list[StoredManifest]:
        """Return all manifests, oldest first, including damaged ones. Those that are `known` are not read again."""
        by_id = {entry.backup_id: entry for entry in known}
        return [by_id.get(backup_id) or self.read(backup_id) for backup_id in self.list_ids()]

    def write(self, manifest: Manifest) -> StoredManifest:
        """Store a manifest, with which the backup begins to exist, and return it with the checksum of its file."""
        content = encode_manifest(manifest, self.packing)
        sync_objects(self.place)
        self.place.write(_name_manifest(manifest.id), content)
        self.place.sync(_FOLDER)
        return StoredManifest(manifest.id, hashlib.sha256(content).hexdigest(), manifest)

    def delete(self, backup_id: str) -> None:
        self.place.delete(_name_manifest(backup_id))

    def read_state(self) -> TargetState:
        """Return the keys and the erasure list; both are empty if nothing was stored yet."""
        try:
            content = self.place.read(_STATE, MAX_FILE_BYTES)
        except NotFound:
            return TargetState()
        name = f"the file {_STATE} at {self.place.address}, with keys and erasures,"
        text = decode_document(content, name, self.packing, _STATE_REMEDY)
        try:
            return TargetState.model_validate_json(text)
        except ValidationError:
            raise StoreDamaged(f"{name} is not one that Everhold wrote", remedy=_STATE_REMEDY) from None

    def delete_damaged_state(self) -> None:
        """Delete the keys and the erasure list if they cannot be read."""
        try:
            self.read_state()
        except StoreDamaged as problem:
            logger.warning("%s; it is written again from the store", problem.fact)
            self.place.delete(_STATE)

    def write_state(self, keys: Sequence[DataKey], erasures: Sequence[UserErasure]) -> None:
        """Store the keys and the erasure list, unless the same ones are stored already."""
        state = TargetState(keys=tuple(keys), erasures=tuple(erasures))
        content = encode_document(state.model_dump_json().encode(), self.packing)
        if not self._has_state(content):
            self.place.write(_STATE, content)
        self.place.sync()

    def _has_state(self, content: bytes) -> bool:
        try:
            return self.place.read(_STATE, MAX_FILE_BYTES) == content
        except NotFound:
            return False


def merge_erasures(records: Records, state: TargetState) -> list[UserErasure]:
    """Return the erasures of a store and of a place together, because a restored store may lack some."""
    erasures = {(row.organization_id, row.id): row for row in state.erasures}
    erasures |= {(row.organization_id, row.id): row for row in records.scan(UserErasure, None, deleted=True)}
    return list(erasures.values())


def _name_manifest(backup_id: str) -> str:
    return f"{_FOLDER}/{backup_id}{_SUFFIX}"
