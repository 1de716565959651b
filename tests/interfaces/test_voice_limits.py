"""Clients that do something wrong: the gateway answers with an error, serves others, and uses bounded memory."""

import json
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
import zmq

from everhold import Everhold
from everhold.interfaces.voice.protocols import PROTOCOLS, jarvis, orchestrator
from everhold.interfaces.voice.protocols.base import Document
from everhold.interfaces.voice.service import VoiceService
from everhold.testing.fake_embedder import FakeEmbedder
from tests.voice_gateway import Client, RunningGateway, serve

MEGABYTE = 1_000_000


@pytest.fixture
def engine() -> Iterator[Everhold]:
    with Everhold.open("memory://", embedder=FakeEmbedder()) as engine:
        yield engine


@pytest.fixture
def served(engine: Everhold) -> Iterator[RunningGateway]:
    with serve(engine, "jarvis@home") as served:
        yield served


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[1, 2]",
        b'"text"',
        b"\xff\xfe",
        b'{"action": NaN}',
        b'{"action": 1e999}',
        b'{"action": ' + b"9" * 5000 + b"}",
        b'{"memory": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"memory": ' + b"[" * 80 + b"]" * 80 + b"}",
        b'{"memory": "\\ud800"}',
        b'{"memory": "\\u0000", "action": "add_memory"}',
        b'{"memory": [' + b"1," * 150_000 + b"1]}",
        b'{"action": ["add_memory"]}',
        b'{"action": {"a": 1}}',
        b'{"action": "add_memory"}',
        b'{"action": "add_memory", "memory": "x", "user_id": 5}',
        b'{"action": "add_memory", "memory": "x", "user_id": "\\n"}',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_malformed_request_gets_an_error(served: RunningGateway, body: bytes) -> None:
    client = served.connect()
    reply = client.ask_raw(body)
    assert reply["status"] == "error"
    assert reply["reason"]
    assert client.ask(action="health_check")["status"] == "ok"


def test_values_of_any_type_get_replies_from_every_protocol(engine: Everhold) -> None:
    routing_fields = ("action", "command", "coordinate_with", "request_id")
    content_fields = ("payload", "data", "query", "memories", "session_id", "user_id", "content", "memory")
    with serve(engine, *(f"{name}@home" for name in PROTOCOLS), workers=1) as served:
        for bind, protocol in enumerate(PROTOCOLS.values()):
            client = served.connect(bind=bind)
            for value in ({"a": [1]}, ["x"], [{}], -5, 1e300, True, None, ""):
                assert client.ask(**dict.fromkeys(routing_fields, value))
                for action in protocol.actions:
                    request = {**dict.fromkeys(content_fields, value), protocol.action_field: action}
                    assert "the gateway failed" not in str(client.ask(**request)), (protocol.name, request)


def test_a_protocol_that_fails_does_not_stop_the_thread(engine: Everhold, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: Document) -> bool:
        if request:
            raise RuntimeError("not an empty request")
        return False

    monkeypatch.setattr(orchestrator, "is_envelope", fail)
    with serve(engine, "orchestrator@home", workers=1) as served:
        for _ in range(2):
            assert "the gateway failed" in served.connect().ask(action="health_check")["message"]


def test_wrong_frames_get_an_error(served: RunningGateway) -> None:
    client = served.connect("DEALER")
    for frames in ([b"a", b"b"], [b"", b"", b"{}"], [b""] * 2000, [b"{}"] * 5):
        assert "wrong frames" in ask_with_frames(client, frames)
    assert client.ask(action="health_check")["status"] == "ok"


def ask_with_frames(client: Client, frames: list[bytes]) -> str:
    client.socket.send_multipart(frames)
    return str(json.loads(client.socket.recv_multipart()[-1])["reason"])


def test_a_giant_request_is_refused_and_a_larger_one_ends_the_connection(served: RunningGateway) -> None:
    client, other_client = served.connect(), served.connect()
    assert "over the limit of 1,000,000" in client.ask_raw(b" " * (2 * MEGABYTE))["reason"]
    memory_before = psutil.Process().memory_info().rss
    client.send(b" " * (64 * MEGABYTE))
    assert other_client.ask(action="health_check")["status"] == "ok"
    assert not client.socket.poll(300)
    client.socket.close(0)
    assert other_client.ask(action="add_memory", memory="still here")["status"] == "ok"
    assert psutil.Process().memory_info().rss - memory_before < 200 * MEGABYTE


