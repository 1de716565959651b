"""A SQLite file in a folder that cannot be written is read, if that is safe."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from everhold import Everhold, settings, stores
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.errors import StoreReadOnly, StoreUnavailable
from everhold.model import Memory, Organization
from everhold.schema.operations import Patch, Put
from everhold.testing.records_rows import make_row
from tests.engines import Store

NOBODY = 65534


@pytest.fixture
def path() -> Iterator[Path]:
    """The path of a closed store. Anybody may enter the folders above it, unlike those of `tmp_path`."""
    with TemporaryDirectory() as parent:
        folder = Path(parent, "folder")
        folder.mkdir()
        Path(parent).chmod(0o777)
        with closing(SqliteRecords(SqliteOptions(path=folder / "memory.db"))) as records:
            records.commit([Put(make_row(Organization, "org", "org")), Put(make_row(Memory, "org", "m"))])
        yield folder / "memory.db"


@contextmanager
def read_only(path: Path, mode: int = 0o444) -> Iterator[None]:
    """Make the folder of a file read-only, even for root, and give each file in it this mode."""
    user = os.geteuid()
    for file in path.parent.iterdir():
        file.chmod(mode)
    path.parent.chmod(0o555)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        path.parent.chmod(0o755)


def make_read_only_address(path: Path) -> str:
    return f"sqlite:///{path}?mode=ro"


def test_a_closed_file_is_read(path: Path) -> None:
    with read_only(path):
        records, candidates = stores.open_store(settings.load(make_read_only_address(path)))
        assert records.count(Memory, "org") == 1
        assert [row.id for row in records.scan(Memory, "org")] == ["m"]
        with pytest.raises(StoreReadOnly):
            records.commit([Patch(Memory, ("org", "m"), {"text": "x"})])
        candidates.close()
        records.close()
        assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("in_address", [True, False], ids=["read-only address", "plain address"])
def test_an_engine_recalls_from_a_read_only_folder(path: Path, in_address: bool) -> None:
    writer = Store("sqlite", str(path))
    writer.open().scope(user="alice").remember("Prefers backend work over design")
    writer.close()
    shutil.rmtree(f"{path}.vectors", ignore_errors=True)
    with read_only(path):
        reader = Store("sqlite", make_read_only_address(path) if in_address else str(path))
        [hit] = reader.open().scope(user="alice").recall("backend or design work?")
        assert hit.memory.text == "Prefers backend work over design"
        reader.close()


def test_a_store_in_a_read_only_folder_can_be_moved(path: Path) -> None:
    with read_only(path):
        report = Everhold.move(make_read_only_address(path), str(path.parents[1] / "copy.db"))
    assert report.tables["memories"].rows == 1


def test_a_file_with_commits_beside_it_is_not_read_without_them(path: Path) -> None:
    unclosed = path.with_name("unclosed.db")
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        records.commit([Patch(Memory, ("org", "m"), {"text": "only in the log"})])
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{unclosed}{suffix}")
    with (
        read_only(path),
        pytest.raises(StoreReadOnly, match=r"was not closed \(unclosed.db-wal is next to it\).*; copy"),
    ):
        stores.open_store(settings.load(make_read_only_address(unclosed)))
    with closing(SqliteRecords(SqliteOptions(path=unclosed, read_only=True))) as copied:
        assert copied.get(Memory, "org", ["m"])["m"].text == "only in the log"


def test_a_file_that_another_process_writes_is_read_as_it_changes(path: Path) -> None:
    with closing(SqliteRecords(SqliteOptions(path=path))) as writer:
        writer.commit([Patch(Memory, ("org", "m"), {"text": "first"})])
        with read_only(path):
            reader = SqliteRecords(SqliteOptions(path=path, read_only=True))
            assert reader.get(Memory, "org", ["m"])["m"].text == "first"
        writer.commit([Patch(Memory, ("org", "m"), {"text": "second"})])
        assert reader.get(Memory, "org", ["m"])["m"].text == "second"
        reader.close()


@pytest.mark.parametrize("mode", [0o444, 0o666])
def test_a_read_only_folder_is_noticed_without_a_flag_in_the_address(path: Path, mode: int) -> None:
    with read_only(path, mode), closing(SqliteRecords(SqliteOptions(path=path))) as records:
        assert records.count(Memory, "org") == 1
        with pytest.raises(StoreReadOnly, match=r"or its folder is read-only; change their permissions"):
            records.commit([Patch(Memory, ("org", "m"), {"text": "x"})])


def test_the_error_about_an_unreadable_file_says_so(path: Path) -> None:
    with read_only(path, 0o000), pytest.raises(StoreUnavailable, match=rf"permission denied: {path} cannot be read"):
        SqliteRecords(SqliteOptions(path=path))
