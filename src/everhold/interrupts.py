"""Critical sections that Ctrl-C does not interrupt.

Python raises KeyboardInterrupt in the main thread between any two instructions, also between taking a lock and the
`try` that would release it, inside a `finally` block, or inside a driver's connection pool. `uninterrupted` defers the
signal while a section runs and delivers it right after. `GuardedLock` is a lock whose holder runs in such a section.
`GuardedEvent` is an event that an interrupt cannot leave locked.

A plain `with lock:` needs no section: the lock is written in C, and Python does not check for signals between
acquiring it and running the body. A threading.Condition or threading.Event needs one, because Python code takes its
lock.

An interrupt is lost where Python ignores exceptions: in `__del__`, in the callback of a weak reference, and in a
partly read generator that is dropped. A garbage collection may take long and run such code, so a signal that arrives
meanwhile may be lost. So avoid such code in objects that an interrupt may leave to the garbage collection.

Other threads are never interrupted, so for them a section costs one comparison. In the main thread it costs about a
microsecond: the signal's handler is exchanged for the length of the section. If a section hangs, a second Ctrl-C,
at least `PATIENCE_SECONDS` after the first, is delivered at once.
"""

import _signal  # type: ignore[import-not-found]  # part of CPython, without a stub
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from everhold.errors import StoreBusy

PATIENCE_SECONDS: Final = 2.0
_SLICE_SECONDS: Final = 0.1  # a waiting thread notices a deferred interrupt after this time at the latest

Handler = Callable[[int, FrameType | None], Any]

# The module `signal` wraps these in enumerations, which makes them ten times as slow.
_set_handler: Callable[[int, Any], Any] = _signal.signal
_get_handler: Callable[[int], Any] = _signal.getsignal
_SIGINT: Final = int(_signal.SIGINT)


class _Uninterrupted:
    """Defers SIGINT in the main thread; reentrant. Use the one instance, `uninterrupted`, in a `with` statement.

    A section must not contain a `yield`. Only the main thread changes the attributes, so they need no lock.
    """

    __slots__ = ("_deferred_at", "_depth", "_handler")

    def __init__(self) -> None:
        self._depth = 0
        self._handler: Handler | None = None
        self._deferred_at: float | None = None

    def __enter__(self) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            return
        if self._depth:
            self._depth += 1
            return
        handler = _get_handler(_SIGINT)
        self._deferred_at = None
        if callable(handler):  # SIG_IGN and SIG_DFL raise no exception, so there is nothing to defer
            try:
                _set_handler(_SIGINT, self._defer)
            except ValueError:  # in a subinterpreter, which gets no signals
                handler = None
        self._handler = handler if callable(handler) else None
        self._depth = 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            return
        if self._depth > 1:
            self._depth -= 1
            return
        handler = self._handler
        self._depth = 0
        if handler is None:
            return
        _set_handler(_SIGINT, handler)
        if self._deferred_at is not None:
            handler(_SIGINT, None)

    def _defer(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._deferred_at is None:
            self._deferred_at = now
        elif now - self._deferred_at >= PATIENCE_SECONDS and self._handler is not None and not _is_guard(frame):
            self._deferred_at = None
            self._handler(number, frame)


uninterrupted: Final = _Uninterrupted()


class GuardedLock:
    """A reentrant lock: its holder is not interrupted, a thread that waits for it can be.

    Raise StoreBusy with the fact `busy` after `seconds` of waiting.
    """

    __slots__ = ("_busy", "_lock", "_seconds")

    def __init__(self, seconds: float = threading.TIMEOUT_MAX, busy: str = "") -> None:
        self._lock = threading.RLock()
        self._seconds = seconds
        self._busy = busy

    def __enter__(self) -> None:
        uninterrupted.__enter__()
        if self._lock.acquire(blocking=False):
            return
        deadline = time.monotonic() + self._seconds
        while not self._lock.acquire(timeout=max(0.0, min(_SLICE_SECONDS, deadline - time.monotonic()))):
            uninterrupted.__exit__(None, None, None)  # raises a deferred interrupt: the lock is not held here
            if time.monotonic() >= deadline:
                raise StoreBusy(self._busy)
            uninterrupted.__enter__()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._lock.release()
        uninterrupted.__exit__(kind, error, trace)


class GuardedEvent(threading.Event):
    """An event that the main thread can set, clear and wait for without leaving its lock taken after an interrupt.

    A threading.Event takes its lock in Python code, so an interrupt there would leave it locked.
    """

    def set(self) -> None:
        with uninterrupted:
            super().set()

    def clear(self) -> None:
        with uninterrupted:
            super().clear()

    def wait(self, timeout: float | None = None) -> bool:
        if threading.get_ident() != threading.main_thread().ident:
            return super().wait(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            remaining = _SLICE_SECONDS if deadline is None else deadline - time.monotonic()
            if remaining <= 0:
                return False
            with uninterrupted:
                super().wait(min(_SLICE_SECONDS, remaining))
        return True


_GUARDS: Final = tuple(
    method.__code__ for kind in (_Uninterrupted, GuardedLock) for method in (kind.__enter__, kind.__exit__)
)


def _is_guard(frame: FrameType | None) -> bool:
    """Return whether a section is being entered or left. An exception there would leave the lock or the handler set."""
    return frame is not None and frame.f_code in _GUARDS
