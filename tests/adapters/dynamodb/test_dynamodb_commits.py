"""Commits to DynamoDB that take several transactions, run beside other commits, or are cut short."""

import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from everhold import clock
from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
from everhold.adapters.dynamodb.client import Dynamo
from everhold.adapters.dynamodb.head import HEAD, read_head
from everhold.adapters.dynamodb.items import LAYOUTS
from everhold.adapters.files import FileBlobs
from everhold.errors import AlreadyExists, StoreBusy, StoreUnavailable
from everhold.model import Memory, User
from everhold.schema.operations import Delete, Hide, Op, Patch, Put, Unhide, Where
from tests.dynamo_table import (
    ORGANIZATION,
    Spy,
    assert_within_limits,
    make_client_error,
    make_memory,
    scan_ids,
    use_options,
)


def test_a_large_commit_is_invisible_before_its_last_transaction(records: DynamoRecords, spy: Spy) -> None:
    records.commit([Put(make_memory(f"old{index}", importance=0.1)) for index in range(60)])
    seen_states: list[set[str]] = []

    def record_visible_rows(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items":
            memories = records.scan(Memory, ORGANIZATION)
            seen_states.append({f"{row.id} {row.importance}" for row in memories})

    before = {f"{row.id} {row.importance}" for row in records.scan(Memory, ORGANIZATION)}
    spy.before = record_visible_rows
    patches = [Patch(Memory, (ORGANIZATION, f"old{index}"), {"importance": 0.9}) for index in range(50)]
    deletes = [Delete(Memory, (ORGANIZATION, f"old{index}")) for index in range(50, 60)]
    records.commit([*patches, *deletes, *[Put(make_memory(f"new{index}")) for index in range(100)]])
    spy.reset()
    after = {f"{row.id} {row.importance}" for row in records.scan(Memory, ORGANIZATION)}
    assert len(after) == 150
    assert before in seen_states
    assert all(state in (before, after) for state in seen_states), "a part of the commit was visible"


def fail_condition(name: str, _: dict[str, Any]) -> None:
    """Fail a transaction as DynamoDB does if another commit came first."""
    if name == "transact_write_items":
        raise make_client_error("TransactionCanceledException", "ConditionalCheckFailed")


def cut_short(records: DynamoRecords, spy: Spy, after: int) -> None:
    """Begin a large commit and end its process after this number of transactions."""
    transactions = itertools.count()

    def end_process(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(transactions) >= after:
            raise KeyboardInterrupt

    spy.before = end_process
    patches = [Patch(Memory, (ORGANIZATION, f"old{index}"), {"text": "changed"}) for index in range(30)]
    with pytest.raises(KeyboardInterrupt):
        records.commit([*[Put(make_memory(f"new{index}")) for index in range(250)], *patches])
    spy.reset()


@use_options(lease_seconds=0.2)
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_commit_that_was_cut_short_leaves_nothing(
    records: DynamoRecords, options: DynamoOptions, spy: Spy, dynamo: Dynamo, after: int
) -> None:
    records.commit([Put(make_memory(f"old{index}")) for index in range(30)])
    before = {row.id: row.text for row in records.scan(Memory, ORGANIZATION)}
    cut_short(records, spy, after)
    assert {row.id: row.text for row in records.scan(Memory, ORGANIZATION)} == before
    time.sleep(0.3)  # until the lease has ended
    records.commit([Put(make_memory("next"))])
    assert read_head(dynamo).stage is None
    assert {row.id: row.text for row in records.scan(Memory, ORGANIZATION)} == {**before, "next": "next"}
    records.commit([Put(make_memory(f"new{index}")) for index in range(250)])
    assert len(scan_ids(records)) == 281
    items = list(dynamo.query(LAYOUTS["memories"].make_partition({"organization_id": ORGANIZATION})))
    assert len(items) == 281, "items of the cut commit are left"


@use_options(lease_seconds=0.1)
def test_maintenance_rolls_back_a_commit_that_was_cut_short(records: DynamoRecords, spy: Spy, dynamo: Dynamo) -> None:
    records.commit([Put(make_memory(f"old{index}")) for index in range(30)])
    cut_short(records, spy, 3)
    time.sleep(0.2)
    records.maintain()
    assert read_head(dynamo).stage is None
    assert len(scan_ids(records)) == 30


@use_options(lease_seconds=0.1)
def test_a_process_whose_lease_ran_out_cannot_finish_its_commit(
    records: DynamoRecords, spy: Spy, dynamo: Dynamo
) -> None:
    """Another process commits while a large commit sleeps beyond its lease: the large one retries on the new state."""
    transactions = itertools.count()

    def oversleep(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(transactions) == 2:
            time.sleep(0.2)
            records.commit([Put(make_memory("first", id="m7"))])

    spy.before = oversleep
    with pytest.raises(AlreadyExists):
        records.commit([Put(make_memory(f"m{index}")) for index in range(250)])
    spy.reset()
    assert scan_ids(records) == {"m7"}


def test_a_reply_lost_after_the_commit_is_not_a_failure(records: DynamoRecords, spy: Spy) -> None:
    lost_requests: list[str] = []

    def lose_answer(name: str, _: dict[str, Any], answer: Any) -> Any:
        if name == "transact_write_items":
            lost_requests.append(name)
            raise EndpointConnectionError(endpoint_url="http://lost")
        return answer

    spy.after = lose_answer
    records.commit([Put(make_memory("once"))])
    spy.reset()
    assert len(lost_requests) == 1
    assert scan_ids(records) == {"once"}


def test_one_of_two_conflicting_concurrent_commits_is_refused(
    records: DynamoRecords, options: DynamoOptions, tmp_path: Path, spy: Spy
) -> None:
    other = DynamoRecords(options, FileBlobs(str(tmp_path / "blobs")))
    first_time = iter([True])

    def overtake(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(first_time, False):
            other.commit([Put(make_memory("theirs", hash=b"the same 16 byte"))])

    spy.before = overtake
    with pytest.raises(AlreadyExists) as raised:
        records.commit([Put(make_memory("ours", hash=b"the same 16 byte"))])
    assert raised.value.rule == "hash"
    assert scan_ids(records) == {"theirs"}
    other.close()


@use_options(busy_seconds=0.0)
def test_a_commit_that_others_always_overtake_raises_store_busy(records: DynamoRecords, spy: Spy) -> None:
    spy.before = fail_condition
    with pytest.raises(StoreBusy, match="try again"):
        records.commit([Put(make_memory("never"))])


def open_second_store(options: DynamoOptions, tmp_path: Path) -> DynamoRecords:
    return DynamoRecords(options, FileBlobs(str(tmp_path / "blobs")))


def is_settling(name: str, arguments: dict[str, Any]) -> bool:
    """Return whether a request settles staged items, which makes their new values final."""
    return name == "transact_write_items" and any(
        action.get("ConditionExpression") == "#stage = :name"
        for item in arguments["TransactItems"]
        for action in item.values()
    )


def cut_short_when_done(records: DynamoRecords, spy: Spy, operations: Sequence[Any]) -> None:
    """Make a large commit and end its process after the commit took effect, before any item is settled."""

    def end_process(name: str, request: dict[str, Any]) -> None:
        if is_settling(name, request):
            raise KeyboardInterrupt

    spy.before = end_process
    with pytest.raises(KeyboardInterrupt):
        records.commit(operations)
    spy.reset()


@use_options(lease_seconds=0.2)
def test_rolling_back_a_commit_leaves_later_commits_alone(
    records: DynamoRecords, options: DynamoOptions, tmp_path: Path, spy: Spy, dynamo: Dynamo
) -> None:
    """The process that rolls back a cut commit sleeps. Meanwhile others roll it back too, and commit."""
    records.commit([Put(make_memory(f"old{index}")) for index in range(30)])
    cut_short(records, spy, 4)
    time.sleep(0.3)
    other = open_second_store(options, tmp_path)
    first_time = iter([True])

    def oversleep(name: str, request: dict[str, Any]) -> None:
        if is_settling(name, request) and next(first_time, False):
            time.sleep(0.3)
            patches = [Patch(Memory, (ORGANIZATION, f"old{index}"), {"text": "theirs"}) for index in range(30)]
            other.commit([*patches, *[Put(make_memory(f"new{index}", text="theirs")) for index in range(50)]])

    spy.before = oversleep
    records.commit([Put(make_memory("ours"))])
    spy.reset()
    texts = {row.id: row.text for row in records.scan(Memory, ORGANIZATION)}
    other_texts = {
        **{f"old{index}": "theirs" for index in range(30)},
        **{f"new{index}": "theirs" for index in range(50)},
    }
    assert texts == {**other_texts, "ours": "ours"}
    assert read_head(dynamo).stage is None
    assert list(dynamo.query("*stages")) == []
    other.close()


@use_options(lease_seconds=0.3)
def test_rows_committed_before_a_crash_are_found_by_their_new_values(
    records: DynamoRecords, spy: Spy, dynamo: Dynamo
) -> None:
    now = clock.now()
    records.commit([Put(User(id="u", organization_id=ORGANIZATION, name="u", created_at=now, updated_at=now))])
    records.commit([Put(make_memory(f"m{index}", user_id="u")) for index in range(150)])
    cut_short_when_done(records, spy, [Hide(User, (ORGANIZATION, "u"), "gone", now)])

    hidden = [Where("deletion_id", Op.EQ, "gone")]
    assert len(records.scan(Memory, ORGANIZATION, hidden, deleted=True)) == 150
    assert scan_ids(records) == set()
    time.sleep(0.4)
    records.commit([Unhide(ORGANIZATION, "gone")])
    assert len(scan_ids(records)) == 150
    assert set(records.get(User, ORGANIZATION, ["u"])) == {"u"}
    assert records.find_problems() == []


@use_options(lease_seconds=0.2)
def test_a_commit_that_cannot_be_settled_at_once_is_stored(records: DynamoRecords, spy: Spy, dynamo: Dynamo) -> None:
    def fail(name: str, request: dict[str, Any]) -> None:
        if is_settling(name, request):
            raise StoreBusy("too much to do")

    spy.before = fail
    records.commit([Put(make_memory(f"m{index}")) for index in range(150)])
    spy.reset()
    assert len(scan_ids(records)) == 150
    time.sleep(0.3)
    records.maintain()
    assert read_head(dynamo).stage is None
    assert len(scan_ids(records)) == 150
    assert not any(
        "stage" in item for item in dynamo.query(LAYOUTS["memories"].make_partition(make_memory("m").__dict__))
    )


def test_a_commit_that_fails_half_way_lets_the_next_begin(records: DynamoRecords, spy: Spy, dynamo: Dynamo) -> None:
    transactions = itertools.count()

    def fail(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(transactions) == 2:
            raise StoreUnavailable("the line was cut")

    spy.before = fail
    with pytest.raises(StoreUnavailable):
        records.commit([Put(make_memory(f"m{index}")) for index in range(250)])
    spy.reset()
    assert read_head(dynamo).stage is None, "the next commit would wait until the lease ends"
    assert scan_ids(records) == set()


def test_after_a_passing_conflict_only_the_failed_request_is_repeated(records: DynamoRecords, spy: Spy) -> None:
    transactions = itertools.count()

    def conflict(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(transactions) == 1:
            raise make_client_error("TransactionCanceledException", "None", "TransactionConflict")

    spy.before = conflict
    records.commit([Put(make_memory(f"m{index}")) for index in range(150)])
    assert len(scan_ids(records)) == 150
    puts = [
        item for request in spy.list_calls("transact_write_items") for item in request["TransactItems"] if "Put" in item
    ]
    heads = [item["Put"]["Item"] for item in puts if item["Put"]["Item"]["p"] == HEAD.key["p"]]
    assert len({head["stage"]["M"]["name"]["S"] for head in heads if "stage" in head}) == 1, (
        "the whole commit was retried"
    )


def test_settling_respects_the_limits_of_a_transaction(records: DynamoRecords, spy: Spy) -> None:
    records.commit([Put(make_memory(f"m{index}", text="x" * 60_000)) for index in range(120)])
    records.commit([Patch(Memory, (ORGANIZATION, f"m{index}"), {"importance": 0.9}) for index in range(120)])
    assert {row.importance for row in records.scan(Memory, ORGANIZATION)} == {0.9}
    assert_within_limits(spy)


def test_rows_that_are_read_together_come_from_one_moment(
    records: DynamoRecords, options: DynamoOptions, tmp_path: Path, spy: Spy
) -> None:
    """The rows need two requests, and another process commits between them."""
    names = [f"m{index:03}" for index in range(120)]
    records.commit([Put(make_memory(name, text="old")) for name in names])
    other = open_second_store(options, tmp_path)
    calls = itertools.count()

    def overtake(name: str, _: dict[str, Any]) -> None:
        if name == "batch_get_item" and next(calls) == 1:
            other.commit([Patch(Memory, (ORGANIZATION, name), {"text": "new"}) for name in (names[0], names[-1])])

    spy.before = overtake
    memories = records.get(Memory, ORGANIZATION, names)
    assert memories[names[0]].text == memories[names[-1]].text == "new"
    other.close()


@use_options(lease_seconds=0.1)
def test_maintenance_leaves_work_that_another_process_does(records: DynamoRecords, spy: Spy, dynamo: Dynamo) -> None:
    records.commit([Put(make_memory(f"old{index}")) for index in range(30)])
    cut_short(records, spy, 2)
    time.sleep(0.2)

    requests: list[str] = []

    def lose_to_another(name: str, request: dict[str, Any]) -> None:
        requests.append(name)
        fail_condition(name, request)

    spy.before = lose_to_another
    records.maintain()
    assert requests.count("transact_write_items") == 1


@pytest.mark.parametrize("rows", [5, 150])
def test_a_long_commit_succeeds_among_short_ones(
    records: DynamoRecords, options: DynamoOptions, tmp_path: Path, spy: Spy, dynamo: Dynamo, rows: int
) -> None:
    """While the long commit is planned, another process commits. After some tries the other process has to wait."""
    other = open_second_store(replace(options, busy_seconds=0.0), tmp_path)
    numbers = itertools.count()

    def overtake(name: str, _: dict[str, Any]) -> None:
        if name == "batch_get_item" and next(numbers) < 50:
            with suppress(StoreBusy):
                other.commit([Put(make_memory(f"theirs{next(numbers)}"))])

    spy.before = overtake
    records.commit([Put(make_memory(f"ours{index}")) for index in range(rows)])
    spy.reset()
    ours = {name for name in scan_ids(records) if name.startswith("ours")}
    assert len(ours) == rows
    assert next(numbers) < 50, "the long commit waited until the others stopped"
    assert read_head(dynamo).stage is None
    other.close()


@use_options(shared_tries=0)
def test_a_failing_commit_does_not_block_commits_that_wait_for_it(records: DynamoRecords, dynamo: Dynamo) -> None:
    records.commit([Put(make_memory("m"))])
    with pytest.raises(AlreadyExists):
        records.commit([Put(make_memory("m"))])
    assert read_head(dynamo).stage is None
    records.commit([Delete(Memory, (ORGANIZATION, "nothing"))])
    assert read_head(dynamo).stage is None
    assert scan_ids(records) == {"m"}
