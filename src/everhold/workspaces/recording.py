"""Write the rows of files that were added, changed or removed, with their contents."""

import mimetypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from everhold import clock
from everhold.batches import split_into_batches
from everhold.errors import AlreadyExists, NotFound, Remedy, StaleVersion, StoreBusy, Verb
from everhold.model import Cycle, Scope, Workspace, WorkspaceFile
from everhold.model.access import LoggedOperation, make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.retries import CONFLICTS, retry
from everhold.schema.operations import Hide, Op, Operation, Patch, Put, Where
from everhold.workspaces.contents import GetContent
from everhold.workspaces.deps import WorkspaceDeps
from everhold.workspaces.lifecycle import make_workspace_not_found
from everhold.workspaces.manifests import ManifestEntry
from everhold.workspaces.sandbox import EXECUTABLE

_BATCH = 200  # files in one commit
# The system's own table of types is not read, so that a path has the same type on every machine.
_TYPES = mimetypes.MimeTypes()
_TYPES.add_type("text/markdown", ".md")


@dataclass(frozen=True)
class FileFields:
    """The fields of a file's row that a caller may choose; None keeps what the row has."""

    kind: str | None = None
    media_type: str | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Recording:
    """The author and the workspace of a change of files, and the fields that the files' rows get."""

    scope: Scope
    workspace: Workspace
    operation: LoggedOperation
    cycle_id: str | None = None
    fields: FileFields = field(default_factory=FileFields)


def record_files(
    deps: WorkspaceDeps,
    recording: Recording,
    entries: Mapping[str, ManifestEntry | None],
    get_content: GetContent,
) -> Workspace:
    """Store the contents and write the rows of files; return the workspace's row after the last commit.

    Many files take several commits. Only the last one changes the version of the workspace: after an interrupted
    call, the next scan completes the rows.
    """
    recording = replace(recording, cycle_id=_find_cycle(deps, recording))
    busy = StoreBusy(f"workspace {recording.workspace.name!r} kept changing while it was written")
    conflicts = (StaleVersion, AlreadyExists)
    *batches, last_paths = list(split_into_batches(sorted(entries), _BATCH)) or [[]]
    for paths in batches:
        commit = partial(_commit_files, deps, recording, {path: entries[path] for path in paths}, get_content)
        retry("record files", commit, CONFLICTS, on=conflicts, give_up=lambda _: busy)

    def commit_last(_: int) -> Workspace:
        workspace = reread(deps, recording.workspace)
        closing_operations, changed_workspace = make_closing_operations(deps, recording, workspace, len(entries))
        _commit_files(deps, recording, {path: entries[path] for path in last_paths}, get_content, 0, closing_operations)
        return changed_workspace

    return retry("record files", commit_last, CONFLICTS, on=conflicts, give_up=lambda _: busy)


def _commit_files(
    deps: WorkspaceDeps,
    recording: Recording,
    batch: Mapping[str, ManifestEntry | None],
    get_content: GetContent,
    _: int,
    closing: Sequence[Operation] = (),
) -> None:
    operations = [*_make_file_operations(deps, recording, batch, get_content), *closing]
    if operations:
        deps.records.commit(operations)


def reread(deps: WorkspaceDeps, workspace: Workspace) -> Workspace:
    """Return the workspace's current row; raise NotFound if it was deleted."""
    row = deps.records.get(Workspace, workspace.organization_id, [workspace.id]).get(workspace.id)
    if row is None:
        raise make_workspace_not_found(workspace.name)
    return row


def make_closing_operations(
    deps: WorkspaceDeps, recording: Recording, workspace: Workspace, count: int
) -> tuple[list[Operation], Workspace]:
    """Return the operations that end a change of a workspace, and its row after them."""
    now = max(clock.now(), workspace.updated_at)  # another computer's clock may be ahead
    request = {"workspace": workspace.id, "files": count}
    line = make_access_line(recording.scope, recording.operation, now, request, interface=deps.interface)
    key = (workspace.organization_id, workspace.id)
    changes = {"updated_at": now, "last_updated_by_id": recording.scope.actor}
    operations: list[Operation] = [
        Patch(Workspace, key, changes, workspace.version),
        Put(line),
        Put(make_announcement(workspace)),
    ]
    return operations, workspace.evolve(**changes, version=workspace.version + 1)


