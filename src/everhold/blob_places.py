"""Choose the places of contents that are stored outside the records: archived messages and files of workspaces."""

import hashlib
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from everhold.adapters.address import read_scheme
from everhold.errors import InvalidSettings
from everhold.model import SessionArchive
from everhold.ports.data_keys import DataKeys
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where
from everhold.settings import Settings
from everhold.stores import find_blob_place

if TYPE_CHECKING:
    from everhold.sessions.archive_files import ArchiveFiles
    from everhold.workspaces.contents import Contents
    from everhold.workspaces.deps import MissingScopeRows, WorkspaceDeps


def make_archive_files(settings: Settings, records: Records, keys: DataKeys | None = None) -> "ArchiveFiles | None":
    """Return the files of archived messages, encrypted with `keys`; None if the settings name no place for blobs."""
    if settings.blobs == "auto":
        return None
    from everhold.adapters.files import FileBlobs  # slow to import
    from everhold.sessions.archive_files import ArchiveFiles

    # Each store has a separate folder, because two stores may have the same archive after a move.
    folder = _name_store(records, b"archives")
    return ArchiveFiles(records, FileBlobs(f"{settings.blobs.rstrip('/')}/archives/{folder}"), keys)


def copy_files(source: tuple[Settings, Records], target: tuple[Settings, Records]) -> None:
    """Copy the files that the rows of a moved store name."""
    copy_archive_files(source, target)
    copy_workspace_contents(source, target)


def copy_archive_files(source: tuple[Settings, Records], target: tuple[Settings, Records]) -> None:
    """Copy the files of archived messages of a store that was moved; do nothing if it has none."""
    if not source[1].count(SessionArchive, None, [Where("address", Op.NE, None)], deleted=True):
        return
    source_files, target_files = make_archive_files(*source), make_archive_files(*target)
    if source_files is None or target_files is None:
        raise InvalidSettings(
            "archived messages are in files, and the settings of one of the stores name no `blobs`",
            remedy="set `blobs` for both stores",
        )
    target_files.copy_from(source_files)


def make_workspace_deps(settings: Settings, records: Records, scope_rows: "MissingScopeRows") -> "WorkspaceDeps":
    """Return the dependencies of the verbs on workspaces."""
    from everhold.workspaces.deps import WorkspaceDeps, WorkspaceLimits

    workspace_settings = settings.workspaces
    is_in_memory = read_scheme(settings.storage) == "memory" and settings.blobs == "auto"
    data = _make_temporary_folder(records) if is_in_memory else settings.data
    base = workspace_settings.folder or data / "workspaces"
    return WorkspaceDeps(
        records,
        scope_rows,
        make_contents(str(data / "blobs") if is_in_memory else find_blob_place(settings), records),
        base.absolute() / _name_store(records, b"workspaces"),
        WorkspaceLimits(workspace_settings.max_bytes, workspace_settings.max_file_bytes, workspace_settings.max_files),
        settings.interface,
    )


def _make_temporary_folder(records: Records) -> Path:
    """Make a folder for a store in memory. The folder is deleted when the store and its rows are."""
    folder = tempfile.mkdtemp(prefix="everhold-")
    weakref.finalize(records, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def find_workspaces_folder(settings: Settings) -> Path:
    """Return the folder below which the workspaces of all stores have their files."""
    return settings.workspaces.folder or settings.data / "workspaces"


def make_contents(place: str, records: Records) -> "Contents":
    """Return the contents of a store's workspaces at a place for blobs."""
    from everhold.adapters.files import FileBlobs  # slow to import
    from everhold.workspaces.contents import Contents

    return Contents(records, FileBlobs(f"{place.rstrip('/')}/workspaces/{_name_store(records, b'workspaces')}"))


def copy_workspace_contents(source: tuple[Settings, Records], target: tuple[Settings, Records]) -> None:
    """Copy the files of all workspaces of a store that was moved; files that the target already has are kept."""
    from everhold.model import Blob

    if not source[1].count(Blob, None):
        return
    source_contents, target_contents = (
        make_contents(find_blob_place(settings), records) for settings, records in (source, target)
    )
    target_contents.copy_from(source_contents)


def _name_store(records: Records, purpose: bytes) -> str:
    """Return the name of a store's separate folder, because two stores may have the same rows after a move."""
    from everhold.sessions.secret import load_secret

    return hashlib.sha256(purpose + load_secret(records)).hexdigest()[:32]
