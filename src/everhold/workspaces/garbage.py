"""Collect contents that no file and no snapshot names, and folders of workspaces that were purged."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from everhold import clock
from everhold.errors import NotFound, StoreDamaged
from everhold.model import Blob, Organization, Snapshot, Workspace, WorkspaceFile
from everhold.schema.operations import Op, Where
from everhold.workspaces.deps import WorkspaceDeps
from everhold.workspaces.folder import LocalFolder, list_folders
from everhold.workspaces.manifests import ManifestChange, read_reference
from everhold.workspaces.snapshots import load_manifest

# A younger content may belong to a writer that has not written its rows yet. Deleting it would be safe but useless,
# because the writer would store it again.
_MIN_AGE = timedelta(hours=1)


class CollectedGarbage(NamedTuple):
    """The number of contents deleted, and their bytes before compression."""

    contents: int
    bytes: int


def find_garbage(deps: WorkspaceDeps, organization: str, min_age: timedelta = _MIN_AGE) -> list[Blob]:
    """Return the contents of an organization that nothing names."""
    before = clock.now() - min_age
    # Contents are read before the rows that name them: naming one in between changes its version, so that deleting it
    # fails.
    rows = deps.records.scan(Blob, organization, [Where("updated_at", Op.LE, before)])
    if not rows:
        return []
    columns = deps.records.columns(WorkspaceFile, organization, ("sha256",), deleted=True)
    named_hashes = {sha256 for (sha256,) in columns}
    snapshots = deps.records.scan(Snapshot, organization, deleted=True)
    pages: dict[str, ManifestChange] = {}
    for snapshot in snapshots:
        try:
            named_hashes.update(read_reference(snapshot).pages)
            named_hashes.update(entry.sha256 for entry in load_manifest(deps, snapshot, pages).values())
        except (StoreDamaged, NotFound):
            if _is_from_bundle(deps, snapshot):
                continue
            raise  # a content that the damaged manifest names must not be collected
    return [row for row in rows if row.sha256 not in named_hashes]


def _is_from_bundle(deps: WorkspaceDeps, snapshot: Snapshot) -> bool:
    """Return whether a snapshot has no pages in this store, because it came from a bundle, which has no contents."""
    try:
        pages = read_reference(snapshot).pages
    except StoreDamaged:
        return True
    return not deps.records.get(Blob, snapshot.organization_id, pages)


def collect_garbage(
    deps: WorkspaceDeps,
    organization: str,
    add: Callable[[int], None] = lambda _: None,
    min_age: timedelta = _MIN_AGE,
) -> CollectedGarbage:
    """Delete the contents of an organization that nothing names, while others may write; call `add` after each."""
    count, size = 0, 0
    for row in find_garbage(deps, organization, min_age):
        if deps.contents.delete(row):
            count, size = count + 1, size + row.size
            add(1)
    return CollectedGarbage(count, size)


def remove_purged(deps: WorkspaceDeps) -> int:
    """Delete the folders of workspaces and the contents of organizations that were purged; return how many."""
    # Folders are listed before the rows are read, so that a workspace created in between does not lose its folder.
    folders = list_folders(deps.base)
    keys = deps.records.columns(Workspace, None, ("organization_id", "id"), deleted=True)
    workspace_folders = {LocalFolder(deps.base, organization, name).path for organization, name in keys}
    count = 0
    for _, folder in folders:
        if folder not in workspace_folders:
            shutil.rmtree(folder, ignore_errors=True)
            count += 1
    organizations = [name for (name,) in deps.records.columns(Organization, None, ("id",), deleted=True)]
    return count + deps.contents.blobs.delete_others(organizations)
