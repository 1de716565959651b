"""The worker process of `benchmarks.episodes_crash`, which is killed.

It builds episodes in each possible way: when sessions end, when episodes are read, and by maintenance.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from benchmarks.engines import build_settings, open_engine
from benchmarks.texts import make_sentences
from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

USERS: Final = ("alice", "bob", "carol")
SESSIONS: Final = ("first", "second")
# More messages than one page has; each page is one commit.
MESSAGES: Final = 300
MODEL: Final = FakeEmbedder(dimensions=32)
START: Final = datetime(2024, 12, 30, 6, tzinfo=UTC)
MESSAGE_INTERVAL: Final = timedelta(minutes=3)
# The number of messages between two long pauses.
_MESSAGES_BETWEEN_PAUSES: Final = 45
_PAUSE: Final = timedelta(hours=5)
_SETTINGS: Final[dict[str, Any]] = {"sqlite": {"synchronous": "NORMAL"}, "postgres": {"pool_size": 2, "retries": 1}}


def open_store(storage: str) -> Everhold:
    return open_engine(build_settings(storage, **_SETTINGS), MODEL, MODEL)


def name_session(user: str, session: str) -> str:
    return f"{session} of {user}"


def fill(engine: Everhold) -> None:
    """Store messages in two sessions of each user, on the same days. No episode is built."""
    texts = make_sentences(1_000)
    for user_index, user in enumerate(USERS):
        for session_index, session in enumerate(SESSIONS):
            chat = engine.scope(user=user, session=name_session(user, session))
            at = START + session_index * timedelta(minutes=1)
            for number in range(MESSAGES):
                at += _PAUSE if number % _MESSAGES_BETWEEN_PAUSES == 0 else MESSAGE_INTERVAL
                chat.say(
                    texts[(number + 7 * session_index + 13 * user_index) * 11 % len(texts)],
                    role=("user", "assistant")[number % 2],
                    conversation=f"part {number // 120} of the {name_session(user, session)}",
                    created_at=at,
                )


def build(engine: Everhold) -> None:
    """Build all episodes: Bob's as his sessions end, Carol's as she reads them, and Alice's by maintenance."""
    for session in SESSIONS:
        engine.scope(user="bob", session=name_session("bob", session)).end_session()
    engine.scope(user="carol").episodes(level="year")
    report = engine.maintain(["episodes"])
    assert not report.failed, report.failed


def work(storage: str, is_open: "Event") -> None:
    """Build the episodes of a store, unless this process is killed first."""
    engine = open_store(storage)
    is_open.set()
    build(engine)
    engine.close()
