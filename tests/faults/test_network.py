"""Networks break between an engine and its servers: nothing acknowledged is lost, no answer is wrong, and once the
network is well again, so is the engine."""

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
BEFORE, DURING, TRIES = 4, 3, 40


@dataclass(frozen=True)
class Line:
    """An engine, and the network between it and one of its servers. `needed`: without the server it can do nothing."""

    proxy: FaultProxy
    open: Callable[[], Everhold]
    needed: bool


def to_postgres(request: pytest.FixtureRequest, _: Path, held: ExitStack) -> Line:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    database = server.create_database().partition("?")[0].rpartition("/")[2]
    proxy = held.enter_context(FaultProxy(str(server.socket)))
    store = Store("postgres", f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}")
    held.callback(_close_store, store)
    return Line(proxy, lambda: store.open(postgres=QUICK), needed=True)


def to_dynamodb(request: pytest.FixtureRequest, folder: Path, held: ExitStack) -> Line:
    server: DynamoServer = request.getfixturevalue("dynamodb_server")
    patch = held.enter_context(pytest.MonkeyPatch.context())
    for name, value in CREDENTIALS.items():
        patch.setenv(name.upper(), value)
    proxy = held.enter_context(FaultProxy(("127.0.0.1", server.port)))
    store = Store("dynamodb", f"dynamodb://eu-north-1/faults{next(NUMBERS)}?endpoint=http://127.0.0.1:{proxy.port}")
    held.callback(_close_store, store)
    return Line(
        proxy, lambda: store.open(dynamodb={"seconds": 2, "retries": 1}, blobs=str(folder / "blobs")), needed=True
    )


def to_valkey(_: pytest.FixtureRequest, folder: Path, held: ExitStack) -> Line:
    server = held.enter_context(ValkeyServer())
    proxy = held.enter_context(FaultProxy(("127.0.0.1", server.port)))
    store = Store("sqlite", str(folder / "memories.db"))
    held.callback(_close_store, store)
    more: dict[str, Any] = {"sessions": f"redis://127.0.0.1:{proxy.port}/0", "redis": {"socket_seconds": 0.5}}
    return Line(proxy, lambda: store.open(**more), needed=False)


def to_chroma(_: pytest.FixtureRequest, folder: Path, held: ExitStack) -> Line:
    server = held.enter_context(ChromaServer())
    proxy = held.enter_context(FaultProxy(("127.0.0.1", int(server.url.rpartition(":")[2]))))
    store = Store("sqlite", str(folder / "memories.db"))
    held.callback(_close_store, store)
    more: dict[str, Any] = {"vectors": f"chroma://127.0.0.1:{proxy.port}", "chroma": {"seconds": 1}}
    return Line(proxy, lambda: store.open(**more, images={"max_memories": 0}), needed=False)


def _close_store(store: Store) -> None:
    """Close a store. An engine whose store is gone cannot write its last lines."""
    with suppress(StoreError):
        store.close()


LINES = {"postgres": to_postgres, "dynamodb": to_dynamodb, "valkey": to_valkey, "chroma": to_chroma}


@pytest.fixture
def line(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Line]:
    with ExitStack() as held:
        yield LINES[request.param](request, tmp_path, held)


def say(engine: Everhold, number: int) -> str:
    """One memory and one message, either of which may be tried again."""
    key = f"note-{number}"
    engine.scope(user="alice").remember(f"Note {number} is about ship {number}", idempotency_key=key, kind="episodic")
    return key


def again(deed: Callable[[], Any]) -> Any:
    """What a program does with an error that says so: it tries again."""
    for _ in range(TRIES):
        result, refused = attempt(deed)
        if refused is None:
            return result
        assert refused.retryable, refused
    raise AssertionError("it does not recover")


def attempt(deed: Callable[[], Any]) -> tuple[Any, StoreError | None]:
    try:
        return deed(), None
    except StoreError as error:
        return None, error


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("line", LINES, indirect=True)
def test_what_was_acknowledged_is_there_once_and_the_engine_recovers(line: Line, fault: Fault) -> None:
    engine = line.open()
    done = [say(engine, number) for number in range(BEFORE)]
    line.proxy.fault = fault
    failed: list[int] = []
    for number in range(BEFORE, BEFORE + DURING):
        key, refused = attempt(lambda number=number: say(engine, number))
        if refused is None:
            done.append(key)
            continue
        assert line.needed, refused
        assert refused.retryable, refused
        assert ";" in str(refused), "the fact and the remedy"
        failed.append(number)
    line.proxy.heal()
    done += [again(lambda number=number: say(engine, number)) for number in failed]
    alice = engine.scope(user="alice")
    kept = [memory.text for memory in again(lambda: alice.list(limit=100)).memories]
    assert sorted(kept) == sorted(f"Note {number} is about ship {number}" for number in range(len(done)))
    for number in (0, BEFORE, len(done) - 1):
        found = again(lambda number=number: alice.recall(f"which note is about ship {number}?", k=1, minimum=0))
        assert texts(found) == [f"Note {number} is about ship {number}"]


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.CUT, Fault.HALF_OPEN, Fault.LOST_ANSWER])
@pytest.mark.parametrize("line", ["valkey"], indirect=True)
def test_conversations_go_on_without_the_cache(line: Line, fault: Fault) -> None:
    engine = line.open()
    chat = engine.scope(user="alice", session="monday")
    said = [f"Line {number}" for number in range(8)]
    for number, text in enumerate(said):
        if number == 3:
            line.proxy.fault = fault
        if number == 6:
            line.proxy.heal()
        chat.say(text)
        assert [message.text for message in chat.messages(oldest_first=True)] == said[: number + 1]


@pytest.mark.parametrize("line", ["postgres", "dynamodb"], indirect=True)
def test_a_store_that_is_gone_is_said_to_be_gone(line: Line) -> None:
    engine = line.open()
    say(engine, 0)
    line.proxy.close()
    with pytest.raises(StoreError, match=r"cannot be reached|gave no connection") as raised:
        say(engine, 1)
    assert raised.value.retryable
