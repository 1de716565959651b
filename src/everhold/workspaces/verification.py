"""Compare the files and the stored contents of a workspace with the hashes in its rows."""

from dataclasses import dataclass

from everhold.errors import EverholdError
from everhold.model import WorkspaceFile
from everhold.schema.operations import Op, Where
from everhold.workspaces.changing import WorkArea
from everhold.workspaces.contents import hash_content
from everhold.workspaces.manifests import ManifestChange
from everhold.workspaces.paths import find_path_fault
from everhold.workspaces.snapshots import list_snapshots, load_manifest

# `list_snapshots` needs a limit. No workspace has this many snapshots.
_NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class VerifiedWorkspace:
    """The numbers of files, snapshots and contents checked, and the problems."""

    files: int
    snapshots: int
    contents: int
    problems: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        return not self.problems


def verify_workspace(area: WorkArea) -> VerifiedWorkspace:
    """Read every file, and every content that a file or a snapshot mentions, and compare their hashes."""
    problems: list[str] = []
    mentions: dict[str, str] = {}  # the hash of each content, and where it is mentioned first
    where = [Where("workspace_id", Op.EQ, area.workspace.id)]
    rows = area.deps.records.scan(WorkspaceFile, area.workspace.organization_id, where)
    for row in rows:
        mentions.setdefault(row.sha256, f"file {row.path!r}")
        problem = _find_file_problem(area, row)
        if problem is not None:
            problems.append(problem)
    snapshots = list_snapshots(area.deps, area.workspace, _NO_LIMIT)
    pages: dict[str, ManifestChange] = {}
    for snapshot in snapshots:
        try:
            manifest = load_manifest(area.deps, snapshot, pages)
        except EverholdError as error:
            problems.append(f"snapshot {snapshot.id}: {error.fact}")
            continue
        for path, entry in manifest.items():
            mentions.setdefault(entry.sha256, f"file {path!r} of snapshot {snapshot.id}")
    for sha256, mention in mentions.items():
        try:
            area.load(sha256)
        except EverholdError as error:
            problems.append(f"{mention}: {error.fact}")
    return VerifiedWorkspace(len(rows), len(snapshots), len(mentions), tuple(problems))


def _find_file_problem(area: WorkArea, row: WorkspaceFile) -> str | None:
    fault = find_path_fault(row.path)
    if fault is not None:
        return f"file {row.path!r} {fault}"
    try:
        content, _ = area.folder.files.read(tuple(row.path.split("/")), area.limits.max_file_bytes)
    except EverholdError as error:
        return f"file {row.path!r}: {error.fact}"
    if hash_content(content) != row.sha256:
        return f"file {row.path!r} was changed; call scan() to record the change"
    return None
