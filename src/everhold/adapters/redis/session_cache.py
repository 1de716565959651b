"""The cache of sessions in Redis.

A session has a hash and a list of its newest messages. An organization has a set of its active sessions, and a sorted
set of them by the time of their last activity. Every write is one transaction. An operation that fails has no effect
and returns the same as with an empty cache.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from redis.exceptions import WatchError

from everhold import clock
from everhold.adapters.redis.breaker import Breaker
from everhold.adapters.redis.codec import EntryHeader, decode_entry, encode_hash, encode_item, read_header
from everhold.adapters.redis.connection import FAILURES, Link, RedisOptions
from everhold.adapters.redis.keys import Keys, OrganizationKeys, decode_id, encode_id, make_keys
from everhold.adapters.redis.seal import Seal
from everhold.interrupts import uninterrupted
from everhold.model.fields import is_id
from everhold.ports.session_cache import SessionKey, Step, Usage, WorkingMemory

_BATCH = 500  # sessions in one transaction
_TOUCHES_PER_TTL = 100  # reads extend the time to live at most this often during its length
_MAX_TOUCHED = 100_000  # sessions whose last extension is remembered


class RedisSessions:
    """A `SessionCache` in Redis. Reads and writes have separate circuit breakers: a full server still answers reads."""

    def __init__(
        self, options: RedisOptions, secret: Callable[[], bytes], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`secret` returns the key that entries are sealed with. Engines that share sessions must share it."""
        self._link = Link(options)
        self._prefix = options.prefix
        self._ttl = options.ttl_seconds
        self.history = options.history
        self._now = now
        self._read_breaker = Breaker(FAILURES, self._link.reset, now)
        self._write_breaker = Breaker(FAILURES, self._link.reset, now)
        # The times when this cache last extended the time to live of a session.
        self._touch_times: dict[SessionKey, float] = {}
        self._lock = threading.Lock()
        self._secret = secret
        self._cached_seal: Seal | None = None

    def __repr__(self) -> str:
        return f"RedisSessions({self._link.host_and_port})"

    @property
    def name(self) -> str:
        return f"Redis at {self._link.host_and_port}"

    def read(self, key: SessionKey) -> WorkingMemory | None:
        return self._read_breaker.run(lambda: self._read(key), None)

    def write(self, key: SessionKey, working: WorkingMemory) -> None:
        self._write_breaker.run(lambda: self._write(key, working), None)

    def advance(self, key: SessionKey, step: Step) -> bool:
        return self._write_breaker.run(lambda: self._advance(key, step), True)

    def drop(self, keys: Sequence[SessionKey]) -> None:
        self._write_breaker.run(lambda: self._drop(keys), None)

    def list_active(self, organization: str) -> set[str]:
        key = OrganizationKeys(self._prefix, organization).active
        empty: set[str] = set()
        return self._read_breaker.run(lambda: self._read_ids(self._link.plain.smembers(key)), empty)

    def list_recent(self, organization: str, since: datetime) -> list[tuple[str, datetime]]:
        key = OrganizationKeys(self._prefix, organization).by_activity

        def read_recent() -> list[tuple[str, datetime]]:
            rows = self._link.plain.zrevrangebyscore(key, "+inf", clock.micros(since), withscores=True)
            sessions = [(decode_id(member, self._prefix), _read_moment(score)) for member, score in rows]
            return [(name, moment) for name, moment in sessions if moment is not None and is_id(name)]

        return self._read_breaker.run(read_recent, [])

    def clean(self, organization: str) -> int:
        return self._write_breaker.run(lambda: self._clean(organization), 0)

    def measure_usage(self) -> Usage | None:
        return self._read_breaker.run(self._measure_usage, None)

    def find_problem(self) -> str | None:
        try:
            with uninterrupted:
                # a full server or a replica refuses this write
                self._link.plain.set(f"{self._prefix or 'everhold'}:probe", "", px=1)
        except FAILURES as failure:
            self._link.reset()
            return self._link.explain(failure)
        return None

    def close(self) -> None:
        with uninterrupted:
            self._link.close()

    def _read(self, session_key: SessionKey) -> WorkingMemory | None:
        keys, last_index = make_keys(self._prefix, session_key), self.history - 1
        caching = self._link.caching
        if caching is not None:
            fields, items = caching.hgetall(keys.session), caching.lrange(keys.history, 0, last_index)
            if fields and self._is_touch_due(session_key):
                self._touch(self._link.plain.pipeline(transaction=True), keys).execute()
        else:
            pipeline = self._link.plain.pipeline(transaction=True)
            pipeline.hgetall(keys.session)
            pipeline.lrange(keys.history, 0, last_index)
            fields, items, *_ = self._touch(pipeline, keys).execute()
        return decode_entry(session_key, keys, fields, items, self.history, self._seal) if fields else None

    @property
    def _seal(self) -> Seal:
        if self._cached_seal is None:
            self._cached_seal = Seal(self._secret())
        return self._cached_seal

    def _is_touch_due(self, session_key: SessionKey) -> bool:
        """Return whether to extend the time to live. Rarely true: it invalidates the caches of other clients."""
        with self._lock:
            now = self._now()
            if self._touch_times.get(session_key, -self._ttl) + self._ttl / _TOUCHES_PER_TTL > now:
                return False
            if len(self._touch_times) >= _MAX_TOUCHED:
                self._touch_times.clear()
            self._touch_times[session_key] = now
            return True

    def _write(self, session_key: SessionKey, working: WorkingMemory) -> None:
        keys = make_keys(self._prefix, session_key)
        generation = clock.make_id("generation")
        history = working.history[: self.history]
        items, code = [], ""
        for message in reversed(history):
            item, code = self._seal.seal_item(keys.history, encode_item(message, generation, code))
            items.append(item)
        header = EntryHeader(working.stamp, generation, history[0].id if history else "", self.history, code)
        pipeline = self._link.plain.pipeline(transaction=True)
        pipeline.execute_command("DEL", keys.session, keys.history)
        pipeline.hset(keys.session, mapping=self._seal.seal_fields(keys.session, encode_hash(working.session, header)))
        if items:
            pipeline.lpush(keys.history, *items)
        self._register_session(pipeline, keys, working.last_active).execute()
        self._link.refresh(keys.session, keys.history)

    def _advance(self, session_key: SessionKey, step: Step) -> bool:
        """Apply a step to a cached session in one transaction; return False if the session was dropped instead."""
        keys = make_keys(self._prefix, session_key)
        with self._link.plain.pipeline(transaction=True) as pipeline:
            pipeline.watch(keys.session, keys.history)
            current = read_header(pipeline.hgetall(keys.session), keys.session, self._seal)
            stamp = current.stamp.apply(step) if current else None
            pipeline.multi()
            if current is None or stamp is None:
                self._delete_entry(pipeline, keys)
            else:
                newest, code = current.last_message, current.newest_code
                if step.message:
                    document = encode_item(step.message, current.generation, code)
                    item, code = self._seal.seal_item(keys.history, document)
                    newest = step.message.id
                    pipeline.lpush(keys.history, item)
                header = EntryHeader(stamp, current.generation, newest, min(current.limit, self.history), code)
                pipeline.execute_command("DEL", keys.session)
                pipeline.hset(
                    keys.session, mapping=self._seal.seal_fields(keys.session, encode_hash(step.session, header))
                )
                pipeline.ltrim(keys.history, 0, self.history - 1)
                self._register_session(pipeline, keys, step.session.last_active)
            try:
                pipeline.execute()
            except WatchError:  # another writer changed the session, perhaps without this step
                self._drop([session_key])
                return False
        self._link.refresh(keys.session, keys.history)
        return stamp is not None

    def _drop(self, session_keys: Sequence[SessionKey]) -> None:
        by_organization: dict[str, list[SessionKey]] = defaultdict(list)
        for session_key in session_keys:
            by_organization[session_key.organization].append(session_key)
        for organization_keys in by_organization.values():
            for start in range(0, len(organization_keys), _BATCH):
                pipeline = self._link.plain.pipeline(transaction=True)
                batch = [
                    make_keys(self._prefix, session_key) for session_key in organization_keys[start : start + _BATCH]
                ]
                for keys in batch:
                    self._delete_entry(pipeline, keys)
                pipeline.execute()
                self._link.refresh(*[name for keys in batch for name in (keys.session, keys.history)])

    def _clean(self, organization: str) -> int:
        keys = OrganizationKeys(self._prefix, organization)
        members = {*self._link.plain.smembers(keys.active), *self._link.plain.zrange(keys.by_activity, 0, -1)}
        sessions = [decode_id(member, self._prefix) for member in sorted(members)]
        return sum(
            self._clean_batch(keys, sessions[start : start + _BATCH]) for start in range(0, len(sessions), _BATCH)
        )

    def _clean_batch(self, keys: OrganizationKeys, sessions: Sequence[str]) -> int:
        """Remove expired sessions from the lists, in one transaction, so that a session that is cached again stays."""
        with self._link.plain.pipeline(transaction=True) as pipeline:
            pipeline.watch(*[keys.session(session) for session in sessions])
            expired = [
                encode_id(session, self._prefix)
                for session in sessions
                if not pipeline.execute_command("EXISTS", keys.session(session))
            ]
            pipeline.multi()
            if not expired:
                return 0
            pipeline.srem(keys.active, *expired)
            pipeline.zrem(keys.by_activity, *expired)
            try:
                pipeline.execute()
            except WatchError:
                return 0
        return len(expired)

    def _measure_usage(self) -> Usage:
        reports = [node.info("memory") for node in self._link.list_nodes()]
        used = sum(report["used_memory"] for report in reports)
        return Usage(used, sum(report["used_memory_peak"] for report in reports))

    def _read_ids(self, members: Iterable[str]) -> set[str]:
        """Return the ids in a set. Other programs may have added members that are not ids."""
        return {name for member in members if is_id(name := decode_id(member, self._prefix))}

    def _register_session(self, pipeline: Any, keys: Keys, last_active: datetime) -> Any:
        """Add a session to the set and the sorted set of its organization."""
        pipeline.sadd(keys.active, keys.member)
        pipeline.zadd(keys.by_activity, {keys.member: clock.micros(last_active)})
        return self._touch(pipeline, keys)

    def _touch(self, pipeline: Any, keys: Keys) -> Any:
        """Extend the time to live of all keys, including the organization's sets. So every unused key expires."""
        for key in keys.all:
            pipeline.expire(key, self._ttl)
        return pipeline

    @staticmethod
    def _delete_entry(pipeline: Any, keys: Keys) -> None:
        pipeline.execute_command("DEL", keys.session, keys.history)
        pipeline.srem(keys.active, keys.member)
        pipeline.zrem(keys.by_activity, keys.member)


def _read_moment(score: float) -> datetime | None:
    """Return the time of a score in microseconds; None if it is out of range."""
    try:
        return clock.from_micros(int(score))
    except (ValueError, OverflowError):
        return None
