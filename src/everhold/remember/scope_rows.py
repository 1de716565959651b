"""Create the rows of a scope (organization, user, agent, project, session) when it is first written to."""

import threading
import time
from datetime import datetime
from typing import Any

from everhold import model
from everhold.errors import NotFound
from everhold.model import Scope
from everhold.model.announcement import make_announcement
from everhold.model.base import Row
from everhold.ports.records import Records
from everhold.schema.operations import Ensure, Operation, Put, Require

# The maximum number of remembered scopes. It bounds the memory of a process that serves many users.
_MAX_KNOWN_SCOPES = 100_000

# How long the rows of a scope are assumed to exist. If another process deletes one in that time, the commit fails.
_TRUSTED_SECONDS = 5.0


class ScopeRows:
    """Remembers for a few seconds which scopes have usable rows, so that not every write reads them.

    It also refuses a write through a session that belongs to another user, project or agent.
    """

    def __init__(self, records: Records, *, strict: bool, timezone: str) -> None:
        self._records = records
        self._strict = strict
        self._timezone = timezone
        self._trusted_until: dict[Scope, float] = {}
        self._lock = threading.Lock()

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]:
        """Return the operations that add the missing rows of a scope.

        For a scope that was confirmed a few seconds ago, return operations that make the commit fail with
        BrokenReference if a row has been deleted. Raise NotFound for a deleted row, for a missing row in strict mode,
        and for a session that the scope may not use, with the same message as for a session that does not exist.
        """
        # Read without the lock: a dictionary lookup is atomic, and an outdated answer does no harm, because the
        # operations that are returned check the rows in the commit.
        if self._trusted_until.get(scope, 0.0) > time.monotonic():
            return _require_rows(scope)
        operations: list[Operation] = []
        for row, word in self._make_rows(scope, now):
            if not self._exists(scope, row, word):
                # Two users may start sessions with the same id at once. Put makes the second commit fail; Ensure would
                # let it write into the session of the other user.
                operations.append(Put(row) if isinstance(row, model.Session) else Ensure(row))
                operations.append(Put(make_announcement(row)))
        return operations

    def _exists(self, scope: Scope, row: Row, word: str) -> bool:
        """Return whether a row of the scope exists; raise NotFound as `make_missing_rows` does. `word` is its kind."""
        row_id = str(row.__dict__["id"])
        stored = self._records.get(type(row), scope.organization, [row_id], deleted=True).get(row_id)
        is_foreign = isinstance(stored, model.Session) and not stored.is_open_to(scope)
        if (stored is None or is_foreign) and self._strict:
            raise NotFound(
                f"no {word} {row_id!r}", value=row_id, remedy="create it first, or set strict_scopes to false"
            )
        if is_foreign:
            from everhold.model.session import make_session_not_found

            raise make_session_not_found(row_id)
        if stored is not None and stored.__dict__["is_deleted"]:
            raise NotFound(f"{word} {row_id!r} has been deleted", value=row_id, remedy="restore it or use another id")
        return stored is not None

    def confirm(self, scope: Scope) -> None:
        """Assume for a few seconds that the rows of a scope exist; call this after a commit that needed them."""
        now = time.monotonic()
        with self._lock:
            # The time of a scope that is still known is not extended: its rows were not read for this write, and with
            # frequent writes they would never be read again.
            if self._trusted_until.get(scope, 0.0) <= now:
                if len(self._trusted_until) >= _MAX_KNOWN_SCOPES:
                    self._trusted_until.clear()
                self._trusted_until[scope] = now + _TRUSTED_SECONDS

    def invalidate(self) -> None:
        """Forget all scopes, so that the next write to each reads its rows again; call this after BrokenReference."""
        with self._lock:
            self._trusted_until.clear()

    def _make_rows(self, scope: Scope, now: datetime) -> list[tuple[Row, str]]:
        """Return an implicit row for each dimension of the scope, with the name of its kind."""
        stamps: dict[str, Any] = {"created_at": now, "updated_at": now}
        columns: dict[str, Any] = {**stamps, "organization_id": scope.organization}
        rows: list[tuple[Row, str]] = [
            (
                model.Organization(id=scope.organization, name=scope.organization, is_implicit=True, **stamps),
                "organization",
            )
        ]
        if scope.user:
            user = model.User(id=scope.user, name=scope.user, timezone=self._timezone, is_implicit=True, **columns)
            rows.append((user, "user"))
        if scope.agent:
            from everhold.model import Agent  # imported late, because few scopes name an agent

            rows.append((Agent(id=scope.agent, name=scope.agent, is_implicit=True, **columns), "agent"))
        if scope.project:
            rows.append((model.Project(id=scope.project, name=scope.project, is_implicit=True, **columns), "project"))
        if scope.session:
            session = model.Session(
                id=scope.session,
                project_id=scope.project,
                user_id=scope.user,
                agent_id=scope.agent,
                last_active=now,
                **columns,
            )
            rows.append((session, "session"))
        return rows


class AddedScopeRows(ScopeRows):
    """Adds no rows, for a write whose further operations add the rows of its scope."""

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]:
        return []


def _require_rows(scope: Scope) -> list[Operation]:
    """Return the operations that check in the commit itself that the rows of a scope exist."""
    from everhold.model import Agent  # imported late, because code that only reads does not need it

    ids: dict[type[Row], str | None] = {
        model.User: scope.user, Agent: scope.agent, model.Project: scope.project, model.Session: scope.session,
    }  # fmt: skip
    rows = [Require(entity, (scope.organization, row_id)) for entity, row_id in ids.items() if row_id]
    return [Require(model.Organization, (scope.organization,)), *rows]
