"""Read the working memory of a session: from the cache while it is current, otherwise from the records.

Every read gets the session's row by its key first, and uses the cached copy only if it was made from exactly that state
of the row. So changes by other engines, such as a new message or a deletion, are visible at once, and outdated cache
entries are ignored.
"""

from collections.abc import Iterable
from dataclasses import replace

from everhold import clock
from everhold.model import Agent, Message, Organization, Scope, Session, User
from everhold.model.base import Tracked
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionKey, Stamp, WorkingMemory
from everhold.schema.operations import Op, Where
from everhold.sessions.archive import put_back_scope_session, require_readable_session
from everhold.sessions.deps import SessionDeps, is_message_of, make_message_conditions, make_session_key

# The column that orders messages: `say` gives later messages of a session later times.
NEWEST = "created_at"
_TRIES = 3  # how often a busy session is read before it is returned without being cached


def read_working_memory(deps: SessionDeps, scope: Scope) -> WorkingMemory:
    """Return the current working memory of the whole session; raise NotFound if the session does not exist."""
    session, session_key = require_readable_session(deps, scope), make_session_key(scope)
    cached = deps.cache.read(session_key)
    if cached is not None and _is_current(deps.records, cached, session):
        return cached
    return fill(deps, session_key, session)


def select_own_history(deps: SessionDeps, scope: Scope, working: WorkingMemory) -> WorkingMemory:
    """Return the working memory with the messages of the scope's user and agent only, if it names any."""
    history = tuple(message for message in working.history if is_message_of(scope, message))
    # If messages were left out, there may be older ones of this scope that the cache does not have.
    if len(history) < len(working.history) and not is_complete(deps, working):
        history = tuple(read_last_messages(deps, scope, deps.cache.history))
    return replace(working, history=history)


def is_complete(deps: SessionDeps, working: WorkingMemory) -> bool:
    """Return whether the history holds every message of the session, not only the last ones."""
    return len(working.history) < deps.cache.history


def read_last_messages(deps: SessionDeps, scope: Scope, limit: int) -> list[Message]:
    """Return the last messages of the scope's session, newest first, after putting archived messages back."""
    messages = _scan(deps, scope, limit, deleted=False)
    if not messages and put_back_scope_session(deps, scope):
        messages = _scan(deps, scope, limit, deleted=False)
    return messages


def _scan(deps: SessionDeps, scope: Scope, limit: int, *, deleted: bool) -> list[Message]:
    return deps.records.scan(
        Message,
        scope.organization,
        make_message_conditions(scope),
        order=NEWEST,
        descending=True,
        limit=limit,
        deleted=deleted,
    )


def fill(deps: SessionDeps, session_key: SessionKey, session: Session) -> WorkingMemory:
    """Read a session's last messages from the records, cache them and return them.

    They are cached only if the session's row did not change while they were read. Every message changes the row.
    """
    working = None
    # `retry` would raise an error. Here a session that keeps changing is returned as last read, without caching it.
    for _ in range(_TRIES):
        working, can_be_cached = _build_from_records(deps, session_key, session)
        latest = deps.records.get(Session, session_key.organization, [session_key.session]).get(session_key.session)
        if latest is None:
            return working
        if compute_row_stamp(latest) == compute_row_stamp(session):
            if can_be_cached:
                deps.cache.write(session_key, working)
            return working
        session = latest
    assert working is not None
    return working


def _build_from_records(deps: SessionDeps, session_key: SessionKey, session: Session) -> tuple[WorkingMemory, bool]:
    """Return the working memory from the records, and whether it can be cached: its stamp shows every later change.

    Restoring the owner of a deleted message restores the message. The stamp therefore includes the owners of deleted
    messages. A session with deleted messages beyond the cached history cannot be cached: their owners are not read.
    """
    scope, limit = Scope(organization=session_key.organization, session=session_key.session), deps.cache.history
    messages = _scan(deps, scope, limit, deleted=True)
    has_deleted = any(message.is_deleted for message in messages)
    history = tuple(read_last_messages(deps, scope, limit) if has_deleted else messages)
    stamp = compute_stamp(deps.records, session, [*messages, *history] if has_deleted else history)
    return WorkingMemory(session, history, stamp), not has_deleted or len(messages) < limit


