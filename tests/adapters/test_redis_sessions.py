"""Sessions in Redis: layout, client-side caching, passwords, TLS, and what happens when Redis fails."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import monotonic, sleep
from typing import Any

import pytest

from everhold import settings
from everhold.adapters.redis import RedisOptions, RedisSessions
from everhold.adapters.redis.breaker import FIRST_PAUSE, MAX_PAUSE, Breaker
from everhold.adapters.redis.connection import Link
from everhold.errors import InvalidSettings
from everhold.ports.session_cache import SessionKey
from everhold.testing.session_cache_contract import KEY, make_message, make_session, make_step, make_working_memory
from tests.relay import AS_REDIS, make_certificate, relay
from tests.servers.valkey import ValkeyServer

SESSION = "everhold:{acme}:session:s1"
HISTORY = "everhold:{acme}:history:s1"
ACTIVE = "everhold:{acme}:active_sessions"
BY_ACTIVITY = "everhold:{acme}:last_active"


def get_secret() -> bytes:
    return b"a secret of the store".ljust(32)


@pytest.fixture
def client(valkey_server: ValkeyServer) -> Any:
    client = valkey_server.client()
    client.flushall()
    return client


@pytest.fixture
def cache(valkey_server: ValkeyServer, client: Any) -> Iterator[RedisSessions]:
    cache = RedisSessions(RedisOptions(valkey_server.url), get_secret)
    yield cache
    cache.close()


def test_keys_and_values_have_the_documented_layout(cache: RedisSessions, client: Any) -> None:
    context = {"scope": "technical", "state": "active", "client": "web"}
    cache.write(KEY, make_working_memory(messages=100, user_id="alice", topic="Tea", context=context))
    assert sorted(client.keys("*")) == sorted([SESSION, HISTORY, ACTIVE, BY_ACTIVITY])
    assert [client.type(key) for key in (SESSION, HISTORY, ACTIVE, BY_ACTIVITY)] == ["hash", "list", "set", "zset"]
    fields = client.hgetall(SESSION)
    assert (fields["session_id"], fields["user_id"], fields["current_topic"]) == ("s1", "alice", "Tea")
    assert (fields["scope"], fields["state"], fields["client"], fields["last_message"]) == (*context.values(), "m99")
    assert json.loads(fields["context"]) == context
    assert fields["last_active"] == make_session().last_active.isoformat()
    assert cache.advance(KEY, make_step(1, make_message(100)))
    assert client.llen(HISTORY) == 100
    assert [json.loads(item)["id"] for item in client.lrange(HISTORY, 0, 1)] == ["m100", "m99"]
    assert client.smembers(ACTIVE) == {"s1"}
    for key in client.keys("*"):
        assert 86_390 < client.ttl(key) <= 86_400


def test_reading_renews_the_time_to_live(cache: RedisSessions, client: Any) -> None:
    cache.write(KEY, make_working_memory())
    for key in client.keys("*"):
        client.expire(key, 100)
    cache.read(KEY)
    assert all(client.ttl(key) > 86_390 for key in client.keys("*"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda client: client.hset(SESSION, "version", "many"),
        lambda client: client.hset(SESSION, "context", "{"),
        lambda client: client.hset(SESSION, "owners", "?"),
        lambda client: client.hdel(SESSION, "session_id"),
        lambda client: client.hset(SESSION, "current_topic", b"\xff"),
        lambda client: client.lset(HISTORY, 0, b"\xff"),
        lambda client: client.hset(SESSION, "organization_id", "other"),
        lambda client: client.hset(SESSION, "generation", "another"),
        lambda client: client.delete(HISTORY),
        lambda client: client.lpop(HISTORY),
        lambda client: client.lset(HISTORY, 0, "not JSON"),
        lambda client: client.lset(HISTORY, 1, json.dumps({"generation": "x"})),
        lambda client: client.lpush(HISTORY, client.lindex(HISTORY, 1)),
        lambda client: client.lset(HISTORY, 0, client.lindex(HISTORY, 0).replace('"acme"', '"other"')),
    ],
)
def test_an_incomplete_session_is_not_used(cache: RedisSessions, client: Any, damage: Any) -> None:
    cache.write(KEY, make_working_memory())
    assert cache.read(KEY) == make_working_memory()
    damage(client)
    assert cache.read(KEY) is None
    while cache.read(KEY) is None:  # after invalid bytes Redis is not queried for a moment
        cache.write(KEY, make_working_memory())
    assert cache.read(KEY) == make_working_memory()


def test_a_key_of_another_type_is_not_used(client: Any, valkey_server: ValkeyServer) -> None:
    client.set(SESSION, "something else")
    cache = RedisSessions(RedisOptions(valkey_server.url), get_secret)
    assert cache.read(KEY) is None
    assert cache.advance(KEY, make_step(1))
    cache.close()


def count_reads(client: Any) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("hgetall", "lrange"))


def test_a_session_that_was_read_is_answered_from_the_clients_memory(valkey_server: ValkeyServer, client: Any) -> None:
    """The server tells a client of changes; until then the client answers from its own memory."""
    with relay(valkey_server.port, replacing=AS_REDIS) as port:
        cache = RedisSessions(RedisOptions(f"redis://127.0.0.1:{port}"), get_secret)
        cache.write(KEY, make_working_memory())
        assert cache.read(KEY) == make_working_memory()
        assert cache.read(KEY) == make_working_memory()  # the first read set the time to live, which is a change
        before = count_reads(client)
        for _ in range(20):
            assert cache.read(KEY) == make_working_memory()
        assert count_reads(client) <= before + 2  # once more if the server's message about that change came late
        assert cache.advance(KEY, make_step(1, make_message(3)))
        assert cache.read(KEY) == make_working_memory(messages=4, version=2)
        assert count_reads(client) > before
        other = RedisSessions(RedisOptions(valkey_server.url), get_secret)
        assert other.advance(KEY, make_step(2, make_message(4)))
        while (working := cache.read(KEY)) in (None, make_working_memory(messages=4, version=2)):
            pass  # None while the client knows of a change of only one key; the test's time limit ends this loop
        assert working == make_working_memory(messages=5, version=3)
        cache.drop([KEY])
        assert cache.read(KEY) is None
        for each_cache in (cache, other):
            each_cache.close()


def test_a_write_by_another_client_in_the_middle_of_a_step_is_noticed(
    valkey_server: ValkeyServer, cache: RedisSessions
) -> None:
    """The other client writes between the read and the write of the step, so the step is based on an old state."""
    with relay(valkey_server.port, before=(b"MULTI", lambda: cache.write(KEY, make_working_memory(version=7)))) as port:
        stepping_cache = RedisSessions(RedisOptions(f"redis://127.0.0.1:{port}"), get_secret)
        cache.write(KEY, make_working_memory())
        assert not stepping_cache.advance(KEY, make_step(1, make_message(3)))
        stepping_cache.close()
    working = cache.read(KEY)
    assert working is None or working == make_working_memory(version=7)


def test_a_session_that_is_written_during_cleaning_stays(
    valkey_server: ValkeyServer, cache: RedisSessions, client: Any
) -> None:
    with relay(valkey_server.port, before=(b"MULTI", lambda: cache.write(KEY, make_working_memory()))) as port:
        cleaning_cache = RedisSessions(RedisOptions(f"redis://127.0.0.1:{port}"), get_secret)
        cache.write(KEY, make_working_memory())
        client.delete(SESSION, HISTORY)
        assert cleaning_cache.clean("acme") == 0
        cleaning_cache.close()
    assert cache.list_active("acme") == {"s1"}


def test_each_thread_has_its_own_memory_of_sessions(valkey_server: ValkeyServer, client: Any) -> None:
    keys = [SessionKey("acme", f"s{number}") for number in range(4)]
    unexpected: list[Any] = []
    with relay(valkey_server.port, replacing=AS_REDIS) as port:
        cache = RedisSessions(RedisOptions(f"redis://127.0.0.1:{port}"), get_secret)
        for key in keys:
            cache.write(key, make_working_memory(key))

        def read_sessions(start: int) -> None:
            for number in range(100):
                key = keys[(start + number) % len(keys)]
                working = cache.read(key)
                if working != make_working_memory(key):
                    unexpected.append(working)
                if number % 10 == start:
                    cache.write(key, make_working_memory(key))

        with ThreadPoolExecutor(4) as pool:
            for future in [pool.submit(read_sessions, start) for start in range(4)]:
                future.result()
        assert [difference for difference in unexpected if difference is not None] == []
        cache.close()


def test_closing_ends_the_connections_of_every_thread(valkey_server: ValkeyServer, client: Any) -> None:
    barrier = Barrier(3, timeout=300)
    with relay(valkey_server.port, replacing=AS_REDIS) as port, ThreadPoolExecutor(3) as pool:
        before = len(client.client_list())
        cache = RedisSessions(RedisOptions(f"redis://127.0.0.1:{port}"), get_secret)
        cache.write(KEY, make_working_memory())

        def read_sessions(_: int) -> None:
            barrier.wait()
            cache.read(KEY)

        list(pool.map(read_sessions, range(3)))
        assert len(client.client_list()) > before + 3
        cache.close()
        deadline = monotonic() + 150
        while len(client.client_list()) > before:
            assert monotonic() < deadline, "some connections are still open"
            sleep(0.01)


def test_a_valkey_server_is_asked_each_time(valkey_server: ValkeyServer) -> None:
    assert Link(RedisOptions(valkey_server.url)).caching is None


def test_a_wrong_or_missing_password_is_reported() -> None:
    with ValkeyServer(password="s3cret!word") as server:
        good = RedisSessions(RedisOptions(server.url), get_secret)
        good.write(KEY, make_working_memory())
        assert good.read(KEY) == make_working_memory()
        assert good.find_problem() is None
        for url in (server.url.replace("s3cret!word", "wr0ng!word"), f"redis://127.0.0.1:{server.port}"):
            bad = RedisSessions(RedisOptions(url), get_secret)
            assert bad.read(KEY) is None
            bad.write(KEY, make_working_memory())
            problem = bad.find_problem()
            assert problem is not None
            assert "refused the user or the password" in problem
            shown = f"{problem} {bad!r} {bad.name} {RedisOptions(url)!r}"
            assert "wr0ng!word" not in shown
            bad.close()
        assert "s3cret" not in repr(settings.load("memory://", sessions=server.url))
        raw = server.client()
        raw.config_set("requirepass", "changed")
        raw.client_kill_filter(_type="normal", skipme=True)
        assert good.read(KEY) is None  # the password becomes wrong while the client is connected
        assert "refused the user or the password" in str(good.find_problem())
        good.close()


def test_a_tls_certificate_must_be_trusted(valkey_server: ValkeyServer, client: Any, tmp_path: Path) -> None:
    context, certificate_path = make_certificate(tmp_path)
    with relay(valkey_server.port, tls=context) as port:
        cache = RedisSessions(RedisOptions(f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate_path}"), get_secret)
        cache.write(KEY, make_working_memory())
        assert cache.read(KEY) == make_working_memory()
        cache.close()
        untrusting = RedisSessions(RedisOptions(f"rediss://127.0.0.1:{port}"), get_secret)
        assert untrusting.read(KEY) is None
        assert "certificate verify failed" in str(untrusting.find_problem())
        untrusting.close()


@pytest.mark.parametrize(
    "url",
    ["redis://", "redis://:secret@", "redis://host:port/0", "http://host", "redis", "redis://:secret@host:99999",
     "redis://:secret@host/first", "redis://:secret@host/0#1"],
)  # fmt: skip
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidSettings, match="is not the address of a Redis server") as caught:
        RedisSessions(RedisOptions(url), get_secret)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("bogus=1", "takes no parameter 'bogus'; choose from client_name, db"),
        ("socket_timout=1", "takes no parameter 'socket_timout'; did you mean 'socket_timeout'"),
        ("ssl_ca_certs=x", "takes no parameter 'ssl_ca_certs'"),
        ("db=first", "Invalid value for 'db'.* write another value, or leave it out"),
    ],
)
def test_parameters_that_the_driver_does_not_take_are_refused(query: str, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message) as caught:
        RedisSessions(RedisOptions(f"redis://:secret@host?{query}"), get_secret)
    assert "secret" not in str(caught.value)


def test_an_address_without_a_server_is_unavailable() -> None:
    cache = RedisSessions(RedisOptions("redis://:secret@127.0.0.1:1", socket_seconds=0.2), get_secret)
    assert cache.read(KEY) is None
    cache.write(KEY, make_working_memory())
    assert cache.advance(KEY, make_step(1))
    cache.drop([KEY])
    assert (cache.list_active("acme"), cache.list_recent("acme", make_session().created_at), cache.clean("acme")) == (
        set(),
        [],
        0,
    )
    assert cache.measure_usage() is None
    assert "does not answer" in str(cache.find_problem())
    assert "secret" not in str(cache.find_problem())
    cache.close()


class ClockAndServer:
    """A clock that a test sets, and a server that fails or works; `calls` counts its calls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = 0

    def fail(self) -> int:
        self.calls += 1
        raise OSError

    def work(self) -> int:
        self.calls += 1
        return 1


