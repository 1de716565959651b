"""Find when the sessions of an import began, if the input names them without a time, or only in messages."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from everhold.errors import Conflict, InvalidInput, NotFound
from everhold.importers.records import Record
from everhold.model import Scope
from everhold.sessions.bulk import import_session
from everhold.sessions.deps import SessionDeps

# The most sessions that are noted. Others begin when they are imported.
_MAX_SESSIONS = 200_000


class SessionStarts:
    """Notes the first time of each session while an import is checked."""

    def __init__(self) -> None:
        self._first_times: dict[str, datetime] = {}
        self._begun_ids: set[str] = set()
        self.has_late_sessions = False
        """Whether a session was noted after something of it."""

    def note(self, record: Record) -> None:
        """Note the time of a message or a memory that belongs to a session."""
        if record.kind == "session" and record.values["id"] in self._first_times:
            self.has_late_sessions = True
        session = record.values.get("session")
        if record.kind not in ("message", "memory") or session is None:
            return
        created_at, first_time = record.values["created_at"], self._first_times.get(session)
        is_earliest = len(self._first_times) < _MAX_SESSIONS if first_time is None else created_at < first_time
        if is_earliest:
            self._first_times[session] = created_at

    def complete(self, values: dict[str, Any], session_id: str) -> Mapping[str, Any]:
        """Return the values of a session, with the time of what was first said in it if they have none."""
        self._begun_ids.add(session_id)
        first_time = self._first_times.get(session_id)
        return values if "created_at" in values or first_time is None else {**values, "created_at": first_time}

    def begin_session(self, deps: SessionDeps, scope: Scope) -> None:
        """Store the session of a scope with its first time, if the input has no other information about it."""
        session_id = scope.session
        if session_id is None or session_id in self._begun_ids:
            return
        self._begun_ids.add(session_id)
        values = self.complete({}, session_id)
        try:
            if values:
                import_session(deps, scope, values)
        except (Conflict, InvalidInput, NotFound):
            pass  # what is written in the session is refused, with the same reason
