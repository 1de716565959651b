"""The working memory of sessions in this process."""

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
from everhold.ports.session_cache import Place, Step, Usage, Working

MOST_SESSIONS = 1000
R = TypeVar("R", bound=Row)


@dataclass
class _Kept:
    working: Working
    until: float


class InProcessSessions:
    """A bounded number of sessions; that which was used longest ago goes first. `now` counts seconds."""

    name = "in process"

    def __init__(
        self,
        *,
        ttl_seconds: float,
        history: int,
        most_sessions: int = MOST_SESSIONS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.history = history
        self._ttl = ttl_seconds
        self._most = most_sessions
        self._now = now
        self._kept: OrderedDict[Place, _Kept] = OrderedDict()
        self._peak = 0
        self._lock = threading.Lock()

    def read(self, place: Place) -> Working | None:
        with self._lock:
            kept = self._live(place)
            if kept is None:
                return None
            self._slide(place, kept)
            working = kept.working
        return Working(_own(working.session), tuple(map(_own, working.history)), working.stamp)

    def write(self, place: Place, working: Working) -> None:
        history = tuple(map(_own, working.history[: self.history]))
        with self._lock:
            self._slide(place, _Kept(replace(working, session=_own(working.session), history=history), 0.0))
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def advance(self, place: Place, step: Step) -> bool:
        with self._lock:
            kept = self._live(place)
            stamp = kept.working.stamp.joined(step) if kept else None
            if kept is None or stamp is None:
                self._kept.pop(place, None)
                return False
            said = (_own(step.message),) if step.message else ()
            kept.working = Working(_own(step.session), (*said, *kept.working.history)[: self.history], stamp)
            self._slide(place, kept)
            return True

    def drop(self, places: Sequence[Place]) -> None:
        with self._lock:
            for place in places:
                self._kept.pop(place, None)

    def active(self, organization: str) -> set[str]:
        with self._lock:
            return {place.session for place in self._kept if place.organization == organization}

    def recent(self, organization: str, since: datetime) -> list[tuple[str, datetime]]:
        with self._lock:
            found = [
                (place.session, kept.working.last_active)
                for place, kept in self._kept.items()
                if place.organization == organization and kept.working.last_active >= since
            ]
        return sorted(found, key=lambda one: (one[1], one[0]), reverse=True)

    def clean(self, organization: str) -> int:
        with self._lock:
            lapsed = [
                place
                for place, kept in self._kept.items()
                if place.organization == organization and kept.until <= self._now()
            ]
            for place in lapsed:
                del self._kept[place]
        return len(lapsed)

    def usage(self) -> Usage | None:
        """An estimate: what the texts take."""
        with self._lock:
            used = sum(_size(kept.working) for kept in self._kept.values())
            self._peak = max(self._peak, used)
            return Usage(used, self._peak)

    def problem(self) -> str | None:
        return None

    def close(self) -> None:
        with self._lock:
            self._kept.clear()

    def _live(self, place: Place) -> _Kept | None:
        kept = self._kept.get(place)
        if kept is not None and kept.until <= self._now():
            del self._kept[place]
            return None
        return kept

    def _slide(self, place: Place, kept: _Kept) -> None:
        kept.until = self._now() + self._ttl
        self._kept[place] = kept
        self._kept.move_to_end(place)


def _size(working: Working) -> int:
    return sum(sys.getsizeof(value) for row in (working.session, *working.history) for value in row.__dict__.values())


def _own(row: R) -> R:
    """The same row with lists and dictionaries of its own: what a caller does to theirs must not be kept."""
    values = row.__dict__.items()
    return type(row).whole({name: copy.deepcopy(one) if isinstance(one, dict | list) else one for name, one in values})
