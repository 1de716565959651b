"""What holding a conversation needs, and how a scope finds its session."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from recollect.errors import InvalidInput, NotFound
from recollect.model import Message, Scope, Session
from recollect.ports.records import Records
from recollect.ports.session_cache import Place, SessionCache
from recollect.schema.operations import Op, Operation, Where


class ScopeRows(Protocol):
    """The rows that a scope stands for: which are missing, and what is known about that."""

    def missing(self, scope: Scope, now: datetime) -> list[Operation]: ...

    def learn(self, scope: Scope) -> None: ...

    def doubt(self) -> None: ...


@dataclass(frozen=True)
class Host:
    """What holding a conversation needs."""

    records: Records
    scope_rows: ScopeRows
    cache: SessionCache
    text_bytes: int
    interface: str | None = None


def place_of(scope: Scope) -> Place:
    if scope.session is None:
        raise InvalidInput("the scope names no session; use engine.scope(…, session='an id of yours')")
    return Place(scope.organization, scope.session)


def key_of(place: Place) -> tuple[str, str]:
    return place.organization, place.session


def find(records: Records, scope: Scope) -> Session | None:
    """The scope's session, if there is one yet. NotFound for one that was deleted or is not of this scope."""
    place = place_of(scope)
    row = records.get(Session, place.organization, [place.session], deleted=True).get(place.session)
    if row is None:
        return None
    if row.is_deleted:
        raise NotFound(f"session {row.id!r} has been deleted; restore it or use another id")
    if not is_of(row, scope):
        raise NotFound(
            f"session {row.id!r} is not of this scope; use the user and project it began with, or another id"
        )
    return row


def found(records: Records, scope: Scope) -> Session:
    row = find(records, scope)
    if row is None:
        raise NotFound(f"no session {scope.session!r} in this scope; it begins when something is said in it")
    return row


def is_of(session: Session, scope: Scope) -> bool:
    """Whether a session has the user and the project that a scope names. One that is no agent's is open to each."""
    given = scope.columns
    return (
        given.get("user_id", session.user_id) == session.user_id
        and given.get("project_id", session.project_id) == session.project_id
        and (session.agent_id is None or given.get("agent_id", session.agent_id) == session.agent_id)
    )


def said_in(scope: Scope) -> list[Where]:
    """The conditions that the messages of a scope meet."""
    return [Where(column, Op.EQ, value) for column, value in scope.columns.items() if column != "project_id"]


def was_said_in(scope: Scope, message: Message) -> bool:
    values = message.__dict__
    return all(values[column] == value for column, value in scope.columns.items() if column != "project_id")
