"""PostgreSQL: recalls read from a real streaming replica while it is up to date, and otherwise from the primary."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from everhold import Everhold, View, clock, settings, stores
from everhold.adapters.postgres import PostgresOptions, PostgresRecords, ReplicaReading
from everhold.errors import InvalidSettings, StoreError
from everhold.model import Memory, Organization, Outbox
from everhold.schema.operations import Put
from tests.engines import Store
from tests.servers.postgres import PostgresServer

# All tests run in one process, because they share servers that take seconds to prepare.
pytestmark = pytest.mark.xdist_group("replica")

NOW = clock.now()
ENOUGH_SECONDS = 300


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def replica(primary: PostgresServer) -> Iterator[PostgresServer]:
    replica = primary.start_replica()
    yield replica
    replica.close()


@pytest.fixture
def addresses(primary: PostgresServer, replica: PostgresServer) -> tuple[str, str]:
    """The addresses of one database, on the primary and on the replica."""
    url = primary.create_database()
    name = url.partition("?")[0].rpartition("/")[2]
    is_reached = lambda: _count_tables(replica.url(name)) is not None  # noqa: E731
    wait_until(is_reached)
    return url, replica.url(name)


def _count_tables(url: str) -> int | None:
    try:
        with psycopg.connect(url) as session:
            row = session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
            return row[0] if row else None
    except psycopg.OperationalError:
        return None


@pytest.fixture
def records(addresses: tuple[str, str]) -> Iterator[PostgresRecords]:
    records = PostgresRecords(PostgresOptions(addresses[0]))
    records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
    yield records
    records.close()


@pytest.fixture
def replica_reading(records: PostgresRecords, addresses: tuple[str, str]) -> Iterator[ReplicaReading]:
    wait_until(lambda: bool(_count_tables(addresses[1])))
    replica_reading = ReplicaReading(records, addresses[1], rest_seconds=0.02, lag_seconds=0.0)
    yield replica_reading
    replica_reading.close()


def make_memory(name: str, text: str = "tea") -> Memory:
    return Memory(id=name, organization_id="o", text=text, created_at=NOW, updated_at=NOW)


def wait_until(is_fulfilled: Callable[[], bool]) -> None:
    """Wait until a condition is fulfilled; fail after ENOUGH_SECONDS."""
    deadline = time.monotonic() + ENOUGH_SECONDS
    while not is_fulfilled():
        assert time.monotonic() < deadline, "the replica did not follow"
        time.sleep(0.01)


def is_read_by_replica(replica_reading: ReplicaReading) -> bool:
    """Return whether the replica answers a read now."""
    before = replica_reading.answered
    replica_reading.count(Memory, "o")
    return replica_reading.answered > before


def set_replay(url: str, *, replay: bool) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(b"SELECT pg_wal_replay_resume()" if replay else b"SELECT pg_wal_replay_pause()")


@contextmanager
def freeze(server: PostgresServer) -> Iterator[None]:
    """Freeze a server: it accepts connections and answers nothing."""
    assert server._process is not None
    postmaster = psutil.Process(server._process.pid)
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def run_in_threads(work: Callable[[], object], count: int) -> None:
    """Run the same work in several threads and raise the first error."""
    with ThreadPoolExecutor(count) as threads:
        for future in [threads.submit(work) for _ in range(count)]:
            future.result()


def test_every_read_sees_the_engines_own_writes(records: PostgresRecords, replica_reading: ReplicaReading) -> None:
    for number in range(60):
        position = replica_reading.feed(0).position
        line = Outbox(organization_id="o", entity="memories", entity_id=f"m{number}", operation="put")
        records.commit([Put(make_memory(f"m{number}")), Put(line)])
        assert f"m{number}" in [line.entity_id for line in replica_reading.feed(position).lines]
        assert replica_reading.get(Memory, "o", [f"m{number}"])
        assert len(list(replica_reading.columns(Memory, "o", ["id"]))) == number + 1
        assert len(replica_reading.scan(Memory, "o")) == number + 1
    wait_until(lambda: is_read_by_replica(replica_reading))
    before = replica_reading.answered
    assert [row.id for row in replica_reading.scan(Memory, "o", limit=1)] == ["m0"]
    assert len(list(replica_reading.columns(Memory, "o", ["id"]))) == 60
    assert replica_reading.feed(0).lines
    assert replica_reading.answered >= before + 3
    assert replica_reading.find_problems() == []
    assert replica_reading.report()["replica"].endswith("in step")


def test_a_replica_that_is_behind_is_not_asked(
    records: PostgresRecords, replica_reading: ReplicaReading, addresses: tuple[str, str]
) -> None:
    replica_reading.count(Memory, "o")
    wait_until(lambda: is_read_by_replica(replica_reading))
    set_replay(addresses[1], replay=False)
    try:
        records.commit([Put(make_memory("m"))])
        for _ in range(20):
            assert replica_reading.count(Memory, "o") == 1
            assert not is_read_by_replica(replica_reading)
            assert list(replica_reading.columns(Memory, "o", ["id"])) == [("m",)]
        assert replica_reading.report()["replica"].endswith("behind")
        with psycopg.connect(addresses[1]) as session:
            assert session.execute("SELECT count(*) FROM memories").fetchone() == (0,)
    finally:
        set_replay(addresses[1], replay=True)
    wait_until(lambda: is_read_by_replica(replica_reading))
    assert replica_reading.count(Memory, "o") == 1


def test_rows_that_a_read_has_shown_never_disappear(
    records: PostgresRecords, replica_reading: ReplicaReading, addresses: tuple[str, str]
) -> None:
    """Another engine's write, once seen on the primary, is there in every later read."""
    replica_reading.count(Memory, "o")
    wait_until(lambda: is_read_by_replica(replica_reading))
    set_replay(addresses[1], replay=False)
    other = PostgresRecords(records.options)
    try:
        other.commit([Put(make_memory("theirs"))])
        assert replica_reading.count(Memory, "o") == 0  # the replica does not have the row yet, which is allowed
        records.commit([Put(make_memory("mine"))])
        position = replica_reading.feed(0).position
        assert replica_reading.count(Memory, "o") == 2  # the primary answered
        for _ in range(20):
            assert replica_reading.count(Memory, "o") == 2
            assert replica_reading.feed(position).position >= position
    finally:
        set_replay(addresses[1], replay=True)
        other.close()
    wait_until(lambda: is_read_by_replica(replica_reading))
    assert replica_reading.count(Memory, "o") == 2
    assert replica_reading.feed(position).position >= position


