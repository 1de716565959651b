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
        failed: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Errors of the classes `expected` count as failures; `failed` is called after each of them."""
        self._expected = expected
        self._tell = failed
        self._now = now
        self._failed = 0
        self._until = 0.0
        self._trying = False
        self._lock = threading.Lock()

    def ask(self, work: Callable[[], T], otherwise: T) -> T:
        """Return the result of `work`, or `otherwise` if it fails with an expected error or the breaker is open."""
        with uninterrupted:  # an interrupt could leave the breaker in a trial, or the driver's pool locked
            return self._ask(work, otherwise)

    def _ask(self, work: Callable[[], T], otherwise: T) -> T:
        """Return what `work` returns, or `otherwise` if Redis fails or has failed and is not tried again yet."""
        with self._lock:
            is_trial = self._failed > 0
            if is_trial and (self._trying or self._now() < self._until):
                return otherwise
            self._trying = is_trial
        try:
            answer = work()
        except self._expected as error:
            self._pause(error, is_trial=is_trial)
            return otherwise
        except BaseException:
            with self._lock:
                self._trying = False
            raise
        self._recover()
        return answer

    def _pause(self, error: Exception, *, is_trial: bool) -> None:
        with self._lock:
            if is_trial or not self._failed:  # concurrent calls that fail count as one failure
                self._failed += 1
                pause = min(MAX_PAUSE, FIRST_PAUSE * 2 ** (self._failed - 1))
                self._until = self._now() + pause
                level = logging.WARNING if self._failed == 1 else logging.INFO
                logger.log(level, "Redis failed (%s); it is not asked for %.1f s", type(error).__name__, pause)
            self._trying = False
        self._tell()

    def _recover(self) -> None:
        with self._lock:
            if self._failed:
                logger.info("Redis answers again after %d failures", self._failed)
            self._failed, self._trying = 0, False
