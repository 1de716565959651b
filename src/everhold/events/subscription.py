"""Call a function with every event, in a background thread."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from everhold.background import BackgroundThread
from everhold.events.event import ChangeEvent
from everhold.events.reader import EventReader
from everhold.interrupts import GuardedEvent

_RETRY_SECONDS = 1.0

Callback = Callable[[ChangeEvent], object]


class Subscription:
    """A background thread that passes events to a callback, one after the other.

    If the callback raises, the error is logged and kept in `failure`, and the same event is passed again a second
    later. `number` is the number of the last event that the callback has handled: a program that stores it can continue
    after it with `after=`. Leaving a `with` block closes the subscription, and so does closing the engine.
    """

    def __init__(self, reader: EventReader, callback: Callback, *, retry_seconds: float = _RETRY_SECONDS) -> None:
        self._reader, self._callback, self._retry_seconds = reader, callback, retry_seconds
        self._stop: threading.Event = GuardedEvent()
        self._thread = BackgroundThread("everhold-events", self._run, self._stop, retry_seconds=retry_seconds)
        self.number: int | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def failure(self) -> Exception | None:
        """The error of the callback or of the store because of which the next event waits, or None."""
        return self._thread.failure

    def close(self) -> None:
        """Stop; if the callback is running, wait until it returns. The callback itself may call this."""
        if self._thread.is_current():
            self._stop.set()
        else:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        pause: float | None = 0.0
        while pause is not None and not self._stop.wait(pause):
            for event in self._reader.read_page():
                self._pass_on(event)
            pause = self._reader.choose_pause()

    def _pass_on(self, event: ChangeEvent) -> None:
        """Call the callback until it succeeds, or until the subscription is closed."""
        while not self._stop.is_set():
            if self._thread.attempt(lambda: self._callback(event)) is None:
                self.number = event.number
                return
            self._stop.wait(self._retry_seconds)
