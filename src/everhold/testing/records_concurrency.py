"""The contract of a store of record: many writers at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from everhold.errors import AlreadyExists, Conflict, StaleVersion
from everhold.model import Counter, Lease, Memory, Organization
from everhold.ports.leases import hold_lease
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Increment, Op, Patch, Put, Where
from everhold.testing.records_rows import plain
from everhold.testing.records_writing import MEMORY, one_memory, read

WRITERS = 8


def together(work: Callable[[int], object], writers: int = WRITERS) -> None:
    """Runs the same work in several threads that start at once; the first error is raised."""
    start = threading.Barrier(writers)

    def run(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(run, number) for number in range(writers)]:
            done.result()


class ConcurrencyContract:
    """No change is lost, none is made twice, none is seen by half."""

    def test_writers_that_look_again_lose_no_change(self, records: Records) -> None:
        one_memory(records, revision=0)

        def add(_: int) -> None:
            for _ in range(10):
                while True:
                    row = read(records)
                    try:
                        records.commit([Patch(Memory, MEMORY, {"revision": row.revision + 1}, version=row.version)])
                    except StaleVersion:
                        continue
                    break

        together(add)
        assert (read(records).revision, read(records).version) == (WRITERS * 10, WRITERS * 10 + 1)

    def test_increments_at_once_lose_nothing(self, records: Records) -> None:
        one_memory(records)

        def add(_: int) -> None:
            for _ in range(20):
                records.commit([Increment(Memory, MEMORY, {"access_count": 1})])

        together(add)
        assert read(records).access_count == WRITERS * 20

    def test_of_many_that_put_the_same_one_succeeds(self, records: Records) -> None:
        records.commit([Put(plain(Organization, "org", "org"))])
        refused: list[Conflict] = []

        def put(number: int) -> None:
            for at in range(5):
                try:
                    records.commit([Put(plain(Memory, "org", f"{at}-{number}", hash=at.to_bytes(16)))])
                except AlreadyExists as error:
                    refused.append(error)

        together(put)
        assert records.count(Memory, "org") == 5
        assert len(refused) == (WRITERS - 1) * 5

    def test_of_many_that_ensure_the_same_one_adds_it(self, records: Records) -> None:
        together(lambda number: records.commit([Ensure(plain(Organization, "org", "org", name=str(number)))]))
        assert records.count(Organization, None) == 1

    def test_of_many_that_take_a_lease_one_holds_it(self, records: Records) -> None:
        """Each holder reads a number and writes the next one: two at once would write the same."""
        records.commit([Put(Counter(name="turns"))])
        turns: list[int] = []

        def take_turns(_: int) -> None:
            for _ in range(3):
                with hold_lease(records, "work") as lease:
                    if lease is not None:
                        [counter] = records.scan(Counter, None)
                        lease.commit([Patch(Counter, ("turns",), {"value": counter.value + 1})])
                        turns.append(counter.value)

        together(take_turns)
        assert sorted(turns) == list(range(len(turns)))
        [lease] = records.scan(Lease, None)
        assert lease.holder is None
        assert turns

    def test_a_reader_never_sees_half_a_commit(self, records: Records) -> None:
        records.commit([Put(plain(Organization, "org", "org"))])
        counts: list[int] = []

        def work(number: int) -> None:
            for at in range(10):
                if number < WRITERS // 2:
                    records.commit([Put(plain(Memory, "org", f"{number}-{at}-{part}")) for part in range(10)])
                else:
                    counts.append(records.count(Memory, "org", [Where("kind", Op.NE, "x")]))

        together(work)
        assert records.count(Memory, "org") == WRITERS // 2 * 100
        assert [count for count in counts if count % 10] == []