def read_rows(deps: WorkspaceDeps, workspace: Workspace, paths: Iterable[str]) -> dict[str, WorkspaceFile]:
    """Return the rows of files by path."""
    rows: dict[str, WorkspaceFile] = {}
    for batch in split_into_batches(sorted(paths), _BATCH):
        where = [Where("workspace_id", Op.EQ, workspace.id), Where("path", Op.IN, list(batch))]
        rows.update((row.path, row) for row in deps.records.scan(WorkspaceFile, workspace.organization_id, where))
    return rows


def _make_file_operations(
    deps: WorkspaceDeps,
    recording: Recording,
    batch: Mapping[str, ManifestEntry | None],
    get_content: GetContent,
) -> list[Operation]:
    """Return the operations that store the changed files of a batch and hide the deleted ones, whose entry is None."""
    now, workspace = clock.now(), recording.workspace
    rows = read_rows(deps, workspace, batch)
    operations: list[Operation] = []
    hashes: set[str] = set()
    for path, entry in batch.items():
        row = rows.get(path)
        if entry is None:
            if row is not None:
                key = (row.organization_id, row.id)
                operations.append(Hide(WorkspaceFile, key, clock.make_id("del"), now))
            continue
        hashes.add(entry.sha256)
        operations += _make_put(recording, path, entry, row, now)
    return [*deps.contents.store(workspace.organization_id, hashes, get_content), *operations]


def _make_put(
    recording: Recording, path: str, entry: ManifestEntry, row: WorkspaceFile | None, now: datetime
) -> list[Operation]:
    """Return the operation that adds or updates a file's row; none if the row is up to date."""
    fields, scope = recording.fields, recording.scope
    old_metadata = row.metadata if row is not None else {}
    metadata = {**old_metadata, **(fields.metadata or {})}
    metadata.pop("executable", None)
    values: dict[str, Any] = {
        "size": entry.size,
        "sha256": entry.sha256,
        "metadata": {**metadata, **({"executable": True} if entry.mode == EXECUTABLE else {})},
        **({"kind": fields.kind} if fields.kind is not None else {}),
        **({"media_type": fields.media_type} if fields.media_type is not None else {}),
    }
    if row is None:
        values = {
            "media_type": guess_media_type(path),
            **values,
            "id": clock.make_id("fil"),
            "organization_id": recording.workspace.organization_id,
            "workspace_id": recording.workspace.id,
            "path": path,
            "cycle_id": recording.cycle_id,
            "created_at": now,
            "updated_at": now,
            "created_by_id": scope.actor,
        }
        return [Put(validate_row(WorkspaceFile, values))]
    if all(row.__dict__[name] == value for name, value in values.items()) and recording.cycle_id is None:
        return []
    values |= {"cycle_id": recording.cycle_id, "updated_at": max(now, row.updated_at)}
    values["last_updated_by_id"] = scope.actor
    validate_row(WorkspaceFile, {**row.__dict__, **values})
    return [Patch(WorkspaceFile, (row.organization_id, row.id), values, row.version)]


def _find_cycle(deps: WorkspaceDeps, recording: Recording) -> str | None:
    """Return the cycle of a recording; None if it was purged since an interrupted change began."""
    if recording.cycle_id is None:
        return None
    rows = deps.records.get(Cycle, recording.workspace.organization_id, [recording.cycle_id], deleted=True)
    return recording.cycle_id if rows else None


def guess_media_type(path: str) -> str | None:
    return _TYPES.guess_type(path)[0]


def require_file(deps: WorkspaceDeps, workspace: Workspace, path: str) -> WorkspaceFile:
    row = read_rows(deps, workspace, [path]).get(path)
    if row is None:
        raise NotFound(
            f"no file {path[:80]!r} in the workspace", value=path, remedy=Remedy("{} lists them", Verb("files"))
        )
    return row
