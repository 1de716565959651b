"""The states that an agent stores between calls: one for each session, and one without a session.

The id of a state is derived from its agent and its session, so two writers cannot add two states. A cleared or expired
state stays as a row until maintenance purges it, and a new state continues its version numbers, so that a writer that
read an earlier version is refused.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from everhold import clock
from everhold.agents.deps import AgentDeps, make_stale_error, require_agent_id
from everhold.errors import AlreadyExists, BrokenReference, Conflict, InvalidInput, NotFound, StaleVersion, StoreBusy
from everhold.model import Agent, AgentState, Outbox, Scope, Session
from everhold.model.access import LoggedOperation
from everhold.model.agent import make_state_id
from everhold.model.announcement import make_announcement
from everhold.model.base import Entity
from everhold.model.change_feed import FeedOperation
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Op, Operation, Patch, Put, Where


class StateChange(NamedTuple):
    """New values of a state, and the operation for the access log."""

    values: Mapping[str, Any]
    operation: LoggedOperation = "update"


def find_state(records: Records, scope: Scope) -> AgentState | None:
    """Return the state of the scope's agent and session, or of the agent alone; None if there is none or it expired."""
    if not _has_owners(records, scope):
        return None
    return _choose_current(scope, _read_row(records, scope), clock.now())


def set_state(
    deps: AgentDeps,
    scope: Scope,
    value: Any,
    *,
    expires_at: datetime | None,
    ttl: timedelta | None,
    metadata: Mapping[str, Any] | None,
    expected_version: int | None,
) -> AgentState:
    """Store a state, replacing the current one; raise StaleVersion if that is not at the expected version."""
    expiry = choose_expiry(expires_at, ttl)
    values = {"state": value, "expires_at": expiry, **({} if metadata is None else {"metadata": metadata})}
    return _change(deps, scope, lambda _: StateChange(values), expected_version)


def update_state(deps: AgentDeps, scope: Scope, changes: Mapping[str, Any], expected_version: int | None) -> AgentState:
    """Set some keys of a state that is an object. The other keys and the expiry do not change."""

    def merge(current: AgentState | None) -> StateChange:
        before = {} if current is None else current.state
        if not isinstance(before, dict):
            raise Conflict(
                f"the state is a {type(before).__name__}, which has no keys to update", remedy="set it as a whole"
            )
        return StateChange({"state": {**before, **changes}})

    return _change(deps, scope, merge, expected_version)


def clear_state(deps: AgentDeps, scope: Scope, expected_version: int | None) -> bool:
    """Remove the state; return whether there was one."""
    current = find_state(deps.records, scope)
    if current is None:
        _require_expected(scope, None, expected_version)
        return False
    values: dict[str, Any] = {"state": None, "metadata": {}, "expires_at": clock.now()}
    _change(deps, scope, lambda _: StateChange(values, "delete"), expected_version)
    return True


def choose_expiry(expires_at: datetime | None, ttl: timedelta | None) -> datetime | None:
    """Return the time at which a state expires, from `expires_at` or `ttl`; None if it never expires."""
    if expires_at is not None and ttl is not None:
        raise InvalidInput("expires_at and ttl both say when the state expires", remedy="pass one of them")
    now = clock.now()
    if ttl is not None:
        try:
            expires_at = now + ttl
        except OverflowError:
            raise InvalidInput(f"ttl {ttl} ends after the year 9999", value=ttl, remedy="pass a shorter one") from None
    if expires_at is not None and expires_at <= now:
        raise InvalidInput(
            f"the state would expire at {expires_at.isoformat()}, which is past",
            value=expires_at,
            remedy="pass a later time",
        )
    return expires_at


def _change(
    deps: AgentDeps,
    scope: Scope,
    compute_change: Callable[[AgentState | None], StateChange],
    expected_version: int | None,
) -> AgentState:
    """Commit the values that `compute_change` returns for the current state; after a version conflict, start again.

    An expected version of 0 means that there is no state yet.
    """
    agent_id = require_agent_id(scope)

    def commit(_: int) -> AgentState:
        now = clock.now()
        rows = deps.make_missing_rows(scope, now)
        row = _read_row(deps.records, scope)
        current = _choose_current(scope, row, now)
        _require_expected(scope, current, expected_version)
        change = compute_change(current)
        updated = _make_state(scope, row, current, change.values, now)
        line = deps.make_line(scope, change.operation, now, {"state": updated.id})
        announcement = Put(_announce(deps.records, scope, updated, "delete" if change.operation == "delete" else "put"))
        try:
            deps.records.commit([*rows, _make_operation(row, updated), line, announcement])
        except (StaleVersion, AlreadyExists, BrokenReference) as error:
            deps.forget_known_rows()
            raise TryAgain("another writer changed the state") from error
        return updated

    busy_error = StoreBusy(
        f"the state of agent {agent_id!r} kept changing while it was set", value=agent_id, remedy="try again"
    )
    return retry("change a state", commit, CONFLICTS, give_up=lambda _: busy_error)


