"""Snapshots of a workspace: take, list, read, restore and delete them."""

from dataclasses import dataclass
from datetime import timedelta

from everhold import clock
from everhold.errors import AlreadyExists, InvalidInput, NotFound, Remedy, StaleVersion, StoreBusy, Verb
from everhold.model import Snapshot, Workspace
from everhold.model.announcement import make_announcement
from everhold.retries import CONFLICTS, retry
from everhold.schema.operations import Hide, Op, Operation, Put, Where
from everhold.workspaces.changing import WorkArea, change_files
from everhold.workspaces.contents import hash_content
from everhold.workspaces.deps import WorkspaceDeps
from everhold.workspaces.folder import FileIndex, KnownFile
from everhold.workspaces.manifests import (
    Manifest,
    ManifestChange,
    apply_page,
    compare_manifests,
    decode_page,
    describe_manifest,
    encode_page,
    plan_pages,
    read_reference,
)
from everhold.workspaces.paths import fold_path, split_path
from everhold.workspaces.recording import make_closing_operations, reread
from everhold.workspaces.scanning import ScannedFiles, make_manifest, scan_files


@dataclass(frozen=True)
class RestoredFiles:
    """The paths that a restore wrote and removed, and a snapshot of the workspace before it."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    before: Snapshot


def take_snapshot(area: WorkArea, cycle_id: str | None) -> tuple[Snapshot, ScannedFiles]:
    """Scan the folder and store a snapshot of it, with the latest snapshot as its parent."""
    scanned, index = scan_files(area, cycle_id, keep_index=False)
    manifest = make_manifest(index)

    def commit(_: int) -> Snapshot:
        return _commit_snapshot(area, manifest, scanned, cycle_id)

    busy = StoreBusy(f"workspace {area.workspace.name!r} kept changing while a snapshot was taken")
    conflicts = (StaleVersion, AlreadyExists)
    snapshot = retry("take a snapshot", commit, CONFLICTS, on=conflicts, give_up=lambda _: busy)
    area.folder.write_index(FileIndex(area.workspace.version, index.files, index.absent))
    return snapshot, scanned


def _commit_snapshot(area: WorkArea, manifest: Manifest, scanned: ScannedFiles, cycle_id: str | None) -> Snapshot:
    """Store a snapshot of the scanned files with its access log lines and announcements, and return it."""
    deps, workspace = area.deps, reread(area.deps, area.workspace)
    parent = find_latest(deps, workspace)
    before = load_manifest(deps, parent) if parent is not None else {}
    reference, page = plan_pages(read_reference(parent) if parent is not None else None, before, manifest)
    page_operations: list[Operation] = []
    if page is not None:
        content = encode_page(page)
        page_hash = hash_content(content)
        page_operations = deps.contents.store(workspace.organization_id, [page_hash], lambda _: content)
        reference = reference._replace(pages=[*reference.pages, page_hash])
    now = clock.now()
    if parent is not None:  # snapshots are ordered by their time, and this computer's clock may be slow
        now = max(now, parent.created_at + timedelta(microseconds=1))
    snapshot = Snapshot(
        id=clock.make_id("snp"),
        organization_id=workspace.organization_id,
        created_at=now,
        updated_at=now,
        created_by_id=area.scope.actor,
        workspace_id=workspace.id,
        cycle_id=cycle_id,
        manifest=describe_manifest(reference, manifest, scanned.refused),
        parent_id=parent.id if parent is not None else None,
    )
    # The closing operations require the version of the workspace. The commit fails if a file was changed elsewhere or
    # the parent was deleted, so that garbage collection cannot delete contents and pages that the snapshot names.
    recording = area.make_recording("create", cycle_id)
    closing_operations, changed_workspace = make_closing_operations(deps, recording, workspace, len(manifest))
    announcement = Put(make_announcement(snapshot, owner=workspace))
    deps.records.commit([*page_operations, Put(snapshot), announcement, *closing_operations])
    area.workspace = changed_workspace
    return snapshot


def list_snapshots(deps: WorkspaceDeps, workspace: Workspace, limit: int) -> list[Snapshot]:
    """Return the snapshots of a workspace, newest first."""
    where = [Where("workspace_id", Op.EQ, workspace.id)]
    return deps.records.scan(
        Snapshot, workspace.organization_id, where, order="created_at", descending=True, limit=limit
    )


def find_latest(deps: WorkspaceDeps, workspace: Workspace) -> Snapshot | None:
    return next(iter(list_snapshots(deps, workspace, 1)), None)


def require_snapshot(deps: WorkspaceDeps, workspace: Workspace, snapshot_id: str) -> Snapshot:
    row = deps.records.get(Snapshot, workspace.organization_id, [snapshot_id]).get(snapshot_id)
    if row is None or row.workspace_id != workspace.id:
        raise NotFound(
            f"no snapshot {snapshot_id!r} of this workspace",
            value=snapshot_id,
            remedy=Remedy("{} lists them", Verb("snapshots")),
        )
    return row


def load_manifest(deps: WorkspaceDeps, snapshot: Snapshot, pages: dict[str, ManifestChange] | None = None) -> Manifest:
    """Return the files of a snapshot by path. `pages` caches pages that several snapshots share."""
    pages = {} if pages is None else pages
    manifest: Manifest = {}
    for name in read_reference(snapshot).pages:
        if name not in pages:
            pages[name] = decode_page(deps.contents.load(snapshot.organization_id, name))
        apply_page(manifest, pages[name])
    return manifest


def delete_snapshot(area: WorkArea, snapshot: Snapshot) -> None:
    """Hide a snapshot; its contents are collected after it is purged."""
    closing_operations, changed_workspace = make_closing_operations(
        area.deps, area.make_recording("delete"), area.workspace, 0
    )
    hide = Hide(Snapshot, (snapshot.organization_id, snapshot.id), clock.make_id("del"), clock.now())
    announcement = Put(make_announcement(snapshot, "delete", owner=area.workspace))
    area.deps.records.commit([hide, announcement, *closing_operations])
    area.workspace = changed_workspace


def restore_snapshot(area: WorkArea, snapshot: Snapshot, path: str | None, cycle_id: str | None) -> RestoredFiles:
    """Restore the folder, or one file of it, from a snapshot, after taking a snapshot of the current files."""
    target = load_manifest(area.deps, snapshot)
    before, scanned = take_snapshot(area, cycle_id)
    index = area.folder.read_index()
    current = make_manifest(index)
    if path is None:
        change = compare_manifests(current, target)
    else:
        entry = target.get(path)
        if entry is None:
            raise NotFound(
                f"no file {path[:80]!r} in the snapshot",
                value=path,
                remedy=Remedy("{} lists its files", Verb("manifest")),
            )
        area.folder.files.check_free(split_path(path))
        change = {path: entry} if current.get(path) != entry else {}
    _check_change(area, current, change)
    for refused_path in scanned.refused if path is None else ():
        _remove_refused(area, refused_path)
    if change:
        change_files(area, change, area.load, area.make_recording("update", cycle_id))
        _update_index(area, index, change)
    written = tuple(sorted(name for name, entry in change.items() if entry is not None))
    removed = tuple(sorted(name for name, entry in change.items() if entry is None))
    return RestoredFiles(written, removed, before)


def _remove_refused(area: WorkArea, path: str) -> None:
    """Remove a link or special file, which no snapshot has, so that the folder equals the snapshot."""
    try:
        area.folder.files.remove(tuple(path.split("/")))
    except (InvalidInput, NotFound):  # inside a folder that was removed, or whose name is not text
        return


def _check_change(area: WorkArea, current: Manifest, change: ManifestChange) -> None:
    """Raise InvalidInput if the files would exceed the limits, or if names would only differ in case."""
    after = dict(current)
    apply_page(after, change)
    area.limits.check(len(after), sum(entry.size for entry in after.values()))
    for path, entry in change.items():
        area.limits.check_file(path, entry.size if entry is not None else 0)
    folded = {fold_path(path) for path in after}
    if len(folded) < len(after):
        raise InvalidInput(
            "the snapshot has names that only differ in case or composition", remedy="restore its files one by one"
        )


def _update_index(area: WorkArea, index: FileIndex, change: ManifestChange) -> None:
    """Add the restored files to the index. The next scan reads them, because their entries have no timestamps."""
    for path, entry in change.items():
        if entry is None:
            index.files.pop(path, None)
        else:
            index.files[path] = KnownFile(0, 0, 0, entry.size, entry.mode, entry.sha256, is_settled=False)
    area.folder.write_index(FileIndex(area.workspace.version, index.files, index.absent - change.keys()))
