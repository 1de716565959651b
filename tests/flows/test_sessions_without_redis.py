"""If Redis is killed, restarted, full or slow, or refuses, answers stay right, and it is used again when it works."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from everhold import Everhold, View
from everhold.errors import NotFound
from everhold.sessions.deps import make_session_key
from tests.engines import Store
from tests.flows.session_stores import is_from_cache, mark_cached_session, read_cached, read_messages, wait_until
from tests.servers.valkey import ValkeyCluster, ValkeyServer

IMPATIENT: dict[str, Any] = {"socket_seconds": 0.3}


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    """A server for a single test, which may kill or change it."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def engine(sqlite_store: Store, server: ValkeyServer) -> Everhold:
    return sqlite_store.open(sessions=server.url, redis=IMPATIENT)


@pytest.fixture
def chat(engine: Everhold) -> View:
    return engine.scope(user="alice", session="s1")


def is_used(engine: Everhold, view: View) -> bool:
    """Return whether answers come from the cache. To see that, change a cached text, and drop the entry afterwards."""
    view.messages()  # fills it
    key = make_session_key(view.scope)
    used = mark_cached_session(engine, key) and is_from_cache(view)
    engine._parts.session_deps.cache.drop([key])
    return used and read_cached(engine, key) is None


def test_a_server_that_restarts_empty_is_used_again(engine: Everhold, chat: View, server: ValkeyServer) -> None:
    chat.say("Tea")
    assert is_used(engine, chat)
    server.kill()
    for number in range(5):
        chat.say(f"{number}")
        assert read_messages(chat) == ["Tea", *(f"{n}" for n in range(number + 1))]
    chat.update_session(topic="Rain")
    assert chat.session().topic == "Rain"
    assert [session.id for session in chat.sessions()] == ["s1"]
    report = engine.doctor()
    assert ["does not answer" in problem for problem in report.problems] == [True]
    server.start()
    wait_until(lambda: is_used(engine, chat))
    assert read_messages(chat) == ["Tea", "0", "1", "2", "3", "4"]
    assert engine.doctor().problems == []


def test_no_message_is_lost_if_redis_is_killed_while_many_speak(engine: Everhold, server: ValkeyServer) -> None:
    started, stopped = threading.Event(), threading.Event()
    said_by: dict[str, list[str]] = {name: [] for name in "abc"}
    mismatches: list[Any] = []

    def speak(name: str) -> None:
        view = engine.scope(session=name)
        while not stopped.is_set() or len(said_by[name]) < 5:
            said_by[name].append(str(view.say(f"{name}{len(said_by[name])}").text))
            if read_messages(view) != said_by[name][-100:]:
                mismatches.append((name, said_by[name]))
            started.set()

    with ThreadPoolExecutor(len(said_by)) as pool:
        futures = [pool.submit(speak, name) for name in said_by]
        started.wait()
        for _ in range(5):
            server.kill()
            server.start()
        stopped.set()
        for future in futures:
            future.result()
    assert mismatches == []


def test_old_data_of_a_restarted_server_is_ignored(
    sqlite_store: Store, engine: Everhold, chat: View, server: ValkeyServer
) -> None:
    chat.say("Tea")
    other_session = engine.scope(user="alice", session="s2")
    other_session.say("Rain")
    server.save()
    chat.say("More tea")
    server.kill()
    chat.say("Still more")
    other_session.update_session(topic="Weather")
    server.start()
    assert "Tea" in str(server.client().lrange("everhold:{default}:history:s1", 0, -1))
    for reader in (engine, sqlite_store.open(sessions=server.url)):
        assert read_messages(reader.scope(session="s1")) == ["Tea", "More tea", "Still more"]
        assert reader.scope(session="s2").session().topic == "Weather"
    wait_until(lambda: is_used(engine, chat))
    assert read_messages(chat) == ["Tea", "More tea", "Still more"]


@pytest.mark.parametrize("hard", [False, True])
def test_a_session_deleted_while_redis_was_down_is_not_read(
    sqlite_store: Store, engine: Everhold, chat: View, server: ValkeyServer, hard: bool
) -> None:
    chat.say("Tea")
    server.save()
    server.kill()
    engine.delete_session("s1", hard=hard)
    server.start()
    engines = [engine, sqlite_store.open(sessions=server.url)]
    assert read_cached(engines[1]) is not None, "the old data is there"
    for each_engine in engines:
        view = each_engine.scope(user="alice", session="s1")
        for verb in (view.messages, view.session):
            with pytest.raises(NotFound):
                verb()
        assert view.sessions() == []
    if hard:
        engines[0].scope(user="alice", session="s1").say("Again")
        assert [read_messages(engine.scope(session="s1")) for engine in engines] == [["Again"], ["Again"]]
    wait_until(lambda: _has_only_stored_sessions_after_maintenance(engines[1]))


def _has_only_stored_sessions_after_maintenance(engine: Everhold) -> bool:
    """Run maintenance, and return whether the cache then has only sessions that the records have."""
    engine.maintain()
    working = read_cached(engine)
    return working is None or [message.text for message in working.history] == ["Again"]


def test_a_purged_session_that_starts_again_is_not_read_from_the_cache(
    engine: Everhold, chat: View, server: ValkeyServer
) -> None:
    """Both sessions have the same number of messages and so the same version; only their times differ."""
    chat.say("Old")
    assert read_messages(chat) == ["Old"]
    server.save()
    server.kill()
    engine.delete_session("s1", hard=True)
    chat.say("Again")
    server.start()
    assert read_messages(chat) == ["Again"]
    assert chat.session().last_message.text == "Again"


