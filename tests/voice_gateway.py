"""A gateway in a thread of the test, and clients as the older services' clients were: REQ and DEALER sockets."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import zmq

from everhold import Everhold
from everhold.interfaces.voice.gateway import Gateway
from everhold.interfaces.voice.serving import make_options
from everhold.settings_sections import Voice

ANSWER_MILLISECONDS = 10_000
# How each kind of client frames a request: the socket, and what stands before the body.
FRAMINGS: dict[str, tuple[int, list[bytes]]] = {
    "REQ": (zmq.REQ, []),
    "DEALER": (zmq.DEALER, []),
    "DEALER with a delimiter": (zmq.DEALER, [b""]),
}


class Client:
    """Sends requests and waits for their replies."""

    def __init__(self, context: "zmq.Context[Any]", address: str, framing: str = "REQ") -> None:
        kind, self._before = FRAMINGS[framing]
        self.socket = context.socket(kind)
        self.socket.linger = 0
        self.socket.connect(address)

    def ask(self, **request: Any) -> Any:
        self.send(json.dumps(request).encode())
        return self.receive()

    def ask_raw(self, *frames: bytes) -> Any:
        self.socket.send_multipart([*self._before, *frames])
        return self.receive()

    def send(self, body: bytes) -> None:
        self.socket.send_multipart([*self._before, body])

    def receive(self) -> Any:
        assert self.socket.poll(ANSWER_MILLISECONDS), "no reply"
        *before, body = self.socket.recv_multipart()
        assert before == self._before
        return json.loads(body)


@dataclass
class Served:
    """A gateway that runs, and where it listens."""

    context: "zmq.Context[Any]"
    addresses: list[str]

    def connect(self, framing: str = "REQ", bind: int = 0) -> Client:
        return Client(self.context, self.addresses[bind], framing)

    def subscribe(self, topic: bytes = b"") -> "zmq.Socket[Any]":
        """Subscribe to the events, whose address is the last one."""
        socket = self.context.socket(zmq.SUB)
        socket.linger = 0
        socket.subscribe(topic)
        socket.connect(self.addresses[-1])
        return socket


@contextmanager
def serve(engine: Everhold, *targets: str, **fields: Any) -> Iterator[Served]:
    """Run a gateway with a bind for each `PROTOCOL@ORGANIZATION`, on free ports."""
    binds = tuple(target if "=" in target else f"tcp://127.0.0.1:*={target}" for target in targets)
    voice = Voice(**{"bind": binds, "publish": "none", **fields})
    gateway = Gateway(engine, replace(make_options(voice), heartbeat_seconds=0.2))
    stop = threading.Event()
    thread = threading.Thread(target=gateway.run, args=(stop.is_set,))
    addresses = [place["address"] for place in gateway.addresses]
    thread.start()
    context = zmq.Context()
    try:
        yield Served(context, addresses)
    finally:
        stop.set()
        thread.join(100)
        context.destroy(0)
        assert not thread.is_alive()
