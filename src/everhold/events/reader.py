"""Read the events of a scope from the change feed, page by page."""

import time
from collections.abc import Iterator

from everhold.events.event import ChangeEvent, make_event, make_gap
from everhold.model import Outbox, Scope
from everhold.ports.feed_start import read_feed_start
from everhold.ports.records import Records

PAGE = 1000
# Between two looks for new events.
_POLL_SECONDS = 0.2
# Between two looks for events that a running transaction holds back, and how long they are waited for.
_SETTLING_POLL_SECONDS = 0.02
_SETTLING_SECONDS = 5.0


class EventReader:
    """Reads the events of a scope after a number, each once and in order; after None, those that happen from now on."""

    def __init__(self, records: Records, scope: Scope, after: int | None, *, follow: bool) -> None:
        self._records, self._scope, self._follow = records, scope, follow
        self._epoch = read_feed_start(records).epoch
        last = records.read_settled(0, limit=1).last if after is None else after - self._epoch
        self._read_to = self._last = last
        self._has_progressed = True
        self._progressed_at = time.monotonic()

    @property
    def number(self) -> int:
        """The number up to which the scope's events have been read."""
        return self._epoch + self._read_to

    def read_page(self) -> list[ChangeEvent]:
        """Return the next events, if there are any."""
        settled = self._records.read_settled(max(self._read_to, 0), limit=PAGE)
        self._last = settled.last
        # Read after the lines, so that lines trimmed in between are noticed.
        start = read_feed_start(self._records)
        # A higher number than the last one, and a number of another epoch, are of another store.
        has_gap = not start.last_missing <= self._read_to <= settled.last or start.epoch != self._epoch
        if has_gap:
            self._epoch, self._read_to = start
        elif settled.lines:
            self._read_to = settled.lines[-1].sequence
        self._has_progressed = has_gap or bool(settled.lines)
        if self._has_progressed:
            self._progressed_at = time.monotonic()
        if has_gap:
            return [make_gap(self.number)]
        return [make_event(line, self._epoch) for line in settled.lines if self._is_event(line)]

    def choose_pause(self) -> float | None:
        """Return the seconds to wait before the next page, or None if the stream ends here.

        A stream that does not follow ends when it has caught up, or when a transaction holds events back for too long.
        """
        if self._read_to < self._last and self._has_progressed:
            return 0.0
        if self._follow:
            return _POLL_SECONDS
        is_settling = self._read_to < self._last and time.monotonic() < self._progressed_at + _SETTLING_SECONDS
        return _SETTLING_POLL_SECONDS if is_settling else None

    def _is_event(self, line: Outbox) -> bool:
        return line.operation != "reindex" and self._scope.can_read(line)


class EventStream(Iterator[ChangeEvent]):
    """An iterator over the events of a reader."""

    def __init__(self, reader: EventReader) -> None:
        self.reader = reader
        self._events = self._read_all()

    def __next__(self) -> ChangeEvent:
        return next(self._events)

    def _read_all(self) -> Iterator[ChangeEvent]:
        pause: float | None = 0.0
        while pause is not None:
            time.sleep(pause)
            yield from self.reader.read_page()
            pause = self.reader.choose_pause()
