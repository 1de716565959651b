"""What backups of a store are made with, and how they are read."""

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.backups.deps import BackupDeps
from everhold.backups.history import History, TargetState
from everhold.backups.manifest import Manifest
from everhold.backups.objects import Objects
from everhold.backups.sealing import KeySealing, NoSealing, Sealing
from everhold.errors import MasterKeyMissing, MissingExtra
from everhold.optional_parts import make_encryption
from everhold.ports.backup_place import BackupPlace
from everhold.ports.row_packing import RowPacking
from everhold.schema.operations import Ensure
from everhold.sessions.secret import load_secret
from everhold.settings import Settings
from everhold.views.backup_files import EngineFiles

if TYPE_CHECKING:
    from everhold.parts import Parts
    from everhold.ports.records import Records


def open_place(target: str | Path) -> BackupPlace:
    """Return the place of backups at a folder or an fsspec address."""
    from everhold.adapters.files.backup_files import BackupFiles  # takes a while

    return BackupFiles(str(target))


@cache
def make_packing() -> RowPacking:
    try:
        from everhold.adapters.packing import MessagePacking
    except ImportError as error:
        raise MissingExtra(f"backups need the package {error.name}", remedy="pip install 'everhold[backup]'") from error
    return MessagePacking()


def open_history(target: str | Path) -> History:
    """Return the backups at a folder or an fsspec address."""
    return History(open_place(target), make_packing())


def name_store(records: "Records") -> str:
    """Return the name of a store, which its backups have."""
    return hashlib.sha256(b"backups" + load_secret(records)).hexdigest()[:32]


def make_deps(parts: "Parts") -> BackupDeps:
    """Return what the backup of an engine's store is made with."""
    encryption = parts.encryption
    records = parts.records if encryption is None else encryption.stored
    files = EngineFiles(parts.settings, records, parts.workspace_deps.contents)
    sealing = NoSealing() if encryption is None else KeySealing(encryption.keys)
    per_user = encryption is not None and encryption.keys.per_user
    return BackupDeps(records, files, make_packing(), sealing, name_store(records), per_user)


def open_objects(history: History, manifest: Manifest, state: TargetState, settings: Settings) -> Objects:
    """Return the objects of a backup, which the master key of the settings decrypts."""
    return Objects(history.place, history.packing, make_sealing(state, settings, manifest))


def make_sealing(state: TargetState, settings: Settings, manifest: Manifest) -> Sealing:
    """Return what decrypts a backup: the master key of the settings, and the keys that the place has."""
    if not manifest.is_encrypted:
        return NoSealing()
    if settings.encryption is None:
        raise MasterKeyMissing(
            f"backup {manifest.id} is encrypted, and the settings name no master key",
            remedy="set encryption.master_key to the master key of the store that was backed up",
        )
    from everhold.adapters.in_memory import InMemoryRecords

    # The keys of the place, apart from any store: nothing is written anywhere before a backup has been checked.
    ring = InMemoryRecords()
    ring.commit([Ensure(row) for row in (*state.keys, *state.erasures)])
    encryption = make_encryption(settings, ring)
    assert encryption is not None
    return KeySealing(encryption.keys)
