"""Background threads whose errors are never lost.

An exception that leaves a thread's function would end the thread silently. A `BackgroundThread` logs it to the logger
`everhold`, keeps it for `doctor`, and tries the work again. A `BackgroundValue` raises it where the value is needed.
"""

import logging
import os
import threading
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

from everhold.interrupts import GuardedEvent, uninterrupted

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0

T = TypeVar("T")


def format_without_messages(error: BaseException) -> str:
    """Return the tracebacks of an error and its causes with the types of the errors only.

    Messages of drivers and servers may quote what users have written, or an address with a password.
    """
    lines: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        lines[:0] = [*traceback.format_tb(cause.__traceback__), f"{type(cause).__name__}\n"]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "".join(lines).rstrip()


class BackgroundThread:
    """A daemon thread that runs `work` until it returns.

    If `work` raises, it is started again after `retry_seconds`, until `stop` is set. `failure` is the latest error of
    the thread, or None once its work has succeeded again.
    """

    def __init__(
        self, name: str, work: Callable[[], object], stop: threading.Event, *, retry_seconds: float = _RETRY_SECONDS
    ) -> None:
        self.failure: Exception | None = None
        self._name, self._work = name, work
        self._stop, self._retry_seconds = stop, retry_seconds
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        assert self._thread is not None, "a thread is started once"
        with uninterrupted:  # a thread that an interrupt left half-started cannot be joined
            self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        thread = self._thread
        if thread is None:
            return
        thread.join(timeout)
        if not thread.is_alive():
            # Dropped here, not by a later garbage collection: that runs a callback of the module `threading`, in which
            # Python would ignore an interrupt.
            with uninterrupted:
                self._thread = None
                del thread

    def stop(self) -> None:
        """Set the stop event, and wait until the thread has ended, if it was started."""
        self._stop.set()
        if self.is_alive():
            self.join()

    def is_current(self) -> bool:
        """Return whether the caller runs in this thread."""
        return self._thread is threading.current_thread()

    def is_alive(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def attempt(self, step: Callable[[], object]) -> Exception | None:
        """Run `step` and return the error it raised, or None. The error is logged and kept in `failure`."""
        try:
            step()
        except Exception as error:
            self._record_failure(error)
            return error
        if self.failure is not None:
            self.failure = None
            logger.info("%s works again", self._name)
        return None

    def _run(self) -> None:
        logger.info("%s started", self._name)
        while not self._stop.is_set():
            try:
                self._work()
                break
            except Exception as error:
                self._record_failure(error)
            self._stop.wait(self._retry_seconds)
        logger.info("%s stopped", self._name)

    def _record_failure(self, error: Exception) -> None:
        if repr(error) != repr(self.failure):  # a store that is down for an hour is logged once
            logger.error("%s failed:\n%s", self._name, format_without_messages(error))
        else:
            logger.info("%s failed again: %s", self._name, type(error).__name__)
        self.failure = error


class BackgroundValue(Generic[T]):
    """A value that a thread computes while the caller does other work.

    The interpreter waits for the thread before it ends, because a library in C++ must not be unloaded while it works.
    It does not wait for one that is a `daemon`, such as one that waits for a server.
    """

    def __init__(self, name: str, compute: Callable[[], T], *, daemon: bool = False) -> None:
        self._compute = compute
        self._values: list[T] = []
        self._error: Exception | None = None
        self._done = GuardedEvent()
        self._process_id = os.getpid()
        with uninterrupted:
            threading.Thread(target=self._run, name=name, daemon=daemon).start()

    def wait(self, timeout: float | None = None) -> T:
        """Return the value once it is computed, or raise the error that computing it has raised.

        Raise TimeoutError after `timeout` seconds; the thread continues nevertheless.
        """
        if not self._values and os.getpid() != self._process_id:
            # A process that was forked in the meantime does not have the thread.
            self._values.append(self._compute())
            return self._values[0]
        if not self._done.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._values[0]

    def _run(self) -> None:
        try:
            self._values.append(self._compute())
        except Exception as error:
            self._error = error
        finally:
            self._done.set()
