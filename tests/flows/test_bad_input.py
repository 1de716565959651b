"""Invalid input raises an error with the fact, the value and the remedy, and writes nothing."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from everhold import Everhold, View
from everhold.errors import (
    EmptyQuery,
    EverholdError,
    InvalidInput,
    MalformedId,
    NotFound,
    StoreFull,
    StoreReadOnly,
    UnknownField,
)  # fmt: skip
from everhold.interfaces.cli.show import describe_origin
from everhold.model import AccessLog
from tests.engines import LASTING, Store, make_store, read_all_rows, texts

NAIVE = datetime(2024, 5, 1, 12, 0)  # noqa: DTZ001

BAD: dict[str, tuple[dict[str, Any], type[EverholdError], list[str]]] = {
    "naive time": ({"expires_at": NAIVE}, InvalidInput, ["expires_at", "2024-05-01T12:00:00", "no zone", "tzinfo=UTC"]),
    "naive validity": ({"valid_from": NAIVE}, InvalidInput, ["valid_from", "no zone"]),
    "naive occurrence": ({"occurred_at": NAIVE}, InvalidInput, ["occurred_at", "no zone"]),
    "priority 11": ({"priority": 11}, InvalidInput, ["priority 11", "1 to 10", "importance 0 to 1"]),
    "priority 0": ({"priority": 0}, InvalidInput, ["priority 0", "1 to 10"]),
    "priority 5.5": ({"priority": 5.5}, InvalidInput, ["priority", "5.5"]),
    "priority true": ({"priority": True}, InvalidInput, ["priority", "True"]),
    "both": ({"priority": 3, "importance": 0.5}, InvalidInput, ["priority and importance", "pass one"]),
    "importance 1.1": ({"importance": 1.1}, InvalidInput, ["importance", "1.1", "less than or equal to 1"]),
    "importance nan": ({"importance": float("nan")}, InvalidInput, ["importance"]),
    "confidence -1": ({"confidence": -1}, InvalidInput, ["confidence", "-1"]),
    "long tag": ({"tags": ["x" * 65]}, InvalidInput, ["tag", "64 characters", "of length 65"]),
    "blank tag": ({"tags": [" "]}, InvalidInput, ["tag"]),
    "tag of a number": ({"tags": [5]}, InvalidInput, ["tags", "5"]),
    "tags of a number": ({"tags": 5}, InvalidInput, ["tags", "5"]),
    "NUL": ({"text": "a\x00b"}, InvalidInput, ["NUL byte at position 1", "remove it"]),
    "NUL in JSON": ({"metadata": {"a": ["\x00"]}}, InvalidInput, ["NUL byte"]),
    "NUL in a JSON key": ({"content": {"\x00": 1}}, InvalidInput, ["NUL byte"]),
    "NUL in an alias": ({"aliases": ["\x00"]}, InvalidInput, ["NUL byte"]),
    "NUL in a tag": ({"tags": ["a\x00"]}, InvalidInput, ["NUL byte"]),
    "NUL in a key": ({"key": "a\x00"}, InvalidInput, ["NUL byte"]),
    "NUL in a speaker": ({"speaker": "a\x00"}, InvalidInput, ["NUL byte"]),
    "NUL in an idempotency key": ({"idempotency_key": "a\x00"}, InvalidInput, ["NUL byte"]),
    "surrogate": ({"text": "a\ud800b"}, InvalidInput, ["lone surrogate", "U+D800", "position 1", "errors='replace'"]),
    "surrogate in JSON": ({"metadata": {"a": "\udfff"}}, InvalidInput, ["lone surrogate"]),
    "surrogate in a tag": ({"tags": ["\ud800"]}, InvalidInput, ["lone surrogate"]),
    "surrogate in a kind": ({"kind": "\ud800"}, InvalidInput, ["lone surrogate"]),
    "surrogate in a key": ({"idempotency_key": "\ud800"}, InvalidInput, ["lone surrogate"]),
    "long key": ({"key": "k" * 256}, InvalidInput, ["key", "255", "of length 256"]),
    "long idempotency key": ({"idempotency_key": "k" * 256}, InvalidInput, ["idempotency_key", "255"]),
    "number as a key": ({"idempotency_key": 5}, InvalidInput, ["idempotency_key"]),
    "long kind": ({"kind": "k" * 51}, InvalidInput, ["kind", "50"]),
    "kind of a list": ({"kind": ["fact"]}, InvalidInput, ["kind"]),
    "blank text": ({"text": "  \n"}, InvalidInput, ["nothing to remember"]),
    "text of a number": ({"text": 5}, InvalidInput, ["text"]),
    "not JSON": ({"metadata": {"a": object()}}, InvalidInput, ["JSON cannot hold a value of type object"]),
    "infinite": ({"metadata": {"a": float("inf")}}, InvalidInput, ["JSON cannot hold the number inf"]),
    "JSON key of a number": ({"content": {1: 2}}, InvalidInput, ["content"]),
    "deep JSON": ({"metadata": {"a": json.loads("[" * 150 + "]" * 150)}}, InvalidInput, ["deeper"]),
    "unknown field": ({"confidense": 1}, UnknownField, ["'confidense'", "did you mean 'confidence'"]),
    "unknown tag field": ({"tagz": ["a"]}, UnknownField, ["'tagz'", "did you mean 'tags'"]),
    "end before beginning": (
        {"valid_from": datetime(2024, 2, 1, tzinfo=UTC), "valid_to": datetime(2024, 1, 1, tzinfo=UTC)},
        InvalidInput, ["valid_to (2024-01-01", "before valid_from (2024-02-01"],
    ),
    "malformed id": ({"id": "two lines\n"}, MalformedId, ["is malformed", "1 to 255 printable characters"]),
    "empty id": ({"id": ""}, MalformedId, ["id '' is malformed"]),
    "long id": ({"id": "x" * 256}, InvalidInput, ["255"]),
    "id with a blank at its end": ({"id": "a "}, MalformedId, ["without a blank at either end"]),
    "NUL in an id": ({"id": "a\x00"}, InvalidInput, ["id"]),
    "unknown reach": ({"reach": "world"}, InvalidInput, ["reach", "'user'"]),
}  # fmt: skip


@pytest.fixture(params=LASTING)
def durable_store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    store = make_store(request.param, request, tmp_path)
    yield store
    store.close()


def assert_words(error: BaseException, words: list[str]) -> None:
    for word in words:
        assert word in str(error), f"{word!r} is not in {error}"


def assert_unchanged(engine: Everhold, call: Callable[[], object], error: type[Exception], words: list[str]) -> None:
    """Assert that a call fails with this error and writes only the log's line about the failure."""
    before = read_all_rows(engine)
    with pytest.raises(error) as caught:
        call()
    assert_words(caught.value, words)
    after = read_all_rows(engine)
    lines, earlier = after.pop("memory_access_logs"), before.pop("memory_access_logs")
    assert after == before
    added: list[Any] = [line for key, line in lines.items() if key not in earlier]
    assert [(line.success, line.error_message) for line in added] == [(False, type(caught.value).__name__)]