def _make_state(
    scope: Scope, row: AgentState | None, current: AgentState | None, values: Mapping[str, Any], now: datetime
) -> AgentState:
    """Return the state after a change: `current` with the new values, or a new state in the row `row`.

    `row` is None if the state has no row yet. `current` is None if it has no row, was cleared or has expired.
    """
    owner_values = {"agent_id": scope.agent, "session_id": scope.session, "created_by_id": scope.actor}
    if row is None:
        ids = {"id": make_state_id(require_agent_id(scope), scope.session), "organization_id": scope.organization}
        return validate_row(AgentState, {**ids, **owner_values, "created_at": now, "updated_at": now, **values})
    base_values = row.__dict__
    if current is None:  # a new state keeps nothing of a cleared or expired one
        base_values = {**base_values, **owner_values, "metadata": {}, "expires_at": None, "created_at": now}
    stamps = {"updated_at": max(now, row.updated_at), "last_updated_by_id": scope.actor, "version": row.version + 1}
    return validate_row(AgentState, {**base_values, **values, **stamps})


def _make_operation(row: AgentState | None, updated: AgentState) -> Operation:
    if row is None:
        return Put(updated)
    names = (
        "agent_id", "session_id", "state", "metadata", "expires_at", "created_at", "created_by_id", "updated_at",
        "last_updated_by_id",
    )  # fmt: skip
    changes = {name: updated.__dict__[name] for name in names}
    return Patch(AgentState, (updated.organization_id, updated.id), changes, row.version)


def _read_row(records: Records, scope: Scope) -> AgentState | None:
    """Return the row of the scope's state, even if the state was cleared or has expired.

    If there is none, return the row that has its id, which an import may have given to another agent or session.
    """
    state_id = make_state_id(require_agent_id(scope), scope.session)
    row = records.get(AgentState, scope.organization, [state_id], deleted=True).get(state_id)
    if scope.session is not None and not _belongs_to(scope, row):
        # An import may have stored this state under another id, and the store allows only one per agent and session.
        where = [Where("agent_id", Op.EQ, scope.agent), Where("session_id", Op.EQ, scope.session)]
        row = next(iter(records.scan(AgentState, scope.organization, where, limit=1)), row)
    if row is not None and row.is_deleted:
        # The agent or the session was restored without the state, or is being deleted now.
        raise NotFound(
            f"the state of agent {scope.agent!r} has been deleted", value=state_id, remedy="restore its owner"
        )
    return row


def _belongs_to(scope: Scope, row: AgentState | None) -> bool:
    return row is not None and (row.agent_id, row.session_id) == (scope.agent, scope.session)


def _choose_current(scope: Scope, row: AgentState | None, now: datetime) -> AgentState | None:
    """Return the row if it is the scope's state and has not expired."""
    if row is None or not _belongs_to(scope, row):
        return None
    return row if row.expires_at is None or row.expires_at > now else None


def _require_expected(scope: Scope, current: AgentState | None, expected: int | None) -> None:
    version = 0 if current is None else current.version
    if expected is not None and version != expected:
        raise make_stale_error(f"the state of agent {scope.agent!r}", version, expected)


def _has_owners(records: Records, scope: Scope) -> bool:
    """Return whether the scope's agent and session exist; a session of another scope counts as missing.

    Raise NotFound if one of them has been deleted.
    """
    agent_id = require_agent_id(scope)
    owners: list[Entity | None] = [records.get(Agent, scope.organization, [agent_id], deleted=True).get(agent_id)]
    if scope.session is not None:
        session = _find_session(records, scope, scope.session, deleted=True)
        owners.append(session if session is not None and session.is_open_to(scope) else None)
    for owner in owners:
        if owner is not None and owner.is_deleted:
            kind = type(owner).__name__.lower()
            raise NotFound(
                f"{kind} {owner.id!r} has been deleted", value=owner.id, remedy="restore it or use another id"
            )
    return None not in owners


def _find_session(records: Records, scope: Scope, session_id: str, *, deleted: bool = False) -> Session | None:
    return records.get(Session, scope.organization, [session_id], deleted=deleted).get(session_id)


def _announce(records: Records, scope: Scope, state: AgentState, operation: FeedOperation) -> Outbox:
    """Return the line of the change feed. A state has no user, so the line gets the user of its session."""
    line = make_announcement(state, operation)
    if scope.session is None:
        return line
    session = _find_session(records, scope, scope.session)
    # If the session does not exist yet, the same commit creates it with the scope's user.
    user_id = scope.user if session is None else session.user_id
    return Outbox.build_unchecked({**line.__dict__, "user_id": user_id or ""})