def test_replies_to_one_client_keep_their_order(served: RunningGateway) -> None:
    client = served.connect("DEALER")
    for number in range(60):
        client.send(json.dumps({"action": "add_memory", "memory": number + 1}).encode())
    assert [client.receive()["status"] for _ in range(60)] == ["ok"] * 60
    memories = client.ask(action="get_memories")["memories"]
    assert [entry["memory"] for entry in memories] == list(range(1, 61))


def test_a_client_that_floods_is_refused_and_others_are_served(
    served: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    monkeypatch.setitem(jarvis.JARVIS.actions, "wait", lambda *_: {"status": "ok", "waited": gate.wait(100)})  # type: ignore[arg-type]
    flooder, other_client = served.connect("DEALER"), served.connect()
    for _ in range(150):
        flooder.send(b'{"action": "wait"}')
    reply = flooder.receive()
    assert "requests of this client are waiting" in reply["reason"]
    assert other_client.ask(action="add_memory", memory="served")["status"] == "ok"
    gate.set()


def test_no_more_requests_are_read_than_may_wait(engine: Everhold, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, started = threading.Event(), threading.Semaphore(0)

    def wait(*_: object) -> dict[str, object]:
        started.release()
        gate.wait(100)
        return {"status": "ok"}

    monkeypatch.setitem(jarvis.JARVIS.actions, "wait", wait)  # type: ignore[arg-type]
    with serve(engine, "jarvis@home", workers=2, max_waiting=5) as served:
        clients = [served.connect() for _ in range(20)]
        for client in clients:
            client.send(b'{"action": "wait"}')
        assert started.acquire(timeout=60)
        assert started.acquire(timeout=60)
        assert not started.acquire(timeout=0.3)
        gate.set()
        assert [client.receive()["status"] for client in clients] == ["ok"] * 20


def test_an_unexpected_failure_is_an_error_reply_without_details(
    served: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> dict[str, object]:
        raise RuntimeError("what a user said")

    monkeypatch.setitem(jarvis.JARVIS.actions, "fail", fail)  # type: ignore[arg-type]
    reply = served.connect().ask(action="fail")
    assert reply == {"status": "error", "reason": "the gateway failed; its log says why"}


ANSWERED_REQUESTS: list[int] = []


def test_a_thousand_slow_clients_delay_no_other(served: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients send requests for long replies and never read a reply."""

    def get_memories(service: VoiceService, request: Document) -> dict[str, object]:
        reply = jarvis.get_memories(service, request)
        ANSWERED_REQUESTS.append(1)
        return reply

    monkeypatch.setitem(jarvis.JARVIS.actions, "get_memories", get_memories)  # type: ignore[arg-type]
    other_client = served.connect()
    other_client.ask(action="add_memory", memory="x" * 10_000)
    with open_sockets(served, 1000) as sockets:
        send_to_all(sockets)
        wait_for_requests(other_client, 1000)
        memory_before = psutil.Process().memory_info().rss
        for number in (2, 3):
            send_to_all(sockets)
            wait_for_requests(other_client, number * 1000)
        # Two replies of 10 kB for each of 1,000 clients, and as much for the clients, which are in this process too.
        assert psutil.Process().memory_info().rss - memory_before < 100 * MEGABYTE
    assert other_client.ask(action="get_memories")["status"] == "ok"


@contextmanager
def open_sockets(served: RunningGateway, count: int) -> Iterator[list["zmq.Socket[bytes]"]]:
    """Connect DEALER sockets with small queues, in a context of their own, because one has at most 1,023 by default."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # both ends of each connection are in this process
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 2 * count)
    sockets = []
    for _ in range(count):
        socket = context.socket(zmq.DEALER)
        socket.rcvhwm, socket.sndhwm, socket.linger, socket.rcvbuf = 1, 5, 0, 1024
        socket.connect(served.addresses[0])
        sockets.append(socket)
    yield sockets
    context.destroy(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def send_to_all(sockets: list["zmq.Socket[bytes]"]) -> None:
    for socket in sockets:
        socket.send(b'{"action": "get_memories"}', zmq.NOBLOCK)


def wait_for_requests(client: Client, count: int) -> None:
    """Wait until the gateway has answered `count` requests for memories, and check that it also answers this client."""
    deadline = time.monotonic() + 200
    while len(ANSWERED_REQUESTS) < count:
        assert client.ask(action="health_check")["status"] == "ok"
        assert time.monotonic() < deadline, f"{len(ANSWERED_REQUESTS)} of {count} requests were answered"
        time.sleep(0.02)