def test_every_invalid_field_is_refused(durable_store: Store) -> None:
    engine = durable_store.open()
    alice = engine.scope(user="alice")
    memory = alice.remember("There before", tags=["t"])
    for fields, error, words in BAD.values():
        arguments = {"text": "fine", **fields}
        assert_unchanged(engine, lambda draft=arguments: alice.remember(**draft), error, words)
        assert_unchanged(engine, lambda draft=arguments: alice.remember_many(["good", draft]), error, words)
        assert_unchanged(engine, lambda draft=arguments: alice.supersede(memory.id, **draft), error, words)


def test_a_text_over_the_limit_is_refused(durable_store: Store) -> None:
    engine = durable_store.open()
    alice = engine.scope(user="alice")
    alice.remember("x" * 1_000_000, kind="conversation")
    words = ["1,000,001 bytes", "limit of 1,000,000", "everhold import FILE", "text_bytes"]
    assert_unchanged(engine, lambda: alice.remember("x" * 1_000_001), InvalidInput, words)
    assert_unchanged(engine, lambda: alice.remember("ก" * 333_334), InvalidInput, ["1,000,002 bytes"])
    limited_view = durable_store.open(text_bytes=10).scope(user="alice")
    with pytest.raises(InvalidInput, match="has 11 bytes, over the limit of 10"):
        limited_view.remember("hello world")
    with pytest.raises(InvalidInput, match="over the limit"):
        limited_view.revise(limited_view.remember("short").id, text="hello world")


def test_an_invalid_item_is_refused(durable_store: Store) -> None:
    engine = durable_store.open()
    alice = engine.scope(user="alice")
    alice.remember("There before")
    for item in (None, 5, b"bytes", ["a"], object()):
        assert_unchanged(engine, lambda item=item: alice.remember_many([item]), InvalidInput, ["or fields by name"])
    assert alice.remember_many([{"text": None, "content": {"a": 1}, "id": None, "kind": None}])[0].kind == "observation"