def compute_stamp(records: Records, session: Session, messages: Iterable[Message]) -> Stamp:
    """Return the stamp of a session with these messages: the state of every row that they depend on."""
    names = sorted({name for message in messages for name in _find_other_owners(session, message)})
    return Stamp(compute_row_stamp(session), _compute_owner_stamps(records, session.organization_id, names))


def compute_row_stamp(row: Tracked) -> str:
    """Return a text that differs after every change to a row, also if the row was purged and created again."""
    return f"{row.version}-{clock.micros(row.updated_at)}-{clock.micros(row.created_at)}"


def _is_current(records: Records, cached: WorkingMemory, session: Session) -> bool:
    if cached.stamp.row != compute_row_stamp(session):
        return False
    owners = cached.stamp.owners
    return not owners or _compute_owner_stamps(records, session.organization_id, list(owners)) == dict(owners)


_OWNERS: dict[str, type[User | Agent]] = {"user_id": User, "agent_id": Agent}


def _find_other_owners(session: Session, message: Message) -> list[str]:
    """Return the message's owners that differ from the session's: deleting such an owner deletes only the message."""
    values = message.__dict__
    return [
        f"{column}/{values[column]}"
        for column in _OWNERS
        if values[column] is not None and values[column] != session.__dict__[column]
    ]


def _compute_owner_stamps(records: Records, organization: str, names: list[str]) -> dict[str, str]:
    stamps = {}
    for column, entity in _OWNERS.items():
        ids = [name.partition("/")[2] for name in names if name.startswith(f"{column}/")]
        # Deleted owners are included: hiding an owner changes its version, and so the stamp.
        rows = records.get(entity, organization, ids, deleted=True) if ids else {}
        stamps.update({f"{column}/{owner_id}": compute_row_stamp(row) for owner_id, row in rows.items()})
    return stamps


def drop_all(deps: SessionDeps, organization: str) -> None:
    """Drop an organization's cached sessions. Call this after rows were added by anything but `say`."""
    deps.cache.drop([SessionKey(organization, session_id) for session_id in deps.cache.list_active(organization)])


def find_stale(deps: SessionDeps) -> list[SessionKey]:
    """Return the cached sessions that the records no longer have."""
    stale_keys: list[SessionKey] = []
    for organization in deps.records.scan(Organization, None, deleted=True):
        cached_ids = sorted(deps.cache.list_active(organization.id))
        live_sessions = deps.records.get(Session, organization.id, cached_ids) if cached_ids else {}
        stale_keys += [
            SessionKey(organization.id, session_id) for session_id in cached_ids if session_id not in live_sessions
        ]
    return stale_keys


def remove_stale(deps: SessionDeps) -> int:
    """Drop expired cache entries, and sessions that the records no longer have; return the number of such sessions."""
    stale_keys = find_stale(deps)
    if stale_keys:
        deps.cache.drop(stale_keys)
    for organization in deps.records.scan(Organization, None, deleted=True):
        deps.cache.clean(organization.id)
    return len(stale_keys)


_SESSION_COLUMNS = {"user": "user_id", "project": "project_id", "agent": "agent_id", "session": "id"}


def find_sessions_under(records: Records, kind: str, organization: str, name: str) -> list[SessionKey]:
    """Return the sessions that are deleted with a user, a project, an agent, a session or an organization."""
    column = _SESSION_COLUMNS.get(kind)
    where = [Where(column, Op.EQ, name)] if column else []
    rows = records.columns(Session, organization, ["id"], where, deleted=True)
    return [SessionKey(organization, session_id) for (session_id,) in rows]