def test_reads_go_to_the_primary_until_a_lost_replica_returns(
    records: PostgresRecords, replica_reading: ReplicaReading, replica: PostgresServer
) -> None:
    replica_reading.count(Memory, "o")
    wait_until(lambda: is_read_by_replica(replica_reading))
    replica.kill()
    try:
        for number in range(5):
            records.commit([Put(make_memory(f"m{number}"))])
            assert replica_reading.count(Memory, "o") == number + 1
            assert len(list(replica_reading.columns(Memory, "o", ["id"]))) == number + 1
            assert len(replica_reading.feed(0).lines) == 0
        assert not is_read_by_replica(replica_reading)
        assert [
            "cannot be reached; the primary answers recalls" in problem for problem in replica_reading.find_problems()
        ] == [True]
    finally:
        replica.start()
    wait_until(lambda: is_read_by_replica(replica_reading))
    assert replica_reading.count(Memory, "o") == 5
    assert replica_reading.find_problems() == []


def test_reads_go_to_the_primary_if_the_replica_was_never_reachable(records: PostgresRecords) -> None:
    replica_reading = ReplicaReading(records, "postgresql://u@127.0.0.1:1/db", patience_seconds=0.1, rest_seconds=0.0)
    records.commit([Put(make_memory("m"))])
    assert replica_reading.get(Memory, "o", ["m"])
    assert list(replica_reading.columns(Memory, "o", ["id"])) == [("m",)]
    assert replica_reading.answered == 0
    replica_reading.close()


@pytest.mark.parametrize(("pool_size", "threads"), [(1, 1), (3, 6)])
def test_a_stream_from_the_primary_needs_one_connection(
    records: PostgresRecords, addresses: tuple[str, str], pool_size: int, threads: int
) -> None:
    records.commit([Put(make_memory(f"m{number}")) for number in range(5)])
    small = PostgresRecords(replace(records.options, pool_size=pool_size, connect_seconds=3.0))
    replica_reading = ReplicaReading(small, "postgresql://u@127.0.0.1:1/db", patience_seconds=0.1)

    def work() -> None:
        for _ in range(20):
            assert len(list(replica_reading.columns(Memory, "o", ["id"]))) == 5

    run_in_threads(work, threads)
    assert replica_reading._needed_position > 0  # the stream said which position the primary has reached
    replica_reading.close()
    small.close()


def test_a_frozen_replica_delays_only_one_read(
    records: PostgresRecords, addresses: tuple[str, str], replica: PostgresServer
) -> None:
    records.commit([Put(make_memory("m"))])
    wait_until(lambda: bool(_count_tables(addresses[1])))
    replica_reading = ReplicaReading(
        records, addresses[1], patience_seconds=1.0, answer_seconds=1.0, rest_seconds=30.0, lag_seconds=0.0
    )
    replica_reading.count(Memory, "o")
    wait_until(lambda: is_read_by_replica(replica_reading))
    with replica_reading._pool.connection():  # so that the next read needs a second connection
        is_read_by_replica(replica_reading)
    wait_until(lambda: replica_reading._pool.get_stats()["pool_size"] > 1)
    with freeze(replica):
        started = time.monotonic()
        assert list(replica_reading.columns(Memory, "o", ["id"])) == [("m",)]
        assert time.monotonic() - started > 1.0
        before = replica_reading.answered
        for _ in range(50):
            assert replica_reading.count(Memory, "o") == 1
        assert replica_reading.answered == before
        replica_reading._paused_until = 0.0  # one reader tries the replica, and the others do not wait for it
        run_in_threads(lambda: is_read_by_replica(replica_reading), 6)
        assert replica_reading._paused_until > time.monotonic() + 35  # longer than the first time
    wait_until(lambda: replica_reading.find_problems() == [])
    replica_reading._paused_until = 0.0
    wait_until(lambda: is_read_by_replica(replica_reading))
    replica_reading.close()


