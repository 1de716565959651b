"""Workspaces, their files, snapshots and contents through public verbs, on every store."""

import os
import tarfile
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest

from everhold import Everhold, View, WorkspaceFolder
from everhold.errors import Conflict, InvalidInput, NotFound, StaleVersion
from everhold.model import Agent, Blob, Cycle, Execution, Workspace
from everhold.schema.operations import Patch, Put
from everhold.workspaces.garbage import collect_garbage
from tests.engines import Store, get_parts, get_records

HELLO = sha256(b"hello\n").hexdigest()


@pytest.fixture(autouse=True)
def turn_fsync_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn `fsync` off, because files of tests need not survive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def open_engine(store: Store, folder: Path, blobs: Path) -> Everhold:
    return store.open(data=folder / "data", workspaces={"folder": folder / "files"}, blobs=str(blobs))


@pytest.fixture
def engine(any_store: Store, tmp_path: Path) -> Everhold:
    return open_engine(any_store, tmp_path, tmp_path / "blobs")


@pytest.fixture
def coder(engine: Everhold) -> View:
    return engine.scope(user="alice", project="site", agent="coder")


def add_cycle(engine: Everhold, cycle_id: str = "cyc-1") -> str:
    """Store a cycle of a run of the agent, and return the id of the cycle."""
    now = datetime.now(UTC)
    common = {"organization_id": "default", "created_at": now, "updated_at": now}
    run = Execution(id=f"run-{cycle_id}", task="t", started_at=now, agent_id="coder", **common)
    cycle = Cycle(
        id=cycle_id, execution_id=run.id, agent_id="coder", cycle_index=int(cycle_id.removeprefix("cyc-")), **common
    )
    get_records(engine).commit([Put(run), Put(cycle)])
    return cycle_id


def read_disk(workspace: WorkspaceFolder) -> dict[str, bytes]:
    root = workspace.folder
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_column_of_a_workspace_is_written_and_read(engine: Everhold, coder: View, tmp_path: Path) -> None:
    workspace = coder.workspace("site", max_bytes=1000, max_files=5, max_file_bytes=500)
    row = workspace.workspace
    assert (row.name, row.user_id, row.project_id, row.agent_id) == ("site", "alice", "site", "coder")
    assert (row.organization_id, row.created_by_id, row.version, row.is_deleted) == ("default", "alice", 1, False)
    assert Path(row.root) == workspace.folder
    assert workspace.folder.is_relative_to(tmp_path / "files")
    assert row.metadata == {"limits": {"max_bytes": 1000, "max_files": 5, "max_file_bytes": 500}}
    assert coder.workspace("site").workspace == row == coder.workspaces()[0]
    workspace.write("a.txt", "hello\n")
    changed = coder.workspaces()[0]
    assert (changed.version, changed.last_updated_by_id, changed.created_at) == (2, "alice", row.created_at)
    assert changed.updated_at > row.updated_at
    assert coder.delete_workspace("site", preview=True).rows == {"workspaces": 1, "workspace_files": 1}
    coder.delete_workspace("site")
    for call in (lambda: coder.workspace("site"), workspace.files, workspace.snapshot, lambda: workspace.read("a.txt")):
        with pytest.raises(NotFound):
            call()
    restored = coder.restore_workspace("site")
    assert (restored.is_deleted, restored.deleted_at, restored.deletion_id) == (False, None, None)
    assert workspace.read("a.txt") == b"hello\n"
    coder.delete_workspace("site", hard=True)
    assert not workspace.folder.exists()
    assert not coder.workspaces()
    assert not list((tmp_path / "blobs").rglob("*/*/" + HELLO))
    assert coder.workspace("site").files() == []


