"""Create the rows of a scope (organization, user, agent, project, session) when it is first written to."""

import threading
import time
from datetime import datetime
from typing import Any

from everhold import model
from everhold.errors import NotFound
from everhold.model import Organization, Project, Scope, User
from everhold.model.announcement import make_announcement
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Operation, Put, Require

# The most scopes that are remembered, so that a process that serves many users does not grow without limit.
_KNOWN_MOST = 100_000

# How long a scope is trusted to exist. Another process may delete its rows in the meantime; then the commit fails.
_TRUSTED_SECONDS = 5.0


class ScopeRows:
    """Remembers for a few seconds which scopes have usable rows, so that a write need not read them again.

    Every write through a session is checked here: a session of another user, project or agent is refused.
    """

    def __init__(self, records: Records, *, strict: bool, timezone: str) -> None:
        self._records = records
        self._strict = strict
        self._timezone = timezone
        self._known: dict[Scope, float] = {}
        self._lock = threading.Lock()

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]:
        """Return the operations that add the missing rows of a scope.

        For a scope that is trusted to exist, return operations that let the commit fail with BrokenReference if it does
        not. Raise NotFound for a deleted row, for a missing row in strict mode, and for a session that the scope may
        not use, with the same message as for a session that does not exist.
        """
        # Read without the lock: a lookup in a dictionary is atomic, and an answer that is just out of date is no worse
        # than a row that is deleted right after it was read.
        if self._known.get(scope, 0.0) > time.monotonic():
            return _require_rows(scope)
        operations: list[Operation] = []
        for row, word in self._make_rows(scope, now):
            if not self._exists(scope, row, word):
                # Two users may begin a session of the same name at once. With Put the second commit fails; with Ensure
                # it would write into the session of the other user.
                operations.append(Put(row) if isinstance(row, model.Session) else Ensure(row))
                operations.append(Put(make_announcement(row)))
        return operations

    def _exists(self, scope: Scope, row: Row, word: str) -> bool:
        name = str(row.__dict__["id"])
        stored = self._records.get(type(row), scope.organization, [name], deleted=True).get(name)
        is_foreign = isinstance(stored, model.Session) and not stored.is_open_to(scope)
        if (stored is None or is_foreign) and self._strict:
            raise NotFound(f"no {word} {name!r}", value=name, remedy="create it first, or set strict_scopes to false")
        if is_foreign:
            from everhold.model.session import make_session_not_found

            raise make_session_not_found(name)
        if stored is not None and stored.__dict__["is_deleted"]:
            raise NotFound(f"{word} {name!r} has been deleted", value=name, remedy="restore it or use another id")
        return stored is not None

    def confirm(self, scope: Scope) -> None:
        """Trust for a few seconds that the rows of a scope exist, after a commit that needed them."""
        moment = time.monotonic()
        with self._lock:
            # A scope that is still trusted is not extended: its rows were not read for this write, and frequent writes
            # would otherwise never read them again.
            if self._known.get(scope, 0.0) <= moment:
                if len(self._known) >= _KNOWN_MOST:
                    self._known.clear()
                self._known[scope] = moment + _TRUSTED_SECONDS

    def invalidate(self) -> None:
        """Read the rows of every scope again at its next write, because a trusted row does not exist."""
        with self._lock:
            self._known.clear()

    def _make_rows(self, scope: Scope, now: datetime) -> list[tuple[Row, str]]:
        stamps: dict[str, Any] = {"created_at": now, "updated_at": now}
        own: dict[str, Any] = {**stamps, "organization_id": scope.organization}
        rows: list[tuple[Row, str]] = [
            (Organization(id=scope.organization, name=scope.organization, is_implicit=True, **stamps), "organization")
        ]
        if scope.user:
            user = User(id=scope.user, name=scope.user, timezone=self._timezone, is_implicit=True, **own)
            rows.append((user, "user"))
        if scope.agent:
            from everhold.model import Agent  # few scopes name an agent

            rows.append((Agent(id=scope.agent, name=scope.agent, is_implicit=True, **own), "agent"))
        if scope.project:
            rows.append((Project(id=scope.project, name=scope.project, is_implicit=True, **own), "project"))
        if scope.session:
            session = model.Session(
                id=scope.session,
                project_id=scope.project,
                user_id=scope.user,
                agent_id=scope.agent,
                last_active=now,
                **own,
            )
            rows.append((session, "session"))
        return rows


class AddedScopeRows(ScopeRows):
    """For a write whose further operations add the rows of its scope themselves."""

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]:
        return []


def _require_rows(scope: Scope) -> list[Operation]:
    """Return the operations that require the rows of a scope, in the commit itself and without a query before it."""
    from everhold.model import Agent  # reading needs none

    names: dict[type[Row], str | None] = {
        User: scope.user, Agent: scope.agent, Project: scope.project, model.Session: scope.session,
    }  # fmt: skip
    rows = [Require(entity, (scope.organization, name)) for entity, name in names.items() if name]
    return [Require(Organization, (scope.organization,)), *rows]
