"""Background threads survive any error, log it, and show it to `doctor`."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everhold.access import chain
from everhold.access.buffer import AccessBuffer
from everhold.adapters.usearch.vectors import UsearchVectors
from everhold.background import BackgroundThread, BackgroundValue
from everhold.maintenance import reembedding
from everhold.testing.fake_embedder import FakeEmbedder
from tests.engines import Store, make_store

SECONDS = 20


def make_failing_work(times: int, finished: threading.Event) -> Callable[[], None]:
    """Return work that fails this many times and then sets the event."""
    failures_left = times

    def work() -> None:
        nonlocal failures_left
        if failures_left:
            failures_left -= 1
            raise KeyError("hash")
        finished.set()

    return work


def test_work_that_raises_is_logged_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()
    thread = BackgroundThread("everhold-test", make_failing_work(3, done), threading.Event(), retry_seconds=0)
    with caplog.at_level(logging.ERROR, "everhold"):
        thread.start()
        assert done.wait(SECONDS)
        thread.join(SECONDS)
    assert not thread.is_alive()
    assert isinstance(thread.failure, KeyError)
    [record] = caplog.records  # the same error, once
    assert record.getMessage().startswith("everhold-test failed:\n  File ")
    assert record.getMessage().endswith('in work\n    raise KeyError("hash")\nKeyError')
    assert thread.attempt(lambda: None) is None
    assert thread.failure is None


def test_a_background_thread_ends_when_it_is_asked_to() -> None:
    stop = threading.Event()
    thread = BackgroundThread("everhold-test", make_failing_work(10**9, threading.Event()), stop, retry_seconds=0.001)
    thread.start()
    stop.set()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_a_value_is_computed_while_the_caller_works() -> None:
    may_start = threading.Event()
    value = BackgroundValue("everhold-test", lambda: (may_start.wait(SECONDS), threading.current_thread().name))
    may_start.set()
    assert value.wait() == value.wait() == (True, "everhold-test")


def test_a_forked_process_computes_a_value_that_was_not_ready() -> None:
    parent, may_start = os.getpid(), threading.Event()
    value = BackgroundValue("everhold-test", lambda: may_start.wait(0.01 if os.getpid() != parent else SECONDS) or 42)
    child = os.fork()
    if child == 0:
        os._exit(value.wait())
    _, status = os.waitpid(child, 0)
    may_start.set()
    assert os.waitstatus_to_exitcode(status) == 42


def test_an_error_is_raised_wherever_the_value_is_needed() -> None:
    value = BackgroundValue("everhold-test", make_failing_work(1, threading.Event()))
    for _ in range(2):
        with pytest.raises(KeyError, match="hash"):
            value.wait()


def test_nothing_is_printed_unless_logging_is_configured(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("everhold")
    propagate, logger.propagate = logger.propagate, False
    try:
        BackgroundThread("everhold-test", lambda: None, threading.Event()).attempt(
            make_failing_work(1, threading.Event())
        )
    finally:
        logger.propagate = propagate
    assert capfd.readouterr().err == ""


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    store = make_store("sqlite", request, tmp_path)
    yield store
    store.close()


def wait_for(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(SECONDS * 100):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("the condition was not fulfilled in time")


def test_the_access_log_survives_an_unexpected_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = threading.Event()
    monkeypatch.setattr(chain, "seal", lambda *_: fail())
    failing = [True]

    def fail() -> None:
        if failing[0]:
            raise KeyError("hash")
        sealed.set()

    engine = store.open(log={"flush_seconds": 0.01})
    wait_for(lambda: engine._parts.access.failure is not None)
    assert "the access log could not be written: KeyError('hash'); it will be retried" in engine.doctor().problems
    failing[0] = False
    assert sealed.wait(SECONDS)
    wait_for(lambda: engine._parts.access.failure is None)
    assert engine.doctor().problems == []


def test_readers_see_no_error_of_a_full_buffer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.open()
    engine.scope(user="alice").remember("Alice drinks tea")
    monkeypatch.setattr("everhold.access.buffer._MAX_WAITING", 1)

    def fail(_: AccessBuffer) -> None:
        raise KeyError("hash")

    monkeypatch.setattr(AccessBuffer, "_flush", fail)
    assert engine.scope(user="alice").recall("tea")
    assert isinstance(engine._parts.access.failure, KeyError)
    monkeypatch.undo()
    engine.flush()


def test_changing_the_model_survives_an_unexpected_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.open()
    engine.scope(user="alice").remember("Alice drinks tea")
    engine.close()
    failing = [True]
    original_reembed = reembedding.reembed

    def reembed(work: Any) -> None:
        if failing[0]:
            raise KeyError("vector")
        original_reembed(work)

    monkeypatch.setattr(reembedding, "reembed", reembed)
    monkeypatch.setattr(reembedding, "_CHECK_SECONDS", 0.01)
    engine = store.open(embedder=FakeEmbedder(model="another", dimensions=16))
    change = engine._parts.reembedding
    assert change is not None
    wait_for(lambda: change.failure is not None)
    assert [problem for problem in engine.doctor().problems if "has stopped: KeyError('vector')" in problem]
    failing[0] = False
    wait_for(lambda: change.progress.serves)


def test_the_vector_index_survives_an_unexpected_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = store.open(images={"max_memories": 0})
    alice = engine.scope(user="alice")
    alice.remember("Alice drinks tea")
    vectors = engine._parts.recall_deps.candidates.vectors
    assert isinstance(vectors, UsearchVectors)
    vectors._exact_up_to = 0
    monkeypatch.setattr("everhold.adapters.usearch.index.SpaceIndex._extend_saved", lambda *_: {}["missing"])
    assert alice.recall("tea")
    vectors.settle()
    problems = engine.doctor().problems
    assert [problem for problem in problems if "the vector index could not be built: KeyError" in problem]
    monkeypatch.undo()
    assert alice.recall("tea")
    vectors.settle()
    assert engine.doctor().problems == []
