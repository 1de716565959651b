"""The gateway: one thread that owns all sockets, and a pool of threads that answer requests.

    receive → decode and answer in a worker → outgoing queue → send

The thread reads requests only while fewer than `max_waiting` are being answered or wait. Then ZeroMQ's own limits hold
clients back. A client that does not read its replies loses them when its own queue is full; other clients do not
wait for it.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import zmq

from everhold import Everhold
from everhold.errors import InvalidSettings
from everhold.interfaces.voice.addresses import Bind, PublishAddress, read_peer
from everhold.interfaces.voice.events import EventPublisher, make_publication
from everhold.interfaces.voice.frames import MAX_FRAMES, Incoming, read_frames
from everhold.interfaces.voice.keys import ZAP_ADDRESS, CurveKeys
from everhold.interfaces.voice.outgoing import OutgoingQueue, Publication, Reply
from everhold.interfaces.voice.protocols import PROTOCOLS
from everhold.interfaces.voice.service import Broadcast, VoiceService
from everhold.interfaces.voice.workers import (
    Channel,
    ClientQueues,
    PendingRequest,
    RequestRules,
    WorkerPool,
    refuse_busy,
)

logger = logging.getLogger(__name__)

# The loop checks at this interval whether it should stop.
_POLL_MILLISECONDS = 100
# How long requests that are being answered may still take after a stop, and how long their replies may take to leave.
# Together with closing the store this is to stay below two seconds.
_DRAIN_SECONDS = 1.0
_DRAIN_PAUSE_SECONDS = 0.01
_LINGER_MILLISECONDS = 300
# Messages of one client that ZeroMQ holds: requests that were not read yet, and replies that the client has not read.
_RECEIVE_LIMIT, _SEND_LIMIT = 8, 32
_PUBLISH_LIMIT = 10_000
# So many requests of one bind are read before requests of the other binds.
_BATCH = 32
# A request of up to this many times the allowed size gets an error reply. A larger one is not read, and ends the
# connection.
_HARD_LIMIT = 4


@dataclass(frozen=True)
class GatewayOptions:
    """The addresses of the gateway, the clients that may connect, and the limits."""

    binds: Sequence[Bind]
    publish: PublishAddress | None
    keys: CurveKeys | None = None
    token: str | None = None
    workers: int = 4
    max_bytes: int = 1_000_000
    max_waiting: int = 1000
    heartbeat_seconds: float = 5.0


class Gateway:
    """Answers requests on its binds until it is stopped. `run` must be called in one thread only."""

    def __init__(self, engine: Everhold, options: GatewayOptions) -> None:
        self._options = options
        self._context = zmq.Context()
        self._outgoing = OutgoingQueue()
        self._poller = zmq.Poller()
        self._routers: list[zmq.Socket[bytes]] = []
        self._clients = ClientQueues()
        self._is_reading = False
        rules = RequestRules(options.max_bytes, options.token)
        self._workers = WorkerPool(options.workers, rules, self._outgoing)
        try:
            self._zap = self._open_zap()
            self._channels = [self._open_channel(engine, number) for number in range(len(options.binds))]
            self._publisher_socket = self._open_publisher_socket()
        except BaseException:
            self._close_sockets()
            raise
        self._poller.register(self._outgoing.reader, zmq.POLLIN)
        self._publisher = self._open_publisher(engine)
        self._heartbeat_at = 0.0

    @property
    def addresses(self) -> list[dict[str, Any]]:
        """The addresses on which the gateway listens, with the ports that the system chose."""
        listening = [
            {"address": _read_endpoint(router), "protocol": bind.protocol, "organization": bind.organization}
            for router, bind in zip(self._routers, self._options.binds, strict=True)
        ]
        publish = self._options.publish
        if publish is not None and self._publisher_socket is not None:
            address = _read_endpoint(self._publisher_socket)
            listening.append({"address": address, "protocol": "events", "organization": publish.organization})
        return listening

    def run(self, is_stopped: Callable[[], bool]) -> None:
        """Serve until `is_stopped` returns True. Then finish the running requests, and close."""
        self._workers.start()
        try:
            while not is_stopped():
                self._pause_or_resume_reading()
                self._handle(dict(self._poller.poll(_POLL_MILLISECONDS)))
                self._send_heartbeat()
        finally:
            self._finish()

    # sockets

    def _open_zap(self) -> "zmq.Socket[bytes] | None":
        if self._options.keys is None:
            return None
        zap = self._context.socket(zmq.REP)
        zap.bind(ZAP_ADDRESS)
        self._poller.register(zap, zmq.POLLIN)
        return zap

    def _open_channel(self, engine: Everhold, number: int) -> Channel:
        bind = self._options.binds[number]
        router = self._open_socket(zmq.ROUTER, bind.address, _SEND_LIMIT)
        self._routers.append(router)
        # With this option, sending to a client that has disconnected or does not read raises an error that can be
        # logged.
        router.router_mandatory = True
        router.rcvhwm = _RECEIVE_LIMIT
        router.maxmsgsize = _HARD_LIMIT * self._options.max_bytes
        _bind(router, bind.address)
        service = VoiceService(engine, bind.organization, self._make_broadcast(bind.organization))
        return Channel(number, PROTOCOLS[bind.protocol], service)

    def _open_publisher_socket(self) -> "zmq.Socket[bytes] | None":
        if self._options.publish is None:
            return None
        publisher = self._open_socket(zmq.PUB, self._options.publish.address, _PUBLISH_LIMIT)
        # Subscriptions are all that a subscriber sends.
        publisher.maxmsgsize = self._options.max_bytes
        _bind(publisher, self._options.publish.address)
        return publisher

    def _open_publisher(self, engine: Everhold) -> EventPublisher | None:
        publish = self._options.publish
        if publish is None:
            return None
        return EventPublisher(engine.scope(organization=publish.organization), self._outgoing)

    def _open_socket(self, kind: int, address: str, send_limit: int) -> "zmq.Socket[bytes]":
        socket = self._context.socket(kind)
        socket.linger = _LINGER_MILLISECONDS
        socket.sndhwm = send_limit
        socket.tcp_keepalive = 1  # detects clients whose machine no longer responds
        socket.ipv6 = "[" in address
        if self._options.keys is not None:
            self._options.keys.protect(socket)
        return socket

    def _make_broadcast(self, organization: str) -> Broadcast:
        """Return the function with which a service publishes.

        Subscribers only get messages of their own organization.
        """
        publish = self._options.publish
        if publish is None or publish.organization != organization:
            return lambda topic, body: None
        return lambda topic, body: self._outgoing.put(make_publication(topic, body))

    # one round of the loop

    def _pause_or_resume_reading(self) -> None:
        """Pause reading requests while too many wait, and resume when there is room."""
        has_room = self._clients.count < self._options.max_waiting
        if has_room != self._is_reading:
            self._is_reading = has_room
            for router in self._routers:
                if has_room:
                    self._poller.register(router, zmq.POLLIN)
                else:
                    self._poller.unregister(router)

    def _handle(self, ready: dict[Any, int]) -> None:
        if self._outgoing.reader.fileno() in ready:
            self._send_waiting()
        if self._zap is not None and self._zap in ready and self._options.keys is not None:
            self._zap.send_multipart(self._options.keys.authorize(self._zap.recv_multipart()))
        for channel, router in zip(self._channels, self._routers, strict=True):
            if router in ready:
                self._receive(channel, router)

    def _receive(self, channel: Channel, router: "zmq.Socket[bytes]") -> None:
        for _ in range(min(_BATCH, self._options.max_waiting - self._clients.count)):
            incoming = _receive_request(router)
            if incoming is None:
                return
            pending = PendingRequest(channel, incoming)
            may_begin = self._clients.add(pending)
            if may_begin is None:
                self._send(refuse_busy(pending))
            elif may_begin:
                self._workers.submit(pending)

    def _send_waiting(self) -> None:
        for item in self._outgoing.take_all():
            if isinstance(item, Publication):
                self._publish(item)
                continue
            self._send(item)
            next_request = self._clients.finish((item.channel, item.identity))
            if next_request is not None:
                self._workers.submit(next_request)

    def _send(self, reply: Reply) -> None:
        try:
            self._routers[reply.channel].send_multipart(reply.frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:  # the client has disconnected, or does not read its replies
            logger.info("a reply was dropped: %s", error.strerror)

    def _publish(self, publication: Publication) -> None:
        if self._publisher_socket is not None:
            self._publisher_socket.send_multipart(list(publication), zmq.NOBLOCK)

    def _send_heartbeat(self) -> None:
        if self._publisher is not None and time.monotonic() >= self._heartbeat_at:
            self._heartbeat_at = time.monotonic() + self._options.heartbeat_seconds
            self._publish(self._publisher.make_heartbeat())

    # shutdown

    def _finish(self) -> None:
        """Finish the requests that are being answered, drop the waiting ones, and close everything."""
        self._workers.stop()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while not self._workers.is_idle() and time.monotonic() < deadline:
            time.sleep(_DRAIN_PAUSE_SECONDS)
            self._send_last()
        self._send_last()
        self._outgoing.close()
        if self._publisher is not None:
            self._publisher.close()
        self._close_sockets()

    def _send_last(self) -> None:
        """Send the waiting replies and messages, without beginning further requests."""
        for item in self._outgoing.take_all():
            if isinstance(item, Publication):
                self._publish(item)
            else:
                self._send(item)

    def _close_sockets(self) -> None:
        self._context.destroy(_LINGER_MILLISECONDS)


def _receive_request(router: "zmq.Socket[bytes]") -> Incoming | None:
    """Return the next request, or None if no request has arrived. Excess frames are read and dropped."""
    try:
        first_frame = router.recv(zmq.NOBLOCK, copy=False)
    except zmq.Again:
        return None
    peer = read_peer(str(first_frame.get("Peer-Address")))
    frames, is_last = [first_frame.bytes], not first_frame.more
    while not is_last:
        frame = router.recv()
        if len(frames) <= MAX_FRAMES:
            frames.append(frame)
        is_last = not router.rcvmore
    return read_frames(frames, peer)


def _read_endpoint(socket: "zmq.Socket[bytes]") -> str:
    return str(socket.get_string(zmq.LAST_ENDPOINT)).rstrip("\0")


def _bind(socket: "zmq.Socket[bytes]", address: str) -> None:
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        # pyzmq repeats the address in brackets.
        reason = str(error.strerror).partition(" (addr=")[0]
        is_in_use = error.errno == zmq.EADDRINUSE
        raise InvalidSettings(
            f"cannot listen on {address}: {reason}",
            value=address,
            remedy="name another address, or end the program that uses it" if is_in_use else "correct the address",
        ) from None
