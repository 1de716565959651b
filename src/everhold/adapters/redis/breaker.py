"""A circuit breaker: after a failure the server is not asked for a while, so that callers do not wait for it."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from everhold.interrupts import uninterrupted

logger = logging.getLogger(__name__)

T = TypeVar("T")
# Seconds. Each failure in a row doubles the pause.
FIRST_PAUSE = 0.1
MAX_PAUSE = 5.0


class Breaker:
    """Calls work until it fails. After a pause one caller tries again, and its result decides for all."""

    def __init__(
        self,
        expected: tuple[type[Exception], ...],
        failed: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`expected` is what may be raised, and `failed` is told of it."""
        self._expected = expected
        self._tell = failed
        self._now = now
        self._failed = 0
        self._until = 0.0
        self._trying = False
        self._lock = threading.Lock()

    def ask(self, work: Callable[[], T], otherwise: T) -> T:
        """What the work gives, or `otherwise` if it fails in an expected way or is not to be tried now."""
        with uninterrupted:  # an interrupt could leave the breaker in trial, or the driver's pool locked
            return self._ask(work, otherwise)

    def _ask(self, work: Callable[[], T], otherwise: T) -> T:
        with self._lock:
            alone = self._failed > 0
            if alone and (self._trying or self._now() < self._until):
                return otherwise
            self._trying = alone
        try:
            answer = work()
        except self._expected as error:
            self._pause(error, alone=alone)
            return otherwise
        except BaseException:
            with self._lock:
                self._trying = False
            raise
        self._recover()
        return answer

    def _pause(self, error: Exception, *, alone: bool) -> None:
        with self._lock:
            if alone or not self._failed:  # many that fail at once are one failure
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
