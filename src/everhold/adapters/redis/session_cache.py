"""The working memory of sessions in Redis: a hash and a list for each, a set of the active ones, and a sorted set of
them by when each was last active. Every write is one transaction, and whatever fails is as if it had not been asked.
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
from everhold.adapters.redis.codec import Mark, from_parts, read_mark, to_hash, to_item
from everhold.adapters.redis.connection import FAILURES, Link, RedisOptions
from everhold.adapters.redis.keys import Keys, OrganizationKeys, decode_id, encode_id, keys_of
from everhold.adapters.redis.seal import Seal
from everhold.interrupts import uninterrupted
from everhold.model.fields import is_id
from everhold.ports.session_cache import SessionKey, Step, Usage, WorkingMemory

_BATCH = 500
_TOUCHES_PER_TTL = 100
_KNOWN_MOST = 100_000


class RedisSessions:
    """Reads and writes have separate circuit breakers: a full server still answers reads."""

    def __init__(
        self, options: RedisOptions, secret: Callable[[], bytes], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`secret` returns the key that entries are sealed with. Engines that share sessions must share it."""
        self._link = Link(options)
        self._prefix = options.prefix
        self._ttl = options.ttl_seconds
        self.history = options.history
        self._now = now
        self._reading, self._writing = (Breaker(FAILURES, self._link.reset, now) for _ in range(2))
        self._touched: dict[SessionKey, float] = {}
        self._lock = threading.Lock()
        self._secret = secret
        self._known_seal: Seal | None = None

    def __repr__(self) -> str:
        return f"RedisSessions({self._link.place})"

    @property
    def name(self) -> str:
        return f"Redis at {self._link.place}"

    def read(self, place: SessionKey) -> WorkingMemory | None:
        return self._reading.ask(lambda: self._read(place), None)

    def write(self, place: SessionKey, working: WorkingMemory) -> None:
        self._writing.ask(lambda: self._write(place, working), None)

    def advance(self, place: SessionKey, step: Step) -> bool:
        return self._writing.ask(lambda: self._advance(place, step), True)

    def drop(self, places: Sequence[SessionKey]) -> None:
        self._writing.ask(lambda: self._drop(places), None)

    def list_active(self, organization: str) -> set[str]:
        key = OrganizationKeys(self._prefix, organization).active
        none: set[str] = set()
        return self._reading.ask(lambda: _read_ids(self._link.plain.smembers(key)), none)

    def list_recent(self, organization: str, since: datetime) -> list[tuple[str, datetime]]:
        key = OrganizationKeys(self._prefix, organization).by_activity

        def read_recent() -> list[tuple[str, datetime]]:
            rows = self._link.plain.zrevrangebyscore(key, "+inf", clock.micros(since), withscores=True)
            moments = {member: moment for member, score in rows if (moment := _read_moment(score)) is not None}
            return [(decode_id(member), moment) for member, moment in moments.items() if is_id(decode_id(member))]

        return self._reading.ask(read_recent, [])

    def clean(self, organization: str) -> int:
        return self._writing.ask(lambda: self._clean(organization), 0)

    def measure_usage(self) -> Usage | None:
        return self._reading.ask(self._usage, None)

    def find_problem(self) -> str | None:
        try:
            with uninterrupted:
                # a server that is full, or a replica, refuses this
                self._link.plain.set(f"{self._prefix}:probe", "", px=1)
        except FAILURES as failure:
            self._link.reset()
            return self._link.explain(failure)
        return None

    def close(self) -> None:
        with uninterrupted:
            self._link.close()

    def _read(self, place: SessionKey) -> WorkingMemory | None:
        keys, last = keys_of(self._prefix, place), self.history - 1
        keeping = self._link.keeping
        if keeping is not None:
            fields, items = keeping.hgetall(keys.session), keeping.lrange(keys.history, 0, last)
            if fields and self._is_due(place):
                self._touch(self._link.plain.pipeline(transaction=True), keys).execute()
        else:
            asked = self._link.plain.pipeline(transaction=True)
            asked.hgetall(keys.session)
            asked.lrange(keys.history, 0, last)
            fields, items, *_ = self._touch(asked, keys).execute()
        return from_parts(place, keys, fields, items, self.history, self._seal) if fields else None

    @property
    def _seal(self) -> Seal:
        if self._known_seal is None:
            self._known_seal = Seal(self._secret())
        return self._known_seal

    def _is_due(self, place: SessionKey) -> bool:
        """Return whether to extend the time to live. Rarely, because extending it makes every client read again."""
        with self._lock:
            moment = self._now()
            if self._touched.get(place, -self._ttl) + self._ttl / _TOUCHES_PER_TTL > moment:
                return False
            if len(self._touched) >= _KNOWN_MOST:
                self._touched.clear()
            self._touched[place] = moment
            return True

    def _write(self, place: SessionKey, working: WorkingMemory) -> None:
        keys = keys_of(self._prefix, place)
        generation = clock.make_id("generation")
        history = working.history[: self.history]
        items, code = [], ""
        for message in reversed(history):
            item, code = self._seal.seal_item(keys.history, to_item(message, generation, code))
            items.append(item)
        mark = Mark(working.stamp, generation, history[0].id if history else "", self.history, code)
        asked = self._link.plain.pipeline(transaction=True)
        asked.execute_command("DEL", keys.session, keys.history)
        asked.hset(keys.session, mapping=self._seal.seal_fields(keys.session, to_hash(working.session, mark)))
        if items:
            asked.lpush(keys.history, *items)
        self._enlist(asked, keys, working.last_active).execute()
        self._link.refresh(keys.session, keys.history)

    def _advance(self, place: SessionKey, step: Step) -> bool:
        keys = keys_of(self._prefix, place)
        with self._link.plain.pipeline(transaction=True) as asked:
            asked.watch(keys.session, keys.history)
            held = read_mark(asked.hgetall(keys.session), keys.session, self._seal)
            stamp = held.stamp.apply(step) if held else None
            asked.multi()
            if held is None or stamp is None:
                self._strike(asked, keys)
            else:
                newest, code = held.last_message, held.newest_code
                if step.message:
                    document = to_item(step.message, held.generation, code)
                    item, code = self._seal.seal_item(keys.history, document)
                    newest = step.message.id
                    asked.lpush(keys.history, item)
                mark = Mark(stamp, held.generation, newest, min(held.limit, self.history), code)
                asked.execute_command("DEL", keys.session)
                asked.hset(keys.session, mapping=self._seal.seal_fields(keys.session, to_hash(step.session, mark)))
                asked.ltrim(keys.history, 0, self.history - 1)
                self._enlist(asked, keys, step.session.last_active)
            try:
                asked.execute()
            except WatchError:  # another writer was faster and may not have known of this step
                self._drop([place])
                return False
        self._link.refresh(keys.session, keys.history)
        return stamp is not None

    def _drop(self, places: Sequence[SessionKey]) -> None:
        together: dict[str, list[SessionKey]] = defaultdict(list)
        for place in places:
            together[place.organization].append(place)
        for own in together.values():
            for start in range(0, len(own), _BATCH):
                asked = self._link.plain.pipeline(transaction=True)
                struck = [keys_of(self._prefix, place) for place in own[start : start + _BATCH]]
                for keys in struck:
                    self._strike(asked, keys)
                asked.execute()
                self._link.refresh(*[name for keys in struck for name in (keys.session, keys.history)])

    def _clean(self, organization: str) -> int:
        own = OrganizationKeys(self._prefix, organization)
        members = {*self._link.plain.smembers(own.active), *self._link.plain.zrange(own.by_activity, 0, -1)}
        sessions = [decode_id(one) for one in sorted(members)]
        return sum(self._clean_batch(own, sessions[at : at + _BATCH]) for at in range(0, len(sessions), _BATCH))

    def _clean_batch(self, own: OrganizationKeys, sessions: Sequence[str]) -> int:
        """Check and remove in one transaction, so that a session that comes back between the two stays on the list."""
        with self._link.plain.pipeline(transaction=True) as asked:
            asked.watch(*[own.session(one) for one in sessions])
            lapsed = [encode_id(one) for one in sessions if not asked.execute_command("EXISTS", own.session(one))]
            asked.multi()
            if not lapsed:
                return 0
            asked.srem(own.active, *lapsed)
            asked.zrem(own.by_activity, *lapsed)
            try:
                asked.execute()
            except WatchError:
                return 0
        return len(lapsed)

    def _usage(self) -> Usage:
        found = [node.info("memory") for node in self._link.nodes()]
        return Usage(sum(one["used_memory"] for one in found), sum(one["used_memory_peak"] for one in found))

    def _enlist(self, asked: Any, keys: Keys, last_active: datetime) -> Any:
        asked.sadd(keys.active, keys.member)
        asked.zadd(keys.by_activity, {keys.member: clock.micros(last_active)})
        return self._touch(asked, keys)

    def _touch(self, asked: Any, keys: Keys) -> Any:
        """Extend the time to live of all keys, also of the organization's lists, so that every key expires some day."""
        for key in keys.all:
            asked.expire(key, self._ttl)
        return asked

    @staticmethod
    def _strike(asked: Any, keys: Keys) -> None:
        asked.execute_command("DEL", keys.session, keys.history)
        asked.srem(keys.active, keys.member)
        asked.zrem(keys.by_activity, keys.member)


def _read_ids(members: Iterable[str]) -> set[str]:
    """Return the ids that a set holds. Other programs may have added members that are no ids."""
    return {name for name in map(decode_id, members) if is_id(name)}


def _read_moment(score: float) -> datetime | None:
    """Return the time that a score stands for; None if it is out of range."""
    try:
        return clock.from_micros(int(score))
    except (ValueError, OverflowError):
        return None