def test_a_server_that_is_not_a_replica_is_not_queried(records: PostgresRecords, addresses: tuple[str, str]) -> None:
    replica_reading = ReplicaReading(records, addresses[0], rest_seconds=0.0, lag_seconds=0.0)
    assert replica_reading.count(Memory, "o") == 0
    assert not is_read_by_replica(replica_reading)
    assert ["follows no primary" in problem for problem in replica_reading.find_problems()] == [True]
    replica_reading.close()


def test_a_role_that_bypasses_row_security_may_not_read_the_replica(
    primary: PostgresServer, addresses: tuple[str, str]
) -> None:
    primary.create_role("application")
    url, replica_url = addresses
    role_url, role_replica_url = (address.replace("postgres@", "application@") for address in addresses)
    records = PostgresRecords(PostgresOptions(role_url, row_security=True, owner_url=url))
    records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW)), Put(make_memory("m"))])
    with psycopg.connect(url) as session:
        [(position,)] = session.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
    wait_until(lambda: _has_replayed(replica_url, position))
    with pytest.raises(StoreError, match="is above row-level security"):
        ReplicaReading(records, replica_url)
    replica_reading = ReplicaReading(records, role_replica_url, rest_seconds=0.0, lag_seconds=0.0)
    replica_reading.count(Memory, "o")
    wait_until(lambda: is_read_by_replica(replica_reading))
    assert replica_reading.get(Memory, "o", ["m"])
    assert replica_reading.get(Memory, "another", ["m"]) == {}
    assert replica_reading._fetch("SELECT count(*) FROM memories", ()) == [(0,)]
    replica_reading.close()
    records.close()


def _has_replayed(url: str, position: str) -> bool:
    with psycopg.connect(url) as session:
        return session.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", [position]).fetchall() == [(True,)]


class TestAnEngine:
    @pytest.fixture
    def engine(self, addresses: tuple[str, str]) -> Iterator[Everhold]:
        store = Store("postgres", addresses[0])
        yield store.open(postgres={"replica_url": addresses[1]})
        store.close()

    @pytest.fixture
    def alice(self, engine: Everhold) -> View:
        return engine.scope(user="alice")

    def test_an_engine_recalls_what_it_has_just_written(self, engine: Everhold, alice: View) -> None:
        replica_reading = engine._parts.recall_deps.records
        assert isinstance(replica_reading, ReplicaReading)
        for number in range(30):
            memory = alice.remember(f"drinks tea number {number}")
            assert memory.id in [hit.memory.id for hit in alice.recall(f"tea number {number}", k=50, minimum=0)]
        alice.forget(memory.id)
        assert memory.id not in [hit.memory.id for hit in alice.recall("tea number 29", k=50, minimum=0)]
        wait_until(lambda: _is_recalled_by_replica(replica_reading, alice))
        assert "replica" in engine.doctor().parts
        assert engine.doctor().problems == []

    def test_doctor_reports_the_replica_beside_chroma_too(self, addresses: tuple[str, str], tmp_path: Path) -> None:
        store = Store("postgres", addresses[0])
        store.open()  # so that the replica has the tables
        wait_until(lambda: bool(_count_tables(addresses[1])))
        engine = store.open(postgres={"replica_url": addresses[1]}, vectors=f"chroma:///{tmp_path / 'chroma'}")
        assert {"replica", "vectors"} <= engine.doctor().parts.keys()
        store.close()

        store = Store("postgres", addresses[0])
        unreachable = {"replica_url": "postgresql://u@127.0.0.1:1/db"}
        engine = store.open(postgres=unreachable, vectors=f"chroma:///{tmp_path / 'chroma'}")
        assert any("the primary answers recalls" in problem for problem in engine.doctor().problems)
        store.close()

    def test_nothing_is_left_open_if_vectors_cannot_be_found(self, addresses: tuple[str, str]) -> None:
        loaded_settings = settings.load(
            addresses[0], postgres={"replica_url": addresses[1]}, vectors="chrome://nowhere"
        )
        before = set(threading.enumerate())
        with pytest.raises(InvalidSettings, match="chrome://nowhere"):
            stores.open_store(loaded_settings)
        assert set(threading.enumerate()) <= before

    def test_the_address_is_shown_without_its_password(self) -> None:
        loaded_settings = settings.load("postgresql://u@h/db", postgres={"replica_url": "postgresql://u:hidden@h/db"})
        assert "hidden" not in repr(loaded_settings)


def _is_recalled_by_replica(replica_reading: ReplicaReading, view: View) -> bool:
    before = replica_reading.answered
    assert len(view.recall("tea", k=50, minimum=0)) == 29
    return replica_reading.answered > before
