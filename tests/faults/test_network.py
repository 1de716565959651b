"""Faults of the network between an engine and its servers lose no acknowledged write and cause no wrong answer.

When the network works again, so does the engine.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold
from everhold.errors import StoreError
from tests.engines import Store, texts
from tests.servers.chroma import ChromaServer
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.fault_proxy import Fault, FaultProxy
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

pytestmark = [pytest.mark.slow]

FAULTS = [fault for fault in Fault if fault is not Fault.NONE]
QUICK = {"connect_seconds": 2, "query_seconds": 2, "retries": 1}
NUMBERS = itertools.count()
# How many memories are written before the fault and during it, and how often a failed call is tried again.
BEFORE, DURING, TRIES = 4, 3, 40


@dataclass(frozen=True)
class NetworkedEngine:
    """A function that opens an engine, and the network to one of its servers.

    `needs_server` says that the engine cannot work without the server.
    """

    proxy: FaultProxy
    open: Callable[[], Everhold]
    needs_server: bool


def connect_to_postgres(request: pytest.FixtureRequest, _: Path, resources: ExitStack) -> NetworkedEngine:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    database = server.create_database().partition("?")[0].rpartition("/")[2]
    proxy = resources.enter_context(FaultProxy(str(server.socket)))
    store = Store("postgres", f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}")
    resources.callback(_close_store, store)
    return NetworkedEngine(proxy, lambda: store.open(postgres=QUICK), needs_server=True)


def connect_to_dynamodb(request: pytest.FixtureRequest, folder: Path, resources: ExitStack) -> NetworkedEngine:
    server: DynamoServer = request.getfixturevalue("dynamodb_server")
    patch = resources.enter_context(pytest.MonkeyPatch.context())
    for name, value in CREDENTIALS.items():
        patch.setenv(name.upper(), value)
    proxy = resources.enter_context(FaultProxy(("127.0.0.1", server.port)))
    store = Store("dynamodb", f"dynamodb://eu-north-1/faults{next(NUMBERS)}?endpoint=http://127.0.0.1:{proxy.port}")
    resources.callback(_close_store, store)
    return NetworkedEngine(
        proxy, lambda: store.open(dynamodb={"seconds": 2, "retries": 1}, blobs=str(folder / "blobs")), needs_server=True
    )


def connect_to_valkey(_: pytest.FixtureRequest, folder: Path, resources: ExitStack) -> NetworkedEngine:
    server = resources.enter_context(ValkeyServer())
    proxy = resources.enter_context(FaultProxy(("127.0.0.1", server.port)))
    store = Store("sqlite", str(folder / "memories.db"))
    resources.callback(_close_store, store)
    settings: dict[str, Any] = {"sessions": f"redis://127.0.0.1:{proxy.port}/0", "redis": {"socket_seconds": 0.5}}
    return NetworkedEngine(proxy, lambda: store.open(**settings), needs_server=False)


def connect_to_chroma(_: pytest.FixtureRequest, folder: Path, resources: ExitStack) -> NetworkedEngine:
    server = resources.enter_context(ChromaServer())
    proxy = resources.enter_context(FaultProxy(("127.0.0.1", int(server.url.rpartition(":")[2]))))
    store = Store("sqlite", str(folder / "memories.db"))
    resources.callback(_close_store, store)
    settings: dict[str, Any] = {"vectors": f"chroma://127.0.0.1:{proxy.port}", "chroma": {"seconds": 1}}
    return NetworkedEngine(proxy, lambda: store.open(**settings, images={"max_memories": 0}), needs_server=False)


def _close_store(store: Store) -> None:
    """Close a store. If its server is gone, writing the last log lines fails, which is ignored."""
    with suppress(StoreError):
        store.close()


NETWORKED_ENGINES = {
    "postgres": connect_to_postgres,
    "dynamodb": connect_to_dynamodb,
    "valkey": connect_to_valkey,
    "chroma": connect_to_chroma,
}


@pytest.fixture
def networked_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NetworkedEngine]:
    with ExitStack() as resources:
        yield NETWORKED_ENGINES[request.param](request, tmp_path, resources)


def remember_note(engine: Everhold, number: int) -> str:
    """Store a memory under an idempotency key, so that it can be retried, and return the key."""
    key = f"note-{number}"
    engine.scope(user="alice").remember(f"Note {number} is about ship {number}", idempotency_key=key, kind="episodic")
    return key


def retry(call: Callable[[], Any]) -> Any:
    """Retry a call that fails with a retryable error, as a program would."""
    for _ in range(TRIES):
        result, error = attempt(call)
        if error is None:
            return result
        assert error.retryable, error
    raise AssertionError("the engine does not recover")


def attempt(call: Callable[[], Any]) -> tuple[Any, StoreError | None]:
    """Return the result of a call, or its error."""
    try:
        return call(), None
    except StoreError as error:
        return None, error


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("networked_engine", NETWORKED_ENGINES, indirect=True)
def test_acknowledged_writes_are_stored_once_and_the_engine_recovers(
    networked_engine: NetworkedEngine, fault: Fault
) -> None:
    engine = networked_engine.open()
    stored_keys = [remember_note(engine, number) for number in range(BEFORE)]
    networked_engine.proxy.fault = fault
    failed_numbers: list[int] = []
    for number in range(BEFORE, BEFORE + DURING):
        key, error = attempt(lambda number=number: remember_note(engine, number))
        if error is None:
            stored_keys.append(key)
            continue
        assert networked_engine.needs_server, error
        assert error.retryable, error
        assert ";" in str(error), "the message has a fact and a remedy"
        failed_numbers.append(number)
    networked_engine.proxy.heal()
    stored_keys += [retry(lambda number=number: remember_note(engine, number)) for number in failed_numbers]
    alice = engine.scope(user="alice")
    stored_texts = [memory.text for memory in retry(lambda: alice.list(limit=100)).memories]
    assert sorted(stored_texts) == sorted(f"Note {number} is about ship {number}" for number in range(len(stored_keys)))
    for number in (0, BEFORE, len(stored_keys) - 1):
        hits = retry(lambda number=number: alice.recall(f"which note is about ship {number}?", k=1, minimum=0))
        assert texts(hits) == [f"Note {number} is about ship {number}"]


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CUT, Fault.HALF_OPEN, Fault.LOST_ANSWER])
@pytest.mark.parametrize("networked_engine", ["valkey"], indirect=True)
def test_conversations_continue_without_the_cache(networked_engine: NetworkedEngine, fault: Fault) -> None:
    engine = networked_engine.open()
    chat = engine.scope(user="alice", session="monday")
    texts = [f"Line {number}" for number in range(8)]
    for number, text in enumerate(texts):
        if number == 3:
            networked_engine.proxy.fault = fault
        if number == 6:
            networked_engine.proxy.heal()
        chat.say(text)
        assert [message.text for message in chat.messages(oldest_first=True)] == texts[: number + 1]


@pytest.mark.parametrize("networked_engine", ["postgres", "dynamodb"], indirect=True)
def test_an_unreachable_store_is_reported(networked_engine: NetworkedEngine) -> None:
    engine = networked_engine.open()
    remember_note(engine, 0)
    networked_engine.proxy.close()
    with pytest.raises(StoreError, match=r"cannot be reached|gave no connection") as caught:
        remember_note(engine, 1)
    assert caught.value.retryable
