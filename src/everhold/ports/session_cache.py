"""The cache for the working memory of sessions.

The records are authoritative. A cache may lose entries at any time, and its entries may be outdated: a server was
restarted with old data, a deletion did not reach it, or another engine wrote in the meantime. So every entry carries
the stamp of the session's row that it was made from, and the reader compares the stamp with the row before using the
entry. No method raises if the cache is unreachable: a read then returns None, and a write is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from everhold.model import Message, Session
from everhold.values import Value, value_class


@dataclass(frozen=True)
class SessionKey:
    """A session's organization and id. Equal ids in two organizations are different sessions."""

    organization: str
    session: str


@value_class
class Stamp(Value):
    """The state of a session that a cache entry was made from: equal stamps mean equal sessions and messages.

    `row` identifies the version of the session's row, which every message changes. `owners` are the versions of the
    users and agents who wrote messages in a session of another user: deleting one of them removes their messages
    without changing the session's row.
    """

    row: str
    owners: Mapping[str, str] = field(default_factory=dict)

    def apply(self, step: "Step") -> "Stamp | None":
        """Return the stamp after a step; None if the step does not start from this state."""
        owners = step.stamp.owners
        if step.before != self.row or any(self.owners.get(name, stamp) != stamp for name, stamp in owners.items()):
            return None
        return Stamp(step.stamp.row, {**self.owners, **owners})


@value_class
class WorkingMemory(Value):
    """The working memory of a session: its row at the time of the stamp, and its last messages, newest first."""

    session: Session
    history: tuple[Message, ...]
    stamp: Stamp = field(repr=False)

    def __repr__(self) -> str:
        return f"WorkingMemory({self.session!r}, messages={len(self.history)})"

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


@value_class
class Step(Value):
    """A change from one state of a session to the next: the row after it, and the new message, if there is one.

    `before` is the `row` of the stamp that the change starts from, `stamp` the stamp after it.
    """

    before: str
    stamp: Stamp
    session: Session
    message: Message | None = None


@value_class
class Usage(Value):
    """The bytes that a cache uses now, and the most that it has used."""

    used: int
    peak: int


class SessionCache(Protocol):
    """Caches the working memory of sessions for some time after the last read or write. Thread-safe."""

    @property
    def name(self) -> str:
        """The kind of cache and its address, without a password."""

    @property
    def history(self) -> int:
        """The maximum number of a session's last messages that are cached."""

    def read(self, key: SessionKey) -> WorkingMemory | None:
        """Return the cached working memory of a session; None if it is not cached or the cache is unreachable."""

    def write(self, key: SessionKey, working: WorkingMemory) -> None:
        """Cache the working memory of a session, replacing an earlier entry."""

    def advance(self, key: SessionKey, step: Step) -> bool:
        """Apply a step to the cached session and return True.

        If the step starts from another state than the cached one, drop the session and return False: it may lack a
        message that nothing would add later. Return True also if the cache is unreachable.
        """

    def drop(self, keys: Sequence[SessionKey]) -> None:
        """Remove these sessions from the cache."""

    def list_active(self, organization: str) -> set[str]:
        """Return the ids of an organization's cached sessions; some may have expired since the last `clean`."""

    def list_recent(self, organization: str, since: datetime) -> list[tuple[str, datetime]]:
        """Return the ids of cached sessions last active at `since` or later, each with that time, latest first."""

    def clean(self, organization: str) -> int:
        """Remove expired sessions from the list of active ones and return how many were removed."""

    def measure_usage(self) -> Usage | None:
        """Return the memory that the cache uses; None if it is unknown."""

    def find_problem(self) -> str | None:
        """Send the cache a request and return why it is unusable; None if it works."""

    def close(self) -> None: ...