def test_every_column_of_a_file_is_written_and_read(engine: Everhold, coder: View) -> None:
    workspace = coder.workspace("site")
    cycle = add_cycle(engine)
    written = workspace.write(
        "docs/plan.md", "hello\n", kind="document", media_type="text/x-plan", metadata={"n": [1]}, cycle=cycle
    )
    assert (written.path, written.kind, written.media_type) == ("docs/plan.md", "document", "text/x-plan")
    assert (written.size, written.sha256, written.cycle_id) == (6, HELLO, cycle)
    assert (written.workspace_id, written.metadata, written.version) == (workspace.id, {"n": [1]}, 1)
    assert workspace.files() == [written]
    rewritten = workspace.write("docs/plan.md", b"\xff\x00", executable=True, cycle=add_cycle(engine, "cyc-2"))
    assert (rewritten.id, rewritten.kind, rewritten.size, rewritten.cycle_id, rewritten.version) == (
        written.id,
        "document",
        2,
        "cyc-2",
        2,
    )
    assert rewritten.metadata == {"n": [1], "executable": True}
    assert os.access(workspace.folder / "docs/plan.md", os.X_OK)
    assert workspace.read("docs/plan.md") == b"\xff\x00"
    with pytest.raises(StaleVersion) as stale:
        workspace.write("docs/plan.md", "x", expected_version=1)
    assert stale.value.current_version == 2
    for arguments in ({"cycle": "none"}, {"kind": "picture"}, {"content": 5}, {"expected_version": 7}):
        with pytest.raises((NotFound, InvalidInput, StaleVersion)):
            workspace.write(**{"path": "b", "content": "x", **arguments})
    moved = workspace.move("docs/plan.md", "plan.md")
    assert (moved.path, moved.kind, moved.media_type, moved.sha256) == (
        "plan.md",
        "document",
        "text/x-plan",
        rewritten.sha256,
    )
    assert read_disk(workspace) == {"plan.md": b"\xff\x00"}
    assert workspace.write("main.py", "pass").media_type == "text/x-python"
    assert [file.path for file in workspace.files(limit=1)] == ["main.py"]
    workspace.write("main/a.py", "1")
    assert [file.path for file in workspace.files(under="main")] == ["main/a.py"]
    workspace.delete("plan.md")
    for call in (lambda: workspace.delete("plan.md"), lambda: workspace.read("plan.md")):
        with pytest.raises(NotFound):
            call()
    get_records(engine).commit([Patch(Agent, ("default", "coder"), {"name": "Coder"})])
    with pytest.raises(NotFound, match="no cycle"):
        engine.scope(agent="other").workspace("w").write("a", "b", cycle=cycle)


def test_every_column_of_a_snapshot_is_written_and_read(engine: Everhold, coder: View) -> None:
    workspace = coder.workspace("site")
    workspace.write("a.txt", "hello\n")
    (workspace.folder / "tool").mkdir()
    (workspace.folder / "tool/out.bin").write_bytes(b"\x00\x01")
    first = workspace.snapshot(cycle=add_cycle(engine))
    assert (first.workspace_id, first.cycle_id, first.parent_id) == (workspace.id, "cyc-1", None)
    assert (first.manifest["files"], first.manifest["bytes"]) == (2, 8)
    assert workspace.manifest(first.id) == {
        "a.txt": {"sha256": HELLO, "size": 6, "mode": 0o644},
        "tool/out.bin": {"sha256": sha256(b"\x00\x01").hexdigest(), "size": 2, "mode": 0o644},
    }
    assert [(file.path, file.cycle_id) for file in workspace.files()] == [("a.txt", None), ("tool/out.bin", "cyc-1")]
    workspace.write("a.txt", "hello\nworld\n")
    (workspace.folder / "tool/out.bin").unlink()
    (workspace.folder / "b.txt").write_text("new")
    second = workspace.snapshot()
    assert (second.parent_id, second.cycle_id) == (first.id, None)
    assert [snapshot.id for snapshot in workspace.snapshots()] == [second.id, first.id]
    changes = {change.path: change for change in workspace.diff(first.id, second.id)}
    assert {path: change.change for path, change in changes.items()} == {
        "a.txt": "changed", "b.txt": "added", "tool/out.bin": "removed"
    }  # fmt: skip
    assert "+world\n" in (changes["a.txt"].text or "")
    assert (changes["tool/out.bin"].size_before, changes["tool/out.bin"].text) == (2, None)
    restored = workspace.restore(first.id)
    assert (restored.written, restored.removed) == (("a.txt", "tool/out.bin"), ("b.txt",))
    assert read_disk(workspace) == {"a.txt": b"hello\n", "tool/out.bin": b"\x00\x01"}
    assert not workspace.diff(first.id)
    assert restored.before.manifest["pages"] == second.manifest["pages"]
    workspace.restore(second.id, "b.txt")
    assert set(read_disk(workspace)) == {"a.txt", "tool/out.bin", "b.txt"}
    assert workspace.verify().is_intact
    workspace.delete_snapshot(second.id)
    with pytest.raises(NotFound, match="no snapshot"):
        workspace.restore(second.id)


