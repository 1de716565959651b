"""A real HTTP server whose answers a test chooses, and which records its requests."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

# The status, the headers and the content. Bytes are sent unchanged; any other content is sent as JSON.
Answer = tuple[int, dict[str, str], Any]


class HttpEndpoint:
    """A server that records each request and sends what `answer` returns, which a subclass defines."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        """The bodies of the requests, each with the `path` to which it was sent."""
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, body: dict[str, Any]) -> Answer:
        raise NotImplementedError

    @classmethod
    @contextmanager
    def serve(cls) -> Iterator[Self]:
        endpoint = cls()
        thread = threading.Thread(target=endpoint._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield endpoint
        endpoint._server.shutdown()
        endpoint._server.server_close()
        thread.join()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.headers.append(dict(self.headers))
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append({**body, "path": self.path})
                status, headers, content = endpoint.answer(body)
                response_body = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(response_body)))
                self.end_headers()
                with suppress(ConnectionError):  # the client may not have waited
                    self.wfile.write(response_body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


_ENDLESS_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n"


@contextmanager
def serve_parts(part: bytes, pause: float) -> Iterator[str]:
    """Yield the address of a server that sends the same part again and again, until the client or the test ends.

    With an empty part, it ends each connection after the head.
    """
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.02)

    def send() -> None:
        while not stop.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(None)
                    connection.recv(65_536)
                    connection.sendall(_ENDLESS_HEAD)
                    while part and not stop.wait(pause):
                        connection.sendall(part)

    thread = threading.Thread(target=send)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    stop.set()
    thread.join()
    listener.close()
