"""The object that the handlers of the protocols get: the engine, with the data of one organization."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from everhold import Everhold, View
from everhold.errors import NotFound

T = TypeVar("T")
# Sends a document to all subscribers of a topic.
Broadcast = Callable[[str, Mapping[str, Any]], None]

_MAX_OWNERS = 10_000


class SessionOwners:
    """Remembers which user a session belongs to, so that not every request has to read the session."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str | None] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, session_id: str, read: Callable[[], str | None]) -> str | None:
        """Return the owner of a session, which `read` reads if it is not known yet."""
        with self._lock:
            if session_id in self._owners:
                self._owners.move_to_end(session_id)
                return self._owners[session_id]
        owner = read()
        with self._lock:
            self._owners[session_id] = owner
            if len(self._owners) > _MAX_OWNERS:
                self._owners.popitem(last=False)
        return owner

    def forget(self, session_id: str) -> bool:
        """Forget the owner of a session; return whether one was known."""
        with self._lock:
            # `self` stands for "no entry", because an owner may be None.
            return self._owners.pop(session_id, self) is not self


class VoiceService:
    """The engine with one organization's data, and counts of the requests that were answered."""

    def __init__(self, engine: Everhold, organization: str, broadcast: Broadcast) -> None:
        self.engine, self.organization = engine, organization
        self.broadcast = broadcast
        self.answered = self.failed = 0
        self._owners = SessionOwners()
        self._started = time.monotonic()

    @property
    def uptime(self) -> float:
        """Seconds since the gateway started."""
        return time.monotonic() - self._started

    def view(self, *, user: str | None = None, session: str | None = None) -> View:
        """Return a view of the organization's data."""
        return self.engine.scope(organization=self.organization, user=user, session=session)

    def use_session(self, session_id: str, act: Callable[[View], T]) -> T:
        """Call `act` with a view of a session in the scope of the session's owner.

        Raise NotFound if it does not exist.
        """
        try:
            return act(self._view_session(session_id))
        except NotFound:
            # The session may have been purged and begun again by another user since its owner was read.
            if not self._owners.forget(session_id):
                raise
        return act(self._view_session(session_id))

    def _view_session(self, session_id: str) -> View:
        owner = self._owners.find(session_id, lambda: self.view(session=session_id).session().user)
        return self.view(user=owner, session=session_id)

    def begin_or_use_session(self, session_id: str, find_user: Callable[[], str | None], act: Callable[[View], T]) -> T:
        """Call `act` with a view of a session in the scope of its owner.

        For a new session, `find_user` returns the owner.
        """
        try:
            self._view_session(session_id)
        except NotFound:
            return act(self.view(user=find_user(), session=session_id))
        return self.use_session(session_id, act)

    def forget_owner(self, session_id: str) -> None:
        """Forget the owner of a session that was deleted."""
        self._owners.forget(session_id)
