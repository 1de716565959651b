"""Every session cache passes the same contract."""

from collections.abc import Iterator
from typing import Any

import pytest

from everhold.adapters.in_process import InProcessSessions
from everhold.adapters.redis import RedisOptions, RedisSessions
from everhold.ports.session_cache import SessionCache
from everhold.testing.session_cache_contract import HISTORY, LONGER_HISTORY, TTL, PassTime, SessionCacheContract
from tests.servers.valkey import ValkeyCluster, ValkeyServer


class Clock:
    """A clock whose time a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["in_process", "redis", "redis_cluster"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def servers(kind: str, request: pytest.FixtureRequest) -> list[Any]:
    """A client of each server of the cache; the servers are empty."""
    if kind == "in_process":
        return []
    if kind == "redis_cluster":
        cluster: ValkeyCluster = request.getfixturevalue("valkey_cluster")
        clients = cluster.clients()
    else:
        server: ValkeyServer = request.getfixturevalue("valkey_server")
        clients = [server.client()]
    for client in clients:
        client.flushall()
    return clients


@pytest.fixture
def cache(kind: str, servers: list[Any], clock: Clock, request: pytest.FixtureRequest) -> Iterator[SessionCache]:
    yield from _open_cache(kind, HISTORY, clock, request)


@pytest.fixture
def longer_cache(kind: str, servers: list[Any], clock: Clock, request: pytest.FixtureRequest) -> Iterator[SessionCache]:
    yield from _open_cache(kind, LONGER_HISTORY, clock, request)


def _open_cache(kind: str, history: int, clock: Clock, request: pytest.FixtureRequest) -> Iterator[SessionCache]:
    cache: SessionCache
    if kind == "in_process":
        cache = InProcessSessions(ttl_seconds=TTL, history=history, now=clock)
    else:
        server = request.getfixturevalue("valkey_cluster" if kind == "redis_cluster" else "valkey_server")
        cache = RedisSessions(RedisOptions(server.url, ttl_seconds=TTL, history=history), lambda: bytes(32), now=clock)
    yield cache
    cache.close()


@pytest.fixture
def pass_time(servers: list[Any], clock: Clock) -> PassTime:
    """A function that lets time pass: on a server, whose clock cannot be set, by shortening the life of each key."""

    def let_pass(duration: float) -> None:
        clock.seconds += duration
        for client in servers:
            for key in client.keys("*"):
                assert client.pttl(key) > 0, f"{key} never expires"
                client.pexpire(key, client.pttl(key) - int(duration * 1000))

    return let_pass


class TestSessionCache(SessionCacheContract):
    """The contract, on each kind of session cache."""
