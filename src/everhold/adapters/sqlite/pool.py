"""A pool of reading connections, each borrowed for one query or one stream.

One thread at a time uses a connection, under its lock. It is closed under the same lock, so never while another thread
runs a statement on it. The pool has only weak references to borrowed connections. So Python collects and closes a
connection that was lost because an interrupt came between borrowing and returning. The references are not in a WeakSet,
because that has callbacks, and Python ignores an interrupt that comes during a callback.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar
from weakref import ref

from everhold.errors import StoreUnavailable
from everhold.interrupts import uninterrupted

T = TypeVar("T")
MAX_IDLE: Final = 8
# How long closing waits for running statements to end, and again after it has interrupted them.
CLOSING_SECONDS: Final = 5.0
_STREAMED_ROWS: Final = 256  # rows that a stream fetches each time it takes the connection's lock


class GuardedConnection(sqlite3.Connection):
    """A connection with a lock, which a thread holds while it runs a statement."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lock = threading.RLock()
        self.feed_end: tuple[int, int] | None = None
        """The data version when this connection last read the end of the change feed, and the position of the end."""

    def close_within(self, seconds: float) -> bool:
        """Close when no thread runs a statement. Return False if one still does after `seconds`."""
        with uninterrupted:
            if not self.lock.acquire(timeout=max(0.0, seconds)):
                return False
            try:
                self.close()
            finally:
                self.lock.release()
            return True


def close_all(connections: Sequence[GuardedConnection]) -> None:
    """Close every connection, interrupting statements that take long.

    The connection of a statement that does not stop in time stays open until the statement ends.
    """
    deadline = time.monotonic() + CLOSING_SECONDS
    busy = [connection for connection in connections if not connection.close_within(deadline - time.monotonic())]
    for connection in busy:
        with suppress(sqlite3.ProgrammingError):  # another thread has just closed it
            connection.interrupt()
    deadline = time.monotonic() + CLOSING_SECONDS
    for connection in busy:
        connection.close_within(deadline - time.monotonic())


class ReaderPool:
    """Opens a connection for each concurrent reader and keeps a few open between uses."""

    def __init__(self, connect: Callable[[], GuardedConnection], closed_message: str) -> None:
        """`closed_message` is the message of the StoreUnavailable that a closed pool raises."""
        self._connect = connect
        self._closed_message = closed_message
        self._idle: list[GuardedConnection] = []
        self._open_readers: list[ref[GuardedConnection]] = []
        self._readers_lock = threading.Lock()
        self._is_closed = False

    def require_open(self) -> None:
        """Raise StoreUnavailable if the pool is closed."""
        if self._is_closed:
            raise StoreUnavailable(self._closed_message, remedy="open it again")

    def fetch(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        reader = self._borrow()  # the body of `run`, repeated to save a call: every read passes through here
        with reader.lock:
            self.require_open()
            try:
                rows = reader.execute(sql, values).fetchall()
            except sqlite3.Error:
                self._give_back(reader)
                raise
        self._give_back(reader)
        return rows

    def run(self, work: Callable[[GuardedConnection], T]) -> T:
        """Lend a connection to `work` and return its result."""
        reader = self._borrow()
        with reader.lock:
            self.require_open()
            try:
                result = work(reader)
            except sqlite3.Error:
                self._give_back(reader)
                raise
        self._give_back(reader)
        return result

    def stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query. Closing the pool does not wait for a stream that is half read."""
        reader = self._borrow()
        with reader.lock:
            self.require_open()
            cursor = reader.execute(sql, values)
            rows = cursor.fetchmany(_STREAMED_ROWS)
        try:
            while rows:
                yield from rows
                with reader.lock:
                    self.require_open()
                    rows = cursor.fetchmany(_STREAMED_ROWS)
        finally:
            with reader.lock:
                if not self._is_closed:
                    cursor.close()
            self._give_back(reader)

    @contextmanager
    def lend(self) -> Iterator[GuardedConnection]:
        """Lend a connection for a `with` block, which closing the pool does not close.

        After an error in the block, the connection is closed, because it may still be used by a half-read query.
        """
        reader = self._borrow()
        with self._readers_lock:
            self._open_readers = [reference for reference in self._open_readers if reference() is not reader]
        try:
            yield reader
            # Before it is registered, `close` does not see the connection; afterwards, `_give_back` sees the closing.
            with self._readers_lock:
                self._open_readers.append(ref(reader))
        except BaseException:
            reader.close_within(CLOSING_SECONDS)
            raise
        self._give_back(reader)

    def close(self) -> None:
        """Refuse further use and close all connections. Any thread may call this, more than once."""
        self._is_closed = True
        with self._readers_lock:
            readers = [reader for reference in self._open_readers if (reader := reference()) is not None]
        close_all(readers)
        self._idle.clear()

    def _borrow(self) -> GuardedConnection:
        self.require_open()
        try:
            return self._idle.pop()
        except IndexError:
            reader = self._connect()
            with self._readers_lock:
                self._open_readers = [reference for reference in self._open_readers if reference() is not None]
                self._open_readers.append(ref(reader))
            return reader

    def _give_back(self, reader: GuardedConnection) -> None:
        if self._is_closed or len(self._idle) >= MAX_IDLE:
            reader.close_within(CLOSING_SECONDS)
        else:
            self._idle.append(reader)
