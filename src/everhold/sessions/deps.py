"""What holding a conversation needs, and how a scope finds its session."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from everhold.errors import Argument, InvalidInput, NotFound, Remedy
from everhold.model import Chunk, Message, Scope, Session
from everhold.model.session import make_session_not_found
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionCache, SessionKey
from everhold.schema.operations import Op, Operation, Where


class MissingRows(Protocol):
    """The rows that a scope stands for: which are missing, and what is known about that."""

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]: ...

    def confirm(self, scope: Scope) -> None: ...

    def invalidate(self) -> None: ...


def _cut_nothing(message: Message) -> list[Chunk]:
    return []


@dataclass(frozen=True)
class SessionDeps:
    """What holding a conversation needs."""

    records: Records
    scope_rows: MissingRows
    cache: SessionCache
    text_bytes: int
    interface: str = "library"
    cut: Callable[[Message], list[Chunk]] = _cut_nothing
    """Returns the chunks by which a message is found."""


def make_session_key(scope: Scope) -> SessionKey:
    if scope.session is None:
        raise InvalidInput("the scope names no session", remedy=Remedy("name one with {}", Argument("session", "ID")))
    return SessionKey(scope.organization, scope.session)


def make_row_key(place: SessionKey) -> tuple[str, str]:
    return place.organization, place.session


def find_session(records: Records, scope: Scope) -> Session | None:
    """Return the scope's session, or None if it does not exist yet or the scope may not use it.

    Raise NotFound for a deleted one of its own. For verbs that write, `ScopeRows.make_missing_rows` refuses the session
    of another scope.
    """
    place = make_session_key(scope)
    row = records.get(Session, place.organization, [place.session], deleted=True).get(place.session)
    if row is None or not row.is_open_to(scope):
        return None
    if row.is_deleted:
        raise NotFound(f"session {row.id!r} has been deleted", value=row.id, remedy="restore it or use another id")
    return row


def require_session(records: Records, scope: Scope) -> Session:
    """Return the scope's session. NotFound does not reveal whether another scope has one of that name."""
    row = find_session(records, scope)
    if row is None:
        raise make_session_not_found(make_session_key(scope).session)
    return row


def make_message_conditions(scope: Scope) -> list[Where]:
    """The conditions that the messages of a scope meet."""
    return [Where(column, Op.EQ, value) for column, value in scope.columns.items() if column != "project_id"]


def is_message_of(scope: Scope, message: Message) -> bool:
    values = message.__dict__
    return all(values[column] == value for column, value in scope.columns.items() if column != "project_id")
