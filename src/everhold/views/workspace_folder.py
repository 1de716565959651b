"""The verbs on one workspace."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import everhold
from everhold.arguments.checks import FileContent, FileKind, FilePath, Identifier, ListLength, PathText
from everhold.arguments.verbs import check_verbs, log_as
from everhold.model import Scope, Snapshot, Workspace, WorkspaceFile
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from everhold.parts import Parts
    from everhold.workspaces.changing import WorkArea


@check_verbs
class WorkspaceFolder(ScopedView):
    """One workspace: its files on this machine, its snapshots, and the stored rows and contents of both.

    Tools may also write to `folder` directly; `scan` and `snapshot` store what they wrote.
    """

    def __init__(self, parts: "Parts", scope: Scope, workspace: Workspace) -> None:
        super().__init__(parts, scope)
        self.workspace = workspace

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workspace.name!r})"

    @property
    def id(self) -> str:
        return self.workspace.id

    @property
    def name(self) -> str:
        return self.workspace.name

    @property
    def folder(self) -> Path:
        """The folder of the files on this machine. The first verb that needs it creates it."""
        return self._parts.workspace_deps.find_folder(self.workspace).files

    @log_as("update")
    def write(
        self,
        path: FilePath,
        content: FileContent,
        *,
        kind: FileKind | None = None,
        media_type: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        executable: bool = False,
        cycle: Identifier | None = None,
        expected_version: int | None = None,
    ) -> WorkspaceFile:
        """Write a whole file, text as UTF-8, and return its row. `cycle` is the cycle of a run that writes it.

        The default kind is "artifact", and the default media type is chosen by the file name. Raise StaleVersion if the
        version of the file's row is not `expected_version`; 0 means that there is no such file.
        """
        from everhold.workspaces.files import write_file
        from everhold.workspaces.lifecycle import require_cycle
        from everhold.workspaces.recording import FileFields

        require_cycle(self._parts.workspace_deps, self.scope, cycle)
        fields = FileFields(kind, media_type, metadata)
        data = content.encode() if isinstance(content, str) else content
        with self._open() as area:
            return write_file(
                area, path, data, fields, executable=executable, cycle_id=cycle, expected_version=expected_version
            )

    @log_as("read")
    def read(self, path: FilePath) -> bytes:
        """Return the present content of a file in the folder. Raise NotFound if there is no such file."""
        from everhold.workspaces.files import read_file

        with self._open() as area:
            content = read_file(area, path)
        self._log_call("read", {"workspace": self.id, "files": 1})
        return content

    @log_as("read")
    def files(self, *, under: FilePath | None = None, limit: ListLength = 1000) -> list[WorkspaceFile]:
        """Return the rows of the files, ordered by path; with `under`, those of a folder."""
        from everhold.workspaces.files import list_files

        rows = list_files(self._parts.workspace_deps, self._reread(), under=under, limit=limit)
        self._log_call("read", {"workspace": self.id, "files": len(rows)})
        return rows

    @log_as("delete")
    def delete(self, path: FilePath, *, cycle: Identifier | None = None, expected_version: int | None = None) -> None:
        """Delete a file. It stays in earlier snapshots. Raise NotFound if there is no such file."""
        from everhold.workspaces.files import delete_file
        from everhold.workspaces.lifecycle import require_cycle

        require_cycle(self._parts.workspace_deps, self.scope, cycle)
        with self._open() as area:
            delete_file(area, path, cycle, expected_version)

    @log_as("update")
    def move(self, path: FilePath, target: FilePath, *, cycle: Identifier | None = None) -> WorkspaceFile:
        """Move a file to the path `target`, in one change. A file at that path is replaced."""
        from everhold.workspaces.files import move_file
        from everhold.workspaces.lifecycle import require_cycle

        require_cycle(self._parts.workspace_deps, self.scope, cycle)
        with self._open() as area:
            return move_file(area, path, target, cycle)

    @log_as("update")
    def scan(self, *, cycle: Identifier | None = None) -> "everhold.ScannedFiles":
        """Store the changes that tools have made in the folder: new, changed and deleted files.

        Links, devices, names that could mean another file, and what exceeds the limits are refused and reported.
        """
        from everhold.workspaces.lifecycle import require_cycle
        from everhold.workspaces.scanning import scan_files

        require_cycle(self._parts.workspace_deps, self.scope, cycle)
        with self._open() as area:
            scanned, _ = scan_files(area, cycle)
        self._log_call("read", {"workspace": self.id, "refused": len(scanned.refused)})
        return scanned

    @log_as("create")
    def snapshot(self, *, cycle: Identifier | None = None) -> Snapshot:
        """Scan the folder and store its state as a snapshot. Refused files are listed in the snapshot's `manifest`."""
        from everhold.workspaces.lifecycle import require_cycle
        from everhold.workspaces.snapshots import take_snapshot

        require_cycle(self._parts.workspace_deps, self.scope, cycle)
        with self._open() as area:
            return take_snapshot(area, cycle)[0]

    @log_as("read")
    def snapshots(self, *, limit: ListLength = 50) -> list[Snapshot]:
        """Return the snapshots, newest first."""
        from everhold.workspaces.snapshots import list_snapshots

        rows = list_snapshots(self._parts.workspace_deps, self._reread(), limit)
        self._log_call("read", {"workspace": self.id, "snapshots": len(rows)})
        return rows

    @log_as("read")
    def manifest(self, snapshot: Identifier) -> dict[str, dict[str, Any]]:
        """Return the files of a snapshot by path: their `sha256`, `size` and `mode`."""
        from everhold.workspaces.snapshots import load_manifest

        manifest = load_manifest(self._parts.workspace_deps, self._require_snapshot(snapshot))
        self._log_call("read", {"workspace": self.id, "files": len(manifest)})
        return {path: entry._asdict() for path, entry in sorted(manifest.items())}

    @log_as("read")
    def diff(
        self, before: Identifier | None = None, after: Identifier | None = None
    ) -> "list[everhold.FileDifference]":
        """Return how the files of two snapshots differ, ordered by path.

        The default of `before` is the latest snapshot, and the default of `after` the folder as it is now.
        """
        from everhold.workspaces.diffs import compare_files
        from everhold.workspaces.scanning import make_manifest, scan_files
        from everhold.workspaces.snapshots import find_latest, load_manifest

        deps = self._parts.workspace_deps
        old_snapshot = find_latest(deps, self._reread()) if before is None else self._require_snapshot(before)
        old = load_manifest(deps, old_snapshot) if old_snapshot is not None else {}
        if after is not None:
            new = load_manifest(deps, self._require_snapshot(after))
        else:
            with self._open() as area:
                new = make_manifest(scan_files(area)[1])
        differences = compare_files(old, new, self._load)
        self._log_call("read", {"workspace": self.id, "files": len(differences)})
        return differences

    @log_as("update")
    def restore(
        self, snapshot: Identifier, path: FilePath | None = None, *, cycle: Identifier | None = None
    ) -> "everhold.RestoredFiles":
        """Restore the folder, or one file in it, from a snapshot. The present state is stored as a snapshot first.

        Callers of these verbs see either the whole restore or nothing of it, even after a crash: the next verb
        completes an interrupted restore. If a content is missing or the disk is full, nothing changes.
        """
        from everhold.workspaces.lifecycle import require_cycle
        from everhold.workspaces.snapshots import restore_snapshot

        require_cycle(self._parts.workspace_deps, self.scope, cycle)
        row = self._require_snapshot(snapshot)
        with self._open() as area:
            return restore_snapshot(area, row, path, cycle)

    @log_as("delete")
    def delete_snapshot(self, snapshot: Identifier) -> None:
        """Delete a snapshot. After the grace period, maintenance purges it and the contents that only it uses."""
        from everhold.workspaces.snapshots import delete_snapshot

        row = self._require_snapshot(snapshot)
        with self._open() as area:
            delete_snapshot(area, row)

    @log_as("read")
    def verify(self) -> "everhold.VerifiedWorkspace":
        """Read every file and every content that a file or a snapshot refers to, compare their hashes, return
        problems."""
        from everhold.workspaces.verification import verify_workspace

        with self._open() as area:
            verified = verify_workspace(area)
        self._log_call("read", {"workspace": self.id, "problems": len(verified.problems)})
        return verified

    @log_as("export")
    def export(self, target: PathText | Path, *, snapshot: Identifier | None = None, overwrite: bool = False) -> int:
        """Write the files of the workspace, or of a snapshot, to a tar file, and return the number of files."""
        from everhold.workspaces.archives import export_files
        from everhold.workspaces.scanning import make_manifest, scan_files
        from everhold.workspaces.snapshots import load_manifest

        if snapshot is not None:
            manifest = load_manifest(self._parts.workspace_deps, self._require_snapshot(snapshot))
        else:
            with self._open() as area:
                manifest = make_manifest(scan_files(area)[1])
        export_files(Path(target), manifest, self._load, overwrite=overwrite)
        self._log_call("export", {"workspace": self.id, "files": len(manifest)})
        return len(manifest)

    @log_as("import")
    def extract(
        self, source: PathText | Path, *, into: FilePath | None = None, cycle: Identifier | None = None
    ) -> list[str]:
        """Write the files of a tar or zip file to the workspace, all or none, and return their paths.

        `into` is the folder of the workspace to write to. Raise InvalidInput if an entry is a link or a device, has a
        forbidden name or the name of another entry, or exceeds the limits.
        """
        from everhold.workspaces.archives import import_archive
        from everhold.workspaces.lifecycle import require_cycle

        require_cycle(self._parts.workspace_deps, self.scope, cycle)
        with self._open() as area:
            return import_archive(area, Path(source), into, cycle)

    @log_as("delete")
    def collect_garbage(self) -> "everhold.CollectedGarbage":
        """Delete the contents that no file and no snapshot in the organization's workspaces has used for an hour."""
        from everhold.workspaces.garbage import collect_garbage

        self._reread()
        collected = collect_garbage(self._parts.workspace_deps, self.scope.organization, min_age=timedelta(hours=1))
        self._log_call("delete", {"workspace": self.id, "contents": collected.contents})
        return collected

    def _open(self) -> "AbstractContextManager[WorkArea]":
        from everhold.workspaces.changing import open_work_area

        return open_work_area(self._parts.workspace_deps, self.scope, self.workspace)

    def _reread(self) -> Workspace:
        from everhold.workspaces.recording import reread

        return reread(self._parts.workspace_deps, self.workspace)

    def _require_snapshot(self, snapshot: str) -> Snapshot:
        from everhold.workspaces.snapshots import require_snapshot

        return require_snapshot(self._parts.workspace_deps, self._reread(), snapshot)

    def _load(self, sha256: str) -> bytes:
        return self._parts.workspace_deps.contents.load(self.scope.organization, sha256)


