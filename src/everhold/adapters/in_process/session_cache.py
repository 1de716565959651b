"""The session cache in the memory of this process."""

import copy
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from everhold.model.base import Row
from everhold.ports.session_cache import SessionKey, Step, Usage, WorkingMemory

MAX_SESSIONS = 1000
_MUTABLE = (dict, list)
R = TypeVar("R", bound=Row)


@dataclass
class _Entry:
    working: WorkingMemory
    expires_at: float


class InProcessSessions:
    """Caches a bounded number of sessions and evicts the least recently used. `now` returns seconds."""

    name = "in process"

    def __init__(
        self,
        *,
        ttl_seconds: float,
        history: int,
        max_sessions: int = MAX_SESSIONS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.history = history
        self._ttl = ttl_seconds
        self._max_sessions = max_sessions
        self._now = now
        self._entries: OrderedDict[SessionKey, _Entry] = OrderedDict()
        self._peak = 0
        self._lock = threading.Lock()

    def read(self, key: SessionKey) -> WorkingMemory | None:
        with self._lock:
            entry = self._find_unexpired(key)
            if entry is None:
                return None
            self._renew(key, entry)
            working = entry.working
        return WorkingMemory(_copy(working.session), tuple(map(_copy, working.history)), working.stamp)

    def write(self, key: SessionKey, working: WorkingMemory) -> None:
        history = tuple(map(_copy, working.history[: self.history]))
        with self._lock:
            self._renew(key, _Entry(replace(working, session=_copy(working.session), history=history), 0.0))
            while len(self._entries) > self._max_sessions:
                self._entries.popitem(last=False)

    def advance(self, key: SessionKey, step: Step) -> bool:
        with self._lock:
            entry = self._find_unexpired(key)
            stamp = entry.working.stamp.apply(step) if entry else None
            if entry is None or stamp is None:
                self._entries.pop(key, None)
                return False
            messages = (_copy(step.message),) if step.message else ()
            entry.working = WorkingMemory(
                _copy(step.session), (*messages, *entry.working.history)[: self.history], stamp
            )
            self._renew(key, entry)
            return True

    def drop(self, keys: Sequence[SessionKey]) -> None:
        with self._lock:
            for key in keys:
                self._entries.pop(key, None)

    def list_active(self, organization: str) -> set[str]:
        with self._lock:
            return {key.session for key in self._entries if key.organization == organization}

    def list_recent(self, organization: str, since: datetime) -> list[tuple[str, datetime]]:
        with self._lock:
            recent = [
                (key.session, entry.working.last_active)
                for key, entry in self._entries.items()
                if key.organization == organization and entry.working.last_active >= since
            ]
        return sorted(recent, key=lambda session: (session[1], session[0]), reverse=True)

    def clean(self, organization: str) -> int:
        with self._lock:
            expired = [
                key
                for key, entry in self._entries.items()
                if key.organization == organization and entry.expires_at <= self._now()
            ]
            for key in expired:
                del self._entries[key]
        return len(expired)

    def measure_usage(self) -> Usage | None:
        """Return an estimate: the size of the cached values."""
        with self._lock:
            used = sum(_estimate_size(entry.working) for entry in self._entries.values())
            self._peak = max(self._peak, used)
            return Usage(used, self._peak)

    def find_problem(self) -> str | None:
        return None

    def close(self) -> None:
        with self._lock:
            self._entries.clear()

    def _find_unexpired(self, key: SessionKey) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires_at <= self._now():
            del self._entries[key]
            return None
        return entry

    def _renew(self, key: SessionKey, entry: _Entry) -> None:
        entry.expires_at = self._now() + self._ttl
        self._entries[key] = entry
        self._entries.move_to_end(key)


def _estimate_size(working: WorkingMemory) -> int:
    return sum(sys.getsizeof(value) for row in (working.session, *working.history) for value in row.__dict__.values())


def _copy(row: R) -> R:
    """Return a copy with its own lists and dictionaries, so that a caller's later changes do not reach the cache."""
    values = row.__dict__.copy()
    for name, value in values.items():
        if type(value) in _MUTABLE:
            values[name] = copy.deepcopy(value) if value else type(value)()  # most are empty
    return type(row).build_complete(values)