MALFORMED = ["", " ", "a ", " a", "a\u2028b", "a\tb", "a\nb", "a\x00b", "a\x7f", "x" * 256, "\ud800", 5, ["a"]]


@pytest.mark.parametrize("dimension", ["organization", "project", "user", "agent", "session"])
def test_malformed_ids_in_a_scope_are_refused(sqlite_store: Store, dimension: str) -> None:
    engine = sqlite_store.open()
    before = read_all_rows(engine)
    for value in MALFORMED:
        with pytest.raises(InvalidInput, match=dimension):
            engine.scope(**{dimension: value})
    with pytest.raises(MalformedId, match="id 'a ' is malformed; use 1 to 255 printable characters without a blank"):
        engine.scope(**{dimension: "a "})
    assert read_all_rows(engine) == before
    for valid_id in (
        "a",
        "x" * 255,
        "ภาษาไทย",
        "a'b\"c",
        "%",
        "_",
        "émile@x.org",
        "{}",
        "-",
        "NULL",
        "John Doe",
        "a/b",
    ):
        engine.scope(**{dimension: valid_id}).remember("Fine")
        assert texts(engine.scope(**{dimension: valid_id}).recall("fine", k=1, minimum=0)) == ["Fine"]


def test_strange_ids_of_memories_are_not_found(durable_store: Store) -> None:
    """No memory has such an id, and the log line about the call can still be written."""
    engine = durable_store.open()
    alice = engine.scope(user="alice")
    memory = alice.remember("There before")
    calls: tuple[Callable[[str], object], ...] = (
        alice.get,
        alice.history,
        alice.forget,
        alice.undo,
        alice.relations,
        lambda memory_id: alice.revise(memory_id, text="x"),
        lambda memory_id: alice.forget(memory_id, hard=True),
        lambda memory_id: alice.supersede(memory_id, "x"),
        lambda memory_id: alice.relate(memory.id, memory_id),
        lambda memory_id: alice.tag(memory_id, "t"),
        lambda memory_id: alice.untag(memory_id, "t"),
    )
    for strange_id in ["", " ", "two words", "a/b", "a\x00b", "x" * 5000, "\ud800", "'; --", "%"]:
        for call in calls:
            assert_unchanged(engine, partial(call, strange_id), EverholdError, [])
    assert engine.doctor().problems == []
    assert alice.get(memory.id).text == "There before"


@pytest.mark.parametrize("query", ["", "  ", "\x00", "tea\x00", "\ud800 tea"])
def test_an_invalid_question_is_refused(durable_store: Store, query: str) -> None:
    engine = durable_store.open()
    alice = engine.scope(user="alice")
    alice.remember("There before")
    error = EmptyQuery if not query.strip() else InvalidInput
    assert_unchanged(engine, lambda: alice.recall(query), error, ["question" if error is EmptyQuery else "query"])


def test_invalid_accounts_are_refused(durable_store: Store) -> None:
    engine = durable_store.open()
    engine.create_user("alice", email="a@x.org")
    before = read_all_rows(engine, without=[AccessLog])
    for call, error, words in (
        (lambda: engine.create_user(" alice"), MalformedId, ["' alice' is malformed"]),
        (lambda: engine.create_user("b", email="nonsense"), InvalidInput, ["'nonsense' is not an e-mail address"]),
        (lambda: engine.create_user("b", password="short"), InvalidInput, ["5 characters; use at least 8"]),
        (lambda: engine.create_user("b", timezone="Mars"), InvalidInput, ["no time zone 'Mars'", "Asia/Bangkok"]),
        (lambda: engine.create_user("b", nme="x"), UnknownField, ["'nme'", "did you mean 'name'"]),
        (lambda: engine.create_user("b", organization_id="other"), UnknownField, ["'organization_id'"]),
        (lambda: engine.create_user("b", password_hash="x"), UnknownField, ["'password_hash'"]),
        (lambda: engine.create_user("b", is_deleted=True), UnknownField, ["'is_deleted'"]),
        (lambda: engine.create_project("p\tq"), MalformedId, ["malformed"]),
        (lambda: engine.create_organization("o "), MalformedId, ["malformed"]),
        (lambda: engine.delete_user("nobody"), NotFound, ["no user 'nobody' in organization 'default'"]),
        (lambda: engine.restore("usr", "alice"), InvalidInput, ["no kind 'usr'", "did you mean 'user'"]),
        (lambda: engine.restore("user", "alice"), NotFound, ["user 'alice' is not deleted"]),
    ):
        with pytest.raises(error) as caught:
            call()
        assert_words(caught.value, words)
    assert read_all_rows(engine, without=[AccessLog]) == before  # failed calls are logged


