"""Several processes keep house at once: each piece of work is one process's, and a dead one's comes free."""

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
from everhold.model import AccessLog, Memory, Organization, Outbox, ProjectionState
from everhold.ports.leases import PREFIX, Lease, leased
from everhold.ports.records import Records
from everhold.schema.operations import Hide, Op, Operation, Put, Where
from everhold.upkeep.purge import purge

NOW = clock.now()
LONG_AGO = NOW - timedelta(days=40)
GRACE = timedelta(days=30)
ORGANIZATIONS = [f"organization-{number}" for number in range(12)]
MEMORIES = 60

PURGE = """
import json, sys
from datetime import timedelta
from everhold import clock
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.upkeep.purge import purge
records = PostgresRecords(PostgresOptions(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(purge(records, grace=timedelta(days=30), now=clock.now(), batch=7)), flush=True)
records.close()
"""

HOLD = """
import sys
from datetime import timedelta
from everhold.adapters.postgres import PostgresOptions, PostgresRecords
from everhold.ports.leases import leased
records = PostgresRecords(PostgresOptions(sys.argv[1]))
with leased(records, "purge", "organization-0", timedelta(seconds=2)) as lease:
    print(lease.projection, flush=True)
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
        store.commit([Put(memory(name, number)) for number in range(MEMORIES)])
        store.commit([Hide(Memory, (name, f"m{number}"), "del_1", LONG_AGO) for number in range(0, MEMORIES, 2)])
    yield store
    store.close()


def memory(owner: str, number: int) -> Memory:
    expires = LONG_AGO if number % 2 else None
    return Memory(id=f"m{number}", organization_id=owner, text="x", created_at=NOW, updated_at=NOW, expires_at=expires)


def process(script: str, url: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def told(running: "subprocess.Popen[str]") -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def go(running: "subprocess.Popen[str]") -> None:
    assert running.stdin is not None
    running.stdin.write("go\n")
    running.stdin.flush()


class SlowRecords:
    """Records that somebody reads, and to which others do something before he goes on."""

    def __init__(self, records: Records, meanwhile: Callable[[], None]) -> None:
        self._records, self._meanwhile = records, meanwhile

    def scan(self, *given: Any, **options: Any) -> list[Any]:
        found = self._records.scan(*given, **options)
        self._meanwhile()
        return found

    def commit(self, operations: Sequence[Operation]) -> None:
        self._records.commit(operations)


class TestALease:
    def test_one_at_a_time(self, records: Records) -> None:
        with (
            leased(records, "work", "a") as first,
            leased(records, "work", "a") as second,
            leased(records, "work", "b") as other,
        ):
            assert first is not None
            assert second is None
            assert other is not None
        with leased(records, "work", "a") as again:
            assert again is not None
            assert again.projection == f"{PREFIX}work/a/2"
        assert len(records.scan(ProjectionState, None)) == 4, "the first row and the last of each"

    @pytest.mark.parametrize("before", [0, 1, 2])
    def test_who_looked_long_ago_does_not_get_it_too(self, records: Records, before: int) -> None:
        """Between the look of a slow one and its commit, another gives the lease back and a third has it."""
        for _ in range(before):
            with leased(records, "work"):
                pass
        with ExitStack() as stack:

            def others_take_it() -> None:
                with leased(records, "work") as second:
                    assert second is not None
                held.append(stack.enter_context(leased(records, "work")))

            held: list[Lease | None] = []
            with leased(cast("Records", SlowRecords(records, others_take_it)), "work") as slow:
                assert slow is None
            [third] = held
            assert third is not None
            records.commit([third.kept()])

    def test_one_that_has_run_out_goes_to_another_and_moves_nothing_more(self, records: Records) -> None:
        organization = Organization(id="o", name="o", created_at=NOW, updated_at=NOW)
        with leased(records, "work", lasts=timedelta(0)) as first:
            assert first is not None
            with leased(records, "work") as second:
                assert second is not None
                with pytest.raises(StaleVersion):
                    records.commit([Put(organization), first.kept()])
                assert records.scan(Organization, None) == []
                records.commit([Put(organization), second.kept()])
        with leased(records, "work") as third:  # the first gave back what was no longer its own
            assert third is not None

    def test_the_work_of_a_long_name(self, records: Records) -> None:
        with leased(records, "work", "x" * 255) as mine, leased(records, "work", "x" * 254 + "y") as other:
            assert mine is not None
            assert other is not None

    def test_it_does_not_keep_the_feed_from_being_trimmed(self, records: Records) -> None:
        records.commit([Put(Organization(id="o", name="o", created_at=NOW, updated_at=NOW))])
        lines = [
            Outbox(organization_id="o", entity="memories", entity_id=f"m{number}", operation="put")
            for number in range(5)
        ]
        for line in lines:
            records.commit([Put(line)])
        for days in (0, 10, 20):
            purge(records, grace=GRACE, now=NOW + timedelta(days=days))
        assert len(records.feed(0).lines) < len(lines)


class TestProcesses:
    def test_they_share_the_work_and_do_nothing_twice(self, store: PostgresRecords, postgres_url: str) -> None:
        running = [process(PURGE, postgres_url) for _ in range(3)]
        assert [told(one) for one in running] == ["ready"] * 3
        for one in running:
            go(one)
        purged = [json.loads(told(one)) for one in running]
        assert [one.wait(60) for one in running] == [0, 0, 0]
        half = len(ORGANIZATIONS) * MEMORIES // 2
        deleted, expired, _ = (sum(part) for part in zip(*purged, strict=True))
        left = store.count(Memory, None, deleted=True)
        while left:  # an organization that all but one left to a process is that one's
            again = purge(store, grace=GRACE, now=clock.now())
            deleted, expired = deleted + again.deleted, expired + again.expired
            left = store.count(Memory, None, deleted=True)
        assert (deleted, expired) == (half, half)
        lines = store.columns(AccessLog, None, ["organization_id", "request"], [Where("operation", Op.EQ, "delete")])
        counted = Counter((owner, request["memory"]) for owner, request in lines)
        assert len(counted) == 2 * half
        assert set(counted.values()) == {1}

    def test_what_a_killed_process_held_comes_free(self, store: PostgresRecords, postgres_url: str) -> None:
        holder = process(HOLD, postgres_url)
        assert told(holder) == f"{PREFIX}purge/{ORGANIZATIONS[0]}/1"
        first = purge(store, grace=GRACE, now=clock.now())
        holder.kill()
        holder.wait()
        others = (len(ORGANIZATIONS) - 1) * MEMORIES // 2
        assert (first.deleted, first.expired) == (others, others)
        deadline = time.monotonic() + 60
        while store.count(Memory, ORGANIZATIONS[0], deleted=True):
            assert time.monotonic() < deadline, "the lease did not run out"
            purge(store, grace=GRACE, now=clock.now())
            time.sleep(0.1)
