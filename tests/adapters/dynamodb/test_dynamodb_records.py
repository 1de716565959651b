"""Behaviour specific to DynamoDB: limits, commits of several transactions, and rows too large for an item."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from everhold import clock, settings, stores
from everhold.adapters.dynamodb import DynamoOptions, DynamoRecords
from everhold.adapters.dynamodb.client import Dynamo
from everhold.adapters.dynamodb.items import LAYOUTS, encode_value
from everhold.adapters.files import FileBlobs
from everhold.errors import InvalidSettings, StoreBusy, StoreUnavailable
from everhold.model import Memory, Organization, Outbox, Tag, User
from everhold.schema.operations import Delete, Hide, Op, Patch, Put, Where
from tests.dynamo_table import NUMBERS, ORGANIZATION, Spy, assert_within_limits, make_memory, scan_ids, use_options
from tests.engines import Store
from tests.servers.dynamodb import CREDENTIALS, DynamoServer


def test_a_small_commit_is_one_transaction(records: DynamoRecords, spy: Spy) -> None:
    records.commit([Put(make_memory(f"m{number}")) for number in range(5)])
    assert len(spy.list_calls("transact_write_items")) == 1
    assert spy.list_calls("batch_write_item") == []
    assert_within_limits(spy)


@pytest.mark.parametrize("size", [98, 99, 100, 101, 350])
def test_a_commit_of_any_size_is_stored_whole(records: DynamoRecords, spy: Spy, size: int) -> None:
    records.commit([Put(make_memory(f"m{index}")) for index in range(size)])
    assert scan_ids(records) == {f"m{index}" for index in range(size)}
    assert_within_limits(spy)


def test_a_commit_of_many_bytes_is_split_too(records: DynamoRecords, spy: Spy) -> None:
    records.commit([Put(make_memory(f"m{index}", text="x" * 120_000)) for index in range(50)])
    assert scan_ids(records) == {f"m{index}" for index in range(50)}
    assert_within_limits(spy)


def list_blobs(folder: Path) -> list[Path]:
    return [path for path in (folder / "blobs").rglob("*") if path.is_file()]


def test_a_row_too_large_for_an_item_is_stored_in_a_blob(records: DynamoRecords, spy: Spy, tmp_path: Path) -> None:
    text = "é" * 450_000
    records.commit([Put(make_memory("large", text=text)), Put(make_memory("small"))])
    assert records.get(Memory, ORGANIZATION, ["large"])["large"].text == text
    records.commit([Patch(Memory, (ORGANIZATION, "large"), {"importance": 0.9})])
    records.commit([Hide(Organization, (ORGANIZATION,), "d1", clock.now())])
    row = records.get(Memory, ORGANIZATION, ["large"], deleted=True)["large"]
    assert (row.text, row.importance, row.is_deleted) == (text, 0.9, True)
    assert_within_limits(spy)
    assert len(list_blobs(tmp_path)) == 1, "blobs of the earlier value are left"


def test_lookups_use_an_index_and_not_the_whole_partition(records: DynamoRecords, spy: Spy) -> None:
    now = clock.now()
    users = [User(id=name, organization_id=ORGANIZATION, name=name, created_at=now, updated_at=now) for name in "ab"]
    records.commit(
        [*map(Put, users), *[Put(make_memory(f"{name}{index}", user_id=name)) for name in "ab" for index in range(20)]]
    )
    spy.sent.clear()
    assert scan_ids(records, Where("user_id", Op.EQ, "a")) == {f"a{index}" for index in range(20)}
    [query] = spy.list_calls("query")
    assert query["IndexName"] == "by1"


@pytest.mark.parametrize("row_ids", [["m7"], ["m7", "m8", "missing"]], ids=len)
def test_a_search_by_id_reads_only_the_items_with_these_ids(
    records: DynamoRecords, spy: Spy, row_ids: list[str]
) -> None:
    records.commit([Put(make_memory(f"m{number}")) for number in range(60)])
    condition = Where("id", Op.IN, row_ids) if len(row_ids) > 1 else Where("id", Op.EQ, row_ids[0])
    rows = len(set(row_ids) - {"missing"})
    for search in (
        lambda: len(records.scan(Memory, ORGANIZATION, [condition])),
        lambda: records.count(Memory, ORGANIZATION, [condition]),
        lambda: len(list(records.columns(Memory, ORGANIZATION, ["text"], [condition]))),
    ):
        spy.sent.clear()
        assert search() == rows
        [batch] = spy.list_calls("batch_get_item")
        [request] = batch["RequestItems"].values()
        assert len(request["Keys"]) == len(row_ids)
        assert {name for name, _ in spy.sent} <= {"batch_get_item", "get_item"}
        assert len(spy.sent) <= 3, "the items, and the head before and after them"


def test_the_feed_continues_after_the_end_of_a_partition(
    records: DynamoRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everhold.adapters.dynamodb.items.ROWS_PER_PARTITION", 7)
    lines = [
        Outbox(organization_id=ORGANIZATION, entity="memories", entity_id=str(index), operation="put")
        for index in range(30)
    ]
    for line in lines:
        records.commit([Put(line)])
    feed = records.feed(0)
    assert [line.entity_id for line in feed.lines] == [str(index) for index in range(30)]
    assert [line.entity_id for line in records.feed(feed.lines[16].sequence, limit=5).lines] == [
        "17", "18", "19", "20", "21",
    ]  # fmt: skip
    assert len(records.scan(Outbox, ORGANIZATION, [Where("sequence", Op.GT, feed.lines[9].sequence)])) == 20
    assert records.scan(Outbox, "other") == []


@pytest.mark.parametrize("value", ["", "a#b", "a%23b", "=", "-", "é" * 255, "x" * 255, "x" * 254 + "y", 0, -5, 2**62])
def test_similar_keys_name_different_items(value: Any) -> None:
    others = ["a", "a#", "#", "%", "x" * 253 + "yy", "é" * 254, 1, -4, None]
    assert encode_value(value) not in {encode_value(other) for other in others}
    assert "#" not in encode_value(value)
    assert len(encode_value(value).encode()) <= 150


def test_an_engine_opens_a_dynamodb_store_by_its_address(
    dynamodb_server: DynamoServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name.upper(), value)
    store = Store("dynamodb", f"dynamodb://eu-north-1/engine{next(NUMBERS)}")
    settings: dict[str, Any] = {"dynamodb": {"endpoint": dynamodb_server.url, "seconds": 60}, "blobs": str(tmp_path)}
    alice = store.open(**settings).scope(user="alice")
    alice.remember_many([f"Note {number} about tea" for number in range(40)])
    alice.remember("Prefers backend work over design", tags=["work"])
    [hit] = store.open(**settings).scope(user="alice").recall("backend or design work?", tags="work")
    assert hit.memory.text == "Prefers backend work over design"
    store.close()


@pytest.mark.parametrize("address", ["dynamodb://eu-west-1", "dynamodb:///memories", "dynamodb://eu-west-1/a b"])
def test_an_address_without_region_or_table_is_refused(address: str) -> None:
    with pytest.raises(InvalidSettings, match=r"names no (region|table)"):
        stores.open_store(settings.load(address))


def test_an_address_without_a_server_is_unavailable() -> None:
    nowhere = DynamoOptions("eu-north-1", "table", endpoint="http://127.0.0.1:9", retries=0, credentials=CREDENTIALS)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9 cannot be reached"):
        DynamoRecords(nowhere, FileBlobs("memory://nowhere"))


def test_a_purged_row_leaves_no_blob(records: DynamoRecords, dynamo: Dynamo, tmp_path: Path) -> None:
    records.commit([Put(make_memory(name, text=name * 200_000)) for name in ("a", "b")])
    records.commit([Patch(Memory, (ORGANIZATION, "a"), {"importance": 0.9})])
    records.commit([Delete(Memory, (ORGANIZATION, "b")), *[Put(make_memory(f"m{index}")) for index in range(120)]])
    assert len(list_blobs(tmp_path)) == 1
    records.commit([Delete(Memory, (ORGANIZATION, "a"))])
    assert list_blobs(tmp_path) == []
    assert list(dynamo.query("*gone")) == []


def test_the_doctor_names_every_row_whose_blob_is_gone_or_damaged(records: DynamoRecords, tmp_path: Path) -> None:
    records.commit([Put(make_memory(name, text=name * 200_000)) for name in ("a", "b")])
    missing, damaged = list_blobs(tmp_path)
    missing.unlink()
    damaged.write_bytes(b"something else")
    problems = records.find_problems()
    assert len(problems) == 2
    assert {line.split(":")[0] for line in problems} == {"memories =a", "memories =b"}


def test_maintenance_removes_a_blob_that_could_not_be_deleted(
    records: DynamoRecords, options: DynamoOptions, tmp_path: Path
) -> None:
    class UndeletableBlobs(FileBlobs):
        def delete(self, *_: str) -> None:
            raise StoreUnavailable("the disk is gone")

    other = DynamoRecords(options, UndeletableBlobs(str(tmp_path / "blobs")))
    other.commit([Put(make_memory("a", text="a" * 200_000))])
    other.commit([Delete(Memory, (ORGANIZATION, "a"))])
    other.close()
    assert len(list_blobs(tmp_path)) == 1
    records.maintain()
    assert list_blobs(tmp_path) == []


def test_a_row_is_read_while_it_moves_to_another_blob(
    records: DynamoRecords, options: DynamoOptions, tmp_path: Path
) -> None:
    records.commit([Put(make_memory("a", text="a" * 200_000))])
    first_read = iter([True])

    class OvertakenBlobs(FileBlobs):
        def get(self, organization_id: str, address: str) -> bytes:
            if next(first_read, False):
                records.commit([Patch(Memory, (ORGANIZATION, "a"), {"importance": 0.9})])
            return super().get(organization_id, address)

    other = DynamoRecords(options, OvertakenBlobs(str(tmp_path / "blobs")))
    assert other.get(Memory, ORGANIZATION, ["a"])["a"].importance == 0.9
    assert next(first_read, None) is None
    other.close()


@use_options(retries=1)
def test_an_answer_without_some_of_the_keys_is_not_taken_as_complete(
    records: DynamoRecords, options: DynamoOptions, spy: Spy
) -> None:
    """DynamoDB may leave rows out of an answer when it lacks capacity; these rows must not count as missing."""
    records.commit([Put(make_memory("a"))])

    def throttle(name: str, request: dict[str, Any], answer: Any) -> Any:
        if name != "batch_get_item":
            return answer
        return {**answer, "Responses": {}, "UnprocessedKeys": request["RequestItems"]}

    spy.after = throttle
    with pytest.raises(StoreBusy):
        records.get(Memory, ORGANIZATION, ["a"])
    with pytest.raises(StoreBusy):
        records.commit([Put(make_memory("a", text="another"))])


def test_a_truncated_value_does_not_equal_a_short_value() -> None:
    # The digest of this text begins with 25, as the percent-encoding of "%" does.
    long = next(
        text
        for text in (f"{'x' * 160}{index}" for index in range(10_000))
        if sha256(f"={text}".encode()).hexdigest()[:2] == "25"
    )
    digest = sha256(f"={long}".encode()).hexdigest()
    assert encode_value(f"{long[:59]}%{digest[2:]}") != encode_value(long)


def test_many_keys_with_any_characters_are_found(records: DynamoRecords) -> None:
    names = [f"m{index:02}" for index in range(40)] + ["z", "z!1"]
    records.commit([Put(make_memory(name)) for name in names])
    now = clock.now()
    shared_fields = {"organization_id": ORGANIZATION, "tag": "tea", "created_at": now, "updated_at": now}
    records.commit([Put(Tag(memory_id=name, **shared_fields)) for name in names])
    tags = records.scan(Tag, ORGANIZATION, [Where("memory_id", Op.IN, names)])
    assert {row.memory_id for row in tags} == set(names)


def test_a_comparison_with_a_negative_number_finds_every_line(records: DynamoRecords) -> None:
    records.commit([Put(Outbox(organization_id=ORGANIZATION, entity="memories", entity_id="a", operation="put"))])
    assert len(records.scan(Outbox, ORGANIZATION, [Where("sequence", Op.GT, -1)])) == 1


def test_a_column_added_after_a_row_was_written_has_its_default(records: DynamoRecords, dynamo: Dynamo) -> None:
    layout = LAYOUTS["memories"]
    row = make_memory("old")
    values = json.loads(layout.encode(row)["row"]["S"])
    del values["pinned"], values["aliases"], values["expires_at"]
    key = layout.make_key((ORGANIZATION, "old"))
    dynamo.write([{**key.key, "row": {"S": json.dumps(values)}}], ())
    [loaded_memory] = records.scan(Memory, ORGANIZATION)
    assert (loaded_memory.pinned, loaded_memory.aliases, loaded_memory.expires_at) == (False, row.aliases, None)


def test_an_existing_table_is_opened_without_permission_to_create_tables(
    records: DynamoRecords, options: DynamoOptions, spy: Spy, tmp_path: Path
) -> None:
    spy.sent.clear()
    DynamoRecords(options, FileBlobs(str(tmp_path / "blobs")), spy)
    assert spy.sent
    assert spy.list_calls("create_table") == []
