"""What is particular to DynamoDB: its limits, commits of several transactions, rows too large for an item."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from recollect import clock, parts, settings
from recollect.adapters.dynamodb import DynamoOptions, DynamoRecords
from recollect.adapters.dynamodb import client as limits
from recollect.adapters.dynamodb.client import Dynamo, Overtaken
from recollect.adapters.dynamodb.head import read_head
from recollect.adapters.dynamodb.items import LAYOUTS, encoded, size_of
from recollect.adapters.files import FileBlobs
from recollect.errors import AlreadyExists, InvalidSettings, StoreUnavailable
from recollect.model import Memory, Organization, Outbox, User
from recollect.schema.operations import Delete, Hide, Op, Patch, Put, Where
from recollect.testing.dynamodb_server import CREDENTIALS, DynamoServer
from tests.engines import Store

ORGANIZATION = "acme"
NUMBERS = itertools.count()


@pytest.fixture
def options(dynamodb_server: DynamoServer) -> DynamoOptions:
    table = f"unit{next(NUMBERS)}"
    return DynamoOptions("eu-north-1", table, endpoint=dynamodb_server.url, seconds=60, credentials=CREDENTIALS)


@pytest.fixture
def records(options: DynamoOptions, tmp_path: Path) -> Iterator[DynamoRecords]:
    records = DynamoRecords(options, FileBlobs(str(tmp_path / "blobs")))
    now = clock.now()
    records.commit([Put(Organization(id=ORGANIZATION, name="Acme", created_at=now, updated_at=now))])
    yield records
    records.close()


def memory(name: str, **fields: Any) -> Memory:
    now = clock.now()
    given = {"id": name, "organization_id": ORGANIZATION, "created_at": now, "updated_at": now, "text": name}
    return Memory(**{**given, "kind": "observation", "scope": "organization", **fields})


def texts(records: DynamoRecords, *where: Where) -> set[str]:
    return {row.id for row in records.scan(Memory, ORGANIZATION, where)}


class Spy:
    """Notes every request that is sent, and does something before some."""

    def __init__(self, records: DynamoRecords, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.before: Callable[[str, dict[str, Any]], None] = lambda _, __: None
        client = records._dynamo._client
        for name in ("transact_write_items", "batch_write_item", "batch_get_item", "query"):
            monkeypatch.setattr(client, name, self._noting(name, getattr(client, name)))

    def _noting(self, name: str, request: Callable[..., Any]) -> Callable[..., Any]:
        def send(**what: Any) -> Any:
            self.before(name, what)
            self.sent.append((name, what))
            return request(**what)

        return send

    def of(self, name: str) -> list[dict[str, Any]]:
        return [what for sent, what in self.sent if sent == name]


@pytest.fixture
def spy(records: DynamoRecords, monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(records, monkeypatch)


def assert_within_limits(spy: Spy) -> None:
    for what in spy.of("transact_write_items"):
        actions = what["TransactItems"]
        items = [one.get("Put", {}).get("Item", {}) for one in actions]
        assert len(actions) <= 100
        assert sum(map(size_of, items)) <= limits.TRANSACTION_BYTES
        assert all(size_of(item) <= limits.ITEM_BYTES for item in items)
        keys = [(one.get("Put", {}).get("Item") or next(iter(one.values()))["Key"]) for one in actions]
        assert len({(key["p"]["S"], key["s"]["S"]) for key in keys}) == len(keys), "one action per item"
    for what in spy.of("batch_write_item"):
        [wanted] = what["RequestItems"].values()
        assert 1 <= len(wanted) <= 25
    for what in spy.of("batch_get_item"):
        [asked] = what["RequestItems"].values()
        assert 1 <= len(asked["Keys"]) <= 100
        assert asked["ConsistentRead"] is True
    assert all(what["ConsistentRead"] is True for what in spy.of("query"))


def test_a_small_commit_is_one_transaction(records: DynamoRecords, spy: Spy) -> None:
    records.commit([Put(memory(f"m{number}")) for number in range(5)])
    assert len(spy.of("transact_write_items")) == 1
    assert spy.of("batch_write_item") == []
    assert_within_limits(spy)


@pytest.mark.parametrize("number", [98, 99, 100, 101, 350])
def test_a_commit_of_any_size_is_there_whole(records: DynamoRecords, spy: Spy, number: int) -> None:
    records.commit([Put(memory(f"m{at}")) for at in range(number)])
    assert texts(records) == {f"m{at}" for at in range(number)}
    assert_within_limits(spy)


def test_a_commit_of_many_bytes_is_split_too(records: DynamoRecords, spy: Spy) -> None:
    records.commit([Put(memory(f"m{at}", text="x" * 120_000)) for at in range(50)])
    assert texts(records) == {f"m{at}" for at in range(50)}
    assert_within_limits(spy)


def test_a_row_too_large_for_an_item_lies_in_a_blob(records: DynamoRecords, spy: Spy, tmp_path: Path) -> None:
    text = "é" * 450_000
    records.commit([Put(memory("large", text=text)), Put(memory("small"))])
    assert records.get(Memory, ORGANIZATION, ["large"])["large"].text == text
    records.commit([Patch(Memory, (ORGANIZATION, "large"), {"importance": 0.9})])
    records.commit([Hide(Organization, (ORGANIZATION,), "d1", clock.now())])
    found = records.get(Memory, ORGANIZATION, ["large"], deleted=True)["large"]
    assert (found.text, found.importance, found.is_deleted) == (text, 0.9, True)
    assert_within_limits(spy)
    assert len([path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]) == 3, "one for each that it was"


def test_until_its_last_transaction_a_large_commit_is_not_there(records: DynamoRecords, spy: Spy) -> None:
    records.commit([Put(memory(f"old{at}", importance=0.1)) for at in range(60)])
    seen: list[set[str]] = []

    def look(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items":
            found = records.scan(Memory, ORGANIZATION)
            seen.append({f"{row.id} {row.importance}" for row in found})

    before = {f"{row.id} {row.importance}" for row in records.scan(Memory, ORGANIZATION)}
    spy.before = look
    changes = [Patch(Memory, (ORGANIZATION, f"old{at}"), {"importance": 0.9}) for at in range(50)]
    purged = [Delete(Memory, (ORGANIZATION, f"old{at}")) for at in range(50, 60)]
    records.commit([*changes, *purged, *[Put(memory(f"new{at}")) for at in range(100)]])
    spy.before = lambda _, __: None
    after = {f"{row.id} {row.importance}" for row in records.scan(Memory, ORGANIZATION)}
    assert len(after) == 150
    assert before in seen
    assert all(one in (before, after) for one in seen), "nothing in between"


def cut_short(records: DynamoRecords, spy: Spy, after: int) -> None:
    """A large commit whose process ends after so many transactions."""
    sent = itertools.count()

    def end(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(sent) >= after:
            raise KeyboardInterrupt

    spy.before = end
    patches = [Patch(Memory, (ORGANIZATION, f"old{at}"), {"text": "changed"}) for at in range(30)]
    with pytest.raises(KeyboardInterrupt):
        records.commit([*[Put(memory(f"new{at}")) for at in range(250)], *patches])
    spy.before = lambda _, __: None


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_commit_that_was_cut_short_leaves_nothing(
    records: DynamoRecords, options: DynamoOptions, spy: Spy, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    records.commit([Put(memory(f"old{at}")) for at in range(30)])
    before = {row.id: row.text for row in records.scan(Memory, ORGANIZATION)}
    monkeypatch.setattr("recollect.adapters.dynamodb.head.LEASE", 0.2)
    cut_short(records, spy, after)
    assert {row.id: row.text for row in records.scan(Memory, ORGANIZATION)} == before
    time.sleep(0.3)  # until the lease has ended
    records.commit([Put(memory("next"))])
    assert read_head(records._dynamo).stage is None
    assert {row.id: row.text for row in records.scan(Memory, ORGANIZATION)} == {**before, "next": "next"}
    records.commit([Put(memory(f"new{at}")) for at in range(250)])
    assert len(texts(records)) == 281
    left = list(Dynamo(options).query(LAYOUTS["memories"].partition({"organization_id": ORGANIZATION})))
    assert len(left) == 281, "what was left behind is gone"


def test_upkeep_takes_back_what_was_cut_short(
    records: DynamoRecords, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.commit([Put(memory(f"old{at}")) for at in range(30)])
    monkeypatch.setattr("recollect.adapters.dynamodb.head.LEASE", 0.1)
    cut_short(records, spy, 3)
    time.sleep(0.2)
    records.upkeep()
    assert read_head(records._dynamo).stage is None
    assert len(texts(records)) == 30


def test_who_was_taken_for_dead_can_write_no_more(
    records: DynamoRecords, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody commits while a large commit sleeps beyond its lease: that one begins anew, on what is there now."""
    monkeypatch.setattr("recollect.adapters.dynamodb.head.LEASE", 0.1)
    asleep = itertools.count()

    def oversleep(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(asleep) == 2:
            time.sleep(0.2)
            records.commit([Put(memory("first", id="m7"))])

    spy.before = oversleep
    with pytest.raises(AlreadyExists):
        records.commit([Put(memory(f"m{at}")) for at in range(250)])
    spy.before = lambda _, __: None
    assert texts(records) == {"m7"}


def test_an_answer_lost_after_the_deed_is_no_failure(records: DynamoRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    send = records._dynamo.transact

    def lose(actions: Sequence[Any], token: str) -> None:
        send(actions, token)
        raise StoreUnavailable("the line was cut")

    monkeypatch.setattr(records._dynamo, "transact", lose)
    records.commit([Put(memory("once"))])
    monkeypatch.undo()
    assert texts(records) == {"once"}


def test_two_that_plan_at_once_do_not_both_happen(
    records: DynamoRecords, options: DynamoOptions, tmp_path: Path, spy: Spy
) -> None:
    other = DynamoRecords(options, FileBlobs(str(tmp_path / "blobs")))
    entered = iter([True])

    def overtake(name: str, _: dict[str, Any]) -> None:
        if name == "transact_write_items" and next(entered, False):
            other.commit([Put(memory("theirs", hash=b"the same 16 byte"))])

    spy.before = overtake
    with pytest.raises(AlreadyExists) as raised:
        records.commit([Put(memory("ours", hash=b"the same 16 byte"))])
    assert raised.value.rule == "hash"
    assert texts(records) == {"theirs"}
    other.close()


def test_lookups_use_an_index_and_not_the_whole_partition(records: DynamoRecords, spy: Spy) -> None:
    now = clock.now()
    users = [User(id=name, organization_id=ORGANIZATION, name=name, created_at=now, updated_at=now) for name in "ab"]
    records.commit([*map(Put, users), *[Put(memory(f"{name}{at}", user_id=name)) for name in "ab" for at in range(20)]])
    spy.sent.clear()
    assert texts(records, Where("user_id", Op.EQ, "a")) == {f"a{at}" for at in range(20)}
    [query] = spy.of("query")
    assert query["IndexName"] == "by1"


def test_the_feed_goes_on_over_a_stretch_s_end(records: DynamoRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.adapters.dynamodb.items.STRETCH", 7)
    lines = [
        Outbox(organization_id=ORGANIZATION, entity="memories", entity_id=str(at), operation="put") for at in range(30)
    ]
    for line in lines:
        records.commit([Put(line)])
    feed = records.feed(0)
    assert [line.entity_id for line in feed.lines] == [str(at) for at in range(30)]
    assert [line.entity_id for line in records.feed(feed.lines[16].sequence, limit=5).lines] == [
        "17", "18", "19", "20", "21",
    ]  # fmt: skip
    assert len(records.scan(Outbox, ORGANIZATION, [Where("sequence", Op.GT, feed.lines[9].sequence)])) == 20
    assert records.scan(Outbox, "other") == []


@pytest.mark.parametrize("value", ["", "a#b", "a%23b", "=", "-", "é" * 255, "x" * 255, "x" * 254 + "y", 0, -5, 2**62])
def test_keys_are_told_apart(value: Any) -> None:
    others = ["a", "a#", "#", "%", "x" * 253 + "yy", "é" * 254, 1, -4, None]
    assert encoded(value) not in {encoded(other) for other in others}
    assert "#" not in encoded(value)
    assert len(encoded(value).encode()) <= 150


def test_an_engine_opens_it_by_its_address(
    dynamodb_server: DynamoServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name.upper(), value)
    store = Store("dynamodb", f"dynamodb://eu-north-1/engine{next(NUMBERS)}")
    more: dict[str, Any] = {"dynamodb": {"endpoint": dynamodb_server.url, "seconds": 60}, "blobs": str(tmp_path)}
    alice = store.open(**more).scope(user="alice")
    alice.remember_many([f"Note {number} about tea" for number in range(40)])
    alice.remember("Prefers backend work over design", tags=["work"])
    [hit] = store.open(**more).scope(user="alice").recall("backend or design work?", tags="work")
    assert hit.memory.text == "Prefers backend work over design"
    store.close()


@pytest.mark.parametrize("address", ["dynamodb://eu-west-1", "dynamodb:///memories", "dynamodb://eu-west-1/a b"])
def test_an_address_without_region_or_table_is_refused(address: str) -> None:
    with pytest.raises(InvalidSettings, match="names no table"):
        parts.open_store(settings.load(address))


def test_nobody_listens() -> None:
    nowhere = DynamoOptions("eu-north-1", "table", endpoint="http://127.0.0.1:9", retries=0, credentials=CREDENTIALS)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:9 cannot be reached"):
        DynamoRecords(nowhere, FileBlobs("memory://nowhere"))


def test_overtaken_never_leaves(records: DynamoRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.adapters.dynamodb.records._PATIENCE", 0.0)

    def always(*_: Any) -> None:
        raise Overtaken

    monkeypatch.setattr(records._dynamo, "transact", always)
    with pytest.raises(Exception, match="try again") as raised:
        records.commit([Put(memory("never"))])
    assert not isinstance(raised.value, Overtaken)