# stores that cannot be written


def test_a_store_opened_read_only_refuses_writes(sqlite_store: Store) -> None:
    writer = sqlite_store.open()
    writer.scope(user="alice").remember("Written before", tags=["t"])
    before = read_all_rows(writer)
    engine = sqlite_store.open(storage=f"sqlite:///{sqlite_store.storage}?mode=ro")
    alice = engine.scope(user="alice")
    [memory] = alice.list()
    for call in (
        lambda: alice.remember("No"), lambda: alice.remember_many(["No", "Nor"]),
        lambda: alice.revise(memory.id, text="x"), lambda: alice.supersede(memory.id, "x"),
        lambda: alice.forget(memory.id), lambda: alice.forget(memory.id, hard=True),
        lambda: alice.forget_where(tags="t"), lambda: alice.tag(memory.id, "x"), lambda: alice.untag(memory.id, "t"),
        lambda: engine.create_user("bob"), lambda: engine.delete_user("alice"),
        lambda: engine.delete_organization("default", hard=True),
    ):  # fmt: skip
        with pytest.raises(StoreReadOnly, match="read-only; open it"):
            call()
    assert texts(alice.recall("written", minimum=0)) == ["Written before"]
    assert alice.get(memory.id) == memory
    assert alice.tags() == {"t": 1}
    alice.log()
    assert any("access log" in problem for problem in engine.doctor().problems)
    engine.close()
    assert read_all_rows(writer) == before


