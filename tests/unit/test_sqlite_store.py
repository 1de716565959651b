"""Behaviour that only the SQLite store has: its settings, its file, its waits and its limits."""

import multiprocessing
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from everhold.adapters.sqlite import SqliteRecords
from everhold.adapters.sqlite.candidates import SqliteWords
from everhold.adapters.sqlite.connection import SqliteOptions
from everhold.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from everhold.model import Memory, Organization, Outbox
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Delete, Increment, Op, Patch, Put, Where
from everhold.testing.records_rows import make_row

THREADS, PROCESSES, COMMITS = 16, 4, 25
SPAWN = multiprocessing.get_context("spawn")
LARGE_TEXT = "ข้อความ " * 4000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "memory.db"


@pytest.fixture
def records(path: Path) -> Iterator[SqliteRecords]:
    store = SqliteRecords(SqliteOptions(path=path))
    yield store
    store.close()


def put_first_rows(records: SqliteRecords) -> None:
    records.commit([Put(make_row(Organization, "org", "org")), Put(make_row(Memory, "org", "m"))])


# settings


def test_settings_have_defaults(records: SqliteRecords) -> None:
    expected = {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "cache_size": -64_000,
        "mmap_size": 64 * 1024 * 1024,
        "temp_store": 2,
        "auto_vacuum": 2,
        "busy_timeout": 30_000,
    }
    assert {name: records.read_pragma(name) for name in expected} == expected


def test_the_settings_can_be_changed(path: Path) -> None:
    options = SqliteOptions(path=path, synchronous="NORMAL", busy_seconds=1.5, cache_megabytes=8, mmap_megabytes=0)
    with closing(SqliteRecords(options)) as records:
        expected = {"synchronous": 1, "busy_timeout": 1500, "cache_size": -8000, "mmap_size": 0, "foreign_keys": 1}
        assert {name: records.read_pragma(name) for name in expected} == expected
        assert records.traits.details["synchronous"] == "NORMAL"


def test_every_reader_uses_the_settings(records: SqliteRecords) -> None:
    with ThreadPoolExecutor(2) as pool:
        pragmas = list(pool.map(lambda name: records.query(f"PRAGMA {name}", ())[0][0], ["foreign_keys", "cache_size"]))
    assert pragmas == [1, -64_000]


def test_only_the_owner_can_read_the_files(records: SqliteRecords, path: Path) -> None:
    put_first_rows(records)
    files = sorted(path.parent.iterdir())
    assert {file.name for file in files} == {"memory.db", "memory.db-wal", "memory.db-shm"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_no_reference_is_broken(records: SqliteRecords) -> None:
    put_first_rows(records)
    assert records.query("PRAGMA integrity_check", ()) == [("ok",)]
    assert records.query("PRAGMA foreign_key_check", ()) == []


def test_more_values_can_be_asked_for_than_a_statement_may_bind(records: SqliteRecords) -> None:
    put_first_rows(records)
    records._readers.run(lambda reader: reader.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766))
    ids = ["m", *map(str, range(40_000))]
    assert [row.id for row in records.scan(Memory, "org", [Where("id", Op.IN, ids)])] == ["m"]
    assert list(records.get(Memory, "org", ids)) == ["m"]


# many writers


def test_sixteen_threads_write_without_being_refused(records: SqliteRecords) -> None:
    put_first_rows(records)
    write_many(records, "thread", THREADS)
    assert records.count(Memory, "org") == THREADS * COMMITS + 1
    assert records.get(Memory, "org", ["m"])["m"].access_count == THREADS * COMMITS


def write_many(records: SqliteRecords, name: str, writers: int) -> None:
    def write(number: int) -> None:
        for index in range(COMMITS):
            row = make_row(Memory, "org", f"{name}-{number}-{index}")
            records.commit([Put(row), Increment(Memory, ("org", "m"), {"access_count": 1})])

    with ThreadPoolExecutor(writers) as pool:
        for future in [pool.submit(write, number) for number in range(writers)]:
            future.result()


def write_from_process(path: Path, number: int, start: Event) -> None:
    start.wait(150)
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        write_many(records, f"process-{number}", 2)


