"""Commands on workspaces: files in a folder, with snapshots."""

import base64
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from everhold import Snapshot, WorkspaceFile, WorkspaceFolder
from everhold.arguments.checks import check_path
from everhold.errors import InvalidInput
from everhold.files import write_private
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command
from everhold.interfaces.cli.deleting import Hard, Preview, Yes, run_deletion
from everhold.interfaces.shared.times import format_local

app = typer.Typer(help="Workspaces: files in a folder, with snapshots.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The workspace: its name, or its id.")]
InPath = Annotated[str, typer.Argument(metavar="PATH", help="A path in the workspace, such as notes/a.md.")]
SnapshotId = Annotated[str, typer.Argument(metavar="SNAPSHOT", help="The id of a snapshot.")]
InCycle = Annotated[str | None, typer.Option(metavar="ID", help="The cycle of a run that does this.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")]
Limit = Annotated[int, typer.Option(metavar="N", help="How many.")]


def _open(call: Call, name: str) -> WorkspaceFolder:
    return call.view.workspace(name, create=call.creates_store)


@command(app, "list")
def list_workspaces(call: Call, limit: Limit = 50) -> CommandResult:
    """Show workspaces, newest first."""
    rows = call.view.workspaces(limit=limit)
    table = show.make_table("workspace", "id", "whose", "changed")
    for row in rows:
        owners = " · ".join(name for name in (row.user_id, row.agent_id, row.project_id) if name)
        changed = format_local(row.updated_at, call.zone)
        table.add_row(show.render_text(row.name), row.id, show.render_text(owners), changed)
    output: RenderableType = table if rows else Text("no workspaces", style="dim")
    return CommandResult({"workspaces": rows}, output)


@command(app, "open", creates_store=True)
def open_workspace(
    call: Call,
    name: Name,
    max_bytes: Annotated[int | None, typer.Option(metavar="N", help="The most bytes of all files.")] = None,
    max_file_bytes: Annotated[int | None, typer.Option(metavar="N", help="The most bytes of one file.")] = None,
    max_files: Annotated[int | None, typer.Option(metavar="N", help="The most files.")] = None,
) -> CommandResult:
    """Create a workspace if there is none, and show its folder."""
    workspace = call.view.workspace(name, max_bytes=max_bytes, max_file_bytes=max_file_bytes, max_files=max_files)
    workspace.scan()  # creates the folder
    document = {"workspace": workspace.workspace, "folder": str(workspace.folder)}
    return CommandResult(document, show.render_text(str(workspace.folder)))


@command(app, "files")
def list_files(
    call: Call,
    name: Name,
    under: Annotated[str | None, typer.Option(metavar="PATH", help="Only those of this folder.")] = None,
    limit: Limit = 1000,
) -> CommandResult:
    """Show the files of a workspace."""
    rows = _open(call, name).files(under=under, limit=limit)
    output: RenderableType = _make_files_table(rows) if rows else Text("no files", style="dim")
    return CommandResult({"files": rows}, output)


def _make_files_table(rows: list[WorkspaceFile]) -> RenderableType:
    table = show.make_table("path", "bytes", "kind", "cycle")
    for row in rows:
        table.add_row(show.render_text(row.path), f"{row.size:,}", row.kind, show.render_text(row.cycle_id or ""))
    return table


@command(app, "put", creates_store=True)
def put_file(
    call: Call,
    name: Name,
    path: InPath,
    source: Annotated[str, typer.Argument(metavar="FILE", help="The file to read; - reads standard input.")] = "-",
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="document or artifact.")] = None,
    media_type: Annotated[str | None, typer.Option(metavar="TYPE", help="Such as text/csv.")] = None,
    executable: Annotated[bool, typer.Option("--executable", help="Let programs run it.")] = False,
    cycle: InCycle = None,
) -> CommandResult:
    """Write a file to a workspace, which is created if there is none."""
    content = _read_source(source)
    options: dict[str, Any] = {"kind": kind, "media_type": media_type, "executable": executable, "cycle": cycle}
    row = _open(call, name).write(path, content, **options)
    return CommandResult({"file": row}, show.render_text(f"wrote {row.path} ({row.size:,} bytes)"))


