"""A test suite for session caches.

    class TestMyCache(SessionCacheContract):
        @pytest.fixture
        def cache(self):
            cache = MyCache(ttl_seconds=TTL, history=HISTORY)
            yield cache
            cache.close()

        @pytest.fixture
        def pass_time(self, cache):
            return cache.clock.advance

        @pytest.fixture
        def longer_cache(self, cache):
            longer_cache = MyCache(ttl_seconds=TTL, history=LONGER_HISTORY)
            yield longer_cache
            longer_cache.close()

A cache may lose its contents, but not in these tests: what was written and has not expired must be found.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everhold.model import Message, Session
from everhold.ports.session_cache import SessionCache, SessionKey, Stamp, Step, WorkingMemory

TTL = 1000
HISTORY = 5
LONGER_HISTORY = 20
START = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
KEY = SessionKey("acme", "s1")
SPECIAL_NAMES = ("s", "S", "s:1", "{s}", "s}", "{", "%7Bs%7D", "session:s", "history:s", "*", "ß漢字", "s\\", "'\"")

# Advances the cache's clock by some seconds.
PassTime = Callable[[float], None]


def make_session(key: SessionKey = KEY, version: int = 1, **fields: Any) -> Session:
    values: dict[str, Any] = {
        "organization_id": key.organization,
        "id": key.session,
        "created_at": START,
        "updated_at": START + timedelta(seconds=version),
        "last_active": START + timedelta(seconds=version),
        "version": version,
    }
    return Session(**{**values, **fields})


def make_message(number: int, key: SessionKey = KEY, **fields: Any) -> Message:
    created_at = START + timedelta(seconds=number)
    ids: dict[str, Any] = {"organization_id": key.organization, "session_id": key.session}
    values = {**ids, "id": f"m{number}", "position": number, "role": "user", "text": f"said {number}"}
    return Message(**{**values, "created_at": created_at, "updated_at": created_at, **fields})


def make_working_memory(key: SessionKey = KEY, messages: int = 3, version: int = 1, **fields: Any) -> WorkingMemory:
    history = tuple(make_message(number, key) for number in range(messages - 1, -1, -1))
    return WorkingMemory(make_session(key, version, **fields), history, Stamp(f"stamp {version}"))


def make_step(version: int, message: Message | None = None, key: SessionKey = KEY, **fields: Any) -> Step:
    """Return the step from one version to the next."""
    return Step(f"stamp {version}", Stamp(f"stamp {version + 1}"), make_session(key, version + 1, **fields), message)


class SessionCacheContract:
    """The tests of a session cache.

    Supply `cache`, an empty cache that keeps HISTORY messages for TTL seconds; `longer_cache`, the same cache with
    LONGER_HISTORY messages; and `pass_time`.
    """

    def test_a_new_cache_is_empty(self, cache: SessionCache) -> None:
        assert cache.read(KEY) is None
        assert cache.list_active("acme") == set()
        assert cache.list_recent("acme", START) == []
        assert cache.clean("acme") == 0
        assert cache.find_problem() is None
        assert cache.history == HISTORY

    def test_a_written_value_is_read_back(self, cache: SessionCache) -> None:
        context = {"scope": "technical", "state": "active", "client": {"kind": "web"}, "n": [1, None, 2.5, True, "ü"]}
        session = make_session(
            user_id="alice", topic="Tea & 茶", context=context, ended_at=START, is_archived=True, metadata={"a": {}}
        )
        message = make_message(
            0, content=[{"type": "text", "text": "\n\t\x01 \U0001f375"}], tool_calls=[{"x": 1}], name=""
        )
        written_value = WorkingMemory(session, (message,), Stamp("7-1-2", {"agent_id/helper": "3-4-5"}))
        cache.write(KEY, written_value)
        working_memory = cache.read(KEY)
        assert working_memory == written_value
        assert (working_memory.user, working_memory.topic, working_memory.last_message) == (
            "alice",
            "Tea & 茶",
            message,
        )
        assert (working_memory.scope, working_memory.state, working_memory.client) == (
            "technical",
            "active",
            {"kind": "web"},
        )
        assert working_memory.last_active == session.last_active
        assert working_memory.context == context

    def test_a_session_without_messages_is_cached(self, cache: SessionCache) -> None:
        cache.write(KEY, make_working_memory(messages=0))
        assert cache.read(KEY) == make_working_memory(messages=0)
        assert cache.advance(KEY, make_step(1, make_message(0)))
        assert cache.read(KEY) == make_working_memory(messages=1, version=2)

    def test_writing_replaces_the_previous_value_completely(self, cache: SessionCache) -> None:
        cache.write(KEY, make_working_memory(messages=4, topic="Tea", context={"state": "active"}))
        cache.write(KEY, make_working_memory(messages=2, version=2))
        assert cache.read(KEY) == make_working_memory(messages=2, version=2)

    def test_only_the_last_messages_are_kept(self, cache: SessionCache) -> None:
        working_memory = make_working_memory(messages=HISTORY + 3)
        cache.write(KEY, working_memory)
        assert cache.read(KEY) == replace(working_memory, history=working_memory.history[:HISTORY])

    @pytest.mark.parametrize("messages", [0, HISTORY - 1, HISTORY, HISTORY + 3])
    def test_a_history_cut_by_a_shorter_cache_is_not_taken_for_complete(
        self, cache: SessionCache, longer_cache: SessionCache, messages: int
    ) -> None:
        complete = make_working_memory(messages=messages)
        cache.write(KEY, complete)
        assert longer_cache.read(KEY) in (None, complete)
        for version in range(1, LONGER_HISTORY):
            writer = (longer_cache, cache)[version % 3 == 0]
            if not writer.advance(KEY, make_step(version, make_message(messages + version - 1))):
                return
            complete = make_working_memory(messages=messages + version, version=version + 1)
            for reader, limit in ((cache, HISTORY), (longer_cache, LONGER_HISTORY)):
                assert reader.read(KEY) in (None, replace(complete, history=complete.history[:limit]))

    def test_a_history_written_by_a_longer_cache_is_used(self, cache: SessionCache, longer_cache: SessionCache) -> None:
        complete = make_working_memory(messages=LONGER_HISTORY)
        longer_cache.write(KEY, complete)
        assert cache.read(KEY) in (None, replace(complete, history=complete.history[:HISTORY]))
        assert longer_cache.read(KEY) == complete

    def test_advancing_puts_the_message_first(self, cache: SessionCache) -> None:
        cache.write(KEY, make_working_memory(messages=HISTORY, topic="Tea"))
        for number in range(HISTORY, HISTORY + 3):
            version = number - HISTORY + 1
            assert cache.advance(KEY, make_step(version, make_message(number)))
            working_memory = cache.read(KEY)
            assert working_memory is not None
            assert [message.id for message in working_memory.history] == [
                f"m{number - back}" for back in range(HISTORY)
            ]
            assert working_memory.session == make_session(version=version + 1)
            assert working_memory.stamp == Stamp(f"stamp {version + 1}")

    def test_advancing_without_a_message_updates_the_session(self, cache: SessionCache) -> None:
        cache.write(KEY, make_working_memory(messages=2, topic="Tea"))
        assert cache.advance(KEY, make_step(1, topic="Rain"))
        assert cache.read(KEY) == make_working_memory(messages=2, version=2, topic="Rain")
        assert cache.advance(KEY, make_step(2, make_message(2)))
        assert cache.read(KEY) == make_working_memory(messages=3, version=3)

    @pytest.mark.parametrize("version", [0, 2])
    def test_advancing_from_another_state_keeps_nothing(self, cache: SessionCache, version: int) -> None:
        cache.write(KEY, make_working_memory())
        assert not cache.advance(KEY, make_step(version, make_message(9)))
        assert cache.read(KEY) is None
        assert cache.list_active("acme") == set()

    def test_advancing_a_missing_session_writes_nothing(self, cache: SessionCache) -> None:
        assert not cache.advance(KEY, make_step(1, make_message(1)))
        assert cache.read(KEY) is None
        assert cache.list_active("acme") == set()
        assert cache.list_recent("acme", START) == []

    def test_stamps_of_owners_accumulate(self, cache: SessionCache) -> None:
        cache.write(KEY, replace(make_working_memory(), stamp=Stamp("stamp 1", {"agent_id/a": "1"})))
        step = make_step(1, make_message(3))
        assert cache.advance(KEY, replace(step, stamp=Stamp("stamp 2", {"agent_id/b": "2"})))
        working_memory = cache.read(KEY)
        assert working_memory is not None
        assert working_memory.stamp == Stamp("stamp 2", {"agent_id/a": "1", "agent_id/b": "2"})
        changed = replace(make_step(2, make_message(4)), stamp=Stamp("stamp 3", {"agent_id/a": "other"}))
        assert not cache.advance(KEY, changed)
        assert cache.read(KEY) is None

    def test_dropped_sessions_are_not_found(self, cache: SessionCache) -> None:
        other = SessionKey("acme", "s2")
        for key in (KEY, other):
            cache.write(key, make_working_memory(key))
        cache.drop([KEY, SessionKey("acme", "unknown"), SessionKey("elsewhere", "s2")])
        assert cache.read(KEY) is None
        assert cache.list_active("acme") == {"s2"}
        assert [name for name, _ in cache.list_recent("acme", START)] == ["s2"]
        assert cache.read(other) == make_working_memory(other)
        cache.drop([])

    def test_organizations_are_separate(self, cache: SessionCache) -> None:
        keys = [SessionKey(organization, "s1") for organization in SPECIAL_NAMES]
        for number, key in enumerate(keys):
            cache.write(key, make_working_memory(key, topic=f"topic {number}"))
        for number, key in enumerate(keys):
            assert cache.read(key) == make_working_memory(key, topic=f"topic {number}")
            assert cache.list_active(key.organization) == {"s1"}
            assert len(cache.list_recent(key.organization, START)) == 1
        cache.drop(keys[:1])
        assert [cache.read(key) is None for key in keys] == [True] + [False] * (len(keys) - 1)

    def test_ids_with_special_characters_are_distinct(self, cache: SessionCache) -> None:
        keys = [SessionKey(organization, session) for organization in SPECIAL_NAMES for session in SPECIAL_NAMES]
        for number, key in enumerate(keys):
            cache.write(key, make_working_memory(key, messages=2, topic=f"topic {number}"))
        for number, key in enumerate(keys):
            assert cache.read(key) == make_working_memory(key, messages=2, topic=f"topic {number}")
        for organization in SPECIAL_NAMES:
            assert cache.list_active(organization) == set(SPECIAL_NAMES)

    def test_recent_sessions_are_listed_latest_first(self, cache: SessionCache) -> None:
        for number in (2, 3, 1):
            key = SessionKey("acme", f"s{number}")
            cache.write(key, make_working_memory(key, version=number))
        moments = [START + timedelta(seconds=number) for number in (1, 2, 3)]
        assert cache.list_recent("acme", START) == [("s3", moments[2]), ("s2", moments[1]), ("s1", moments[0])]
        assert cache.list_recent("acme", moments[1]) == [("s3", moments[2]), ("s2", moments[1])]
        first = SessionKey("acme", "s1")
        assert cache.advance(
            first, make_step(1, make_message(9, first), first, last_active=moments[2] + moments[2].resolution)
        )
        assert [name for name, _ in cache.list_recent("acme", moments[1])] == ["s1", "s3", "s2"]

    def test_unused_entries_expire(self, cache: SessionCache, pass_time: PassTime) -> None:
        cache.write(KEY, make_working_memory())
        pass_time(TTL + 1)
        assert cache.read(KEY) is None
        assert not cache.advance(KEY, make_step(1, make_message(3)))

    def test_reading_renews_the_time_to_live(self, cache: SessionCache, pass_time: PassTime) -> None:
        cache.write(KEY, make_working_memory())
        for _ in range(4):
            pass_time(TTL * 0.6)
            assert cache.read(KEY) == make_working_memory()
        assert cache.list_active("acme") == {"s1"}
        pass_time(TTL + 1)
        assert cache.read(KEY) is None

    def test_writing_renews_the_time_to_live(self, cache: SessionCache, pass_time: PassTime) -> None:
        cache.write(KEY, make_working_memory())
        pass_time(TTL * 0.6)
        assert cache.advance(KEY, make_step(1, make_message(3)))
        pass_time(TTL * 0.6)
        assert cache.advance(KEY, make_step(2))
        pass_time(TTL * 0.6)
        assert cache.read(KEY) == make_working_memory(messages=4, version=3)

    def test_cleaning_removes_expired_sessions(self, cache: SessionCache, pass_time: PassTime) -> None:
        keys = [SessionKey("acme", f"s{number}") for number in range(4)]
        for key in [*keys, SessionKey("other", "s0")]:
            cache.write(key, make_working_memory(key))
        pass_time(TTL * 0.6)
        cache.read(keys[0])
        pass_time(TTL * 0.6)
        cache.write(keys[1], make_working_memory(keys[1]))
        assert cache.clean("acme") == 2
        assert cache.list_active("acme") == {"s0", "s1"}
        assert {name for name, _ in cache.list_recent("acme", START)} == {"s0", "s1"}
        assert cache.clean("acme") == 0
        assert cache.read(keys[0]) == make_working_memory(keys[0])

    def test_usage_grows_with_the_cached_values(self, cache: SessionCache) -> None:
        before = cache.measure_usage()
        for number in range(50):
            key = SessionKey("acme", f"s{number}")
            cache.write(key, make_working_memory(key, messages=HISTORY, topic="tea " * 1000))
        after = cache.measure_usage()
        assert before is not None
        assert after is not None
        assert after.used > before.used
        assert after.peak >= after.used

    def test_changing_a_callers_value_does_not_change_the_cache(self, cache: SessionCache) -> None:
        original, expected = make_working_memory(context={"a": [1]}), make_working_memory(context={"a": [1]})
        cache.write(KEY, original)
        original.session.context["a"].append(2)
        working_memory = cache.read(KEY)
        assert working_memory == expected
        working_memory.session.context.clear()
        working_memory.history[0].references.append("x")
        assert cache.read(KEY) == expected
        step = make_step(1, make_message(3))
        cache.advance(KEY, step)
        step.session.context["b"] = 1
        assert cache.read(KEY) == make_working_memory(messages=4, version=2)

    def test_no_message_is_missed_between_threads(self, cache: SessionCache) -> None:
        """Threads advance the cache in any order. It then has every message up to its newest, or none."""
        steps = 60
        for _ in range(5):
            cache.write(KEY, make_working_memory(messages=0))
            with ThreadPoolExecutor(3) as pool:
                for future in [pool.submit(self._advance, cache, range(start, steps, 3)) for start in (1, 2, 3)]:
                    future.result()
            working_memory = cache.read(KEY)
            if working_memory is not None:
                newest = int(working_memory.stamp.row.removeprefix("stamp ")) - 1
                expected = [f"m{number}" for number in range(newest, max(0, newest - HISTORY), -1)]
                assert [message.id for message in working_memory.history] == expected

    @staticmethod
    def _advance(cache: SessionCache, versions: range) -> None:
        for version in versions:
            for _ in range(20):
                working_memory = cache.read(KEY)
                if working_memory is None or working_memory.stamp.row == f"stamp {version}":
                    break
            cache.advance(KEY, make_step(version, make_message(version)))
