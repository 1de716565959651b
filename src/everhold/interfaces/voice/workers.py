"""The threads that answer requests: at most one request of a client at a time, so that its replies keep their order."""

import hmac
import queue
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

from everhold.background import BackgroundThread
from everhold.errors import InvalidInput, StoreBusy
from everhold.interfaces.voice.documents import decode_request, encode_reply
from everhold.interfaces.voice.events import replay_events
from everhold.interfaces.voice.frames import Incoming
from everhold.interfaces.voice.outgoing import OutgoingQueue, Reply
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol
from everhold.interfaces.voice.service import VoiceService
from everhold.interrupts import GuardedEvent
from everhold.model.access import caller_address

_REPLAY = ("replay", "REPLAY")
# How many requests of one client may wait. The next ones are refused, so that others get their turn.
MAX_WAITING_PER_CLIENT = 100


@dataclass(frozen=True)
class Channel:
    """The number of a bind, and the protocol and the service that answer its requests."""

    number: int
    protocol: VoiceProtocol
    service: VoiceService


@dataclass(frozen=True)
class RequestRules:
    """The requirements of every request: the maximum size, and the token if one is set."""

    max_bytes: int
    token: str | None


class PendingRequest(NamedTuple):
    """One request and the channel that it came from."""

    channel: Channel
    incoming: Incoming

    @property
    def client(self) -> tuple[int, bytes]:
        return self.channel.number, self.incoming.envelope.identity


# The queue in which an idle thread waits for its next request. None ends the thread.
Mailbox = queue.SimpleQueue[PendingRequest | None]


def answer(pending: PendingRequest, rules: RequestRules) -> Reply:
    """Return the encoded reply to a request. Every error becomes an error reply of the protocol."""
    channel, incoming = pending
    request: dict[str, Any] = {}
    reset_token = caller_address.set(incoming.peer)
    try:
        request = decode_request(incoming.body, rules.max_bytes)
        _require_token(request, rules.token)
        if request.get(channel.protocol.action_field) in _REPLAY:
            body = encode_reply(replay_events(channel.service.view(), request))
        else:
            body = encode_reply(channel.protocol.answer(channel.service, request))
    except Exception as error:
        body = _encode_refusal(channel.protocol, request, error)
    finally:
        caller_address.reset(reset_token)
    return Reply(channel.number, incoming.envelope.identity, incoming.envelope.wrap(body))


def _encode_refusal(protocol: VoiceProtocol, request: Document, error: Exception) -> bytes:
    try:
        return encode_reply(protocol.refuse(request, error))
    except Exception as second_error:  # An error here would end the thread, which serves other clients too.
        return encode_reply(protocol.refuse({}, second_error))


def refuse_busy(pending: PendingRequest) -> Reply:
    """Return the reply to a request of a client that already has too many waiting requests."""
    error = StoreBusy(
        f"{MAX_WAITING_PER_CLIENT} requests of this client are waiting", remedy="wait for replies before sending more"
    )
    body = encode_reply(pending.channel.protocol.refuse({}, error))
    return Reply(pending.channel.number, pending.incoming.envelope.identity, pending.incoming.envelope.wrap(body))


def _require_token(request: Document, token: str | None) -> None:
    if token is None:
        return
    sent = request.get("token")
    # Compared in constant time, so that a client cannot find the token letter by letter.
    if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), token.encode()):
        raise InvalidInput("the token is missing or wrong", remedy='send the gateway\'s token as "token"')


class WorkerPool:
    """Threads that answer requests and put the replies into the outgoing queue.

    A request goes to the thread that became idle last. With one queue for all threads, a single client's requests went
    to another thread nearly every time.
    """

    def __init__(self, count: int, rules: RequestRules, outgoing: OutgoingQueue) -> None:
        self._rules, self._outgoing = rules, outgoing
        self._lock = threading.Lock()
        self._waiting: deque[PendingRequest] = deque()
        self._idle: list[Mailbox] = []
        self._stop = GuardedEvent()
        self._threads = [BackgroundThread(f"everhold-voice-{number}", self._run, self._stop) for number in range(count)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, pending: PendingRequest) -> None:
        with self._lock:
            if not self._idle:
                self._waiting.append(pending)
                return
            mailbox = self._idle.pop()
        mailbox.put(pending)

    def stop(self) -> None:
        """Do not begin further requests. Requests that are being answered continue; see `is_idle`."""
        self._stop.set()
        with self._lock:
            self._waiting.clear()
            idle_mailboxes, self._idle = self._idle, []
        for mailbox in idle_mailboxes:
            mailbox.put(None)

    def is_idle(self) -> bool:
        """Return whether all threads have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        mailbox: Mailbox = queue.SimpleQueue()
        while True:
            pending = self._take(mailbox)
            if pending is None:
                return
            self._outgoing.put(answer(pending, self._rules))

    def _take(self, mailbox: Mailbox) -> PendingRequest | None:
        """Return the next request, or None after a stop. An idle thread gets it through its mailbox."""
        with self._lock:
            if self._stop.is_set():
                return None
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(mailbox)
        pending = mailbox.get()
        return None if self._stop.is_set() else pending


class ClientQueues:
    """The requests that wait until an earlier request of the same client has been answered.

    Only the gateway's thread uses it.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, bytes], deque[PendingRequest]] = {}
        self.count = 0
        """The number of requests that are being answered or wait."""

    def add(self, pending: PendingRequest) -> bool | None:
        """Add a request. Return whether it may begin now, or None if its client has too many waiting requests."""
        waiting_requests = self._waiting.get(pending.client)
        if waiting_requests is not None and len(waiting_requests) >= MAX_WAITING_PER_CLIENT:
            return None
        self.count += 1
        if waiting_requests is None:
            self._waiting[pending.client] = deque()
            return True
        waiting_requests.append(pending)
        return False

    def finish(self, client: tuple[int, bytes]) -> PendingRequest | None:
        """Note that a request of a client was answered; return the client's next one."""
        self.count -= 1
        waiting_requests = self._waiting[client]
        if waiting_requests:
            return waiting_requests.popleft()
        del self._waiting[client]
        return None
