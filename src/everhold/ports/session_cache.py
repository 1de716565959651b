"""The working memory of sessions, kept at hand.

Records are the truth. A cache may lose anything at any time, and may hold what is no longer so: a server that was
restarted with old data, a deletion that did not reach it, another engine that wrote meanwhile. So what it gives back
carries the stamp of the session's row that it was made from, and whoever reads it compares that with the row before
using it. No verb here raises because the cache cannot be reached: a read then has no answer, and a write is not kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from everhold.model import Message, Session


@dataclass(frozen=True)
class Place:
    """Which session is meant. Equal ids in two organizations are two places."""

    organization: str
    session: str


@dataclass(frozen=True)
class Stamp:
    """Which state of a session something was made from: equal stamps, equal sessions and messages.

    `row` is of the session's own row, which every message changes. `owners` are the users and agents whose messages
    are in a session that is not theirs: deleting one of them takes those messages away without touching the session.
    """

    row: str
    owners: Mapping[str, str] = field(default_factory=dict)

    def joined(self, step: "Step") -> "Stamp | None":
        """What this stamp becomes by a step; None if the step was not made from this state."""
        if step.before != self.row or any(self.owners.get(one, was) != was for one, was in step.stamp.owners.items()):
            return None
        return Stamp(step.stamp.row, {**self.owners, **step.stamp.owners})


@dataclass(frozen=True)
class Working:
    """The working memory of a session: its row as it was at the stamp, and its last messages, newest first."""

    session: Session
    history: tuple[Message, ...]
    stamp: Stamp = field(repr=False)

    @property
    def last_message(self) -> Message | None:
        return self.history[0] if self.history else None

    @property
    def user(self) -> str | None:
        return self.session.user_id

    @property
    def topic(self) -> str | None:
        return self.session.topic

    @property
    def context(self) -> Mapping[str, Any]:
        return self.session.context

    @property
    def scope(self) -> Any:
        return self.session.context.get("scope")

    @property
    def state(self) -> Any:
        return self.session.context.get("state")

    @property
    def client(self) -> Any:
        return self.session.context.get("client")

    @property
    def last_active(self) -> datetime:
        return self.session.last_active


@dataclass(frozen=True)
class Step:
    """From one state of a session to the next: its row afterwards, and the message that was said, if one was."""

    before: str
    stamp: Stamp
    session: Session
    message: Message | None = None


@dataclass(frozen=True)
class Usage:
    """Bytes that a cache takes now, and the most that it has taken."""

    used: int
    peak: int


class SessionCache(Protocol):
    """Keeps the working memory of sessions for a while after they were last read or written. Thread-safe."""

    @property
    def name(self) -> str:
        """What it is and where, without a password."""

    @property
    def history(self) -> int:
        """How many of a session's last messages are kept."""

    def read(self, place: Place) -> Working | None:
        """What is kept of a session, as one state of it; None if nothing is, or there is no answer."""

    def write(self, place: Place, working: Working) -> None:
        """Keeps all of it, in place of what was kept."""

    def advance(self, place: Place, step: Step) -> bool:
        """Applies a step. If what is cached is not the state that the step starts from, drops it and returns False: a
        message that was missed would never be noticed. True, too, if the cache cannot be reached."""

    def drop(self, places: Sequence[Place]) -> None:
        """Keeps nothing of these sessions any more."""

    def active(self, organization: str) -> set[str]:
        """The sessions that something is kept of; some may have lapsed since the last `clean`."""

    def recent(self, organization: str, since: datetime) -> list[tuple[str, datetime]]:
        """The same by when they were last active, at that time or later, the latest first."""

    def clean(self, organization: str) -> int:
        """Takes lapsed sessions off the list of active ones; how many those were."""

    def usage(self) -> Usage | None:
        """None if it is not known."""

    def problem(self) -> str | None:
        """Why the cache cannot be used at present, if it cannot. Asks it."""

    def close(self) -> None: ...
