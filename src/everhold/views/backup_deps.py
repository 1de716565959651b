"""Choose the parts that make and read backups of a store."""

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everhold.backups.deps import BackupDeps
from everhold.backups.history import History, TargetState
from everhold.backups.manifest import Manifest
from everhold.backups.objects import Objects
from everhold.backups.sealing import KeySealing, NoSealing
from everhold.errors import EncryptionError, InvalidInput, MasterKeyMissing, MissingExtra
from everhold.model.base import Row
from everhold.optional_parts import make_encryption
from everhold.ports.backup_place import BackupPlace
from everhold.ports.row_packing import RowPacking
from everhold.schema.operations import Ensure
from everhold.sessions.secret import load_secret
from everhold.settings import Settings
from everhold.views.backup_files import EngineFiles

if TYPE_CHECKING:
    from everhold.encryption.deps import Encryption
    from everhold.encryption.row_cipher import RowCipher
    from everhold.parts import Parts
    from everhold.ports.records import Records


def open_place(target: str | Path) -> BackupPlace:
    """Return the place of backups at a folder or an fsspec address."""
    from everhold.adapters.files.backup_files import BackupFiles  # slow to import

    if not str(target).strip():  # it would be the current folder
        raise InvalidInput("the target is empty", value=str(target), remedy="name a folder or an address")
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
    """Return the name of a store in its backups. It is derived from the store's secret."""
    return hashlib.sha256(b"backups" + load_secret(records)).hexdigest()[:32]


def make_deps(parts: "Parts") -> BackupDeps:
    """Return the parts that make backups of an engine's store."""
    encryption = parts.encryption
    records = parts.records if encryption is None else encryption.stored
    files = EngineFiles(parts.settings, records, parts.workspace_deps.contents)
    sealing = NoSealing() if encryption is None else KeySealing(encryption.keys)
    per_user = encryption is not None and encryption.keys.per_user
    return BackupDeps(records, files, make_packing(), sealing, name_store(records), per_user)


def open_objects(history: History, manifest: Manifest, state: TargetState, settings: Settings) -> Objects:
    """Return the reader of the objects of a backup. It decrypts them with the master key of the settings."""
    encryption = make_backup_encryption(state, settings, manifest)
    sealing = NoSealing() if encryption is None else KeySealing(encryption.keys)
    return Objects(history.place, history.packing, sealing)


def make_backup_encryption(state: TargetState, settings: Settings, manifest: Manifest) -> "Encryption | None":
    """Return the encryption of a backup, made of the settings' master key and the data keys stored with the backup.

    None if the backup is not encrypted.
    """
    if not manifest.is_encrypted:
        return None
    if settings.encryption is None:
        raise MasterKeyMissing(
            f"backup {manifest.id} is encrypted, and the settings name no master key",
            remedy="set encryption.master_key to the master key of the store that was backed up",
        )
    from everhold.adapters.in_memory import InMemoryRecords

    # The keys are put into a store in memory, because nothing may be written before the backup has been checked.
    key_records = InMemoryRecords()
    key_records.commit([Ensure(row) for row in (*state.keys, *state.erasures)])
    return make_encryption(settings, key_records)


class DecryptedContents:
    """Decrypts the rows of a backup, so that a restore can change them to an earlier state, and encrypts the result."""

    def __init__(self, cipher: "RowCipher") -> None:
        self._cipher = cipher

    def decrypt(self, entity: type[Row], values: dict[str, Any]) -> dict[str, Any]:
        if not self._cipher.has_encrypted_fields(entity):
            return values
        try:
            return dict(self._cipher.decrypt_row(entity.build_unchecked(values)).__dict__)
        except EncryptionError:
            # The key was destroyed. The row stays encrypted, and its earlier state is not known exactly.
            return values

    def encrypt(self, entity: type[Row], values: dict[str, Any]) -> dict[str, Any]:
        return dict(self._cipher.encrypt_row(entity.build_unchecked(values)).__dict__)
