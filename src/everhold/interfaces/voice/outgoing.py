"""What other threads want sent. Only the gateway's own thread uses its sockets; this wakes it up."""

import queue
import socket
from contextlib import suppress
from typing import NamedTuple

# Bounds memory while events are produced faster than they can be published. A thread that adds more waits.
_MAX_ITEMS = 4096
_PUT_SECONDS = 0.1


class Reply(NamedTuple):
    """The encoded reply to a request: which channel it came from, and which client sent it."""

    channel: int
    identity: bytes
    frames: list[bytes]


class Publication(NamedTuple):
    """A message for all subscribers of a topic."""

    topic: bytes
    body: bytes


class OutgoingQueue:
    """Replies and publications of other threads, in order. `reader` becomes readable when there are any."""

    def __init__(self) -> None:
        self._items: queue.Queue[Reply | Publication] = queue.Queue(_MAX_ITEMS)
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self._is_closed = False

    def put(self, item: Reply | Publication) -> None:
        """Add an item; wait while the queue is full. After `close`, items are dropped."""
        while not self._is_closed:
            try:
                self._items.put(item, timeout=_PUT_SECONDS)
            except queue.Full:
                continue
            # If the pipe is full, the reader is awake anyway. It may also have been closed in the meantime.
            with suppress(OSError):
                self._writer.send(b"\0")
            return

    def take_all(self) -> list[Reply | Publication]:
        """Return the waiting items."""
        with suppress(BlockingIOError):
            self.reader.recv(_MAX_ITEMS)
        items: list[Reply | Publication] = []
        while len(items) < _MAX_ITEMS:
            try:
                items.append(self._items.get_nowait())
            except queue.Empty:
                break
        return items

    def close(self) -> None:
        self._is_closed = True
        self.reader.close()
        self._writer.close()
