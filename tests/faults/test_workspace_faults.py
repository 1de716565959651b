"""Workspaces survive links that are swapped in during an operation, crashes at every step, and garbage collection."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, WorkspaceFolder
from everhold.errors import EverholdError, FileError, InvalidInput, NotFound, StoreDamaged
from everhold.model import Blob
from everhold.schema.operations import Op, Patch, Where
from everhold.workspaces.contents import find_address
from everhold.workspaces.garbage import collect_garbage, find_garbage
from tests.engines import KeptRecords, Store, get_records

SECRET = "outside"


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store("in_memory", "memory://", KeptRecords())
    yield store
    store.close()


def open_workspace(store: Store, folder: Path) -> WorkspaceFolder:
    engine = store.open(workspaces={"folder": folder / "files"}, blobs=str(folder / "blobs"))
    return engine.scope().workspace("w")


@pytest.fixture
def workspace(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkspaceFolder:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return open_workspace(store, tmp_path)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace, which must not change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.txt").write_text(SECRET)
    return folder


def read_disk(workspace: WorkspaceFolder) -> dict[str, bytes]:
    root = workspace.folder
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# links


def test_links_to_files_outside_are_refused(workspace: WorkspaceFolder, outside: Path) -> None:
    workspace.write("d/a.txt", "inside")
    (workspace.folder / "link").symlink_to(outside)
    (workspace.folder / "file").symlink_to(outside / "a.txt")
    (workspace.folder / "loop").symlink_to("loop")
    os.link(outside / "a.txt", workspace.folder / "hard")
    attempts: list[Callable[[], Any]] = [
        lambda: workspace.read("link/a.txt"),
        lambda: workspace.write("link/a.txt", "x"),
        lambda: workspace.write("link/new/deep.txt", "x"),
        lambda: workspace.delete("link/a.txt"),
        lambda: workspace.read("file"),
        lambda: workspace.read("loop"),
        lambda: workspace.read("hard"),
        lambda: workspace.move("file", "moved"),
        lambda: workspace.move("d/a.txt", "link/moved"),
    ]
    for attempt in attempts:
        with pytest.raises((InvalidInput, NotFound)):
            attempt()
    assert set(workspace.scan().refused) == {"link", "file", "loop", "hard"}
    snapshot = workspace.snapshot()
    assert list(workspace.manifest(snapshot.id)) == ["d/a.txt"]
    assert set(snapshot.manifest["refused"]) == {"link", "file", "loop", "hard"}
    workspace.write("file", "replaces the link itself")
    workspace.restore(snapshot.id)
    assert read_disk(workspace) == {"d/a.txt": b"inside"}
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("a.txt", SECRET)]


def test_a_folder_that_is_swapped_for_a_link_is_refused(workspace: WorkspaceFolder, outside: Path) -> None:
    """While a thread swaps a folder and a link to another folder, no verb may reach the other folder."""
    workspace.write("d/a.txt", "inside")
    root, stop = workspace.folder, threading.Event()
    (root / "x").symlink_to(outside)

    def swap() -> None:
        while not stop.is_set():
            for source, target in (("d", "y"), ("x", "d"), ("d", "x"), ("y", "d")):
                with suppress(OSError):
                    (root / source).rename(root / target)

    thread = threading.Thread(target=swap)
    thread.start()
    contents_read: set[bytes] = set()
    try:
        for number in range(150):
            for attempt in (
                lambda: contents_read.add(workspace.read("d/a.txt")),
                lambda number=number: workspace.write("d/a.txt", f"inside {number}"),
                lambda: workspace.delete("d/a.txt"),
                workspace.scan,
            ):
                with suppress(EverholdError):
                    attempt()
    finally:
        stop.set()
        thread.join()
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("a.txt", SECRET)]
    assert all(content.startswith(b"inside") for content in contents_read)
    blobs = {row.sha256 for row in get_records_of(workspace).scan(Blob, "default")}
    assert not [sha for sha in blobs if load_content(workspace, sha) == SECRET.encode()]


def get_records_of(workspace: WorkspaceFolder) -> Any:
    return workspace._parts.records


def load_content(workspace: WorkspaceFolder, sha256: str) -> bytes:
    return workspace._parts.workspace_deps.contents.load("default", sha256)


def test_a_change_while_a_file_is_read_is_not_missed(
    workspace: WorkspaceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program changes the file after its status was read and before its content is, and restores its times."""
    workspace.write("a.txt", "one")
    path = workspace.folder / "a.txt"
    times = path.stat()
    workspace.scan()
    fstat = os.fstat

    def change_after_status(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        if status.st_ino == path.stat().st_ino:
            monkeypatch.setattr(os, "fstat", fstat)
            path.write_text("six")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return status

    path.write_text("two")
    monkeypatch.setattr(os, "fstat", change_after_status)
    workspace.scan()
    assert os.fstat is fstat, "the file was not changed during the scan"
    workspace.scan()
    assert load_content(workspace, workspace.files()[0].sha256) == b"six"


# crashes


class Crash(BaseException):
    """Stands for the death of the process."""


STEPS = ("rename", "unlink", "open", "mkdir", "rmdir", "fsync")


class CrashPoint:
    """Raises `Crash` after `calls_left` calls that change the disk or the store, unless `calls_left` is negative."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, records: Any) -> None:
        self.calls_left = -1
        self.has_crashed = False
        for name in STEPS:
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name) if name != "fsync" else (lambda _: None)))
        monkeypatch.setattr(records, "commit", self.wrap(records.commit))

    def wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if self.calls_left == 0:
                self.has_crashed = True
                raise Crash
            self.calls_left -= 1
            return original(*args, **named)

        return call


OLD = {"a.txt": b"old", "gone/x": b"removed", "same": b"same"}
NEW = {"a.txt": b"new", "dir/b.txt": b"added", "same": b"same"}


@pytest.mark.parametrize("verb", ["restore", "write", "extract"])
def test_a_crash_at_any_step_leaves_the_old_or_the_new_files(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    workspace = open_workspace(store, tmp_path)
    crash = CrashPoint(monkeypatch, store.records)
    for path, content in NEW.items():
        workspace.write(path, content)
    target = workspace.snapshot()
    workspace.export(tmp_path / "new.tar")
    new = {"restore": NEW, "extract": {**OLD, **NEW}, "write": {**OLD, "a.txt": b"new"}}[verb]
    outcomes = set()
    for step in range(1_000):
        reset(workspace, OLD)
        crash.calls_left, crash.has_crashed = step, False
        with suppress(Crash):
            if verb == "restore":
                workspace.restore(target.id)
            elif verb == "write":
                workspace.write("a.txt", "new")
            else:
                workspace.extract(tmp_path / "new.tar")
        crash.calls_left = -1
        reopened = open_workspace(store, tmp_path)  # stands for another process
        assert (
            reopened.read("same") == b"same"
        )  # the first call after reopening completes or undoes what the crash interrupted
        rows = {file.path: load_content(reopened, file.sha256) for file in reopened.files()}
        disk = read_disk(reopened)
        assert disk == rows, f"step {step}"
        assert disk in (OLD, new), f"step {step}"
        assert reopened.verify().is_intact
        outcomes.add("new" if disk == new else "old")
        if not crash.has_crashed:
            break
        if disk == OLD and verb == "restore":
            reopened.restore(target.id)
            assert read_disk(reopened) == NEW
    assert not crash.has_crashed
    assert outcomes == {"old", "new"}


def reset(workspace: WorkspaceFolder, files: dict[str, bytes]) -> None:
    for file in workspace.files():
        if file.path not in files:
            workspace.delete(file.path)
    for path, content in files.items():
        workspace.write(path, content)
    assert read_disk(workspace) == files


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_that_fails_is_an_error_and_changes_nothing(
    workspace: WorkspaceFolder, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    workspace.write("a.txt", "old")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(EverholdError):
        workspace.write("a.txt", "new" * 50)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    assert workspace.read("a.txt") == b"old"
    assert workspace.verify().is_intact
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(FileError):
        workspace.write("a.txt", "new")


# contents


def test_damage_is_found(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    workspace.write("a.txt", "hello " * 100)
    workspace.write("b.txt", "world")
    snapshot = workspace.snapshot()
    by_size = {row.size: row for row in get_records_of(workspace).scan(Blob, "default")}
    [blob] = (tmp_path / "blobs").rglob(by_size[600].sha256)
    blob.write_bytes(blob.read_bytes()[:-4] + b"oops")
    (workspace.folder / "b.txt").write_text("other")
    problems = workspace.verify().problems
    assert len(problems) == 2
    assert "'b.txt' was changed" in problems[0]
    assert "is damaged" in problems[1]
    workspace.delete("a.txt")
    before = read_disk(workspace)
    with pytest.raises(StoreDamaged):
        workspace.restore(snapshot.id)
    assert read_disk(workspace) == before
    blob.unlink()
    with pytest.raises(NotFound):
        workspace.restore(snapshot.id)


def test_collecting_garbage_during_writes_loses_nothing(store: Store, workspace: WorkspaceFolder) -> None:
    """Garbage is collected without a minimum age while others write. Every content that a row names must be kept."""
    deps = workspace._parts.workspace_deps
    stop, errors = threading.Event(), list[Exception]()

    def collect() -> None:
        while not stop.is_set():
            try:
                collect_garbage(deps, "default", min_age=timedelta(0))
            except Exception as error:  # noqa: BLE001 — shown below
                errors.append(error)

    collector = threading.Thread(target=collect)
    collector.start()
    engine = store.opened[0]

    def write(name: str) -> None:
        user_workspace = engine.scope(user=name).workspace("w")
        try:
            for number in range(40):
                user_workspace.write(f"f{number % 3}", f"content {number % 5}")  # writes the same contents repeatedly
                if number % 10 == 0:
                    user_workspace.snapshot()
                user_workspace.delete(f"f{number % 3}")
                engine._parts.records.commit([])
        except Exception as error:  # noqa: BLE001 — shown below
            errors.append(error)

    writers = [threading.Thread(target=write, args=(name,)) for name in ("alice", "bob")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    collector.join()
    assert errors == []
    for name in ("alice", "bob"):
        user_workspace = engine.scope(user=name).workspace("w")
        user_workspace.write("last", "content 1")
        assert user_workspace.verify().is_intact


def test_a_content_that_is_being_deleted_is_stored_again(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    workspace.write("a.txt", "hello " * 100)
    deps, records = workspace._parts.workspace_deps, get_records_of(workspace)
    [row] = records.scan(Blob, "default")
    # As if a garbage collection had marked the content and then stopped.
    records.commit([make_deletion_mark(row)])
    with pytest.raises(NotFound):
        load_content(workspace, row.sha256)
    workspace.write("b.txt", "hello " * 100)
    [stored] = records.scan(Blob, "default")
    assert (stored.generation, stored.is_leaving) == (1, False)
    # The stopped collection goes on with the row that it marked. It must not delete what was stored since.
    assert not deps.contents.delete(row.evolve(is_leaving=True, version=row.version + 1))
    assert load_content(workspace, row.sha256) == b"hello " * 100
    assert [path.name for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == [find_address(stored)]


def make_deletion_mark(row: Blob) -> Any:
    return Patch(Blob, ("default", row.id), {"is_leaving": True}, row.version)


def test_unreferenced_contents_are_collected(store: Store, workspace: WorkspaceFolder, tmp_path: Path) -> None:
    deps, engine = workspace._parts.workspace_deps, store.opened[0]
    for number in range(4):
        workspace.write("a.txt", f"version {number}")
        workspace.snapshot()
    assert find_garbage(deps, "default", timedelta(0)) == []
    for snapshot in workspace.snapshots()[1:]:
        workspace.delete_snapshot(snapshot.id)
    assert find_garbage(deps, "default", timedelta(0)) == []  # they can still be restored
    purging_engine = open_without_grace_period(store, tmp_path)
    purging_engine.maintain(["purge"])
    # Of the deleted snapshots: three contents of the file, and three pages of manifests.
    assert collect_garbage(deps, "default", min_age=timedelta(0)).contents == 6
    assert workspace.verify().is_intact
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 2
    engine.delete_organization("default", hard=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and "version" in path.read_text(errors="ignore")]
    assert not get_records(engine).scan(Blob, None, [Where("size", Op.GE, 0)])


def open_without_grace_period(store: Store, folder: Path) -> Everhold:
    return store.open(workspaces={"folder": folder / "files"}, blobs=str(folder / "blobs"), grace_days=0)