def test_the_pauses_double_until_redis_answers() -> None:
    fake, warnings = ClockAndServer(), []
    breaker = Breaker((OSError,), lambda: warnings.append(1), lambda: fake.now)
    pause = FIRST_PAUSE
    for failures in range(1, 12):
        assert breaker.run(fake.fail, 0) == 0
        assert fake.calls == failures == len(warnings)
        fake.now += pause * 0.99
        assert breaker.run(fake.work, 0) == 0
        assert fake.calls == failures
        fake.now += pause * 0.02
        pause = min(MAX_PAUSE, pause * 2)
    assert breaker.run(fake.work, 0) == 1
    assert breaker.run(fake.fail, 0) == 0
    fake.now += FIRST_PAUSE
    assert breaker.run(fake.work, 0) == 1


def test_after_a_pause_only_one_thread_asks() -> None:
    fake = ClockAndServer()
    breaker = Breaker((OSError,), lambda: None, lambda: fake.now)
    breaker.run(fake.fail, 0)
    fake.now += FIRST_PAUSE

    def ask_meanwhile() -> int:
        assert breaker.run(fake.work, 0) == 0
        return 2

    assert breaker.run(ask_meanwhile, 0) == 2
    assert breaker.run(fake.work, 0) == 1


def test_an_unexpected_error_is_raised_and_the_next_call_asks_again() -> None:
    fake = ClockAndServer()
    breaker = Breaker((OSError,), lambda: None, lambda: fake.now)
    breaker.run(fake.fail, 0)
    fake.now += FIRST_PAUSE

    def mistake() -> int:
        raise KeyError

    with pytest.raises(KeyError):
        breaker.run(mistake, 0)
    assert breaker.run(fake.work, 0) == 1
