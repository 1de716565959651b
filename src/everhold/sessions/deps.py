"""The dependencies of the session verbs, and the lookup of a scope's session."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from everhold.errors import Argument, InvalidInput, NotFound, Remedy
from everhold.model import Chunk, Message, Scope, Session
from everhold.model.session import make_session_not_found
from everhold.ports.records import Records
from everhold.ports.session_cache import SessionCache, SessionKey
from everhold.schema.operations import Op, Operation, Where
from everhold.values import Value, value_class

if TYPE_CHECKING:
    from everhold.sessions.archive_files import ArchiveFiles  # few processes archive


class MissingRows(Protocol):
    """Makes the rows that a scope names and that do not exist yet, and caches which scopes have all of them."""

    def make_missing_rows(self, scope: Scope, now: datetime) -> list[Operation]: ...

    def confirm(self, scope: Scope) -> None: ...

    def invalidate(self) -> None: ...


def _make_no_chunks(message: Message) -> list[Chunk]:
    return []


def _update_no_summaries(messages: Sequence[Message], now: datetime, are_restored: bool) -> list[Operation]:
    return []


def _use_no_files() -> "ArchiveFiles | None":
    return None


@value_class
class SessionDeps(Value):
    """The stores and functions that the session verbs use."""

    records: Records
    scope_rows: MissingRows
    cache: SessionCache
    text_bytes: int
    interface: str = "library"
    make_chunks: Callable[[Message], list[Chunk]] = _make_no_chunks
    """Returns the chunks that make a message searchable."""
    find_archive_files: "Callable[[], ArchiveFiles | None]" = _use_no_files
    """Returns the store of archive files, or None if archives are stored in the records."""
    update_summaries: Callable[[Sequence[Message], datetime, bool], list[Operation]] = _update_no_summaries
    """Returns the operations that update summaries after messages are deleted, or restored if the flag is true."""


def make_session_key(scope: Scope) -> SessionKey:
    if scope.session is None:
        raise InvalidInput("the scope names no session", remedy=Remedy("name one with {}", Argument("session", "ID")))
    return SessionKey(scope.organization, scope.session)


def make_row_key(session_key: SessionKey) -> tuple[str, str]:
    return session_key.organization, session_key.session


def find_session(records: Records, scope: Scope) -> Session | None:
    """Return the scope's session, or None if it does not exist yet or the scope may not use it.

    Raise NotFound if the session is deleted. A verb that writes need not handle None: `ScopeRows.make_missing_rows`
    creates the session, or raises an error if it belongs to another scope.
    """
    session_key = make_session_key(scope)
    row = records.get(Session, session_key.organization, [session_key.session], deleted=True).get(session_key.session)
    if row is None or not row.is_open_to(scope):
        return None
    if row.is_deleted:
        raise NotFound(f"session {row.id!r} has been deleted", value=row.id, remedy="restore it or use another id")
    return row


def require_session(records: Records, scope: Scope) -> Session:
    """Return the scope's session; raise NotFound without revealing whether another scope has one with that id."""
    row = find_session(records, scope)
    if row is None:
        raise make_session_not_found(make_session_key(scope).session)
    return row


def make_message_conditions(scope: Scope) -> list[Where]:
    """Return the conditions that the messages of a scope meet."""
    # A message takes the project of its session, which may differ from the scope's or be absent.
    return [Where(column, Op.EQ, value) for column, value in scope.columns.items() if column != "project_id"]


def is_message_of(scope: Scope, message: Message) -> bool:
    """Return whether a message meets the conditions of `make_message_conditions`."""
    values = message.__dict__
    return all(values[column] == value for column, value in scope.columns.items() if column != "project_id")