def test_every_column_of_a_content_is_written_and_read(engine: Everhold, coder: View) -> None:
    workspace = coder.workspace("site")
    workspace.write("a.txt", "hello\n" * 100)
    workspace.write("b.txt", "hello\n" * 100)
    workspace.write("c.bin", b"\x00")
    blobs_by_size = {row.size: row for row in get_records(engine).scan(Blob, "default")}
    assert sorted(blobs_by_size) == [1, 600]
    assert (blobs_by_size[600].compression, blobs_by_size[600].sha256, blobs_by_size[600].id) == (
        "zlib", sha256(b"hello\n" * 100).hexdigest(), blobs_by_size[600].sha256
    )  # fmt: skip
    assert (blobs_by_size[1].compression, blobs_by_size[1].generation, blobs_by_size[1].is_leaving) == (None, 0, False)
    deps = get_parts(engine).workspace_deps
    workspace.delete("a.txt")
    assert collect_garbage(deps, "default", min_age=timedelta(0)).contents == 0
    first = workspace.snapshot()
    workspace.delete("c.bin")
    coder.workspace("other").write("x", "y")
    coder.delete_workspace("other", hard=True)
    assert {row.size for row in get_records(engine).scan(Blob, "default")} > {1, 600}
    assert workspace.collect_garbage().contents == 0
    workspace.restore(first.id)
    assert workspace.verify().is_intact
    assert engine.maintain(["workspaces"])["workspaces"].counts == {}


