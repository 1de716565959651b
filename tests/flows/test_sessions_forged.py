"""Entries that other programs write into the Redis of the session cache are never trusted."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everhold import Everhold, clock
from everhold.adapters.redis.seal import Seal
from everhold.adapters.sqlite import SqliteOptions, SqliteRecords
from everhold.sessions.secret import load_secret
from tests.engines import Store
from tests.flows.session_stores import SESSION_KEY, read_messages
from tests.servers.valkey import ValkeyServer

PREFIX = "everhold:{default}"
SESSION, HISTORY = f"{PREFIX}:session:s1", f"{PREFIX}:history:s1"
OTHER_SESSION, OTHER_HISTORY = f"{PREFIX}:session:s2", f"{PREFIX}:history:s2"
ACTIVE, BY_ACTIVITY = f"{PREFIX}:active_sessions", f"{PREFIX}:last_active"
TEXTS = ["first", "second", "third"]

Forge = Callable[[Any], object]


@pytest.fixture
def client(valkey_server: ValkeyServer) -> Any:
    client = valkey_server.client()
    client.flushall()
    return client


@pytest.fixture
def engine(sqlite_store: Store, valkey_server: ValkeyServer, client: Any) -> Everhold:
    engine = sqlite_store.open(sessions=valkey_server.url)
    for session, user in (("s1", "alice"), ("s2", "bob")):
        view = engine.scope(user=user, session=session)
        for text in TEXTS:
            view.say(f"{text} of {user}")
    return engine


def forge_newest_message(client: Any) -> None:
    """Change only the text of the newest message; its stamp, its generation and its id stay valid."""
    item = json.loads(client.lindex(HISTORY, 0))
    client.lset(HISTORY, 0, json.dumps({**item, "text": "invented"}, separators=(",", ":")))


def seal_with_another_secret(client: Any) -> None:
    """Seal all entries with the secret of another store."""
    seal = Seal(b"x" * 32)
    fields = {name: value for name, value in client.hgetall(SESSION).items() if name != "mac"}
    code, items = "", []
    for item in reversed(client.lrange(HISTORY, 0, -1)):
        message = {name: value for name, value in json.loads(item).items() if name != "mac"}
        document = json.dumps({**message, "text": "invented", "before": code}, separators=(",", ":"))
        sealed, code = seal.seal_item(HISTORY, document)
        items.append(sealed)
    client.delete(HISTORY)
    client.lpush(HISTORY, *items)
    client.hset(SESSION, mapping=seal.seal_fields(SESSION, {**fields, "newest_code": code}))


def copy_other_session(client: Any) -> None:
    client.copy(OTHER_SESSION, SESSION, replace=True)
    client.copy(OTHER_HISTORY, HISTORY, replace=True)


def copy_other_messages(client: Any) -> None:
    client.copy(OTHER_HISTORY, HISTORY, replace=True)


def reverse_order(client: Any) -> None:
    items = client.lrange(HISTORY, 0, -1)
    client.delete(HISTORY)
    client.lpush(HISTORY, *items)


def nest_deeply(client: Any) -> None:
    client.hset(SESSION, "owners", "[" * 100_000)
    client.lset(HISTORY, 0, "[" * 100_000)


FORGERIES: dict[str, Forge] = {
    "a message is changed": forge_newest_message,
    "all of it by another secret": seal_with_another_secret,
    "another user's session": copy_other_session,
    "another user's messages": copy_other_messages,
    "other messages in another order": reverse_order,
    "the oldest is left out": lambda client: client.rpop(HISTORY),
    "the newest is left out": lambda client: client.lpop(HISTORY),
    "one is left out": lambda client: client.lrem(HISTORY, 1, client.lindex(HISTORY, 1)),
    "one is there twice": lambda client: client.lpush(HISTORY, client.lindex(HISTORY, 0)),
    "no messages": lambda client: client.delete(HISTORY),
    "another topic": lambda client: client.hset(SESSION, "current_topic", "invented"),
    "a field more": lambda client: client.hset(SESSION, "summary", "invented"),
    "a field less": lambda client: client.hdel(SESSION, "last_message"),
    "no code": lambda client: client.hdel(SESSION, "mac"),
    "another limit": lambda client: client.hset(SESSION, "limit", "2"),
    "deep JSON": nest_deeply,
    "a great many fields": lambda client: client.hset(SESSION, mapping={f"f{n}": "x" for n in range(10_000)}),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize("next_call", ["read", "say"])
def test_a_forged_working_memory_is_ignored(engine: Everhold, client: Any, forge: Forge, next_call: str) -> None:
    alice = engine.scope(user="alice", session="s1")
    expected = [f"{text} of alice" for text in TEXTS]
    assert read_messages(alice) == expected
    assert client.exists(SESSION, HISTORY) == 2
    forge(client)
    if next_call == "say":
        alice.say("fourth")
        expected.append("fourth")
    assert read_messages(alice) == expected
    working = alice.session()
    assert (working.topic, working.session.summary, working.user) == (None, None, "alice")
    assert [message.user_id for message in working.history] == ["alice"] * len(expected)
    assert engine._parts.session_deps.cache.read(SESSION_KEY) is not None, "it is filled from the records"


def test_random_changes_are_ignored(engine: Everhold, client: Any) -> None:
    alice, rng = engine.scope(user="alice", session="s1"), random.Random(3)
    expected = read_messages(alice)
    for _ in range(150):
        if rng.random() < 0.5:
            name = rng.choice(sorted(client.hgetall(SESSION)))
            value = client.hget(SESSION, name)
            client.hset(SESSION, name, _mutate(value, rng))
        else:
            index = rng.randrange(client.llen(HISTORY))
            client.lset(HISTORY, index, _mutate(client.lindex(HISTORY, index), rng))
        assert read_messages(alice) == expected


def _mutate(value: str, rng: random.Random) -> str:
    index = rng.randrange(len(value) + 1)
    return value[:index] + rng.choice('x0{}[],:"é') + value[index + rng.randrange(2) :] + rng.choice(["", " "])


def test_an_older_state_is_ignored(engine: Everhold, client: Any) -> None:
    alice = engine.scope(user="alice", session="s1")
    read_messages(alice)
    client.copy(SESSION, "old-session")
    client.copy(HISTORY, "old-history")
    alice.say("fourth")
    client.copy("old-session", SESSION, replace=True)
    client.copy("old-history", HISTORY, replace=True)
    assert read_messages(alice)[-1] == "fourth"


def test_forged_lists_of_sessions_break_nothing(engine: Everhold, client: Any) -> None:
    client.sadd(ACTIVE, "%00", "x" * 100_000, "a%2Fb", "", "s1%0A", "../..")
    client.zadd(BY_ACTIVITY, {"%00": 1, "s3": "inf", "s4": 1e300, "s5": -1e18, "s6": 5})
    possible_ids = {"s1", "s2", "a/b", "../.."}
    assert engine._parts.session_deps.cache.list_active("default") == possible_ids
    recent = engine._parts.session_deps.cache.list_recent("default", clock.from_micros(0))
    assert {name for name, _ in recent} == {"s1", "s2", "s6"}
    engine.maintain()
    assert read_messages(engine.scope(user="alice", session="s1"))


def test_engines_of_one_store_accept_each_others_entries(
    engine: Everhold, sqlite_store: Store, valkey_server: ValkeyServer, client: Any
) -> None:
    other_engine = sqlite_store.open(sessions=valkey_server.url)
    read_messages(engine.scope(user="alice", session="s1"))
    assert other_engine._parts.session_deps.cache.read(SESSION_KEY) is not None
    assert load_secret(other_engine._parts.records) == load_secret(engine._parts.records)
    assert load_secret(engine._parts.records).hex() not in json.dumps(
        [client.hgetall(SESSION), client.lrange(HISTORY, 0, -1)]
    )


def test_each_store_has_a_secret_and_a_read_only_store_a_temporary_one(sqlite_store: Store, tmp_path: Path) -> None:
    records = sqlite_store.open()._parts.records
    assert len(load_secret(records)) == 32
    path = tmp_path / "other.db"
    SqliteRecords(SqliteOptions(path=path)).close()
    read_only = SqliteRecords(SqliteOptions(path=path, read_only=True))
    assert len({load_secret(records), load_secret(read_only), load_secret(read_only)}) == 3
    read_only.close()
