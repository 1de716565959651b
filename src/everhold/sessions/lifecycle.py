"""Open, end, reopen and archive a session, and find one to delete or restore."""

from collections.abc import Mapping
from typing import Any

from everhold import clock
from everhold.errors import Conflict, NotFound, Remedy, Verb
from everhold.model import Scope, Session
from everhold.model.session import make_session_not_found
from everhold.ports.records import Records
from everhold.sessions.deletion import require_own_deletion
from everhold.sessions.deps import SessionDeps, find_session, make_session_key, require_session
from everhold.sessions.pipeline import change_session


def open_session(deps: SessionDeps, scope: Scope, values: Mapping[str, Any]) -> Session:
    """Begin the scope's session, or set fields of it if it exists; raise Conflict if it has ended."""
    session = find_session(deps.records, scope)
    if session is not None and session.ended_at is not None:
        raise Conflict(
            f"session {session.id!r} has ended ({session.ended_at:%Y-%m-%d %H:%M})",
            value=session.id,
            remedy=Remedy("call {}, or use another id", Verb("reopen_session")),
        )
    return change_session(deps, scope, values, operation="create")


def end_session(deps: SessionDeps, scope: Scope, summary: str | None) -> Session:
    """End the scope's session, and set its summary unless it is None. A session that has ended keeps its end time."""
    session = require_session(deps.records, scope)
    changes = {**_make_end_change(session), **({"summary": summary} if summary is not None else {})}
    return change_session(deps, scope, changes) if changes else session


def archive_session(deps: SessionDeps, scope: Scope) -> Session:
    """Mark the scope's session for cold storage, and end it if it has not ended."""
    session = require_session(deps.records, scope)
    return change_session(deps, scope, {**_make_end_change(session), "is_archived": True})


def reopen_session(deps: SessionDeps, scope: Scope) -> Session:
    """Let the scope's session take messages again, and remove the mark for cold storage."""
    require_session(deps.records, scope)
    return change_session(deps, scope, {"ended_at": None, "is_archived": False})


def _make_end_change(session: Session) -> dict[str, Any]:
    return {"ended_at": clock.now()} if session.ended_at is None else {}


def require_own_session(records: Records, scope: Scope, *, deleted: bool = False) -> Session:
    """Return the scope's session if the scope may delete it; raise Conflict if the session also belongs to others.

    A session without a user may have messages of several users, and no user may delete the messages of other users. The
    same is true of projects and agents.
    """
    key = make_session_key(scope)
    session = records.get(Session, key.organization, [key.session], deleted=True).get(key.session)
    if session is None or not session.is_open_to(scope):
        raise make_session_not_found(key.session)
    if session.is_deleted and not deleted:
        raise NotFound(
            f"session {session.id!r} has been deleted", value=session.id, remedy="restore it, or delete it for good"
        )
    for kind in ("user", "project", "agent"):
        if getattr(scope, kind) is not None and session.__dict__[f"{kind}_id"] is None:
            raise Conflict(
                f"session {session.id!r} belongs to no {kind}, and others may take part in it",
                value=session.id,
                remedy=f"use a scope without the {kind}",
            )
    return session


def require_deleted_session(records: Records, scope: Scope) -> Session:
    """Return the deleted session of a scope; raise NotFound if it is not deleted, or was deleted with its owner."""
    session = require_own_session(records, scope, deleted=True)
    if session.deletion_id is None:
        raise NotFound(f"session {session.id!r} is not deleted", value=session.id, remedy="there is nothing to restore")
    require_own_deletion(records, session, "session")
    return session
