"""The retry policy: which errors are retried, how often, after which pauses, and what is logged."""

import gc
import logging
import weakref

import pytest

from everhold.errors import StaleVersion, StoreBusy
from everhold.retries import RetryPolicy, TryAgain, retry

POLICY = RetryPolicy(attempts=4, first_pause=0.1, longest_pause=0.3)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr("everhold.retries.time.sleep", pauses.append)
    return pauses


class RetriedStep:
    """A step that fails until the attempt with the number `succeeds_at`, and records the attempts."""

    def __init__(self, error: BaseException, succeeds_at: int = 1_000) -> None:
        self.error, self.succeeds_at = error, succeeds_at
        self.attempts: list[int] = []

    def __call__(self, attempt: int) -> str:
        self.attempts.append(attempt)
        if attempt < self.succeeds_at:
            raise self.error
        return "done"


def test_a_step_is_tried_until_it_succeeds_with_growing_pauses(pauses: list[float]) -> None:
    step = RetriedStep(KeyError("x"), succeeds_at=3)
    assert retry("work", step, POLICY, on=KeyError) == "done"
    assert step.attempts == [0, 1, 2, 3]
    bounds = [(0.05, 0.1), (0.1, 0.2), (0.15, 0.3)]
    assert all(low <= pause <= high for (low, high), pause in zip(bounds, pauses, strict=True))


def test_the_last_error_is_raised_when_attempts_run_out(pauses: list[float]) -> None:
    step = RetriedStep(KeyError("x"))
    with pytest.raises(KeyError):
        retry("work", step, POLICY, on=KeyError)
    assert step.attempts == [0, 1, 2, 3]
    assert len(pauses) == 3


def test_another_error_can_replace_the_last_one() -> None:
    with pytest.raises(StoreBusy) as caught:
        retry("work", RetriedStep(KeyError("x")), POLICY, on=KeyError, give_up=lambda _: StoreBusy("busy"))
    assert isinstance(caught.value.__cause__, KeyError)


def test_time_bounds_the_attempts() -> None:
    step = RetriedStep(KeyError("x"))
    with pytest.raises(KeyError):
        retry("work", step, RetryPolicy(seconds=0.0), on=KeyError)
    assert step.attempts == [0]


@pytest.mark.parametrize("error", [ValueError("other"), KeyboardInterrupt()])
def test_other_errors_are_not_retried(error: BaseException) -> None:
    for first in (error, KeyError("x")):
        step = RetriedStep(first)

        def work(attempt: int, step: RetriedStep = step) -> str:
            step.error = step.error if attempt == 0 else error
            return step(attempt)

        with pytest.raises(type(error)):
            retry("work", work, POLICY, on=KeyError)
        assert len(step.attempts) == (1 if first is error else 2)


def test_the_caller_decides_by_the_error() -> None:
    step = RetriedStep(KeyError("fatal"))
    with pytest.raises(KeyError):
        retry("work", step, POLICY, on=KeyError, should_retry=lambda error: error.args != ("fatal",))
    assert step.attempts == [0]


def test_a_step_can_ask_for_another_attempt_and_its_pause(pauses: list[float]) -> None:
    assert retry("work", RetriedStep(TryAgain("throttled", pause=7.0), succeeds_at=1), POLICY) == "done"
    assert pauses == [7.0]


def test_the_cause_of_a_requested_retry_is_raised_in_the_end() -> None:
    def work(_: int) -> None:
        raise TryAgain("conflict") from StaleVersion("version 2 is stale")

    with pytest.raises(StaleVersion):
        retry("work", work, POLICY)


def test_a_function_can_run_before_each_further_attempt() -> None:
    order: list[str] = []

    def work(attempt: int) -> None:
        order.append(f"attempt {attempt}")
        if attempt < 2:
            raise KeyError

    retry("work", work, POLICY, on=KeyError, before_retry=lambda: order.append("tidy"))
    assert order == ["attempt 0", "tidy", "attempt 1", "tidy", "attempt 2"]


def test_every_retry_and_the_end_are_logged_without_messages_of_errors(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "everhold"), pytest.raises(KeyError):
        retry("store a text", RetriedStep(KeyError("my password")), POLICY, on=KeyError)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" in ")[0] for line in lines[:-1]] == ["retrying to store a text"] * 3
    assert lines[-1] == "gave up trying to store a text after attempt 4: KeyError"
    assert "password" not in caplog.text


def test_a_failed_step_is_freed_without_a_garbage_collection() -> None:
    class Connection: ...

    connections: list[weakref.ref[Connection]] = []

    def work(_: int) -> None:
        connection = Connection()
        connections.append(weakref.ref(connection))
        raise KeyError

    gc.disable()
    try:
        with pytest.raises(KeyError):
            retry("work", work, POLICY, on=KeyError)
        assert [connection() for connection in connections] == [None] * 4
    finally:
        gc.enable()
