"""Maintenance deletes the files that a killed upload left, and does not touch files of a running upload."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder

_TWO_DAYS = 2 * 86_400.0
KILLED_UPLOAD = """
import os, signal, sys
from everhold import Everhold
from everhold.model import Source
from everhold.schema.operations import Put
from everhold.testing.fake_embedder import FakeEmbedder

engine = Everhold.open(sys.argv[1], embedder=FakeEmbedder())
records = engine._parts.records
commit = records.commit

def kill(operations):
    if any(isinstance(operation, Put) and isinstance(operation.row, Source) for operation in operations):
        os.kill(os.getpid(), signal.SIGKILL)
    commit(operations)

records.commit = kill
engine.scope(project="shop").upload(sys.argv[2])
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def list_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def set_old_times(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        modified_at = path.stat().st_mtime - _TWO_DAYS
        os.utime(path, (modified_at, modified_at))


def test_maintenance_deletes_the_files_of_a_killed_upload(tmp_path: Path, temporary: Path) -> None:
    store, data = tmp_path / "shop.db", tmp_path / "orders.csv"
    data.write_text("id,status\n1,paid\n2,open\n")
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", KILLED_UPLOAD, str(store), str(data)]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    blobs = tmp_path / "shop.db.blobs"
    remaining_files = list_files(blobs)
    assert len(remaining_files) == 3
    [folder] = temporary.iterdir()
    with Everhold.open(store, embedder=FakeEmbedder()) as engine:
        assert engine.maintain(["uploads"])["uploads"].counts == {}  # it may still be running
        assert list_files(blobs) == remaining_files
        set_old_times(blobs)
        set_old_times(folder)
        engine.scope(project="shop").upload(str(data))
        assert engine.maintain(["uploads"], dry_run=True)["uploads"].counts == {"folders": 1, "files": 3}
        assert engine.maintain(["uploads"])["uploads"].counts == {"folders": 1, "files": 3}
        assert len(list_files(blobs)) == 3
        assert not set(remaining_files) & set(list_files(blobs))
        assert not folder.exists()
        set_old_times(blobs)
        assert engine.maintain(["uploads"])["uploads"].counts == {}
        assert engine.scope(project="shop").ask("how many orders are paid?").table.rows == ((1,),)


def test_maintenance_deletes_the_files_of_purged_sources(tmp_path: Path) -> None:
    data = tmp_path / "orders.csv"
    data.write_text("id,status\n1,paid\n2,open\n")
    with Everhold.open(tmp_path / "shop.db", embedder=FakeEmbedder(), grace_days=0) as engine:
        shop = engine.scope(project="shop")
        shop.upload(str(data))
        shop.delete_source("orders.csv")
        set_old_times(tmp_path / "shop.db.blobs")
        engine.maintain(["purge", "uploads"])
        assert not list_files(tmp_path / "shop.db.blobs")
