"""Functions for tests of sessions, which mark the cached working memory and tell whether an answer comes from it."""

import time
from collections.abc import Callable
from dataclasses import replace

from everhold import Everhold, View
from everhold.ports.session_cache import SessionKey, WorkingMemory

SESSION_KEY = SessionKey("default", "s1")
CACHE_ONLY_TEXT = "what only the cache says"


def read_cached(engine: Everhold, key: SessionKey = SESSION_KEY) -> WorkingMemory | None:
    return engine._parts.session_deps.cache.read(key)


def mark_cached_session(engine: Everhold, key: SessionKey = SESSION_KEY) -> bool:
    """Change a text of the cached session, so that it differs from the records. Return False if nothing is cached."""
    cache, working = engine._parts.session_deps.cache, read_cached(engine, key)
    if working is None:
        return False
    cache.write(key, replace(working, history=(working.history[0].evolve(text=CACHE_ONLY_TEXT), *working.history[1:])))
    return read_cached(engine, key) is not None


def is_from_cache(view: View) -> bool:
    return view.messages(limit=1)[0].text == CACHE_ONLY_TEXT


def read_messages(view: View, limit: int = 100) -> list[str | None]:
    """Return the texts of the last messages, oldest first, and check that the cache agrees with the records."""
    texts = [message.text for message in reversed(view.messages(limit=limit))]
    history = view.session().history
    assert [message.text for message in reversed(history[:limit])] == texts[-len(history) :]
    return texts


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail after five minutes."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.01)
