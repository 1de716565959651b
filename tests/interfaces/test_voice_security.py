"""Clients that may connect to the gateway, and the data that a bind may read."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.auth

from everhold import Everhold
from everhold.errors import InvalidSettings
from everhold.interfaces.voice.addresses import Bind, PublishAddress, parse_bind, parse_publish, read_peer
from everhold.interfaces.voice.serving import make_options
from everhold.settings_sections import Voice
from everhold.testing.fake_embedder import FakeEmbedder
from tests.voice_gateway import ANSWER_MILLISECONDS, is_admitted, make_socket, serve

UNIFIED = "tcp://127.0.0.1:5596=unified"


@pytest.fixture
def engine() -> Iterator[Everhold]:
    with Everhold.open("memory://", embedder=FakeEmbedder(), interface="voice") as engine:
        yield engine


def test_binds_are_parsed() -> None:
    assert parse_bind("tcp://127.0.0.1:5596=unified@home") == Bind("tcp://127.0.0.1:5596", "unified", "home")
    assert parse_bind("ipc:///tmp/a=b=jarvis") == Bind("ipc:///tmp/a=b", "jarvis", "default")
    binds = [parse_bind(f"{UNIFIED}@home")]
    assert parse_publish("tcp://127.0.0.1:5598", binds) == PublishAddress("tcp://127.0.0.1:5598", "home")
    assert parse_publish("tcp://127.0.0.1:5598@office", binds) == PublishAddress("tcp://127.0.0.1:5598", "office")
    assert parse_publish("none", binds) is None
    assert Voice(bind=f"{UNIFIED} {UNIFIED}@b").bind == (UNIFIED, f"{UNIFIED}@b")
    assert make_options(Voice()).binds == [Bind("tcp://127.0.0.1:5596", "unified", "default")]


@pytest.mark.parametrize(
    ("bind", "fact"),
    [
        ("tcp://127.0.0.1:5596", "names no protocol"),
        ("tcp://127.0.0.1:5596=unifed", "no protocol 'unifed'; did you mean 'unified'"),
        ("127.0.0.1:5596=unified", "is not an address to listen on"),
        ("tcp://127.0.0.1=unified", "is not an address to listen on"),
        ("tcp://127.0.0.1:5596=unified@ x", "is not an organization"),
        ("tcp://127.0.0.1:5596=unified@", "names no organization after @; name it, or leave out @"),
        ("tcp://127.0.0.1:99999=unified", "has no port; write a number from 1 to 65535"),
        ("tcp://127.0.0.1:x=unified", "has no port"),
    ],
)
def test_a_wrong_bind_is_refused(bind: str, fact: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        parse_bind(bind)
    assert fact in str(caught.value)


def test_publishing_must_name_one_of_several_organizations() -> None:
    with pytest.raises(InvalidSettings, match=r"2 organizations.*write tcp://127.0.0.1:5598@a"):
        make_options(Voice(bind=(f"{UNIFIED}@a", f"{UNIFIED}@b")))


def test_two_services_at_one_address_are_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"tcp://127\.0\.0\.1:5596 is named twice"):
        make_options(Voice(bind=(f"{UNIFIED}@a", UNIFIED.replace("unified", "jarvis") + "@a")))


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:5596", "tcp://*:5596", "tcp://192.0.2.1:5596", "tcp://eth0:5596"])
def test_an_address_that_others_reach_needs_keys_or_a_token(address: str) -> None:
    with pytest.raises(InvalidSettings, match=r"other machines.*127.0.0.1.*--curve-keys"):
        make_options(Voice(bind=(f"{address}=unified",), publish="none"))
    assert make_options(Voice(bind=(f"{address}=unified",), publish="none", token="s3cret")).token == "s3cret"
    with pytest.raises(InvalidSettings, match=r"read the events"):  # a subscriber sends no token
        make_options(Voice(publish=address, token="s3cret"))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://localhost:1", "ipc:///tmp/x"])
def test_local_addresses_need_neither_keys_nor_a_token(address: str) -> None:
    assert make_options(Voice(bind=(f"{address}=unified",), publish=address)).keys is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1234:5678:9abc:def0%interface-with-a-long-name", "fe80::1234:5678:9abc:def0"),
        (":1000:1000:4321", None),  # a client over ipc
        ("", None),
    ],
)
def test_the_address_of_a_client_fits_the_access_log(text: str, address: str | None) -> None:
    assert read_peer(text) == address


def test_a_token_is_required_in_every_request(engine: Everhold) -> None:
    with serve(engine, "unified-3@home", "orchestrator@home", token="s3cret") as served:
        for bind in (0, 1):
            client = served.connect(bind=bind)
            for wrong_token in ({}, {"token": "guess"}, {"token": 5}):
                assert client.ask(action="health_check", **wrong_token)["status"] == "error"
            assert client.ask(action="health_check", token="s3cret")["status"] == "success"
            assert client.ask(action="replay", after=0)["status"] == "error"
        stored = served.connect().ask(note="without a known field", token="s3cret")
        text = engine.scope(organization="home").get(stored["memory_id"]).text
        assert "s3cret" not in text
    assert "s3cret" not in repr(Voice(token="s3cret"))


def make_keys(folder: Path, *names: str) -> None:
    """Make the keys of the gateway and of clients; the gateway knows only the client that is named first."""
    (folder / "clients").mkdir()
    zmq.auth.create_certificates(folder, "server")
    for name in names:
        zmq.auth.create_certificates(folder, name)
    (folder / f"{names[0]}.key").rename(folder / "clients" / f"{names[0]}.key")


def make_socket_with_key(context: "zmq.Context[Any]", folder: Path, name: str, kind: int) -> "zmq.Socket[Any]":
    """Return a socket with the key of a client. Without a name, it has no key."""
    socket = make_socket(context, kind)
    if name:
        socket.curve_publickey, socket.curve_secretkey = zmq.auth.load_certificate(folder / f"{name}.key_secret")
        socket.curve_serverkey = zmq.auth.load_certificate(folder / "server.key")[0]
    return socket


def receive_event(engine: Everhold, subscriber: "zmq.Socket[Any]") -> bytes:
    """Store memories until a subscriber hears of one. Its subscription reaches the gateway after the handshake."""
    for number in range(ANSWER_MILLISECONDS // 250):
        engine.scope(organization="home").remember(f"event {number}")
        if subscriber.poll(250):
            break
    return subscriber.recv_multipart()[0]


def test_only_clients_with_a_known_key_are_served(engine: Everhold, tmp_path: Path) -> None:
    make_keys(tmp_path, "friend", "stranger")
    with serve(engine, "jarvis@home", curve_keys=tmp_path, publish="tcp://127.0.0.1:*") as served:
        requests, events = served.addresses
        client = make_socket_with_key(served.context, tmp_path, "friend", zmq.REQ)
        assert is_admitted(client, requests)
        client.send(b'{"action": "health_check"}')
        assert b'"ok"' in client.recv()
        subscriber = make_socket_with_key(served.context, tmp_path, "friend", zmq.SUB)
        subscriber.subscribe(b"")
        assert is_admitted(subscriber, events)
        assert receive_event(engine, subscriber)
        # A client that is refused has no connection, so it cannot even send.
        for name in ("stranger", ""):
            assert not is_admitted(make_socket_with_key(served.context, tmp_path, name, zmq.REQ), requests)
            assert not is_admitted(make_socket_with_key(served.context, tmp_path, name, zmq.SUB), events)


def test_keys_that_are_missing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"no key of the gateway at .*server.key_secret"):
        make_options(Voice(curve_keys=tmp_path))
    zmq.auth.create_certificates(tmp_path, "server")
    with pytest.raises(InvalidSettings, match=r"no client keys in .*clients"):
        make_options(Voice(curve_keys=tmp_path))
    (tmp_path / "server.key_secret").write_text("nothing")
    with pytest.raises(InvalidSettings, match=r"holds no CURVE key"):
        make_options(Voice(curve_keys=tmp_path))


def test_an_address_in_use_is_refused(engine: Everhold) -> None:
    with serve(engine, "jarvis@home") as served:
        address = served.addresses[0]
        with (
            pytest.raises(InvalidSettings, match=r"cannot listen on .*: Address already in use"),
            serve(engine, f"{address}=jarvis@home"),
        ):
            pass


def test_a_bind_reads_and_writes_its_own_organization_only(engine: Everhold) -> None:
    protocols = ("session-memory", "jarvis", "unified", "orchestrator", "contextual-mainpc")
    secret = "the combination is 4711"
    requests: list[dict[str, Any]] = [
        {"action": "create_session", "session_id": "s", "user_id": "alice"},
        {"action": "add_interaction", "session_id": "s", "role": "user", "type": "user_query", "content": secret},
        {"action": "add_memory", "user_id": "alice", "memory": secret, "data": {"content": secret, "memory_id": "m1"}},
        {"action": "add_context", "user_id": "alice", "context": secret},
        {"command": "STORE_MEMORY", "data": {"id": "m2", "content": secret}},
    ]
    questions: list[dict[str, Any]] = [
        {"action": "get_context", "session_id": "s", "user_id": "alice"},
        {"action": "search_interactions", "query": "combination"},
        {"action": "get_memories", "user_id": "alice"},
        {"action": "get_all_memories"},
        {"action": "search_memory", "keyword": "combination", "user_id": "alice", "data": {"query": "combination"}},
        {"action": "get_memory", "data": {"memory_id": "m1"}},
        {"action": "batch_read", "payload": {"memory_ids": ["m1", "m2"]}, "session_id": "s"},
        {"action": "read", "payload": {"memory_id": "m1"}, "session_id": "s"},
        {"command": "QUERY_MEMORY", "query": {"ids": ["m1", "m2"]}},
        {"command": "QUERY_MEMORY", "query": {"keywords": ["combination"]}},
        {"action": "replay", "after": 0},
    ]
    targets = [f"{protocol}@{organization}" for organization in ("a", "b") for protocol in protocols]
    with serve(engine, *targets) as served:
        for bind in range(len(protocols)):
            for request in requests:
                served.connect(bind=bind).ask(**request)
        replies = [
            [str(served.connect(bind=bind).ask(**question)) for question in questions] for bind in range(len(targets))
        ]
        unified_of_b = targets.index("unified@b")
        deletion = served.connect(bind=unified_of_b).ask(command="DELETE_MEMORY", memory_id="m2")
    own_replies, foreign_replies = (
        itertools.chain(*replies[: len(protocols)]),
        itertools.chain(*replies[len(protocols) :]),
    )
    assert any(secret in reply for reply in own_replies)
    assert not any("4711" in reply or "'m2'," in reply for reply in foreign_replies)
    assert deletion["status"] == "ERROR"


def test_the_address_of_a_client_is_in_the_access_log(engine: Everhold) -> None:
    with serve(engine, "jarvis@home") as served:
        served.connect().ask(action="add_memory", user_id="alice", memory="tea")
        served.connect().ask(action="get_memories", user_id="alice")
    lines = engine.scope(organization="home", user="alice").log()
    assert {(line.operation, line.ip_address, line.interface) for line in lines} == {
        ("create", "127.0.0.1", "voice"),
        ("read", "127.0.0.1", "voice"),
    }
