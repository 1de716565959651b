"""Workspaces with asynchronous verbs, exports, moves, events, the access log, and other places for blobs."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from everhold import AsyncEverhold, AsyncWorkspaceFolder, Everhold, WorkspaceFolder
from everhold.errors import NotFound
from everhold.model import AccessLog, Blob, Snapshot, Workspace, WorkspaceFile
from everhold.schema.operations import Patch
from tests.engines import CALM, Store, get_records


@pytest.fixture(autouse=True)
def turn_fsync_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Turn `fsync` off, because files of tests need not survive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setenv("EVERHOLD_DATA", str(tmp_path / "data"))


def test_the_verbs_can_be_awaited(store: Store) -> None:
    async def use_verbs() -> None:
        engine = store.open()
        store.opened.remove(engine)
        async with AsyncEverhold(engine, 4) as everhold:
            view = everhold.scope(user="alice")
            workspace = await view.workspace("site", max_files=10)
            assert isinstance(workspace, AsyncWorkspaceFolder)
            assert repr(workspace) == "AsyncWorkspaceFolder('site')"
            await asyncio.gather(*(workspace.write(f"f{number}", str(number)) for number in range(4)))
            assert [file.path for file in await workspace.files()] == ["f0", "f1", "f2", "f3"]
            first = await workspace.snapshot()
            await workspace.delete("f0")
            assert (await workspace.restore(first.id)).written == ("f0",)
            assert await workspace.read("f0") == b"0"
            assert (await workspace.verify()).is_intact
            assert [row.name for row in await view.workspaces()] == ["site"]
            await view.delete_workspace("site")
            assert (await view.restore_workspace("site")).name == "site"

    asyncio.run(use_verbs())


def test_the_asynchronous_workspace_has_every_verb() -> None:
    verbs = {name for name in vars(WorkspaceFolder) if not name.startswith("_")}
    assert verbs <= {*vars(AsyncWorkspaceFolder), "id", "name", "folder"}


def test_a_bundle_carries_rows_and_no_contents(store: Store, tmp_path: Path) -> None:
    engine = store.open()
    workspace = engine.scope(user="alice").workspace("site")
    workspace.write("a.txt", "hello")
    snapshot = workspace.snapshot()
    get_records(engine).commit([Patch(Workspace, ("default", workspace.id), {"root": "/etc"})])
    engine.export(tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    tables = {line.get("table") for line in lines}
    assert {"workspaces", "workspace_files", "snapshots"} <= tables
    assert "blobs" not in tables
    with Everhold.open(tmp_path / "other.db", **CALM) as other_engine:
        other_engine.load(tmp_path / "out.jsonl")
        imported = other_engine.scope(user="alice").workspace("site", create=False)
        assert imported.workspace.root == "/etc"
        assert imported.folder.is_relative_to(tmp_path / "data")
        assert [file.path for file in imported.files()] == ["a.txt"]
        with pytest.raises(NotFound):
            imported.read("a.txt")
        with pytest.raises(NotFound, match="is not in this store"):
            imported.restore(snapshot.id)
        assert imported.scan().removed == ()
        assert len(imported.verify().problems) == 3
        imported.write("a.txt", "hello")
        assert imported.read("a.txt") == b"hello"
        assert other_engine.maintain(["workspaces"])["workspaces"].outcome != "failed"


def test_hostile_rows_are_harmless(store: Store, tmp_path: Path) -> None:
    engine = store.open(blobs=str(tmp_path / "blobs"))
    workspace = engine.scope().workspace("site")
    file = workspace.write("a.txt", "hello")
    first = workspace.snapshot()
    records = get_records(engine)
    outside = tmp_path / "outside.txt"
    outside.write_text("kept")
    page = json.dumps([["../../../../../outside.txt", file.sha256, 5, 0o644]])
    page_file = workspace.write("page", page)
    manifest = {"format": 1, "files": 1, "bytes": 5, "pages": [page_file.sha256], "changes": 0}
    records.commit([Patch(Snapshot, ("default", first.id), {"manifest": manifest})])
    records.commit([Patch(WorkspaceFile, ("default", file.id), {"path": "../../../../../outside.txt"})])
    for attempt in (lambda: workspace.restore(first.id), lambda: workspace.manifest(first.id)):
        with pytest.raises(Exception, match="a manifest of the workspace is damaged"):
            attempt()
    assert any("has the name '..'" in problem for problem in workspace.verify().problems)
    # Another machine fetches the files, but not this one.
    fetched = (
        store.open(workspaces={"folder": tmp_path / "again"}, blobs=str(tmp_path / "blobs")).scope().workspace("site")
    )
    fetched.scan()
    assert [path.name for path in fetched.folder.rglob("*")] == ["page"]
    assert outside.read_text() == "kept"


def test_a_moved_store_has_the_contents(tmp_path: Path) -> None:
    with Everhold.open(tmp_path / "first.db", **CALM) as engine:
        workspace = engine.scope(user="alice").workspace("site")
        workspace.write("a/b.txt", "hello", executable=True)
        first = workspace.snapshot()
        workspace.write("a/b.txt", "other")
        workspace.snapshot()
    Everhold.move(tmp_path / "first.db", tmp_path / "second.db")
    with Everhold.open(tmp_path / "second.db", **CALM) as engine:
        moved = engine.scope(user="alice").workspace("site", create=False)
        assert moved.folder != workspace.folder
        assert moved.read("a/b.txt") == b"other"
        assert moved.verify().is_intact
        moved.restore(first.id)
        assert moved.read("a/b.txt") == b"hello"


def test_contents_can_be_stored_at_an_address(store: Store, tmp_path: Path) -> None:
    engine = store.open(blobs=f"memory://{tmp_path.name}/blobs")
    workspace = engine.scope().workspace("site")
    workspace.write("a.txt", "hello")
    first = workspace.snapshot()
    workspace.delete("a.txt")
    assert workspace.restore(first.id).written == ("a.txt",)
    assert workspace.verify().is_intact
    engine.delete_organization("default", hard=True)
    assert get_records(engine).count(Blob, None) == 0


def test_changes_are_announced_and_logged(store: Store) -> None:
    engine = store.open(log={"mode": "strict"})
    view = engine.scope(user="alice")
    workspace = view.workspace("site")
    workspace.write("secret-name.txt", "secret text")
    workspace.snapshot()
    with pytest.raises(NotFound):
        workspace.read("none")
    events = [(event.entity, event.operation) for event in view.events()]
    assert ("workspace", "put") in events
    assert ("snapshot", "put") in events
    engine.flush()
    lines = get_records(engine).scan(AccessLog, "default")
    assert {(line.operation, line.success) for line in lines} >= {("create", True), ("update", True), ("read", False)}
    assert not [line for line in lines if "secret" in repr(line.request)]
    assert engine.verify_log().intact
