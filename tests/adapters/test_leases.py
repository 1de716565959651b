"""Several processes do maintenance at once: one process has each job, and the job of a dead process becomes free."""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from everhold import clock
from everhold.adapters.in_memory import InMemoryRecords
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.errors import StaleVersion
from everhold.model import AccessLog, Lease, Memory, Organization, Outbox
from everhold.ports.leases import HeldLease, hold_lease
from everhold.ports.records import Records
from everhold.schema.operations import Hide, Op, Operation, Put, Where
from tests.purging import run_purge

NOW = clock.now()
LONG_AGO = NOW - timedelta(days=40)
ORGANIZATIONS = [f"organization-{number}" for number in range(12)]
MEMORIES = 60
REPOSITORY = Path(__file__).parents[2]

PURGE_SCRIPT = """
import json, sys
from everhold import clock
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from tests.purging import run_purge
records = PostgresRecords(PostgresOptions(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
report = run_purge(records, clock.now(), batch=7)
print(json.dumps({job.name: [job.outcome, job.counts] for job in report.jobs}), flush=True)
records.close()
"""

HOLD_SCRIPT = """
import sys
from datetime import timedelta
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.ports.leases import hold_lease
records = PostgresRecords(PostgresOptions(sys.argv[1]))
with hold_lease(records, "purge", duration=timedelta(seconds=2)) as lease:
    print(lease.name, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(params=["sqlite", "in_memory", "postgres"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    if request.param == "postgres":
        opened: Records = PostgresRecords(PostgresOptions(request.getfixturevalue("postgres_url")))
    elif request.param == "sqlite":
        opened = SqliteRecords(SqliteOptions(tmp_path / "memory.db", synchronous="NORMAL"))
    else:
        opened = InMemoryRecords()
    yield opened
    opened.close()


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresRecords]:
    """Organizations with memories that were deleted, or expired, long ago."""
    store = PostgresRecords(PostgresOptions(postgres_url))
    for name in ORGANIZATIONS:
        store.commit([Put(Organization(id=name, name=name, created_at=NOW, updated_at=NOW))])
        store.commit([Put(make_memory(name, number)) for number in range(MEMORIES)])
        store.commit([Hide(Memory, (name, f"m{number}"), "del_1", LONG_AGO) for number in range(0, MEMORIES, 2)])
    yield store
    store.close()


def make_memory(owner: str, number: int) -> Memory:
    expires = LONG_AGO if number % 2 else None
    return Memory(id=f"m{number}", organization_id=owner, text="x", created_at=NOW, updated_at=NOW, expires_at=expires)


def start_process(script: str, url: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, url], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def read_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def send_go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


class SlowRecords:
    """Records that call a function between a read and the next call."""

    def __init__(self, records: Records, meanwhile: Callable[[], None]) -> None:
        self._records, self._meanwhile = records, meanwhile

    def scan(self, *arguments: Any, **options: Any) -> list[Any]:
        rows = self._records.scan(*arguments, **options)
        self._meanwhile()
        return rows

    def commit(self, operations: Sequence[Operation]) -> None:
        self._records.commit(operations)


class TestALease:
    def test_only_one_holder_gets_a_lease(self, records: Records) -> None:
        with (
            hold_lease(records, "work", "a") as first,
            hold_lease(records, "work", "a") as second,
            hold_lease(records, "work", "b") as other,
        ):
            assert first is not None
            assert second is None
            assert other is not None
        with hold_lease(records, "work", "a") as again:
            assert again is not None
            assert again.name == "work/a"
        assert [lease.name for lease in records.scan(Lease, None)] == ["work/a", "work/b"]

    @pytest.mark.parametrize("before", [0, 1, 2])
    def test_a_process_whose_read_is_outdated_gets_no_lease(self, records: Records, before: int) -> None:
        """Between the read and the commit of a slow process, a second gives the lease back and a third takes it."""
        for _ in range(before):
            with hold_lease(records, "work"):
                pass
        with ExitStack() as stack:

            def take_lease_elsewhere() -> None:
                with hold_lease(records, "work") as second:
                    assert second is not None
                leases.append(stack.enter_context(hold_lease(records, "work")))

            leases: list[HeldLease | None] = []
            with hold_lease(cast("Records", SlowRecords(records, take_lease_elsewhere)), "work") as slow:
                assert slow is None
            [third] = leases
            assert third is not None
            third.commit()

    def test_the_holder_of_an_expired_lease_cannot_commit(self, records: Records) -> None:
        organization = Organization(id="o", name="o", created_at=NOW, updated_at=NOW)
        with hold_lease(records, "work", duration=timedelta(0)) as first:
            assert first is not None
            with hold_lease(records, "work") as second:
                assert second is not None
                with pytest.raises(StaleVersion):
                    first.commit([Put(organization)])
                assert records.scan(Organization, None) == []
                second.commit([Put(organization)])
        with hold_lease(records, "work") as third:  # the first has given back a lease that it no longer held
            assert third is not None

    def test_jobs_with_long_names_are_distinct(self, records: Records) -> None:
        with hold_lease(records, "work", "x" * 255) as first, hold_lease(records, "work", "x" * 254 + "y") as second:
            assert first is not None
            assert second is not None

    def test_a_lease_does_not_keep_the_feed_from_being_trimmed(self, records: Records) -> None:
        records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
        lines = [
            Outbox(organization_id="o", entity="memories", entity_id=f"m{number}", operation="put")
            for number in range(5)
        ]
        for line in lines:
            records.commit([Put(line)])
        for days in (0, 10, 20):
            run_purge(records, NOW + timedelta(days=days))
        assert len(records.feed(0).lines) < len(lines)


class TestProcesses:
    def test_no_job_is_done_twice(self, store: PostgresRecords, postgres_url: str) -> None:
        processes = [start_process(PURGE_SCRIPT, postgres_url) for _ in range(3)]
        assert [read_line(process) for process in processes] == ["ready"] * 3
        for child in processes:
            send_go(child)
        reports = [json.loads(read_line(process)) for process in processes]
        assert [process.wait(300) for process in processes] == [0, 0, 0]
        purged: Counter[str] = Counter()
        for report in reports:
            for name in ("expire", "purge"):
                outcome, counts = report[name]
                assert outcome in ("done", "held")
                purged[name] += counts.get("memories", 0)
        half_count = len(ORGANIZATIONS) * MEMORIES // 2
        assert purged == {"expire": half_count, "purge": half_count}
        lines = store.columns(AccessLog, None, ["organization_id", "request"], [Where("operation", Op.EQ, "delete")])
        purges = Counter((owner, request["memory"]) for owner, request in lines)
        assert len(purges) == 2 * half_count
        assert set(purges.values()) == {1}

    def test_the_lease_of_a_killed_process_becomes_free(self, store: PostgresRecords, postgres_url: str) -> None:
        holder = start_process(HOLD_SCRIPT, postgres_url)
        assert read_line(holder) == "purge"
        report = run_purge(store, clock.now())
        holder.kill()
        holder.wait()
        assert [job.outcome for job in report.jobs] == ["held", "held", "done"]
        assert store.count(Memory, None, deleted=True) == len(ORGANIZATIONS) * MEMORIES
        deadline = time.monotonic() + 300
        while store.count(Memory, None, deleted=True):
            assert time.monotonic() < deadline, "the lease did not run out"
            run_purge(store, clock.now())
            time.sleep(0.1)
