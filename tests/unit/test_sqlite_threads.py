"""Connections of SQLite: short-lived threads share them, and none is closed while a thread uses it."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.adapters.sqlite.pool import MAX_IDLE
from everhold.errors import StoreUnavailable
from everhold.model import Memory, Organization, Outbox
from everhold.schema.operations import Put
from everhold.testing.records_rows import make_row

THREADS = 1000
ENDLESS_QUERY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def records(tmp_path: Path) -> Iterator[SqliteRecords]:
    with closing(SqliteRecords(SqliteOptions(tmp_path / "records.db", synchronous="NORMAL"))) as store:
        store.commit([Put(make_row(Organization, "org", "org"))])
        store.commit([Put(make_row(Memory, "org", f"m{number}")) for number in range(600)])
        yield store


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def run_in_thread(work: object) -> None:
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    thread.join()


def test_short_lived_threads_leave_no_connections(records: SqliteRecords) -> None:
    run_in_thread(lambda: records.count(Memory, "org"))
    before = count_descriptors()
    for _ in range(THREADS):
        run_in_thread(lambda: (records.get(Memory, "org", ["m1"]), next(records.columns(Memory, "org", ("id",)))))
    assert count_descriptors() <= before + 2


def test_descriptors_are_bounded_by_the_readers_at_once(records: SqliteRecords) -> None:
    """SQLite itself keeps the descriptors of closed connections for the next ones while others are open."""
    before = count_descriptors()
    start = threading.Barrier(20)

    def read(_: int) -> None:
        start.wait()
        records.scan(Memory, "org")

    for _ in range(6):
        with ThreadPoolExecutor(20) as pool:
            list(pool.map(read, range(20)))
    assert count_descriptors() <= before + 2 * 20
    assert len(records._readers._idle) <= MAX_IDLE


def test_closing_ends_a_statement_that_takes_long(records: SqliteRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everhold.adapters.sqlite.pool.CLOSING_SECONDS", 0.2)
    with ThreadPoolExecutor() as pool:
        endless = pool.submit(records.query, ENDLESS_QUERY, ())
        time.sleep(0.2)
        records.close()
        assert isinstance(endless.exception(20), StoreUnavailable)


def test_closing_does_not_wait_for_a_stream_that_is_half_read(records: SqliteRecords) -> None:
    stream = records.columns(Memory, "org", ("id",))
    next(stream)
    run_in_thread(records.close)
    with pytest.raises(StoreUnavailable):
        list(stream)
    assert not list(records.options.path.parent.glob("*-wal"))  # the last connection is closed


def test_a_writer_that_waits_while_the_store_is_closed_is_refused(records: SqliteRecords) -> None:
    with ThreadPoolExecutor() as pool:
        with records._write_lock:
            waiting = pool.submit(records.commit, [Put(make_row(Memory, "org", "late"))])
            time.sleep(0.1)
            records.close()
        assert isinstance(waiting.exception(20), StoreUnavailable)


def test_a_reader_at_the_end_of_the_feed_sees_later_lines(records: SqliteRecords) -> None:
    """This is true for every connection, because each one remembers for itself that the feed had nothing new."""
    line = Outbox(organization_id="org", entity="memories", entity_id="m1", operation="put")
    start = threading.Barrier(4)

    def follow(_: int) -> int:
        start.wait()
        return len(records.feed(0).lines)

    for expected in range(5):
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(follow, range(4))) == {expected}
        assert [len(records.feed(0).lines) for _ in range(6)] == [expected] * 6
        with closing(sqlite3.connect(records.options.path)) as other:
            assert other.execute("SELECT count(*) FROM outbox").fetchone() == (expected,)
        records.commit([Put(line)])
