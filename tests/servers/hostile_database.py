"""Servers that pretend to be a database: they are silent or slow, or send hostile answers."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

Behaviour = Callable[[socket.socket, bytearray], None]

_HANDSHAKE = (
    b"\x0a5.5.5-10.11.18-MariaDB\x00" + b"\x01\x00\x00\x00" + b"abcdefgh\x00" + b"\xff\xf7" + b"\x21\x02\x00"
    b"\xff\x81\x15" + bytes(10) + b"ijklmnopqrst\x00" + b"mysql_native_password\x00"
)
_OK = b"\x00\x00\x00\x02\x00\x00\x00"


class HostileDatabase:
    """Listens on `port` and treats every client with the same behaviour. `received` has all data of the clients."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.received = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            self._behaviour(client, self.received)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def keep_silent(client: socket.socket, received: bytearray) -> None:
    """Read everything and never answer."""
    while piece := client.recv(65536):
        received += piece


def hang_up(client: socket.socket, received: bytearray) -> None:
    """End the connection at once."""


def drip_mysql(client: socket.socket, received: bytearray) -> None:
    """Send the greeting of MySQL, one byte after another."""
    for byte in _make_packet(0, _HANDSHAKE + bytes(10_000)):
        client.sendall(bytes([byte]))
        time.sleep(0.05)


def drip_postgres(client: socket.socket, received: bytearray) -> None:
    """Send a notice of PostgreSQL, one byte after another."""
    client.recv(65536)
    client.sendall(b"N")
    for byte in b"N" + (10_000).to_bytes(4, "big") + b"S" * 10_000:
        client.sendall(bytes([byte]))
        time.sleep(0.05)


def speak_http(client: socket.socket, received: bytearray) -> None:
    """Answer as a web server does."""
    client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    keep_silent(client, received)


def send_garbage(client: socket.socket, received: bytearray) -> None:
    """Send bytes that mean nothing."""
    client.sendall(bytes((7 * number * number + 13) % 256 for number in range(50_000)))
    keep_silent(client, received)


def flood_mysql(client: socket.socket, received: bytearray) -> None:
    """Send one packet that never ends, in the largest pieces that the protocol has."""
    number = 0
    while True:
        client.sendall(b"\xff\xff\xff" + bytes([number % 256]) + b"\x0a" + bytes(0xFFFFFF - 1))
        number += 1


def flood_postgres(client: socket.socket, received: bytearray) -> None:
    """Send one message whose header says that it is a gigabyte long, and then data without end."""
    client.recv(65536)
    client.sendall(b"N")
    client.recv(65536)
    client.sendall(b"R" + (1 << 30).to_bytes(4, "big"))
    while True:
        client.sendall(bytes(1 << 20))


def ask_for_file(path: str) -> Behaviour:
    """Return a MySQL server that answers every statement by asking the client for a file."""

    def serve(client: socket.socket, received: bytearray) -> None:
        client.sendall(_make_packet(0, _HANDSHAKE))
        client.recv(65536)
        client.sendall(_make_packet(2, _OK))
        while piece := client.recv(65536):
            received += piece
            client.sendall(_make_packet(1, b"\xfb" + path.encode()))

    return serve


def ask_for_password(client: socket.socket, received: bytearray) -> None:
    """Ask for the password in clear text, as a MySQL server may."""
    client.sendall(_make_packet(0, _HANDSHAKE))
    client.recv(65536)
    client.sendall(_make_packet(2, b"\xfemysql_clear_password\x00"))
    keep_silent(client, received)


def repeat_password(secret: str) -> Behaviour:
    """Return a MySQL server that refuses clients with a message that contains the password and control characters."""

    def serve(client: socket.socket, received: bytearray) -> None:
        client.sendall(_make_packet(0, _HANDSHAKE))
        client.recv(65536)
        message = f"#28000\x1b[31mAccess denied for {secret}\x07\n".encode()
        client.sendall(_make_packet(2, b"\xff\x15\x04" + message))

    return serve


def _make_packet(number: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "little") + bytes([number]) + content