def test_four_processes_write_one_file_without_being_refused(records: SqliteRecords, path: Path) -> None:
    put_first_rows(records)
    start = SPAWN.Event()
    workers = [SPAWN.Process(target=write_from_process, args=(path, number, start)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(600)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    assert records.get(Memory, "org", ["m"])["m"].access_count == PROCESSES * 2 * COMMITS


def open_from_process(path: Path, start: Event) -> None:
    start.wait(150)
    SqliteRecords(SqliteOptions(path=path)).close()


def test_four_processes_create_one_file_at_once(path: Path) -> None:
    start = SPAWN.Event()
    workers = [SPAWN.Process(target=open_from_process, args=(path, start)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(600)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        put_first_rows(records)


def hold_lock(path: Path, locked: Event, release: Event) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        locked.set()
        release.wait(300)
        connection.execute("ROLLBACK")


def test_a_writer_gives_up_after_the_configured_wait(path: Path) -> None:
    with closing(SqliteRecords(SqliteOptions(path=path, busy_seconds=0.3))) as records:
        put_first_rows(records)
        locked, release = SPAWN.Event(), SPAWN.Event()
        holder = SPAWN.Process(target=hold_lock, args=(path, locked, release))
        holder.start()
        try:
            assert locked.wait(300)
            started = time.monotonic()
            with pytest.raises(StoreBusy, match=r"0.3 s; try again") as caught:
                records.commit([Patch(Memory, ("org", "m"), {"text": "refused"})])
            assert time.monotonic() - started > 0.2
            assert caught.value.retryable
            assert records.get(Memory, "org", ["m"])["m"].version == 1  # reading never waits
        finally:
            release.set()
            holder.join(300)
        records.commit([Patch(Memory, ("org", "m"), {"text": "taken"})])
        assert records.get(Memory, "org", ["m"])["m"].text == "taken"


def test_a_thread_gives_up_after_the_configured_wait(path: Path) -> None:
    with closing(SqliteRecords(SqliteOptions(path=path, busy_seconds=0.2))) as records:
        put_first_rows(records)
        refused = {"text": "refused"}
        with records._write_lock, ThreadPoolExecutor() as pool, pytest.raises(StoreBusy, match="other threads wrote"):
            pool.submit(records.commit, [Patch(Memory, ("org", "m"), refused)]).result()
        records.commit([Patch(Memory, ("org", "m"), {"text": "taken"})])


def test_a_writer_waits_for_another_that_ends_in_time(path: Path) -> None:
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        put_first_rows(records)
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(0.3, other.execute, ["ROLLBACK"])
            timer.start()
            records.commit([Patch(Memory, ("org", "m"), {"text": "waited"})])
            timer.join()
        assert records.get(Memory, "org", ["m"])["m"].text == "waited"


# read-only stores


def test_a_store_opened_read_only_reads_and_refuses_to_write(records: SqliteRecords, path: Path) -> None:
    put_first_rows(records)
    with closing(SqliteRecords(SqliteOptions(path=path, read_only=True))) as reader:
        assert reader.count(Memory, "org") == 1
        with pytest.raises(StoreReadOnly, match="read-only"):
            reader.commit([Patch(Memory, ("org", "m"), {"text": "x"})])
        records.commit([Patch(Memory, ("org", "m"), {"text": "seen"})])
        assert reader.get(Memory, "org", ["m"])["m"].text == "seen"


def test_a_missing_store_is_not_created_by_reading(path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        SqliteRecords(SqliteOptions(path=path, read_only=True))
    assert not path.exists()


# a full disk


def fill_disk(records: SqliteRecords) -> int:
    """Store large memories until the disk is full, and return the number of acknowledged ones."""
    for number in range(10_000):
        rows = [make_row(Memory, "org", f"{number:05}-{part}", text=LARGE_TEXT) for part in range(4)]
        try:
            records.commit([Put(row) for row in rows])
        except StoreFull:
            return number
    raise AssertionError("the disk never filled")


def assert_intact(records: SqliteRecords, commits: int) -> None:
    """Assert that exactly the acknowledged commits are stored and the file is intact."""
    rows = records.scan(Memory, "org", [Where("id", Op.GT, "0")])
    assert len([row for row in rows if row.id != "m"]) == commits * 4
    assert all(row.text == LARGE_TEXT for row in rows if row.id != "m")
    assert records.query("PRAGMA integrity_check", ()) == [("ok",)]


def test_a_full_store_is_reported_and_keeps_its_rows(path: Path) -> None:
    SqliteRecords(SqliteOptions(path=path)).close()
    with closing(sqlite3.connect(path)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    with closing(SqliteRecords(SqliteOptions(path=path, maximum_pages=pages + 300))) as records:
        put_first_rows(records)
        commits = fill_disk(records)
        assert commits > 0
        assert_intact(records, commits)
        records.commit([Delete(Memory, ("org", "00000-0"))])
        records.commit([Put(make_row(Memory, "org", "00000-0", text=LARGE_TEXT))])
        assert_intact(records, commits)
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        assert_intact(records, commits)
        write_one_more(records)


def write_one_more(records: SqliteRecords) -> None:
    records.commit([Put(make_row(Memory, "org", "after", text=LARGE_TEXT))])


def fill_with_limit(path: Path, size: int, results: "multiprocessing.Queue[int | str]") -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    records = SqliteRecords(SqliteOptions(path=path))
    put_first_rows(records)
    try:
        results.put(fill_disk(records))
    except StoreError as error:
        results.put(f"{type(error).__name__}: {error}")


def test_acknowledged_commits_survive_a_full_disk(path: Path) -> None:
    SqliteRecords(SqliteOptions(path=path)).close()
    results: multiprocessing.Queue[int | str] = SPAWN.Queue()
    size = path.stat().st_size + 2 * 1024 * 1024
    worker = SPAWN.Process(target=fill_with_limit, args=(path, size, results))
    worker.start()
    commits = results.get(timeout=600)
    worker.join(300)
    assert isinstance(commits, int), commits
    assert commits > 0
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        assert_intact(records, commits)
        write_one_more(records)


# maintenance


def test_maintenance_gives_pages_back(records: SqliteRecords, path: Path) -> None:
    put_first_rows(records)
    rows = [make_row(Memory, "org", f"{number:03}", text=LARGE_TEXT) for number in range(100)]
    records.commit([Put(row) for row in rows])
    records.query("PRAGMA wal_checkpoint(TRUNCATE)", ())
    before = path.stat().st_size
    records.commit([Delete(Memory, ("org", row.id)) for row in rows])
    assert records.read_pragma("freelist_count") > 500
    records.maintain()
    assert records.read_pragma("freelist_count") == 0
    records.query("PRAGMA wal_checkpoint(TRUNCATE)", ())
    assert path.stat().st_size < before / 2


def test_chunks_the_word_index_lacks_are_found_without_reading_the_others(records: SqliteRecords) -> None:
    """An index over the organization alone would read all chunks of the organization."""
    sql, values = SqliteWords(records).select_recent(SearchSpace("default", ("alice",), "model"))
    plan = records.query(f"EXPLAIN QUERY PLAN {sql}", values)
    assert "SEARCH c USING INTEGER PRIMARY KEY (rowid>?)" in [step for *_, step in plan]


def test_sequence_numbers_survive_an_emptied_outbox(records: SqliteRecords) -> None:
    line = Outbox(organization_id="org", entity="memory", entity_id="m", operation="put")
    records.commit([Put(line), Put(line)])
    records.commit([Delete(Outbox, (sequence,)) for sequence in (1, 2)])
    records.maintain()
    records.commit([Put(line)])
    assert [line.sequence for line in records.feed(0).lines] == [3]


# files that are no stores


def test_a_file_of_another_program_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE contacts (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match=r"another program .*contacts.*choose another file"):
        SqliteRecords(SqliteOptions(path=path))
    assert path.read_bytes() == before


def test_a_file_that_is_not_a_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Alice, this is not a database. " * 50)
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="not a database; choose another file"):
        SqliteRecords(SqliteOptions(path=path))
    assert path.read_bytes() == before


def test_another_connection_of_the_process_does_not_drop_the_locks(records: SqliteRecords, path: Path) -> None:
    """Without its locks, the next process to close the file would remove the write-ahead log that is in use."""
    put_first_rows(records)
    SqliteRecords(SqliteOptions(path=path)).close()
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM memories'); c.close()"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert Path(f"{path}-wal").exists()
    records.commit([Put(make_row(Memory, "org", "m2"))])
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_link_to_a_missing_file_creates_that_file(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "target.db")
    SqliteRecords(SqliteOptions(path=tmp_path / "link.db")).close()
    assert (tmp_path / "target.db").stat().st_mode & 0o777 == 0o600


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        SqliteRecords(SqliteOptions(path=tmp_path))


def test_a_damaged_file_is_reported(path: Path) -> None:
    with closing(SqliteRecords(SqliteOptions(path=path))) as records:
        put_first_rows(records)
        records.query("PRAGMA wal_checkpoint(TRUNCATE)", ())
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match="damaged"), closing(SqliteRecords(SqliteOptions(path=path))) as records:
        records.scan(Memory, "org")