def _read_source(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return check_path(Path(source), "FILE").read_bytes()
    except OSError as error:
        raise InvalidInput(f"{source} cannot be read ({error.strerror})", value=source, remedy="name a file") from None


@command(app, "get")
def get_file(
    call: Call,
    name: Name,
    path: InPath,
    target: Annotated[str | None, typer.Option("--to", metavar="FILE", help="Write it to a file.")] = None,
    overwrite: Overwrite = False,
) -> CommandResult:
    """Show a file of a workspace, or write it to a file outside."""
    content = _open(call, name).read(path)
    if target is not None:
        write_private(check_path(Path(target), "--to"), content, overwrite=overwrite)
        document = {"path": path, "bytes": len(content), "target": target}
        return CommandResult(document, show.render_text(f"wrote {target} ({len(content):,} bytes)"))
    if not call.as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return CommandResult(None, None)
    return CommandResult({"path": path, "base64": base64.b64encode(content).decode()}, None)


@command(app, "remove")
def remove_file(call: Call, name: Name, path: InPath, cycle: InCycle = None) -> CommandResult:
    """Delete a file of a workspace; snapshots keep it."""
    _open(call, name).delete(path, cycle=cycle)
    return CommandResult({"path": path}, show.render_text(f"deleted {path}"))


@command(app, "scan")
def scan(call: Call, name: Name, cycle: InCycle = None) -> CommandResult:
    """Take in what other programs have written to a workspace's folder."""
    scanned_files = _open(call, name).scan(cycle=cycle)
    table = show.make_table("path", "what")
    for kind in ("added", "changed", "removed"):
        for path in getattr(scanned_files, kind):
            table.add_row(show.render_text(path), kind)
    for path, reason in scanned_files.refused.items():
        table.add_row(show.render_text(path), show.render_text(f"refused: {reason}"))
    output: RenderableType = table if table.row_count else Text("nothing has changed", style="dim")
    return CommandResult(asdict(scanned_files), output)


@command(app, "snapshot")
def take_snapshot(call: Call, name: Name, cycle: InCycle = None) -> CommandResult:
    """Keep the state of a workspace."""
    snapshot = _open(call, name).snapshot(cycle=cycle)
    refused: Mapping[str, str] = snapshot.manifest.get("refused", {})
    lines = [show.render_text(f"snapshot {snapshot.id} of {snapshot.manifest['files']:,} files")]
    lines += [show.render_text(f"refused {path}: {reason}", style="yellow") for path, reason in refused.items()]
    return CommandResult({"snapshot": snapshot}, Group(*lines))


@command(app, "snapshots")
def list_snapshots(call: Call, name: Name, limit: Limit = 50) -> CommandResult:
    """Show the snapshots of a workspace, newest first."""
    rows = _open(call, name).snapshots(limit=limit)
    table = show.make_table("snapshot", "taken", "files", "bytes")
    for row in rows:
        table.add_row(row.id, format_local(row.created_at, call.zone), *_format_counts(row))
    output: RenderableType = table if rows else Text("no snapshots", style="dim")
    return CommandResult({"snapshots": rows}, output)


def _format_counts(snapshot: Snapshot) -> list[str]:
    return [str(snapshot.manifest.get(name, "")) for name in ("files", "bytes")]


@command(app, "diff")
def show_diff(
    call: Call,
    name: Name,
    before: Annotated[str | None, typer.Argument(metavar="SNAPSHOT", help="Default: the latest.")] = None,
    after: Annotated[str | None, typer.Argument(metavar="SNAPSHOT", help="Default: the folder as it is.")] = None,
) -> CommandResult:
    """Show how two snapshots differ, or a snapshot and the folder."""
    differences = _open(call, name).diff(before, after)
    parts: list[RenderableType] = []
    for difference in differences:
        sizes = " → ".join(
            "none" if size is None else f"{size:,}" for size in (difference.size_before, difference.size_after)
        )
        origin = f" from {difference.previous_path}" if difference.previous_path else ""
        parts.append(show.render_text(f"{difference.change}{origin}: {difference.path} ({sizes} bytes)", style="bold"))
        if difference.text:
            parts.append(show.render_text(difference.text))
    output: RenderableType = Group(*parts) if parts else Text("no differences", style="dim")
    return CommandResult({"differences": [asdict(difference) for difference in differences]}, output)


@command(app, "restore")
def restore(
    call: Call,
    name: Name,
    snapshot: SnapshotId,
    path: Annotated[str | None, typer.Option(metavar="PATH", help="Only this file.")] = None,
    cycle: InCycle = None,
) -> CommandResult:
    """Make a workspace, or one file of it, what it was at a snapshot."""
    restored_files = _open(call, name).restore(snapshot, path, cycle=cycle)
    sentence = f"wrote {len(restored_files.written):,} files and removed {len(restored_files.removed):,}"
    undo = f"what was there is snapshot {restored_files.before.id}"
    document = {"written": restored_files.written, "removed": restored_files.removed, "before": restored_files.before}
    return CommandResult(document, show.render_text(f"{sentence}; {undo}"))


@command(app, "verify")
def verify(call: Call, name: Name) -> CommandResult:
    """Check that files and stored contents have their hashes; exits with 1 if one has not."""
    verification = _open(call, name).verify()
    counts = (
        f"{verification.files:,} files, {verification.snapshots:,} snapshots and {verification.contents:,} contents"
    )
    lines = [show.render_text(f"checked {counts}; {len(verification.problems):,} problems")]
    lines += [show.render_text(problem, style="red") for problem in verification.problems]
    return CommandResult(asdict(verification), Group(*lines), 0 if verification.is_intact else 1)


@command(app, "export")
def export(
    call: Call,
    name: Name,
    target: Annotated[str, typer.Argument(metavar="FILE.tar", help="The tar file to write.")],
    snapshot: Annotated[str | None, typer.Option(metavar="ID", help="The files of this snapshot.")] = None,
    overwrite: Overwrite = False,
) -> CommandResult:
    """Write the files of a workspace to a tar file."""
    count = _open(call, name).export(target, snapshot=snapshot, overwrite=overwrite)
    return CommandResult({"files": count, "target": target}, show.render_text(f"wrote {count:,} files to {target}"))


@command(app, "extract", creates_store=True)
def extract(
    call: Call,
    name: Name,
    source: Annotated[str, typer.Argument(metavar="FILE", help="A tar or zip file.")],
    into: Annotated[str | None, typer.Option(metavar="PATH", help="The folder for them in the workspace.")] = None,
    cycle: InCycle = None,
) -> CommandResult:
    """Write the files of a tar or zip file to a workspace, all or none."""
    paths = _open(call, name).extract(source, into=into, cycle=cycle)
    return CommandResult({"paths": paths}, show.render_text(f"wrote {len(paths):,} files"))


@command(app, "gc")
def collect_garbage(call: Call, name: Name) -> CommandResult:
    """Delete stored contents that no file and no snapshot names."""
    garbage = _open(call, name).collect_garbage()
    sentence = f"deleted {garbage.contents:,} contents of {garbage.bytes:,} bytes"
    return CommandResult(garbage._asdict(), show.render_text(sentence))


@command(app, "delete")
def delete(call: Call, name: Name, hard: Hard = False, yes: Yes = False, preview: Preview = False) -> CommandResult:
    """Delete a workspace with its files and snapshots. Shows what will be deleted and asks first."""
    act = partial(call.view.delete_workspace, name)
    return run_deletion(act, f"workspace {name}", hard=hard, yes=yes, preview=preview)


@command(app, "undelete")
def undelete(call: Call, name: Name) -> CommandResult:
    """Restore a deleted workspace."""
    workspace = call.view.restore_workspace(name)
    return CommandResult({"workspace": workspace}, show.render_text(f"restored workspace {workspace.name}"))
