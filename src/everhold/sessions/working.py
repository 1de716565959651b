"""The working memory of a session: from the cache if it still holds, else from the records.

What is cached is never believed by itself. The session's row is read first, one row by its key, and what is cached is
used only if it was made from exactly that state of the row. So a session that was deleted, by whatever engine, is gone
at once; a cache that was cut off, restarted with old data or missed a deletion is merely not used; and a message that
another engine has added is seen.
"""

from collections.abc import Iterable
from dataclasses import replace

from everhold import clock
from everhold.model import Agent, Message, Organization, Scope, Session, User
from everhold.model.base import Tracked
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionKey, Stamp, WorkingMemory
from everhold.schema.operations import Op, Where
from everhold.sessions.deps import (
    SessionDeps,
    is_message_of,
    make_message_conditions,
    make_session_key,
    require_session,
)

NEWEST = "created_at"
"""Later messages of a session have later times; `say` sees to it."""
_TRIES = 3


def read_working_memory(deps: SessionDeps, scope: Scope) -> WorkingMemory:
    """Return the whole session's working memory as it is now. NotFound if there is no such session."""
    session, place = require_session(deps.records, scope), make_session_key(scope)
    cached = deps.cache.read(place)
    if cached is not None and _is_current(deps.records, cached, session):
        return cached
    return fill(deps, place, session)


def select_own_history(deps: SessionDeps, scope: Scope, working: WorkingMemory) -> WorkingMemory:
    """The same with the scope's own messages only: those of its user and its agent, if it names any."""
    own = tuple(one for one in working.history if is_message_of(scope, one))
    if len(own) < len(working.history) and not is_complete(deps, working):
        own = tuple(read_last_messages(deps, scope, deps.cache.history))
    return replace(working, history=own)


def is_complete(deps: SessionDeps, working: WorkingMemory) -> bool:
    """Whether the history is all that was ever said in the session, not just the end of it."""
    return len(working.history) < deps.cache.history


def read_last_messages(deps: SessionDeps, scope: Scope, limit: int) -> list[Message]:
    return _scan(deps, scope, limit, deleted=False)


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
    """Reads a session's last messages and keeps them.

    They are kept only if the row is the same afterwards as before: every message changes it, so none came meanwhile.
    """
    working = None
    # Not `retry`: a session that changes every time is no failure. The last reading is returned and not cached.
    for _ in range(_TRIES):
        working, may_be_kept = _build_from_records(deps, place, session)
        again = deps.records.get(Session, place.organization, [place.session]).get(place.session)
        if again is None:
            return working
        if compute_row_stamp(again) == compute_row_stamp(session):
            if may_be_kept:
                deps.cache.write(place, working)
            return working
        session = again
    assert working is not None
    return working


def _build_from_records(deps: SessionDeps, place: SessionKey, session: Session) -> tuple[WorkingMemory, bool]:
    """The working memory that the records give, and whether it can be known later if it still holds.

    Deleted messages count: they come back if their owners do, which the stamp must then tell. Where some lie further
    back than we look, nobody could tell.
    """
    scope, most = Scope(organization=place.organization, session=place.session), deps.cache.history
    everything = _scan(deps, scope, most, deleted=True)
    hidden = any(one.is_deleted for one in everything)
    history = tuple(read_last_messages(deps, scope, most) if hidden else everything)
    stamp = compute_stamp(deps.records, session, [*everything, *history] if hidden else history)
    return WorkingMemory(session, history, stamp), not hidden or len(everything) < most


def compute_stamp(records: Records, session: Session, messages: Iterable[Message]) -> Stamp:
    """What a session with these messages was made from."""
    names = sorted({name for one in messages for name in _find_other_owners(session, one)})
    return Stamp(compute_row_stamp(session), _compute_owner_stamps(records, session.organization_id, names))


def compute_row_stamp(row: Tracked) -> str:
    """Changes with every change to a row, and is another one's if the row was purged and made anew."""
    return f"{row.version}-{clock.micros(row.updated_at)}-{clock.micros(row.created_at)}"


def _is_current(records: Records, cached: WorkingMemory, session: Session) -> bool:
    if cached.stamp.row != compute_row_stamp(session):
        return False
    owners = cached.stamp.owners
    return not owners or _compute_owner_stamps(records, session.organization_id, list(owners)) == dict(owners)


_OWNERS: dict[str, type[User | Agent]] = {"user_id": User, "agent_id": Agent}


def _find_other_owners(session: Session, message: Message) -> list[str]:
    """The message's owners that are not the session's own: deleting them leaves the session, but not the message."""
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
        stamps.update({f"{column}/{one}": compute_row_stamp(row) for one, row in rows.items()})
    return stamps


def drop_all(deps: SessionDeps, organization: str) -> None:
    """Drops an organization's cached sessions, after rows were added other than by `say`."""
    deps.cache.drop([SessionKey(organization, one) for one in deps.cache.list_active(organization)])


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


_COLUMN_OF = {"user": "user_id", "project": "project_id", "session": "id"}


def find_sessions_under(records: Records, kind: str, organization: str, name: str) -> list[SessionKey]:
    """The sessions that go when something is deleted: a user's, a project's, one, or all of an organization."""
    column = _COLUMN_OF.get(kind)
    where = [Where(column, Op.EQ, name)] if column else []
    return [
        SessionKey(organization, one) for (one,) in records.columns(Session, organization, ["id"], where, deleted=True)
    ]
