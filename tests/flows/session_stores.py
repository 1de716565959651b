"""Engines for tests about sessions: their store, where working memory is kept, and whether it is used."""

import time
from collections.abc import Callable
from dataclasses import replace

from everhold import Everhold, View
from everhold.ports.session_cache import SessionKey, WorkingMemory

PLACE = SessionKey("default", "s1")
UNTRUE = "what only the cache says"


def kept(engine: Everhold, place: SessionKey = PLACE) -> WorkingMemory | None:
    return engine._parts.session_deps.cache.read(place)


def mark(engine: Everhold, place: SessionKey = PLACE) -> bool:
    """Makes the cache tell something that the records do not; False if nothing is kept."""
    cache, working = engine._parts.session_deps.cache, kept(engine, place)
    if working is None:
        return False
    cache.write(place, replace(working, history=(working.history[0].evolve(text=UNTRUE), *working.history[1:])))
    return kept(engine, place) is not None


def is_from_cache(view: View) -> bool:
    return view.messages(limit=1)[0].text == UNTRUE


def said(view: View, limit: int = 100) -> list[str | None]:
    """What was said last, in the order in which it was: as many as the cache may answer, and it agrees with itself."""
    found = [one.text for one in reversed(view.messages(limit=limit))]
    assert [one.text for one in reversed(view.session().history[:limit])] == found[-len(view.session().history) :]
    return found


def eventually(condition: Callable[[], bool]) -> None:
    """Waits for what must come by itself; the limit is only there to end a test that fails."""
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.01)
