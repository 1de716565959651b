"""A store from another package passes the whole contract, and an engine opens it by its address."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everhold import settings, stores
from everhold.errors import InvalidSettings, StoreDamaged
from everhold.model import Memory
from everhold.ports.records import Records
from everhold.testing.records_contract import RecordsContract
from everhold.testing.records_machine import run_machine
from tests.engines import Store
from tests.exhaustive import choose_size

PACKAGES = Path(__file__).parent.parent / "third_party"
MAX_LINES = 300


@pytest.fixture(autouse=True)
def install_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the package's folder and metadata on the path, as if it were installed."""
    monkeypatch.syspath_prepend(str(PACKAGES))


def open_records(folder: Path) -> Records:
    records, _ = stores.open_store(settings.load(f"plain-file:///{folder / 'records.log'}"))
    return records


@pytest.fixture(params=["plain_file"])
def records(tmp_path: Path) -> Iterator[Records]:
    records = open_records(tmp_path)
    yield records
    records.close()


class TestPlainFile(RecordsContract):
    @pytest.fixture
    def reopen(self, records: Records, tmp_path: Path) -> Callable[[], Records]:
        def reopen_records() -> Records:
            records.close()
            return open_records(tmp_path)

        return reopen_records


def test_random_operations_find_no_difference(tmp_path: Path) -> None:
    folders = itertools.count()

    def make_records() -> Records:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        return open_records(folder)

    operations = choose_size(700, 2000)
    assert run_machine(make_records, operations=operations) >= operations


def test_an_engine_on_the_store_remembers_and_recalls(tmp_path: Path) -> None:
    store = Store("plain_file", f"plain-file:///{tmp_path / 'memories.log'}")
    store.open().scope(user="alice").remember("Prefers backend work over design", tags=["work"])
    store.close()
    store.opened.clear()
    [hit] = store.open().scope(user="alice").recall("backend or design work?", tags="work")
    assert hit.memory.text == "Prefers backend work over design"
    store.close()


def test_an_incomplete_last_line_is_ignored_and_a_damaged_line_is_reported(tmp_path: Path) -> None:
    store = Store("plain_file", f"plain-file:///{tmp_path / 'memories.log'}")
    path = tmp_path / "memories.log"
    store.open().scope(user="alice").remember("The first")
    store.close()
    content = path.read_bytes()
    path.write_bytes(content + b"0000cafe {half a li")
    records, _ = stores.open_store(settings.load(store.storage))
    assert records.count(Memory, "default") == 1
    records.close()
    assert path.read_bytes() == content
    path.write_bytes(b"0" + content[1:] + content)
    with pytest.raises(StoreDamaged, match="byte 0"):
        stores.open_store(settings.load(store.storage))


def test_the_store_is_one_small_folder() -> None:
    files = sorted((PACKAGES / "plain_file").rglob("*.py"))
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= MAX_LINES


def test_the_error_for_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(InvalidSettings, match=r"no store for mongodb://.*sqlite.*plain-file"):
        stores.open_store(settings.load("mongodb://localhost/memories"))
