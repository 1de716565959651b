"""The contract of a store of record: generated numbers, the change feed, and what survives a restart."""

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from everhold.errors import AlreadyExists
from everhold.model import AccessLog, Memory, Organization, Outbox
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Ensure, Hide, Increment, Op, Page, Patch, Put, Where
from everhold.testing.records_concurrency import WRITERS, run_in_threads
from everhold.testing.records_rows import NOON, add_minutes_to_noon, is_same_row, make_family, make_row

Reopen = Callable[[], Records]


def make_feed_line(entity_id: str, organization_id: str = "org", key: str | None = None) -> Outbox:
    return Outbox(
        organization_id=organization_id, entity="memory", entity_id=entity_id, operation="put", idempotency_key=key
    )


def make_log_line(operation: str) -> AccessLog:
    return AccessLog(organization_id="org", operation=operation, timestamp=NOON, digest=b"d")


def read_feed(records: Records, after: int = 0, limit: int = 3) -> list[Outbox]:
    """Return every line of the feed after a position, each once, as a follower reads it."""
    seen: dict[int, Outbox] = {}
    while True:
        feed = records.feed(after, limit=limit)
        assert feed.position >= after
        if feed.position == after or not feed.lines:
            return list(seen.values())
        seen |= {line.sequence: line for line in feed.lines}
        after = feed.position


def read_settled(records: Records, after: int, limit: int) -> list[Outbox]:
    """Return all lines after a number, waiting for those that are not settled yet."""
    lines: list[Outbox] = []
    while True:
        settled = records.read_settled(after, limit=limit)
        lines += settled.lines
        after = lines[-1].sequence if lines else after
        if after >= settled.last:
            return lines


def _write_while_following(write: Callable[[int], None], follow: Callable[[], None], done: threading.Event) -> None:
    """Write in several threads while another one follows, which ends after `done` is set."""
    follower = threading.Thread(target=follow)
    follower.start()
    try:
        run_in_threads(write)
    finally:
        done.set()
        follower.join(60)


