"""The queue of messages that other threads send through the gateway.

ZeroMQ sockets must be used by one thread only. Other threads put messages into the queue and wake the gateway's thread.
"""

import socket
import time
from collections import deque
from contextlib import suppress
from typing import NamedTuple

# Bounds memory while events are produced faster than they can be published. A thread that adds more waits.
_MAX_ITEMS = 4096
# The time between two checks of a thread that waits for space in the queue.
_POLL_SECONDS = 0.01


class Reply(NamedTuple):
    """The encoded reply to a request. `channel` received the request, and `identity` is ZeroMQ's id of the client."""

    channel: int
    identity: bytes
    frames: list[bytes]


class Publication(NamedTuple):
    """An event for all subscribers of a topic."""

    topic: bytes
    body: bytes


class OutgoingQueue:
    """Replies and publications from other threads, in the order in which they were added.

    `reader` is a socket for the gateway's poller: it is readable while the queue may have items.
    """

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
            time.sleep(_POLL_SECONDS)
        if self._is_closed:
            return
        # Threads that add items at the same time may exceed the limit by a few items.
        self._items.append(item)
        # One byte wakes the gateway's thread. If the socket's buffer is full, that thread is already awake. Another
        # thread may have closed the socket in the meantime.
        with suppress(OSError):
            self._writer.send(b"\0")

    def take_all(self) -> list[Reply | Publication]:
        """Remove and return the items that are in the queue now."""
        # Take the wake-up bytes before the items: a byte that arrives later wakes this thread again.
        with suppress(BlockingIOError):
            self.reader.recv(_MAX_ITEMS)
        # The number of items is read once, so that this ends although other threads keep adding items.
        return [self._items.popleft() for _ in range(len(self._items))]

    def close(self) -> None:
        """Close the sockets. Items that are added later are dropped."""
        self._is_closed = True
        self.reader.close()
        self._writer.close()
