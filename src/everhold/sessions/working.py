"""Read the working memory of a session: from the cache while it is current, otherwise from the records.

A cached session is never trusted by itself. The session's row is read first, one row by its key, and the cached copy is
used only if it was made from exactly that state of the row. So a session that any engine deleted is gone at once, a
message that another engine added is seen, and a cache with outdated data is ignored.
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
_TRIES = 3  # readings of a busy session before it is returned without being cached


def read_working_memory(deps: SessionDeps, scope: Scope) -> WorkingMemory:
    """Return the current working memory of the whole session; raise NotFound if the session does not exist."""
    session, place = require_readable_session(deps, scope), make_session_key(scope)
    cached = deps.cache.read(place)
    if cached is not None and _is_current(deps.records, cached, session):
        return cached
    return fill(deps, place, session)


def select_own_history(deps: SessionDeps, scope: Scope, working: WorkingMemory) -> WorkingMemory:
    """Return the working memory with the messages of the scope's user and agent only, if it names any."""
    own = tuple(message for message in working.history if is_message_of(scope, message))
    # Older messages of this scope may take the place of those that were left out.
    if len(own) < len(working.history) and not is_complete(deps, working):
        own = tuple(read_last_messages(deps, scope, deps.cache.history))
    return replace(working, history=own)


def is_complete(deps: SessionDeps, working: WorkingMemory) -> bool:
    """Return whether the history holds every message of the session, not only the last ones."""
    return len(working.history) < deps.cache.history


def read_last_messages(deps: SessionDeps, scope: Scope, limit: int) -> list[Message]:
    """Return the last messages of the scope's session, newest first."""
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


def fill(deps: SessionDeps, place: SessionKey, session: Session) -> WorkingMemory:
    """Read a session's last messages from the records, cache them and return them.

    They are cached only if the session's row did not change while they were read. Every message changes the row.
    """
    working = None
    # Not `retry`: a session that changes every time is no failure. The last reading is returned and not cached.
    for _ in range(_TRIES):
        working, can_be_cached = _build_from_records(deps, place, session)
        again = deps.records.get(Session, place.organization, [place.session]).get(place.session)
        if again is None:
            return working
        if compute_row_stamp(again) == compute_row_stamp(session):
            if can_be_cached:
                deps.cache.write(place, working)
            return working
        session = again
    assert working is not None
    return working


def _build_from_records(deps: SessionDeps, place: SessionKey, session: Session) -> tuple[WorkingMemory, bool]:
    """Return the working memory from the records, and whether its stamp shows every later change.

    Restoring the owner of a deleted message restores the message. The stamp therefore includes the owners of deleted
    messages. Owners of messages beyond the cached history are not in it, so such a session is not cached.
    """
    scope, most = Scope(organization=place.organization, session=place.session), deps.cache.history
    everything = _scan(deps, scope, most, deleted=True)
    hidden = any(message.is_deleted for message in everything)
    history = tuple(read_last_messages(deps, scope, most) if hidden else everything)
    stamp = compute_stamp(deps.records, session, [*everything, *history] if hidden else history)
    return WorkingMemory(session, history, stamp), not hidden or len(everything) < most


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
    """Return the message's owners that the session does not have: deleting one deletes the message alone."""
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
        rows = records.get(entity, organization, ids, deleted=True) if ids else {}  # hiding one changes its version
        stamps.update({f"{column}/{owner_id}": compute_row_stamp(row) for owner_id, row in rows.items()})
    return stamps


def drop_all(deps: SessionDeps, organization: str) -> None:
    """Drop an organization's cached sessions; call this after rows were added in other ways than by `say`."""
    deps.cache.drop([SessionKey(organization, session_id) for session_id in deps.cache.list_active(organization)])


def find_stale(deps: SessionDeps) -> list[SessionKey]:
    """Return the cached sessions that the records no longer have."""
    stale: list[SessionKey] = []
    for organization in deps.records.scan(Organization, None, deleted=True):
        cached = sorted(deps.cache.list_active(organization.id))
        live = deps.records.get(Session, organization.id, cached) if cached else {}
        stale += [SessionKey(organization.id, session_id) for session_id in cached if session_id not in live]
    return stale


def remove_stale(deps: SessionDeps) -> int:
    """Drop cached sessions that the records no longer have and parts that have expired; return how many sessions."""
    stale = find_stale(deps)
    if stale:
        deps.cache.drop(stale)
    for organization in deps.records.scan(Organization, None, deleted=True):
        deps.cache.clean(organization.id)
    return len(stale)


_COLUMN_OF = {"user": "user_id", "project": "project_id", "agent": "agent_id", "session": "id"}


def find_sessions_under(records: Records, kind: str, organization: str, name: str) -> list[SessionKey]:
    """Return the sessions that are deleted with a user, a project, an agent, a session or an organization."""
    column = _COLUMN_OF.get(kind)
    where = [Where(column, Op.EQ, name)] if column else []
    rows = records.columns(Session, organization, ["id"], where, deleted=True)
    return [SessionKey(organization, session_id) for (session_id,) in rows]
