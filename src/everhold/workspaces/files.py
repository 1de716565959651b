"""Write, read, list, move and delete single files of a workspace."""

from collections.abc import Mapping
from typing import Any

from everhold.errors import Argument, Remedy, StaleVersion
from everhold.model import Workspace, WorkspaceFile
from everhold.schema.operations import Op, Where
from everhold.workspaces.changing import WorkArea, change_files
from everhold.workspaces.contents import hash_content
from everhold.workspaces.deps import WorkspaceDeps
from everhold.workspaces.manifests import ManifestEntry
from everhold.workspaces.paths import split_path
from everhold.workspaces.recording import FileFields, read_rows, require_file
from everhold.workspaces.sandbox import EXECUTABLE, PLAIN


def write_file(
    area: WorkArea,
    path: str,
    content: bytes,
    fields: FileFields,
    *,
    executable: bool,
    cycle_id: str | None,
    expected_version: int | None,
) -> WorkspaceFile:
    """Write a whole file; raise StaleVersion if its row is not at the expected version."""
    area.folder.files.check_free(split_path(path))
    check_quota(area, {path: len(content)})
    _check_version(area, path, expected_version)
    entry = ManifestEntry(hash_content(content), len(content), EXECUTABLE if executable else PLAIN)
    recording = area.make_recording("update", cycle_id, fields)
    change_files(area, {path: entry}, lambda _: content, recording)
    return require_file(area.deps, area.workspace, path)


def check_quota(area: WorkArea, sizes: Mapping[str, int]) -> None:
    """Raise InvalidInput if writing files of these sizes would exceed the limits."""
    for path, size in sizes.items():
        area.limits.check_file(path, size)
    where = [Where("workspace_id", Op.EQ, area.workspace.id)]
    rows = area.deps.records.columns(WorkspaceFile, area.workspace.organization_id, ("path", "size"), where)
    sizes_after = {**dict(rows), **sizes}
    area.limits.check(len(sizes_after), sum(sizes_after.values()))


def read_file(area: WorkArea, path: str) -> bytes:
    """Return the content of the file at a path of the folder."""
    return area.folder.files.read(split_path(path), area.limits.max_file_bytes)[0]


def move_file(area: WorkArea, path: str, target: str, cycle_id: str | None) -> WorkspaceFile:
    """Move a file to another path in one change, replacing a file at that path."""
    names = split_path(path)
    area.folder.files.check_free(split_path(target))
    row = read_rows(area.deps, area.workspace, [path]).get(path)
    content, status = area.folder.files.read(names, area.limits.max_file_bytes)
    mode = EXECUTABLE if status.st_mode & 0o100 else PLAIN
    entry = ManifestEntry(hash_content(content), len(content), mode)
    fields = FileFields() if row is None else FileFields(row.kind, row.media_type, _list_own_metadata(row))
    recording = area.make_recording("update", cycle_id, fields)
    change_files(area, {path: None, target: entry}, lambda _: content, recording)
    return require_file(area.deps, area.workspace, target)


def _list_own_metadata(row: WorkspaceFile) -> dict[str, Any]:
    return {name: value for name, value in row.metadata.items() if name != "executable"}


def delete_file(area: WorkArea, path: str, cycle_id: str | None, expected_version: int | None) -> None:
    """Delete a file from the folder and hide its row."""
    names = split_path(path)
    _check_version(area, path, expected_version)
    if not read_rows(area.deps, area.workspace, [path]):
        area.folder.files.read(names, area.limits.max_file_bytes)  # raises NotFound
    change_files(area, {path: None}, area.load, area.make_recording("delete", cycle_id))


def list_files(deps: WorkspaceDeps, workspace: Workspace, *, under: str | None, limit: int) -> list[WorkspaceFile]:
    """Return the rows of the files ordered by path; `under` limits them to a folder."""
    where = [Where("workspace_id", Op.EQ, workspace.id)]
    if under is not None:
        prefix = "/".join(split_path(under)) + "/"
        # "0" comes after "/", so this is the range of paths that begin with the prefix.
        where += [Where("path", Op.GE, prefix), Where("path", Op.LT, prefix[:-1] + "0")]
    return deps.records.scan(WorkspaceFile, workspace.organization_id, where, order="path", limit=limit)


def _check_version(area: WorkArea, path: str, expected: int | None) -> None:
    if expected is None:
        return
    row = read_rows(area.deps, area.workspace, [path]).get(path)
    current = 0 if row is None else row.version
    if current != expected:
        raise StaleVersion(
            f"file {path[:80]!r} is at version {current}, not {expected}",
            remedy=Remedy("read it again and retry with {}", Argument("expected_version", current)),
            current_version=current,
        )
