"""What other threads want sent. Only the gateway's own thread uses its sockets; this wakes it up."""

import socket
import time
from collections import deque
from contextlib import suppress
from typing import NamedTuple

# Bounds memory while events are produced faster than they can be published. A thread that adds more waits.
_MAX_ITEMS = 4096
_FULL_SECONDS = 0.01


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
        # A deque, because every reply passes here: `queue.Queue` takes longer than all the rest of this class.
        self._items: deque[Reply | Publication] = deque()
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        self._is_closed = False

    def put(self, item: Reply | Publication) -> None:
        """Add an item; wait while the queue is full. After `close`, items are dropped."""
        while len(self._items) >= _MAX_ITEMS and not self._is_closed:
            time.sleep(_FULL_SECONDS)
        if self._is_closed:
            return
        # Several threads may add an item at the same time: then there are a few more than the limit.
        self._items.append(item)
        # If the pipe is full, the reader is awake anyway. It may also have been closed in the meantime.
        with suppress(OSError):
            self._writer.send(b"\0")

    def take_all(self) -> list[Reply | Publication]:
        """Return the waiting items."""
        with suppress(BlockingIOError):
            self.reader.recv(_MAX_ITEMS)
        # Only as many as are waiting now, so that this ends although others are added.
        return [self._items.popleft() for _ in range(len(self._items))]

    def close(self) -> None:
        self._is_closed = True
        self.reader.close()
        self._writer.close()
