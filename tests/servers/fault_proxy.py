"""A small TCP proxy between an engine and a real server, which simulates faults of a network.

with FaultProxy(("127.0.0.1", 5432)) as proxy:
    engine = Everhold.open(f"postgresql://…@127.0.0.1:{proxy.port}/…")
    proxy.fault = Fault.RESET
"""

import contextlib
import socket
import struct
import threading
import time
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

_READ_BYTES: Final = 65_536
# Lingering for 0 seconds: closing the connection sends a reset.
_RESET: Final = struct.pack("ii", 1, 0)


class Fault(StrEnum):
    """A fault of open and new connections."""

    NONE = "none"
    DELAY = "delay"
    """Every piece of an answer arrives `seconds` later."""
    RESET = "reset"
    """Open and new connections are reset."""
    CUT = "cut"
    """Connections end in the middle of the next answer."""
    HALF_OPEN = "half_open"
    """Everything that is sent is accepted, but no answer arrives."""
    LOST_ANSWER = "lost_answer"
    """Requests arrive at the server; the answer is lost and the connection ends."""


class FaultProxy:
    """Listens on `port` and passes data on to a server, which is a host and a port, or the path of a socket."""

    def __init__(self, server: tuple[str, int] | str, *, seconds: float = 0.2) -> None:
        self._server = server
        self.seconds = seconds
        self._fault = Fault.NONE
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="fault-proxy", daemon=True).start()

    @property
    def fault(self) -> Fault:
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        self._fault = fault
        if fault is Fault.RESET:
            self._end_all(reset=True)

    def heal(self) -> None:
        """End the fault. Connections that it had broken or left half open are closed."""
        has_broken_connections = self._fault in (Fault.HALF_OPEN, Fault.CUT, Fault.LOST_ANSWER)
        self._fault = Fault.NONE
        if has_broken_connections:
            self._end_all(reset=False)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the wait for the next connection
        self._listener.close()
        self._end_all(reset=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._fault is Fault.RESET:
                _close(client, reset=True)
                continue
            try:
                server = self._connect()
            except OSError:
                _close(client, reset=True)
                continue
            with self._lock:
                self._open |= {client, server}
            for source, target, is_answer in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass_on, args=(source, target, is_answer), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._server, tuple):
            return socket.create_connection(self._server)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(self._server)
        return connection

    def _pass_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_READ_BYTES):
                match self._fault:
                    case Fault.HALF_OPEN:
                        continue
                    case Fault.DELAY if is_answer:
                        time.sleep(self.seconds)
                    case Fault.CUT if is_answer:
                        target.sendall(data[: len(data) // 2])
                        break
                    case Fault.LOST_ANSWER if is_answer:
                        break
                target.sendall(data)
        for connection in (source, target):
            _close(connection, reset=False)
        with self._lock:
            self._open -= {source, target}

    def _end_all(self, *, reset: bool) -> None:
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            _close(connection, reset=reset)


def _close(connection: socket.socket, *, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        else:
            connection.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connection.close()