class AsyncWorkspaceFolder(AsyncFacade):
    """A workspace whose verbs are awaited."""

    def __init__(self, workspace_folder: WorkspaceFolder, pool: "ThreadPoolExecutor") -> None:
        super().__init__(workspace_folder, pool)
        self.workspace = workspace_folder.workspace
        self.id = workspace_folder.id
        self.name = workspace_folder.name
        self.folder = workspace_folder.folder

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    write = Awaited(WorkspaceFolder.write)
    read = Awaited(WorkspaceFolder.read)
    files = Awaited(WorkspaceFolder.files)
    delete = Awaited(WorkspaceFolder.delete)
    move = Awaited(WorkspaceFolder.move)
    scan = Awaited(WorkspaceFolder.scan)
    snapshot = Awaited(WorkspaceFolder.snapshot)
    snapshots = Awaited(WorkspaceFolder.snapshots)
    manifest = Awaited(WorkspaceFolder.manifest)
    diff = Awaited(WorkspaceFolder.diff)
    restore = Awaited(WorkspaceFolder.restore)
    delete_snapshot = Awaited(WorkspaceFolder.delete_snapshot)
    verify = Awaited(WorkspaceFolder.verify)
    export = Awaited(WorkspaceFolder.export)
    extract = Awaited(WorkspaceFolder.extract)
    collect_garbage = Awaited(WorkspaceFolder.collect_garbage)
