"""Change files of a workspace on disk and in the records together.

    store the contents → stage the files → write the journal → move the files into place → write the rows → end

Until the journal is written, nothing has changed. From then on the change will be completed: by this call or, if the
process dies or the store fails, by the next call that opens the workspace. So callers of the verbs see a change as a
whole or not at all. A program that reads the folder itself sees the old or the new content of each file.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from everhold.batches import split_into_batches
from everhold.errors import InvalidInput, NotFound, StoreDamaged
from everhold.model import Scope, Workspace, WorkspaceFile
from everhold.model.access import LoggedOperation
from everhold.schema.operations import Op, Where
from everhold.workspaces.contents import GetContent, hash_content
from everhold.workspaces.deps import WorkspaceDeps, WorkspaceLimits
from everhold.workspaces.folder import FileIndex, LockedFolder
from everhold.workspaces.manifests import ManifestEntry
from everhold.workspaces.paths import find_path_fault, split_path
from everhold.workspaces.recording import FileFields, Recording, record_files, reread
from everhold.workspaces.sandbox import EXECUTABLE, PLAIN, choose_mode

_BATCH = 200  # contents that are stored at a time
_WRITERS = 16  # files that are written to disk at the same time


@dataclass
class WorkArea:
    """A workspace whose folder is open and locked."""

    deps: WorkspaceDeps
    scope: Scope
    workspace: Workspace
    folder: LockedFolder

    @property
    def limits(self) -> WorkspaceLimits:
        return self.deps.limits.narrow(self.workspace)

    def make_recording(
        self, operation: LoggedOperation, cycle_id: str | None = None, fields: FileFields | None = None
    ) -> Recording:
        return Recording(self.scope, self.workspace, operation, cycle_id, fields or FileFields())

    def load(self, sha256: str) -> bytes:
        """Return the content with this hash."""
        return self.deps.contents.load(self.workspace.organization_id, sha256)


@contextmanager
def open_work_area(deps: WorkspaceDeps, scope: Scope, workspace: Workspace) -> Iterator[WorkArea]:
    """Lock and yield the workspace's folder, after completing an interrupted change and fetching missing files."""
    workspace = reread(deps, workspace)
    with deps.find_folder(workspace).open() as folder:
        area = WorkArea(deps, scope, reread(deps, workspace), folder)
        _complete_change(area)
        _fetch_files(area)
        yield area


def change_files(
    area: WorkArea, entries: Mapping[str, ManifestEntry | None], get_content: GetContent, recording: Recording
) -> None:
    """Write and remove files. `get_content` returns the content of a hash, and may be called several times for it."""
    organization = area.workspace.organization_id
    hashes = sorted({entry.sha256 for entry in entries.values() if entry is not None})
    for batch in split_into_batches(hashes, _BATCH):
        area.deps.contents.store(organization, batch, get_content)
    staged_files = _stage_files(area, entries, get_content)
    fields = recording.fields
    area.folder.write_journal(
        {
            "operation": recording.operation,
            "cycle": recording.cycle_id,
            "kind": fields.kind,
            "media_type": fields.media_type,
            "metadata": fields.metadata,
            "files": staged_files,
        }
    )
    _move_files(area, staged_files)
    area.workspace = record_files(area.deps, recording, entries, get_content)
    area.folder.clear_journal()


def _stage_files(
    area: WorkArea, entries: Mapping[str, ManifestEntry | None], get_content: GetContent
) -> dict[str, list[Any] | None]:
    """Write the files to the staging folder; return each entry with the name of its staged file."""

    def stage(entry: ManifestEntry | None) -> list[Any] | None:
        return None if entry is None else [*entry, area.folder.stage(get_content(entry.sha256), entry.mode)]

    if len(entries) == 1:
        return {path: stage(entry) for path, entry in entries.items()}
    # Parallel writes are faster, because the disk can make several files durable at once.
    with ThreadPoolExecutor(_WRITERS) as pool:
        return dict(zip(entries, pool.map(stage, entries.values()), strict=True))


def _move_files(area: WorkArea, staged_files: Mapping[str, Any], refusals: tuple[type[Exception], ...] = ()) -> None:
    """Remove and publish files; a path that raises one of `refusals` is left as it is."""
    for path, entry in staged_files.items():
        if entry is None:
            with suppress(*refusals):
                area.folder.files.remove(split_path(path))
    for path, entry in staged_files.items():
        if entry is not None:
            with suppress(*refusals):
                area.folder.publish(split_path(path), entry[-1])
    with suppress(*refusals):
        area.folder.files.sync_folders({split_path(path)[:-1] for path in staged_files})


def _complete_change(area: WorkArea) -> None:
    """Complete a change that an interrupted process has left in the journal, and delete staged files."""
    journal = area.folder.read_journal()
    if journal is not None:
        staged_files = {path: entry for path, entry in journal["files"].items() if find_path_fault(path) is None}
        # If a tool has put a link or a folder at a path in the meantime, it stays, and the path is recorded as empty.
        _move_files(area, staged_files, (InvalidInput,))
        fields = FileFields(journal["kind"], journal["media_type"], journal["metadata"])
        contents = {path: _read_entry(area, path) for path in staged_files}
        content_by_hash = {entry[0].sha256: entry[1] for entry in contents.values() if entry is not None}
        entries = {path: None if entry is None else entry[0] for path, entry in contents.items()}
        recording = area.make_recording(journal["operation"], journal["cycle"], fields)
        area.workspace = record_files(area.deps, recording, entries, content_by_hash.__getitem__)
        area.folder.clear_journal()
    area.folder.clear_staging()


def _read_entry(area: WorkArea, path: str) -> tuple[ManifestEntry, bytes] | None:
    """Return the entry and the content of the file at a path; None if there is no such file."""
    try:
        content, status = area.folder.files.read(split_path(path), area.limits.max_file_bytes)
    except (NotFound, InvalidInput):
        return None
    return ManifestEntry(hash_content(content), len(content), choose_mode(status)), content


def _fetch_files(area: WorkArea) -> None:
    """Write the files of the workspace to its folder if this machine has never used the folder."""
    if area.folder.has_index():
        return
    where = [Where("workspace_id", Op.EQ, area.workspace.id)]
    index = FileIndex(version=0)
    for row in area.deps.records.scan(WorkspaceFile, area.workspace.organization_id, where):
        if find_path_fault(row.path) is not None:  # such a row comes from a bundle
            continue
        try:
            _fetch_file(area, row)
        except (NotFound, StoreDamaged, InvalidInput):
            index.absent.add(row.path)
    area.folder.write_index(index)


def _fetch_file(area: WorkArea, row: WorkspaceFile) -> None:
    names = split_path(row.path)
    try:
        area.folder.files.read(names, area.limits.max_file_bytes)
    except NotFound:
        mode = EXECUTABLE if row.metadata.get("executable") is True else PLAIN
        area.folder.publish(names, area.folder.stage(area.load(row.sha256), mode))
