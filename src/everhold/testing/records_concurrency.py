"""The contract of a store of record: many writers at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from everhold.errors import AlreadyExists, Conflict, StaleVersion
from everhold.model import Counter, Lease, Memory, Organization
from everhold.ports.leases import hold_lease
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Increment, Op, Patch, Put, Where
from everhold.testing.records_rows import make_row
from everhold.testing.records_writing import MEMORY, put_memory, read_memory

WRITERS = 8


def run_in_threads(work: Callable[[int], object], writers: int = WRITERS) -> None:
    """Run the same work in several threads that start at once, and raise the first error."""
    start = threading.Barrier(writers)

    def run(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(writers) as pool:
        for future in [pool.submit(run, number) for number in range(writers)]:
            future.result()


class ConcurrencyContract:
    """Tests that no change is lost or repeated, and that no reader sees a part of a commit."""

    rounds: ClassVar[int] = 10
    """The number of writes of each thread."""

    def test_concurrent_patches_lose_no_update(self, records: Records) -> None:
        put_memory(records, revision=0)

        def add(_: int) -> None:
            for _ in range(self.rounds):
                while True:
                    row = read_memory(records)
                    try:
                        records.commit([Patch(Memory, MEMORY, {"revision": row.revision + 1}, version=row.version)])
                    except StaleVersion:
                        continue
                    break

        run_in_threads(add)
        changes = WRITERS * self.rounds
        assert (read_memory(records).revision, read_memory(records).version) == (changes, changes + 1)

    def test_concurrent_increments_lose_no_update(self, records: Records) -> None:
        put_memory(records)

        def add(_: int) -> None:
            for _ in range(2 * self.rounds):
                records.commit([Increment(Memory, MEMORY, {"access_count": 1})])

        run_in_threads(add)
        assert read_memory(records).access_count == WRITERS * 2 * self.rounds

    def test_only_one_of_several_concurrent_puts_succeeds(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org"))])
        refused: list[Conflict] = []

        def put(number: int) -> None:
            for index in range(5):
                try:
                    records.commit([Put(make_row(Memory, "org", f"{index}-{number}", hash=index.to_bytes(16)))])
                except AlreadyExists as error:
                    refused.append(error)

        run_in_threads(put)
        assert records.count(Memory, "org") == 5
        assert len(refused) == (WRITERS - 1) * 5

    def test_concurrent_ensures_add_one_row(self, records: Records) -> None:
        run_in_threads(lambda number: records.commit([Ensure(make_row(Organization, "org", "org", name=str(number)))]))
        assert records.count(Organization, None) == 1

    def test_a_lease_has_one_holder_at_a_time(self, records: Records) -> None:
        """Each holder reads a counter and writes the next value: two holders at once would read the same value."""
        records.commit([Put(Counter(name="turns"))])
        turns: list[int] = []

        def take_turns(_: int) -> None:
            for _ in range(3):
                with hold_lease(records, "work") as lease:
                    if lease is not None:
                        [counter] = records.scan(Counter, None)
                        lease.commit([Patch(Counter, ("turns",), {"value": counter.value + 1})])
                        turns.append(counter.value)

        run_in_threads(take_turns)
        assert sorted(turns) == list(range(len(turns)))
        [lease] = records.scan(Lease, None)
        assert lease.holder is None
        assert turns

    def test_a_reader_never_sees_part_of_a_commit(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org"))])
        counts: list[int] = []

        def work(number: int) -> None:
            for index in range(10):
                if number < WRITERS // 2:
                    records.commit([Put(make_row(Memory, "org", f"{number}-{index}-{part}")) for part in range(10)])
                else:
                    counts.append(records.count(Memory, "org", [Where("kind", Op.NE, "x")]))

        run_in_threads(work)
        assert records.count(Memory, "org") == WRITERS // 2 * 100
        assert [count for count in counts if count % 10] == []
