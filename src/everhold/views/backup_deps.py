"""What backups of an engine's store are made with."""

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.backups.deps import BackupDeps
from everhold.backups.sealing import NoSealing
from everhold.errors import MissingExtra
from everhold.ports.backup_place import BackupPlace
from everhold.ports.row_packing import RowPacking
from everhold.sessions.secret import load_secret
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
        raise MissingExtra(
            f"backups need the package {error.name}", remedy="pip install 'everhold[backup]'"
        ) from error
    return MessagePacking()


def name_store(records: "Records") -> str:
    """Return the name of a store, which its backups have."""
    return hashlib.sha256(b"backups" + load_secret(records)).hexdigest()[:32]


def make_deps(parts: "Parts") -> BackupDeps:
    """Return what the backup of an engine's store is made with."""
    records = parts.records
    files = EngineFiles(parts.settings, records, parts.workspace_deps.contents)
    return BackupDeps(records, files, make_packing(), NoSealing(), name_store(records))
