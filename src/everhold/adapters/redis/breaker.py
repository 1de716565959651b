"""A circuit breaker: after a failure no request is sent for a while, so that callers do not wait for the server."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from everhold.interrupts import uninterrupted

logger = logging.getLogger(__name__)

T = TypeVar("T")
# The pauses in seconds. Each consecutive failure doubles the pause.
FIRST_PAUSE = 0.1
MAX_PAUSE = 5.0


class Breaker:
    """Runs functions until one fails. After a pause, one caller tries again; its result decides for all callers."""

    def __init__(
        self,
        expected: tuple[type[Exception], ...],
        on_failure: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Errors of the classes `expected` count as failures; `on_failure` is called after each of them."""
        self._expected = expected
        self._on_failure = on_failure
        self._now = now
        self._failures = 0
        self._open_until = 0.0
        self._is_trial_running = False
        self._lock = threading.Lock()

    def run(self, work: Callable[[], T], fallback: T) -> T:
        """Return the result of `work`, or `fallback` if it fails with an expected error or the breaker is open."""
        with uninterrupted:  # an interrupt could leave the breaker in a trial, or the driver's pool locked
            return self._run(work, fallback)

    def _run(self, work: Callable[[], T], fallback: T) -> T:
        with self._lock:
            is_trial = self._failures > 0
            if is_trial and (self._is_trial_running or self._now() < self._open_until):
                return fallback
            self._is_trial_running = is_trial
        try:
            result = work()
        except self._expected as error:
            self._pause(error, is_trial=is_trial)
            return fallback
        except BaseException:
            with self._lock:
                self._is_trial_running = False
            raise
        self._recover()
        return result

    def _pause(self, error: Exception, *, is_trial: bool) -> None:
        with self._lock:
            if is_trial or not self._failures:  # concurrent calls that fail count as one failure
                self._failures += 1
                pause = min(MAX_PAUSE, FIRST_PAUSE * 2 ** (self._failures - 1))
                self._open_until = self._now() + pause
                level = logging.WARNING if self._failures == 1 else logging.INFO
                logger.log(level, "Redis failed (%s); it is not asked for %.1f s", type(error).__name__, pause)
            self._is_trial_running = False
        self._on_failure()

    def _recover(self) -> None:
        with self._lock:
            if self._failures:
                logger.info("Redis answers again after %d failures", self._failures)
            self._failures, self._is_trial_running = 0, False
