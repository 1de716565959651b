"""Record the files that tools have written to a workspace's folder.

A file is read only if its status (modification time, change time, inode, size) differs from that of the last scan, or
if it was changed so shortly before that scan that a further change may have left the same timestamps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from everhold.errors import InvalidInput, NotFound
from everhold.model import WorkspaceFile
from everhold.schema.operations import Op, Where
from everhold.workspaces.changing import WorkArea
from everhold.workspaces.contents import hash_content
from everhold.workspaces.deps import WorkspaceLimits
from everhold.workspaces.folder import FileIndex, KnownFile
from everhold.workspaces.manifests import Manifest, ManifestEntry
from everhold.workspaces.recording import record_files
from everhold.workspaces.sandbox import EXECUTABLE, PLAIN, FileEntry, choose_mode

# Contents stay in memory until they are stored, so they are recorded in batches of about this size.
_BATCH_BYTES = 32_000_000
_BATCH_FILES = 2_000


@dataclass(frozen=True)
class ScannedFiles:
    """The paths that a scan added, changed and removed, and why it refused others."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass
class _ScanState:
    """The state of a running scan."""

    area: WorkArea
    index: FileIndex
    recorded_files: dict[str, ManifestEntry]
    """The files as the rows describe them."""
    limits: WorkspaceLimits
    files: dict[str, KnownFile] = field(default_factory=dict)
    changes: dict[str, ManifestEntry | None] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    size: int = 0
    unrecorded_bytes: int = 0
    """The size of the contents that have not been recorded yet, in bytes."""


def scan_files(
    area: WorkArea, cycle_id: str | None = None, *, keep_index: bool = True
) -> tuple[ScannedFiles, FileIndex]:
    """Update the rows from the folder; return the changes, and the index of the files.

    With `keep_index` false, the caller must write the index.
    """
    index = area.folder.read_index()
    state = _ScanState(area, index, _list_recorded_files(area, index), area.limits)
    settled_before = area.folder.read_clock()
    prefixes = {prefix for path in state.recorded_files for prefix in _list_prefixes(path)}
    walk = area.folder.files.walk(prefixes.__contains__)
    state.refused.update(walk.refused)
    added_paths: list[str] = []
    changed_paths: list[str] = []
    for entry in walk.files:
        recorded = state.recorded_files.get(entry.path)
        if _scan_file(state, entry, settled_before) and state.changes.get(entry.path) is not None:
            paths = added_paths if recorded is None else changed_paths
            paths.append(entry.path)
        if state.unrecorded_bytes > _BATCH_BYTES or len(state.contents) >= _BATCH_FILES:
            _record(state, cycle_id)
    removed_paths = sorted(
        path for path in state.recorded_files if path not in state.files and path not in index.absent
    )
    state.changes.update(dict.fromkeys(removed_paths))
    _record(state, cycle_id)
    absent_paths = index.absent - state.files.keys()
    index = FileIndex(area.workspace.version, state.files, absent_paths)
    if keep_index:
        area.folder.write_index(index)
    return ScannedFiles(tuple(added_paths), tuple(changed_paths), tuple(removed_paths), state.refused), index


def make_manifest(index: FileIndex) -> Manifest:
    return {
        path: ManifestEntry(known_file.sha256, known_file.size, known_file.mode)
        for path, known_file in index.files.items()
    }


def read_recorded_files(area: WorkArea) -> dict[str, ManifestEntry]:
    """Return the files of the workspace as its rows describe them."""
    names = ("path", "sha256", "size", "metadata")
    where = [Where("workspace_id", Op.EQ, area.workspace.id)]
    rows = area.deps.records.columns(WorkspaceFile, area.workspace.organization_id, names, where)
    return {
        path: ManifestEntry(sha256, size, EXECUTABLE if metadata.get("executable") is True else PLAIN)
        for path, sha256, size, metadata in rows
    }


def _list_recorded_files(area: WorkArea, index: FileIndex) -> dict[str, ManifestEntry]:
    """Return the files as the rows describe them, read from the index if the rows have not changed since."""
    return make_manifest(index) if index.version == area.workspace.version else read_recorded_files(area)


def _list_prefixes(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def _scan_file(state: _ScanState, entry: FileEntry, settled_before: int) -> bool:
    """Add a file of the folder to the scan; return False if the file is refused or gone."""
    path, limits = entry.path, state.limits
    known_file, content = state.index.files.get(path), None
    if len(state.files) >= limits.max_files:
        state.refused[path] = f"exceeds the limit of {limits.max_files:,} files"
        return False
    if known_file is None or not known_file.matches(entry.status):
        try:
            known_file, content = _read_file(state.area, entry, settled_before)
        except NotFound:
            return False
        except InvalidInput as error:
            state.refused[path] = error.fact
            return False
    if state.size + known_file.size > limits.max_bytes:
        state.refused[path] = f"exceeds the limit of {limits.max_bytes:,} bytes"
        return False
    state.size += known_file.size
    state.files[path] = known_file
    current_entry = ManifestEntry(known_file.sha256, known_file.size, known_file.mode)
    if state.recorded_files.get(path) != current_entry:
        state.changes[path] = current_entry
        if content is not None:
            state.contents[known_file.sha256] = content
            state.unrecorded_bytes += len(content)
    return True


def _read_file(area: WorkArea, entry: FileEntry, settled_before: int) -> tuple[KnownFile, bytes]:
    """Read and hash a file; raise InvalidInput if it is too large, or was replaced since the walk."""
    limits = area.limits
    limits.check_file(entry.path, entry.status.st_size)
    content, status = area.folder.files.read(tuple(entry.path.split("/")), limits.max_file_bytes)
    known_file = KnownFile(
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        len(content),
        choose_mode(status),
        hash_content(content),
        # A file that changed while it was read has a later timestamp than `settled_before`.
        max(status.st_mtime_ns, status.st_ctime_ns) < settled_before and len(content) == status.st_size,
    )
    return known_file, content


def _record(state: _ScanState, cycle_id: str | None) -> None:
    area = state.area

    def get_content(sha256: str) -> bytes:
        # The index may know a content that the rows do not: then the file has not been read.
        content = state.contents.get(sha256)
        return area.load(sha256) if content is None else content

    if state.changes:
        recording = area.make_recording("update", cycle_id)
        area.workspace = record_files(area.deps, recording, state.changes, get_content)
    state.changes.clear()
    state.contents.clear()
    state.unrecorded_bytes = 0