def test_a_full_server_is_not_needed(engine: Everhold, chat: View, server: ValkeyServer) -> None:
    chat.say("Tea")
    client = server.client()
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", "1")
    for number in range(4):
        chat.say(f"{number}")
        assert read_messages(chat) == ["Tea", *(f"{n}" for n in range(number + 1))]
    engine.scope(session="s2").say("Rain")
    assert read_messages(engine.scope(session="s2")) == ["Rain"]
    assert ["is full" in problem for problem in engine.doctor().problems] == [True]
    client.config_set("maxmemory", "0")
    wait_until(lambda: is_used(engine, chat))
    assert read_messages(chat) == ["Tea", "0", "1", "2", "3"]
    assert engine.doctor().problems == []


def test_a_full_server_may_evict_single_keys(engine: Everhold, server: ValkeyServer) -> None:
    """Redis evicts single keys, so a hash may be left without its list, or a list without its hash."""
    client = server.client()
    client.config_set("maxmemory-policy", "allkeys-random")
    client.config_set("maxmemory", str(client.info("memory")["used_memory"] + 1_500_000))
    views = [engine.scope(session=f"s{number}") for number in range(20)]
    for view in views:
        for number in range(6):
            view.say(f"{number} " + "tea " * 5000)
    assert client.info("stats")["evicted_keys"] > 0
    for view in views:
        assert [str(message)[0] for message in read_messages(view)] == list("012345")


def test_a_hanging_server_is_not_needed(engine: Everhold, chat: View, server: ValkeyServer) -> None:
    chat.say("Tea")
    server.suspend()
    try:
        chat.say("Rain")
        assert read_messages(chat) == ["Tea", "Rain"]
        assert chat.session().last_message.text == "Rain"
        assert "does not answer" in engine.doctor().problems[0]
    finally:
        server.resume()
    wait_until(lambda: is_used(engine, chat))
    assert read_messages(chat) == ["Tea", "Rain"]


def test_a_slow_server_is_not_needed(engine: Everhold, chat: View, server: ValkeyServer) -> None:
    """A write that timed out may still happen later; its result must not be used."""
    chat.say("Tea")
    server.client().client_pause(1500, all=True)
    for number in range(5):
        chat.say(f"{number}")
        assert read_messages(chat) == ["Tea", *(f"{n}" for n in range(number + 1))]
    wait_until(lambda: is_used(engine, chat))
    assert read_messages(chat) == ["Tea", "0", "1", "2", "3", "4"]


def test_an_emptied_server_is_filled_again(engine: Everhold, chat: View, server: ValkeyServer) -> None:
    chat.say("Tea")
    server.client().flushall()
    assert read_messages(chat) == ["Tea"]
    server.client().flushall()
    chat.say("Rain")
    assert read_messages(chat) == ["Tea", "Rain"]
    assert is_used(engine, chat)


def test_an_engine_without_redis_writes_beside_an_engine_with_it(
    sqlite_store: Store, engine: Everhold, server: ValkeyServer
) -> None:
    engine_without_redis = sqlite_store.open(sessions="redis://127.0.0.1:1", redis=IMPATIENT)
    first, second = (
        session_engine.scope(user="alice", session="s1") for session_engine in (engine, engine_without_redis)
    )
    expected = []
    for number in range(5):
        for view in (first, second):
            expected.append(view.say(f"{number}").text)
            assert read_messages(first) == read_messages(second) == expected
    engine_without_redis.delete_session("s1")
    with pytest.raises(NotFound):
        first.messages()


def test_doctor_reports_a_wrong_address(sqlite_store: Store) -> None:
    engine = sqlite_store.open(sessions="redis://:s3cret@127.0.0.1:1", redis=IMPATIENT)
    view = engine.scope(session="s1")
    view.say("Tea")
    assert read_messages(view) == ["Tea"]
    report = engine.doctor()
    assert len(report.problems) == 1
    assert report.problems[0].startswith("Redis at 127.0.0.1:1 does not answer")
    assert report.parts["sessions"] == "Redis at 127.0.0.1:1"
    assert "s3cret" not in f"{report} {engine.settings!r}"


def test_a_cluster_can_be_used(sqlite_store: Store) -> None:
    with ValkeyCluster() as cluster:
        engine = sqlite_store.open(sessions=cluster.url, redis=IMPATIENT)
        views = [engine.scope(organization=f"org{number}", session="s1") for number in range(8)]
        for view in views:
            view.say("Tea")
            view.say("Rain")
            assert mark_cached_session(engine, make_session_key(view.scope))
            assert is_from_cache(view)
        assert all(client.dbsize() for client in cluster.clients()), "the organizations are spread over the servers"
        assert engine.doctor().problems == []
        for server in cluster.servers[1:]:
            server.kill()
        for view in views:
            view.say("More")
            assert len(read_messages(view)) == 3
            engine.delete_session("s1", organization=view.scope.organization)
            with pytest.raises(NotFound):
                view.messages()
        for server in cluster.servers[1:]:
            server.start()
        for number in range(8):
            view = engine.scope(organization=f"org{number}", session="s2")
            view.say("Tea")
            wait_until(lambda view=view: is_used(engine, view))
