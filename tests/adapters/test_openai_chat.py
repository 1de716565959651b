"""A chat endpoint that sends without end: byte by byte, or more than a chat completion can have."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from everhold.adapters.openai import ChatModel
from everhold.errors import ModelError, ModelUnavailable

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n"


@contextmanager
def serve_parts(part: bytes, pause: float) -> Iterator[str]:
    """A server that sends the same part again and again until the client or the test ends."""
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def send() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(_HEAD)
            while not stop.wait(pause):
                connection.sendall(part)

    thread = threading.Thread(target=send)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    stop.set()
    thread.join()
    listener.close()


def test_a_response_that_trickles_in_is_abandoned() -> None:
    with serve_parts(b" ", 0.02) as url, pytest.raises(ModelUnavailable, match="the response took too long"):
        ChatModel(url, "m", api_key=None, timeout=0.3, retries=0).complete("hello")


def test_an_endless_response_is_refused() -> None:
    with serve_parts(b" " * 1_000_000, 0.0) as url, pytest.raises(ModelError, match="more than 8,000,000 bytes"):
        ChatModel(url, "m", api_key=None, timeout=30, retries=0).complete("hello")