class FollowingContract:
    """Sequence numbers, the feed, and durability."""

    def test_drawn_numbers_follow_the_order_of_operations(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org"))])
        records.commit([Put(make_log_line("a")), Put(make_log_line("b"))])
        records.commit([Put(make_log_line("c")), Ensure(make_log_line("d"))])
        lines = records.scan(AccessLog, "org")
        assert [line.operation for line in lines] == ["a", "b", "c", "d"]
        assert all(before.sequence < after.sequence for before, after in pairwise(lines))
        assert lines[0].sequence > 0

    def test_the_store_replaces_a_number_that_the_row_already_has(self, records: Records) -> None:
        records.commit([Put(make_row(Organization, "org", "org"))])
        line_with_number = make_log_line("a").model_copy(update={"sequence": 77})
        records.commit([Put(line_with_number), Put(line_with_number), Ensure(line_with_number)])
        assert len({line.sequence for line in records.scan(AccessLog, "org")}) == 3

    def test_a_drawn_number_is_never_drawn_again(self, records: Records) -> None:
        records.commit(
            [
                Put(make_row(Organization, "org", "org")),
                Put(make_log_line("a")),
                Put(make_log_line("b")),
                Put(make_feed_line("a")),
            ]
        )
        last = records.scan(AccessLog, "org")[-1].sequence
        position = records.feed(0).position
        records.commit([Delete(Organization, ("org",))])  # lines of the log are purged only with their organization
        records.commit([Put(make_row(Organization, "org", "org"))])
        assert records.scan(AccessLog, "org") == []
        records.commit([Delete(Outbox, (line.sequence,)) for line in records.scan(Outbox, "org")])
        assert records.feed(position).lines == []
        records.commit([Put(make_log_line("c")), Put(make_feed_line("c"))])
        assert records.scan(AccessLog, "org")[-1].sequence > last
        assert [line.entity_id for line in records.feed(position).lines] == ["c"]

    def test_a_drawn_number_is_never_drawn_again_after_a_restart(self, records: Records, reopen: Reopen) -> None:
        records.commit([Put(make_feed_line("a")), Put(make_feed_line("b"))])
        position = records.feed(0).position
        records.commit([Delete(Outbox, (line.sequence,)) for line in records.feed(0).lines])
        records = reopen()
        records.commit([Put(make_feed_line("c"))])
        assert [line.entity_id for line in records.feed(position).lines] == ["c"]

    def test_rows_by_drawn_number_are_changed_and_paged(self, records: Records) -> None:
        records.commit(
            [Put(make_row(Organization, "org", "org")), *(Put(make_log_line(str(index))) for index in range(7))]
        )
        lines = records.scan(AccessLog, "org")
        line = lines[3]
        records.commit([Patch(AccessLog, (line.sequence,), {"sealed": 1, "hash": b"h"})])
        records.commit([Increment(AccessLog, (line.sequence,), {"sealed": 4})])
        assert records.scan(AccessLog, "org", [Where("sealed", Op.GT, 4)])[0].hash == b"h"
        after = Page(None, (line.sequence,))
        assert [line.operation for line in records.scan(AccessLog, "org", after=after)] == ["4", "5", "6"]
        newest = records.scan(AccessLog, "org", order="timestamp", descending=True, limit=2)
        assert [line.operation for line in newest] == ["6", "5"]

    def test_the_feed_of_an_empty_store_is_empty(self, records: Records) -> None:
        feed = records.feed(0)
        assert feed.lines == []
        records.commit([Put(make_feed_line("a"))])
        assert [line.entity_id for line in records.feed(feed.position).lines] == ["a"]
        assert [line.entity_id for line in records.feed(0).lines] == ["a"]

    def test_the_feed_gives_every_line_in_order_and_in_pages(self, records: Records) -> None:
        names = [f"{index:02}" for index in range(20)]
        for name in names[:10]:
            records.commit([Put(make_feed_line(name))])
        records.commit([Put(make_feed_line(name, f"org-{name}")) for name in names[10:]])
        assert [line.entity_id for line in records.feed(0, limit=4).lines] == names[:4]
        for limit in (1, 3, 7, 20, 1000):
            lines = read_feed(records, limit=limit)
            assert [line.entity_id for line in lines] == names
            assert [line.sequence for line in lines] == sorted(line.sequence for line in lines)

    def test_the_feed_continues_from_a_position(self, records: Records) -> None:
        records.commit([Put(make_feed_line("a")), Put(make_feed_line("b"))])
        position = records.feed(0).position
        assert records.feed(position).lines == []
        records.commit([Put(make_feed_line("c"))])
        assert [line.entity_id for line in records.feed(position).lines] == ["c"]

    def test_the_head_is_the_end_of_the_feed(self, records: Records) -> None:
        records.commit([Put(make_feed_line("a")), Put(make_feed_line("b"))])
        assert records.head() == records.feed(0).position
        assert records.feed(records.head()).lines == []
        before = records.head()
        records.commit([Put(make_feed_line("c"))])
        assert records.head() > before

    def test_a_failed_commit_leaves_no_line(self, records: Records) -> None:
        records.commit([Put(make_feed_line("a", key="k"))])
        with pytest.raises(AlreadyExists) as caught:
            records.commit([Put(make_feed_line("b")), Put(make_feed_line("c", key="k"))])
        assert (caught.value.table, caught.value.rule) == ("outbox", "idempotency_key")
        records.commit([Put(make_feed_line("d"))])
        assert [line.entity_id for line in read_feed(records)] == ["a", "d"]

    def test_a_follower_of_many_writers_misses_nothing(self, records: Records) -> None:
        done = threading.Event()
        seen: set[str] = set()

        def follow() -> None:
            position = 0
            while True:
                is_done = done.is_set()
                feed = records.feed(position, limit=50)
                seen.update(line.entity_id for line in feed.lines)
                if is_done and feed.position == position:
                    return
                position = feed.position

        def write(number: int) -> None:
            for index in range(25):
                records.commit([Put(make_feed_line(f"{number}-{index}"))])

        _write_while_following(write, follow, done)
        assert len(seen) == WRITERS * 25

    def test_settled_lines_are_in_order_and_continue_from_a_number(self, records: Records) -> None:
        assert records.read_settled(0).lines == []
        records.commit([Put(make_feed_line(name)) for name in "abc"])
        records.commit([Put(make_feed_line("d", "other"))])
        settled = read_settled(records, 0, 2)
        assert [line.entity_id for line in settled] == ["a", "b", "c", "d"]
        assert settled[-1].sequence == records.read_settled(0).last
        assert [line.entity_id for line in read_settled(records, settled[1].sequence, 2)] == ["c", "d"]
        assert read_settled(records, settled[-1].sequence, 2) == []

    def test_settled_lines_of_many_writers_come_once_with_increasing_numbers(self, records: Records) -> None:
        done = threading.Event()
        numbers: list[int] = []
        names: list[str] = []

        def follow() -> None:
            while True:
                is_done = done.is_set()
                settled = records.read_settled(numbers[-1] if numbers else 0, limit=50)
                numbers.extend(line.sequence for line in settled.lines)
                names.extend(line.entity_id for line in settled.lines)
                if is_done and numbers and numbers[-1] == settled.last:
                    return

        def write(number: int) -> None:
            for index in range(25):
                records.commit([Put(make_feed_line(f"{number}-{index}-{part}")) for part in range(2)])

        _write_while_following(write, follow, done)
        assert numbers == sorted(set(numbers))
        assert len(names) == len(set(names)) == WRITERS * 25 * 2

    # after a restart

    def test_acknowledged_writes_are_stored_after_a_restart(self, records: Records, reopen: Reopen) -> None:
        rows = make_family("org")
        records.commit([Put(row) for row in rows.values()])
        records = reopen()
        for row in rows.values():
            (stored,) = records.scan(type(row), "org", deleted=True)
            assert is_same_row(stored, row)

    def test_rules_hold_after_a_restart(self, records: Records, reopen: Reopen) -> None:
        records.commit([Put(make_row(Organization, "org", "org")), Put(make_row(Memory, "org", "m", hash=b"1" * 16))])
        records.commit(
            [
                Hide(Memory, ("org", "m"), "del", add_minutes_to_noon(1)),
                Put(make_row(Memory, "org", "n", hash=b"1" * 16)),
            ]
        )
        records = reopen()
        assert [row.id for row in records.scan(Memory, "org")] == ["n"]
        with pytest.raises(AlreadyExists):
            records.commit([Put(make_row(Memory, "org", "o", hash=b"1" * 16))])
        records.commit([Patch(Memory, ("org", "n"), {"text": "again"}, version=1)])
        records = reopen()
        assert records.get(Memory, "org", ["n"])["n"].version == 2

    def test_the_feed_continues_after_a_restart(self, records: Records, reopen: Reopen) -> None:
        records.commit([Put(make_feed_line("a"))])
        position = records.feed(0).position
        records = reopen()
        records.commit([Put(make_feed_line("b"))])
        assert [line.entity_id for line in records.feed(position).lines] == ["b"]
        assert records.head() == records.feed(position).position