def test_a_read_only_store_collects_no_log_lines(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everhold.access.buffer._MAX_WAITING", 20)
    sqlite_store.open().scope(user="alice").remember("Written before")
    engine = sqlite_store.open(storage=f"sqlite:///{sqlite_store.storage}?mode=ro", log={"flush_seconds": 0.01})
    for _ in range(100):
        assert len(engine.scope(user="alice").recall("written", minimum=0)) == 1
    assert len(engine._parts.access._waiting) <= 20


def test_a_full_disk_is_reported(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    alice = engine.scope(user="alice")
    alice.remember("There before")
    pages = engine._parts.records.read_pragma("page_count")  # type: ignore[attr-defined]
    engine.close()
    limited_engine = sqlite_store.open(sqlite={"synchronous": "NORMAL", "maximum_pages": pages + 12})
    alice = limited_engine.scope(user="alice")
    accepted_ids: list[str] = []

    def fill() -> None:
        for number in range(1000):
            accepted_ids.append(alice.remember(f"Filling {number} " + "with many words " * 40).id)  # noqa: PERF401

    with pytest.raises(StoreFull, match=r"no space left for .*; free some disk or raise its limit"):
        fill()
    assert len(accepted_ids) < 1000
    assert len(alice.recall("filling", k=1000, minimum=0)) == len(accepted_ids) + 1
    for _ in range(100):
        alice.get(accepted_ids[0])
    sqlite_store.opened.remove(limited_engine)
    with pytest.raises(StoreFull):
        limited_engine.close()  # there is no room for the log's waiting lines either
    reopened = sqlite_store.open()
    stored_ids = {memory.id for memory in reopened.scope(user="alice").list(limit=2000)}
    assert stored_ids >= set(accepted_ids)
    assert len(stored_ids) == len(accepted_ids) + 1
    rows = read_all_rows(reopened, without=[AccessLog])
    assert {row.owner_id for row in rows["chunks"].values()} == stored_ids  # type: ignore[attr-defined]
    announced = {row.entity_id for row in rows["outbox"].values()}  # type: ignore[attr-defined]
    assert announced == stored_ids | {"default", "alice"}
    assert reopened.doctor().problems == []
    assert reopened.scope(user="alice").remember("Room again").id not in stored_ids


FILL = """
import sys
sys.path[:0] = [{root!r}, {source!r}]
from tests.engines import Store
from everhold.errors import StoreError
alice = Store("sqlite", {path!r}).open().scope(user="alice")
for n in range(5000):
    try:
        print(alice.remember(f"Filling {{n}} " + "with many words " * 40).id, flush=True)
    except StoreError as error:
        print("refused", type(error).__name__, flush=True)
        import os; os._exit(0)
"""


def test_a_file_size_limit_of_the_system_is_reported(sqlite_store: Store) -> None:
    """RLIMIT_FSIZE also limits root. All acknowledged writes are stored, and nothing else."""
    root = Path(__file__).resolve().parents[2]
    script = FILL.format(root=str(root), source=str(root / "src"), path=sqlite_store.storage)
    limit = Path(sqlite_store.storage).stat().st_size + 400_000

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=limit_file_size,
        check=False,
    )
    *acknowledged_ids, last_line = process.stdout.splitlines()
    assert last_line == "refused StoreFull", process.stderr
    engine = sqlite_store.open()
    stored_ids = {memory.id for memory in engine.scope(user="alice").list(limit=5000)}
    assert stored_ids == set(acknowledged_ids)
    assert engine.doctor().problems == []


def test_nothing_is_left_of_a_failed_commit(engine: Everhold, alice: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the middle of the last step leaves every table as it was."""
    memory = alice.remember("There before", tags=["t"])
    before = read_all_rows(engine)

    def fail(*_: object) -> None:
        raise StoreFull("no room")

    for call in (
        lambda: alice.remember("x" * 3000, tags=["a"]), lambda: alice.revise(memory.id, text="y"),
        lambda: alice.supersede(memory.id, "z"), lambda: alice.forget(memory.id), lambda: alice.tag(memory.id, "u"),
    ):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(type(engine._parts.records), "commit", fail)
            with pytest.raises(StoreFull):
                call()
    after = read_all_rows(engine)
    after.pop("memory_access_logs"), before.pop("memory_access_logs")
    assert after == before


def test_every_verb_is_one_commit(engine: Everhold, alice: View, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb that makes one commit cannot be left half done by a crash."""
    first, second = alice.remember("First", id="m1"), alice.remember("Second", id="m2")
    commit = type(engine._parts.records).commit
    commits: list[int] = []

    def count_commits(records: Any, operations: Any) -> None:
        commits.append(len(operations))
        commit(records, operations)

    monkeypatch.setattr(type(engine._parts.records), "commit", count_commits)
    view_without_rows = engine.scope(organization="fresh", project="p", user="u", agent="a", session="s")
    for call in (
        lambda: view_without_rows.remember("A text of many chunks. " * 600, tags=["t"]),
        lambda: alice.remember_many(f"Many {n}" for n in range(300)),
        lambda: alice.revise(first.id, text="First again"), lambda: alice.supersede(first.id, "Heir", tags=["t"]),
        alice.undo, lambda: alice.tag(second.id, "a", "b"), lambda: alice.untag(second.id, "a"),
        lambda: alice.relate(first.id, second.id), lambda: alice.forget(second.id), lambda: alice.undo(second.id),
        lambda: alice.forget(second.id, hard=True), lambda: engine.create_user("bob", organization="another"),
        lambda: engine.delete_user("alice"), lambda: engine.restore("user", "alice"),
    ):  # fmt: skip
        engine.flush()
        commits.clear()
        call()
        assert len(commits) == 1, commits


ODD_VALUES: list[Any] = [None, 5, True, "", "no id", [], [1], {}, {"id": "x"}, [{"id": []}, {"id": "x", "tags": 3}]]


@pytest.mark.parametrize("name", ["memory", "merged", "span", "restated", "file", "url", "source", "by"])
def test_a_provenance_may_hold_anything(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The engine also uses these names in a provenance, so it must not trust values that callers store under them."""
    view = make_store("in_memory", request, tmp_path).open().scope(user="alice")
    text = "Anna likes green tea with milk and honey in the morning at home"
    for number, value in enumerate(ODD_VALUES):
        provenance = {name: value, "merged": ODD_VALUES}
        memory = view.remember(text, kind="fact", key=f"k{number}", provenance=provenance)
        newer = view.remember(text.replace("likes", "really likes"), kind="fact", provenance=provenance)
        view.revise(memory.id, metadata={"number": number})
        # They say the same, so only one of them is a hit: the newer one.
        assert newer.id in {hit.memory.id for hit in view.recall("what does Anna like?", minimum=0)}
        view.context("what does Anna like?")
        view.merge_duplicates()
        assert describe_origin(view.get(memory.id), ZoneInfo("UTC")) is not None
        view.forget_where(where={"kind": "fact"}, hard=True)
        assert view.list().memories == ()