def test_a_scan_stores_what_tools_have_written_to_the_folder(coder: View) -> None:
    workspace = coder.workspace("site")
    assert workspace.scan().added == ()
    (workspace.folder / "a.txt").write_text("one")
    assert workspace.scan().added == ("a.txt",)
    status = (workspace.folder / "a.txt").stat()
    (workspace.folder / "a.txt").write_text("two")  # the same size, and perhaps the same tick of the clock
    os.utime(workspace.folder / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert workspace.scan().changed == ("a.txt",)
    assert workspace.scan().changed == ()
    (workspace.folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(workspace.folder / "pipe")
    (workspace.folder / "A.TXT").write_text("twin")
    refused = workspace.scan().refused
    assert set(refused) == {"link", "pipe", "A.TXT"}
    assert [file.path for file in workspace.files()] == ["a.txt"]
    for path in ("link", "pipe"):
        with pytest.raises(InvalidInput):
            workspace.read(path)
    with pytest.raises(Conflict, match="but for case"):
        workspace.write("a.TXT", "x")


def test_a_write_over_a_limit_is_refused(coder: View) -> None:
    workspace = coder.workspace("small", max_bytes=10, max_files=2, max_file_bytes=6)
    workspace.write("a", "12345")
    for path, content in (("b", "1234567"), ("c", "123456")):
        with pytest.raises(InvalidInput, match="limit"):
            workspace.write(path, content)
    workspace.write("b", "12345")
    with pytest.raises(InvalidInput, match="files; its limit is 2"):
        workspace.write("c", "")
    workspace.write("a", "1")
    for name in ("d", "e"):
        (workspace.folder / name).write_text("x")
    (workspace.folder / "a").write_text("1234567")
    scanned = workspace.scan()
    assert (scanned.added, scanned.removed, set(scanned.refused)) == (("d",), ("a",), {"a", "e"})


def test_a_scope_sees_its_own_workspaces(engine: Everhold, coder: View, tmp_path: Path) -> None:
    mine = coder.workspace("site")
    mine.write("a.txt", "mine")
    bob = engine.scope(user="bob", project="site", agent="coder")
    assert bob.workspaces() == []
    for call in (lambda: bob.workspace(mine.id, create=False), lambda: bob.delete_workspace(mine.id)):
        with pytest.raises(NotFound, match=f"no workspace '{mine.id}' in this scope"):
            call()
    assert bob.workspace("site").id != mine.id
    assert bob.workspace("site").files() == []
    assert engine.scope(user="alice").workspace(mine.id).read("a.txt") == b"mine"
    assert engine.scope(organization="acme").workspace(mine.id).files() == []
    snapshot = mine.snapshot()
    for read in (
        lambda: bob.workspace("site").manifest(snapshot.id),
        lambda: bob.workspace("site").restore(snapshot.id),
    ):
        with pytest.raises(NotFound, match="no snapshot"):
            read()
    engine.delete_user("alice")
    with pytest.raises(NotFound, match="was deleted with its user"):
        coder.restore_workspace("site")
    engine.delete_user("alice", hard=True)
    assert not mine.folder.exists()
    assert not [path for path in (tmp_path / "blobs").rglob("*") if path.name == sha256(b"mine").hexdigest()]
    assert bob.workspace("site").workspace.name == "site"


def test_a_row_cannot_choose_the_folder_of_a_workspace(engine: Everhold, coder: View, tmp_path: Path) -> None:
    workspace = coder.workspace("site")
    workspace.write("a.txt", "x")
    outside = tmp_path / "outside"
    outside.mkdir()
    get_records(engine).commit([Patch(Workspace, ("default", workspace.id), {"root": str(outside)})])
    reopened = coder.workspace("site")
    assert reopened.workspace.root == str(outside)
    reopened.write("b.txt", "y")
    assert set(read_disk(reopened)) == {"a.txt", "b.txt"}
    assert not list(outside.iterdir())


def test_archives_are_extracted_and_written(coder: View, tmp_path: Path) -> None:
    workspace = coder.workspace("site")
    workspace.write("a.txt", "hello\n")
    workspace.write("bin/run", "#!/bin/sh\n", executable=True)
    assert workspace.export(tmp_path / "out.tar") == 2
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert [(member.name, member.mode) for member in archive] == [("a.txt", 0o644), ("bin/run", 0o755)]
    copy = coder.workspace("copy")
    assert copy.extract(tmp_path / "out.tar", into="in") == ["in/a.txt", "in/bin/run"]
    assert copy.read("in/bin/run") == b"#!/bin/sh\n"
    assert os.access(copy.folder / "in/bin/run", os.X_OK)
    copy.write("in/a.txt", "other")
    before = copy.snapshot()
    copy.extract(tmp_path / "out.tar", into="in")
    assert copy.read("in/a.txt") == b"hello\n"
    copy.export(tmp_path / "before.tar", snapshot=before.id)
    assert coder.workspace("third").extract(tmp_path / "before.tar") == ["in/a.txt", "in/bin/run"]
    assert coder.workspace("third").read("in/a.txt") == b"other"
    with pytest.raises(InvalidInput, match="exists already"):
        copy.export(tmp_path / "out.tar")


def test_another_machine_fetches_the_files(any_store: Store, engine: Everhold, coder: View, tmp_path: Path) -> None:
    coder.workspace("site").write("a/b.txt", "hello\n", executable=True)
    engine.close()  # a DuckDB file is open once at a time
    elsewhere = open_engine(any_store, tmp_path / "elsewhere", tmp_path / "blobs")
    copied = elsewhere.scope(user="alice", project="site", agent="coder").workspace("site")
    assert copied.folder.is_relative_to(tmp_path / "elsewhere")
    assert copied.read("a/b.txt") == b"hello\n"
    assert copied.scan().removed == ()
    assert copied.verify().is_intact
    assert os.access(copied.folder / "a/b.txt", os.X_OK)
