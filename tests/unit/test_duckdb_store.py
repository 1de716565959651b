"""Behaviour of the DuckDB store alone: one process, numbers and unique rules made in Python, its file, its errors."""

import multiprocessing
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from math import nan
from pathlib import Path
from typing import Any

import duckdb
import pytest

from everhold.adapters.duckdb import DuckdbOptions, DuckdbRecords
from everhold.adapters.in_memory import InMemoryRecords
from everhold.errors import (
    AlreadyExists,
    InvalidInput,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from everhold.model import Memory, Organization, Outbox, Tag, User
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Hide, Increment, Op, Patch, Put, Unhide, Where
from everhold.schema.rows import Key
from everhold.schema.table import Table
from everhold.testing.records_rows import add_minutes_to_noon, make_family, make_row
from tests.engines import make_store

PROCESS = multiprocessing.get_context("spawn")
LARGE_TEXT = "ข้อความ " * 4000
LINE = Outbox(organization_id="org", entity="memory", entity_id="m", operation="put")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "memory.duckdb"


@pytest.fixture
def records(path: Path) -> Iterator[DuckdbRecords]:
    store = open_records(path)
    yield store
    store.close()


def open_records(path: Path, **options: Any) -> DuckdbRecords:
    return DuckdbRecords(DuckdbOptions(path=path, **options))


def add_first_memory(records: Records) -> None:
    records.commit([Put(make_row(Organization, "org", "org")), Put(make_row(Memory, "org", "m"))])


def read_setting(records: DuckdbRecords, setting: str) -> Any:
    return records._fetch(f"SELECT current_setting('{setting}')", ())[0][0]


# its file


def test_only_the_owner_can_read_the_files(records: DuckdbRecords, path: Path) -> None:
    add_first_memory(records)
    records.maintain()
    records.commit([Put(LINE)])
    files = sorted(path.parent.iterdir())
    assert {file.name for file in files} == {"memory.duckdb", "memory.duckdb.wal"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_closed_store_is_one_file(records: DuckdbRecords, path: Path) -> None:
    add_first_memory(records)
    records.close()
    assert [file.name for file in path.parent.iterdir()] == ["memory.duckdb"]
    shutil.copyfile(path, path.with_name("copy.duckdb"))
    with closing(open_records(path.with_name("copy.duckdb"))) as copy:
        assert copy.count(Memory, "org") == 1


def test_settings_are_passed_to_duckdb(path: Path) -> None:
    with closing(open_records(path, memory_megabytes=100, threads=1)) as records:
        assert read_setting(records, "threads") == 1
        assert read_setting(records, "memory_limit") == "95.3 MiB"
        assert read_setting(records, "autoload_known_extensions") is False
        assert read_setting(records, "autoinstall_known_extensions") is False


def test_a_closed_store_refuses_everything(records: DuckdbRecords) -> None:
    add_first_memory(records)
    stream = records.columns(Memory, "org", ["id"])
    records.close()
    records.close()
    for ask in (
        records.head,
        records.find_problems,
        records.maintain,
        lambda: records.feed(0),
        lambda: list(stream),
        lambda: records.count(Memory, "org"),
        lambda: records.commit([Put(LINE)]),
    ):
        with pytest.raises(StoreUnavailable, match="has been closed; open it again"):
            ask()


def test_closing_waits_for_calls_and_refuses_the_rest(records: DuckdbRecords) -> None:
    add_first_memory(records)
    barrier = threading.Barrier(7)

    def work(number: int) -> None:
        tasks = (
            lambda: records.scan(Memory, "org"),
            lambda: list(records.columns(Memory, "org", ["id", "text"])),
            lambda: records.commit([Increment(Memory, ("org", "m"), {"access_count": 1})]),
        )
        tasks[number % 3]()
        barrier.wait(300)
        while True:
            tasks[number % 3]()

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(work, number) for number in range(6)]
        barrier.wait(300)
        records.close()
        for future in futures:
            with pytest.raises(StoreUnavailable, match="has been closed"):
                future.result(60)


# generated numbers


def test_sequence_numbers_continue_after_reopening(records: DuckdbRecords, path: Path) -> None:
    records.commit([Put(LINE), Put(LINE)])
    records.commit([Delete(Outbox, (1,)), Delete(Outbox, (2,))])
    records.close()
    for number in (3, 4):
        with closing(open_records(path)) as reopened:
            assert reopened.head() == number - 1
            reopened.commit([Put(LINE)])
            assert [line.sequence for line in reopened.feed(number - 1).lines] == [number]


def test_no_row_has_a_sequence_number_of_a_failed_commit(records: DuckdbRecords, path: Path) -> None:
    add_first_memory(records)
    with pytest.raises(AlreadyExists):
        records.commit([Put(LINE), Put(make_row(Memory, "org", "m"))])
    assert (records.head(), records.feed(0).lines) == (0, [])
    records.commit([Put(LINE)])
    assert records.head() == records.feed(0).position
    records.close()
    with closing(open_records(path)) as reopened:
        assert reopened.head() == reopened.feed(0).position


@pytest.mark.parametrize("op", [Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE])
def test_nan_compares_as_it_does_in_python(records: DuckdbRecords, op: Op) -> None:
    """DuckDB itself takes NaN for the greatest number."""
    reference = InMemoryRecords()
    for store in (records, reference):
        add_first_memory(store)
    where = [Where("importance", op, nan)]
    assert records.count(Memory, "org", where) == reference.count(Memory, "org", where)


# a commit of many rows reads the store few times


class CountingRecords(DuckdbRecords):
    """A store that counts how often it is read while a commit is planned."""

    reads = 0

    def find_rows_by_columns(self, table: Table, columns: Sequence[str], keys: Sequence[Key]) -> list[Row]:
        self.reads += 1
        return super().find_rows_by_columns(table, columns, keys)


@pytest.fixture
def store(path: Path) -> Iterator[CountingRecords]:
    store = CountingRecords(DuckdbOptions(path=path))
    yield store
    store.close()


def count_reads(records: CountingRecords, operations: Sequence[Any]) -> int:
    before = records.reads
    records.commit(operations)
    return records.reads - before


def make_memory_rows(number: int) -> list[Row]:
    name = f"{number:04}"
    memory = make_row(Memory, "org", name, user_id="u", hash=number.to_bytes(16), key=name)
    return [memory, *(make_row(Tag, "org", f"{name}-{tag}", memory_id=name, tag=tag) for tag in ("a", "b")), LINE]


def test_a_large_commit_reads_the_store_as_often_as_a_small_one(store: CountingRecords) -> None:
    store.commit([Put(make_row(Organization, "org", "org")), Put(make_row(User, "org", "u"))])
    reads_of_few = count_reads(store, [Put(row) for row in make_memory_rows(0)])
    assert (
        count_reads(store, [Put(row) for number in range(1, 300) for row in make_memory_rows(number)]) == reads_of_few
    )
    assert reads_of_few < 12

    keys = [("org", f"{number:04}") for number in range(300)]
    reads = count_reads(store, [Patch(Memory, keys[0], {"text": "again"})])
    assert count_reads(store, [Patch(Memory, key, {"text": "again"}) for key in keys]) == reads
    reads = count_reads(store, [Increment(Memory, keys[0], {"access_count": 1})])
    assert count_reads(store, [Increment(Memory, key, {"access_count": 1}) for key in keys]) == reads

    assert count_reads(store, [Hide(User, ("org", "u"), "gone", add_minutes_to_noon(1))]) < 60
    assert store.count(Memory, "org") == store.count(Tag, "org") == 0
    assert count_reads(store, [Unhide("org", "gone")]) < 60
    assert (store.count(Memory, "org"), store.count(Tag, "org")) == (300, 600)

    reads = count_reads(store, [Delete(Memory, keys[0])])
    assert count_reads(store, [Delete(Memory, key) for key in keys[1:200]]) == reads
    assert count_reads(store, [Delete(User, ("org", "u"))]) < 60
    assert store.count(Memory, None, deleted=True) == store.count(Tag, None, deleted=True) == 0
    assert store.find_problems() == []


def test_unique_rules_apply_among_the_rows_of_one_commit(records: DuckdbRecords) -> None:
    add_first_memory(records)
    rows_with_one_hash = [make_row(Memory, "org", name, hash=b"1" * 16) for name in ("x", "y")]
    with pytest.raises(AlreadyExists):
        records.commit([Put(row) for row in rows_with_one_hash])
    records.commit(
        [
            Put(rows_with_one_hash[0]),
            Delete(Memory, ("org", "x")),
            Put(rows_with_one_hash[1]),
            Ensure(rows_with_one_hash[1]),
        ]
    )
    records.commit([Delete(Memory, ("org", "y")), Put(rows_with_one_hash[1].model_copy(update={"text": "again"}))])
    assert records.get(Memory, "org", ["x", "y"])["y"].text == "again"


def test_a_value_that_no_row_can_hold_is_refused_in_every_place(records: DuckdbRecords) -> None:
    add_first_memory(records)
    invalid_row = Memory.build_unchecked({**make_row(Memory, "org", "x").__dict__, "id": "\ud800"})
    for operation in (Put(invalid_row), Patch(Memory, ("org", "m"), {"access_count": 2**63})):
        with pytest.raises(InvalidInput):
            records.commit([Put(make_row(Memory, "org", "n")), operation])
    assert records.count(Memory, "org") == 1


def test_the_doctor_finds_damage_made_without_the_store(records: DuckdbRecords, path: Path) -> None:
    rows = make_family("org")
    records.commit([Put(row) for row in rows.values()])
    assert records.find_problems() == []
    records.close()
    with duckdb.connect(path) as connection:
        connection.execute("INSERT INTO tools SELECT * FROM tools")
        connection.execute("UPDATE memories SET importance = 7")
        connection.execute("DELETE FROM organizations")
    with closing(open_records(path)) as reopened:
        problems = "\n".join(reopened.find_problems())
    assert "tools ('org', 'one'): more than one row has this key" in problems
    assert "memories.importance is 7.0; it must lie between 0 and 1" in problems
    assert "users: no row of organizations" in problems


# an engine


def test_an_engine_remembers_a_batch_and_recalls_from_it(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    store = make_store("duckdb", request, tmp_path)
    view = store.open().scope(user="alice")
    view.remember_many(
        [{"text": f"The {number}. lantern hangs in street {number}", "tags": ["l"]} for number in range(2048)]
    )
    assert view.recall("which street has the 77. lantern?")[0].memory.text == "The 77. lantern hangs in street 77"
    store.close()
    store.opened.clear()
    view = store.open().scope(user="alice")
    hit = view.recall("which street has the 1999. lantern?", tags="l")[0]
    assert hit.memory.text == "The 1999. lantern hangs in street 1999"
    view.forget(hit.memory.id)
    assert hit.memory.id not in [hit.memory.id for hit in view.recall("which street has the 1999. lantern?")]
    store.close()


# crashes and other processes


def write_until_killed() -> None:
    """Commit until the process is killed, and print the number of each acknowledged commit."""
    records = open_records(Path(sys.argv[1]))
    add_first_memory(records)
    for number in range(100_000):
        records.commit([Put(make_row(Memory, "org", f"{number}-{part}")) for part in range(3)] + [Put(LINE)])
        os.write(1, f"{number}\n".encode())


def test_acknowledged_commits_survive_a_kill(path: Path) -> None:
    script = "from tests.unit.test_duckdb_store import write_until_killed; write_until_killed()"
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(40)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
    assert writer.returncode == -signal.SIGKILL
    with closing(open_records(path)) as records:
        names = {name for (name,) in records.columns(Memory, "org", ["id"])} - {"m"}
        commits = {int(name.partition("-")[0]) for name in names}
        assert set(acknowledged) <= commits <= {*acknowledged, acknowledged[-1] + 1}
        assert names == {f"{number}-{part}" for number in commits for part in range(3)}
        assert [line.sequence for line in records.feed(0, limit=10_000).lines] == list(range(1, len(commits) + 1))
        assert records.find_problems() == []
        records.commit([Put(LINE)])
        assert records.head() == len(commits) + 1


def report_refusal(path: Path, read_only: bool, results: "multiprocessing.Queue[tuple[str, bool, str]]") -> None:
    try:
        open_records(path, read_only=read_only).close()
    except StoreError as error:
        results.put((type(error).__name__, error.retryable, str(error)))
    else:
        results.put(("opened", False, ""))


@pytest.mark.parametrize("read_only", [False, True])
def test_a_second_process_is_refused(records: DuckdbRecords, path: Path, read_only: bool) -> None:
    add_first_memory(records)
    outcomes: multiprocessing.Queue[tuple[str, bool, str]] = PROCESS.Queue()
    other = PROCESS.Process(target=report_refusal, args=(path, read_only, outcomes))
    other.start()
    name, retryable, message = outcomes.get(timeout=600)
    other.join(300)
    assert (name, retryable) == ("StoreBusy", True)
    assert message == f"{path} is open in another process (its id is {os.getpid()}); close it there, then try again"


def test_a_second_store_in_this_process_is_refused(records: DuckdbRecords, path: Path) -> None:
    add_first_memory(records)
    with pytest.raises(StoreBusy, match="open in this process already"):
        open_records(path.parent / ".." / path.parent.name / path.name)
    records.close()
    with closing(open_records(path)) as reopened:
        assert reopened.count(Memory, "org") == 1


def test_a_store_opened_read_only_reads_and_refuses_to_write(records: DuckdbRecords, path: Path) -> None:
    add_first_memory(records)
    records.close()
    with closing(open_records(path, read_only=True)) as reader:
        assert reader.count(Memory, "org") == 1
        reader.maintain()
        with pytest.raises(StoreReadOnly, match="read-only; open it without mode=ro"):
            reader.commit([Patch(Memory, ("org", "m"), {"text": "x"})])


# a full disk


def fill_with_limit(path: Path, size: int, outcome: "multiprocessing.Queue[int | str]") -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    records = open_records(path)
    add_first_memory(records)
    for number in range(1000):
        try:
            records.commit([Put(make_row(Memory, "org", f"{number:05}-{part}", text=LARGE_TEXT)) for part in range(4)])
        except StoreFull:
            outcome.put(number)
            return
        except StoreError as error:
            outcome.put(f"{type(error).__name__}: {error}")
            return
    outcome.put("the disk never filled")


def test_a_full_disk_is_reported_and_acknowledged_commits_stay(path: Path) -> None:
    open_records(path).close()
    outcome: multiprocessing.Queue[int | str] = PROCESS.Queue()
    worker = PROCESS.Process(target=fill_with_limit, args=(path, path.stat().st_size + 2 * 1024 * 1024, outcome))
    worker.start()
    commits = outcome.get(timeout=600)
    worker.join(300)
    assert isinstance(commits, int), commits
    assert commits > 0
    with closing(open_records(path)) as records:
        rows = records.scan(Memory, "org", [Where("id", Op.NE, "m")])
        assert len(rows) == commits * 4
        assert all(row.text == LARGE_TEXT for row in rows)
        records.commit([Put(make_row(Memory, "org", "after", text=LARGE_TEXT))])
