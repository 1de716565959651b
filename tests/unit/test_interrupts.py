"""Ctrl-C at every point of a commit, a read or a recall leaves the store whole and usable."""

import gc
import os
import signal
import sqlite3
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AfterValidator

from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.background import BackgroundThread
from everhold.errors import StoreBusy
from everhold.interrupts import GuardedEvent, GuardedLock, uninterrupted
from everhold.model import Memory, Organization, Tag
from everhold.model.base import Row
from everhold.model.validation import complete_row
from everhold.ports.records import Records
from everhold.schema.operations import Op, Put, Where
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.testing.records_rows import make_row
from tests.contract.stores import InMemory, make_duckdb_store
from tests.engines import make_store
from tests.stepwise import interrupt_at, run_beside


def send_interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


# the section


def test_a_section_ends_before_it_is_interrupted() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 — where it is raised is what is tested
        with uninterrupted, uninterrupted:
            send_interrupt()
            steps.append("inner")
        steps.append("after")
    assert steps == ["inner"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_and_an_interrupt_become_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, uninterrupted:  # noqa: PT012
        send_interrupt()
        raise ValueError
    assert isinstance(caught.value.__context__, ValueError)


def test_a_handler_that_raises_nothing_is_told_after_the_section() -> None:
    calls: list[str] = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append("interrupt"))
    try:
        with uninterrupted:
            send_interrupt()
            calls.append("section")
        assert calls == ["section", "interrupt"]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_section_that_hangs_can_be_left_by_pressing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everhold.interrupts.PATIENCE_SECONDS", 0.0)
    steps = []
    with pytest.raises(KeyboardInterrupt), uninterrupted:  # noqa: PT012
        send_interrupt()
        steps.append("first")
        send_interrupt()
        steps.append("second")
    assert steps == ["first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_waiting_for_a_lock_can_be_interrupted() -> None:
    lock, is_held, release = GuardedLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            release.wait(100)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(100)
    threading.Timer(0.05, send_interrupt).start()
    with pytest.raises(KeyboardInterrupt), lock:
        pytest.fail("another thread holds the lock")
    release.set()
    holder.join()
    run_beside(lock.__enter__)


def test_a_lock_that_is_not_free_in_time_is_refused() -> None:
    lock = GuardedLock(0.05, "the lock is held")
    with lock, pytest.raises(StoreBusy, match="the lock is held"):
        run_beside(lock.__enter__)
    run_beside(lock.__enter__)


def test_an_event_stays_usable_wherever_it_is_interrupted() -> None:
    for point in count():
        event = GuardedEvent()

        def use(event: GuardedEvent = event) -> None:
            event.wait(0.001)
            event.set()
            event.clear()

        sent = interrupt_at(point, use)
        run_beside(event.set)
        assert event.wait()
        if not sent:
            break
    assert point > 20


def test_waiting_for_an_event_can_be_interrupted() -> None:
    threading.Timer(0.05, send_interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        GuardedEvent().wait(100)
    assert not GuardedEvent().wait(0.01)


# the stores


@pytest.fixture(params=["sqlite", "in_memory", "duckdb"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records]:
    if request.param == "in_memory":
        records: Records = InMemory().open()
    elif request.param == "duckdb":
        records = make_duckdb_store(tmp_path).open()
    else:
        records = SqliteRecords(SqliteOptions(tmp_path / "records.db", synchronous="NORMAL", busy_seconds=5))
    records.commit([Put(make_row(Organization, "org", "org"))])
    yield records
    records.close()


def list_points(records: Records) -> Iterator[int]:
    """Yield every point on SQLite, whose locks are the most delicate, and some points on other stores."""
    return count(0, {"sqlite": 1, "in_memory": 5}.get(records.traits.name, 97))


def require_usable(records: Records, name: str) -> None:
    def write() -> None:
        records.commit([Put(make_row(Memory, "org", name))])
        assert records.get(Memory, "org", [name])

    run_beside(write)
    if isinstance(records, SqliteRecords):
        with closing(sqlite3.connect(records.options.path, timeout=0.2, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # refused if the interrupt has left a transaction open
            other.execute("ROLLBACK")


def test_an_interrupted_commit_is_applied_completely_or_not_at_all(records: Records) -> None:
    for point in list_points(records):
        name = f"m{point}"
        rows = [Put(make_row(Memory, "org", name)), Put(make_row(Tag, "org", "t", memory_id=name))]
        sent = interrupt_at(point, lambda rows=rows: records.commit(rows))  # type: ignore[misc]
        is_stored = name in records.get(Memory, "org", [name])
        assert is_stored == bool(records.count(Tag, "org", [Where("memory_id", Op.EQ, name)]))
        require_usable(records, f"after-{point}")
        if not sent:
            break
    assert point > 50
    assert records.find_problems() == []


READS: dict[str, Callable[[Records], object]] = {
    "get": lambda records: records.get(Memory, "org", ["m1"]),
    "stream": lambda records: list(records.columns(Organization, None, ("id", "name"))),
    "feed": lambda records: records.feed(0),
    "maintain": lambda records: records.maintain(),
}


@pytest.mark.parametrize("read", READS)
def test_a_store_stays_usable_wherever_a_read_is_interrupted(records: Records, read: str) -> None:
    records.commit([Put(make_row(Memory, "org", f"m{number}")) for number in range(3)])
    for point in list_points(records):
        if not interrupt_at(point, lambda: READS[read](records)):
            break
        require_usable(records, f"after-{point}")
    assert point > 0


# garbage: Python ignores an interrupt that comes while a finalizer or a callback runs, so there must be none


def list_calls_when_collected(make: Callable[[], object]) -> list[str]:
    """Return the Python functions that run when the garbage collector finds what `make` returns."""
    cycle = [make()]
    for _ in range(3):  # garbage of other tests may have finalizers that leave further garbage
        gc.collect()
    garbage = weakref.ref(cycle[0])
    cycle.append(cycle)
    del cycle
    calls: list[str] = []
    observers = gc.callbacks.copy()
    gc.callbacks.clear()  # hypothesis has one, which is called after every collection
    try:
        sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_qualname) if event == "call" else None)
        gc.collect()
        sys.setprofile(None)
    finally:
        gc.callbacks.extend(observers)
    assert garbage() is None
    return calls


def test_no_interrupt_is_lost_when_a_lost_connection_is_collected(tmp_path: Path) -> None:
    with closing(SqliteRecords(SqliteOptions(tmp_path / "records.db"))) as records:
        assert list_calls_when_collected(records._readers._borrow) == []


def test_no_interrupt_is_lost_when_a_thread_that_has_ended_is_collected() -> None:
    def run_to_its_end() -> BackgroundThread:
        thread = BackgroundThread("everhold-test", lambda: None, GuardedEvent())
        thread.start()
        thread.join()
        return thread

    assert list_calls_when_collected(run_to_its_end) == []


# above the stores


class InterruptingValidator:
    """A validator that sends an interrupt when pydantic-core asks for its name, while it builds a schema."""

    def __repr__(self) -> str:
        send_interrupt()
        return "validator"

    def __call__(self, value: int) -> int:
        return value


def test_an_interrupt_while_a_validator_is_built_stays_an_interrupt() -> None:
    class ValidatedRow(Row):
        number: Annotated[int, AfterValidator(InterruptingValidator())]

    with pytest.raises(KeyboardInterrupt):
        ValidatedRow(number=1)
    assert ValidatedRow(number=1).number == 1
    with pytest.raises(KeyboardInterrupt):
        complete_row(ValidatedRow, {"number": 1}, {})


def test_a_text_whose_embedding_was_interrupted_is_embedded_by_the_next_call() -> None:
    cached = CachedEmbedder(FakeEmbedder(), 100)
    for point in count():
        text = f"text {point}"
        sent = interrupt_at(point, lambda text=text: cached.embed([text, "same"]))  # type: ignore[misc]
        run_beside(lambda text=text: cached.embed([text, "same"]) and None)  # type: ignore[misc]
        if not sent:
            break
    assert point > 10


@pytest.mark.parametrize("store", ["sqlite", "in_memory"])
def test_an_engine_works_after_an_interrupt_at_any_point(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """After an interrupt at some points of writes and recalls, another thread can write, and recall what it wrote."""
    with closing(make_store(store, request, tmp_path)) as opened_store:
        engine = opened_store.open()
        view, talk = engine.scope(user="u"), engine.scope(user="u", session="s")

        def work(point: int) -> None:
            memory = view.remember(f"The ferry {point} leaves at noon.", kind="conversation", tags=["ferry"])
            view.recall("ferry")
            view.revise(memory.id, text=f"The ferry {point} leaves at one.")
            talk.say(f"message {point}")
            view.recall("noon")

        def check(point: int) -> None:
            name = view.remember(f"The train {point} is late.", kind="conversation").id
            assert name in [hit.memory.id for hit in view.recall(f"train {point} late", k=50)]

        for point in count(0, 293 if store == "sqlite" else 2999):
            sent = interrupt_at(point, lambda point=point: work(point))  # type: ignore[misc]
            run_beside(lambda point=point: check(point))  # type: ignore[misc]
            if not sent:
                break
        assert point > 1000
        assert engine.doctor().problems == []
