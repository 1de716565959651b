"""Runs a gateway in a thread, and clients with REQ and DEALER sockets, as the clients of the older services had."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from everhold import Everhold
from everhold.interfaces.voice.gateway import Gateway
from everhold.interfaces.voice.serving import make_options
from everhold.settings_sections import Voice

# Long, because a loaded machine is slow. A socket that waits longer raises zmq.Again, so no test hangs.
ANSWER_MILLISECONDS = 60_000
# A refused client tries again, and some attempts end without a reason, such as those that time out.
_MAX_UNEXPLAINED = 5
# The socket of each kind of client, and the frames that it sends before the body.
FRAMINGS: dict[str, tuple[int, list[bytes]]] = {
    "REQ": (zmq.REQ, []),
    "DEALER": (zmq.DEALER, []),
    "DEALER with a delimiter": (zmq.DEALER, [b""]),
}


def make_socket(context: "zmq.Context[Any]", kind: int) -> "zmq.Socket[Any]":
    """Return a socket that never waits without end, neither to send, to receive, nor to close."""
    socket: zmq.Socket[Any] = context.socket(kind)
    socket.linger, socket.sndtimeo, socket.rcvtimeo = 0, ANSWER_MILLISECONDS, ANSWER_MILLISECONDS
    return socket


def is_admitted(socket: "zmq.Socket[Any]", address: str) -> bool:
    """Connect a socket, wait until the gateway accepts or refuses it, and return whether it is accepted."""
    deadline, unexplained_failures = time.monotonic() + 2 * ANSWER_MILLISECONDS / 1000, 0
    monitor = socket.get_monitor_socket(
        zmq.EVENT_HANDSHAKE_SUCCEEDED
        | zmq.EVENT_HANDSHAKE_FAILED_AUTH
        | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    )
    try:
        socket.connect(address)
        while time.monotonic() < deadline and monitor.poll(ANSWER_MILLISECONDS):
            event = recv_monitor_message(monitor)["event"]
            unexplained_failures += event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            if event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL or unexplained_failures == _MAX_UNEXPLAINED:
                return event == zmq.EVENT_HANDSHAKE_SUCCEEDED
    finally:
        socket.disable_monitor()
        monitor.close(0)
    raise AssertionError("the gateway has neither accepted nor refused the connection")


class Client:
    """Sends requests and waits for their replies."""

    def __init__(self, context: "zmq.Context[Any]", address: str, framing: str = "REQ") -> None:
        kind, self._first_frames = FRAMINGS[framing]
        self.socket = make_socket(context, kind)
        self.socket.connect(address)

    def ask(self, **request: Any) -> Any:
        self.send(json.dumps(request).encode())
        return self.receive()

    def ask_raw(self, *frames: bytes) -> Any:
        self.socket.send_multipart([*self._first_frames, *frames])
        return self.receive()

    def send(self, body: bytes) -> None:
        self.socket.send_multipart([*self._first_frames, body])

    def receive(self) -> Any:
        *first_frames, body = self.socket.recv_multipart()
        assert first_frames == self._first_frames
        return json.loads(body)


@dataclass
class RunningGateway:
    """A running gateway, and the addresses on which it listens."""

    context: "zmq.Context[Any]"
    addresses: list[str]

    def connect(self, framing: str = "REQ", bind: int = 0) -> Client:
        return Client(self.context, self.addresses[bind], framing)

    def subscribe(self, topic: bytes = b"") -> "zmq.Socket[Any]":
        """Subscribe to events. The last address is that of the events."""
        socket = make_socket(self.context, zmq.SUB)
        socket.subscribe(topic)
        socket.connect(self.addresses[-1])
        return socket


@contextmanager
def serve(engine: Everhold, *targets: str, **fields: Any) -> Iterator[RunningGateway]:
    """Run a gateway with a bind for each `PROTOCOL@ORGANIZATION`, on free ports."""
    binds = tuple(target if "=" in target else f"tcp://127.0.0.1:*={target}" for target in targets)
    voice = Voice(**{"bind": binds, "publish": "none", **fields})
    gateway = Gateway(engine, replace(make_options(voice), heartbeat_seconds=0.2))
    stop = threading.Event()
    thread = threading.Thread(target=gateway.run, args=(stop.is_set,))
    addresses = [listener["address"] for listener in gateway.addresses]
    thread.start()
    context = zmq.Context()
    try:
        yield RunningGateway(context, addresses)
    finally:
        stop.set()
        thread.join(100)
        context.destroy(0)
        assert not thread.is_alive()
