"""Read the messages of a session, and list sessions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from everhold.errors import InvalidInput
from everhold.model import Memory, Message, Scope, Session
from everhold.model.fields import is_id
from everhold.model.page import ResultPage
from everhold.schema.operations import Op, Page, Where
from everhold.sessions.archive import put_back_sessions_with_messages, require_readable_session
from everhold.sessions.deps import SessionDeps, is_message_of, make_message_conditions
from everhold.sessions.working import NEWEST, is_complete, read_working_memory


@dataclass(frozen=True, repr=False)
class Messages(ResultPage[Message]):
    """A page of messages.

    `cursor` gets the next page in the same direction. `back_cursor` gets the page before this one: pass it as `cursor`
    with the opposite value of `oldest_first`. Each is the id of the message at one end of the page, or None if there
    are no messages beyond that end. The id of any message of the session can be passed as a cursor too.
    """

    _items_field: ClassVar[str] = "messages"

    messages: tuple[Message, ...]
    cursor: str | None = None
    back_cursor: str | None = None


@dataclass(frozen=True)
class AddResult:
    """The messages that one call stored, and the memories of the facts in them."""

    messages: tuple[Message, ...]
    memories: tuple[Memory, ...] = ()


def list_messages(
    deps: SessionDeps,
    scope: Scope,
    *,
    limit: int,
    cursor: str | None,
    oldest_first: bool,
    conversation: str | None = None,
) -> Messages:
    """Return a page of the scope's messages in its session, or in one of its conversations, newest first.

    The page comes from the session cache if the cache is current and has all of these messages.
    """
    # The cache keeps `history` messages, so a longer page is always read from the records.
    cached = None if limit > deps.cache.history else _read_cached(deps, scope, cursor, oldest_first, conversation)
    if cached is not None and (len(cached.messages) > limit or cached.cursor is None):
        return _make_page(cached.messages, limit, cursor)
    require_readable_session(deps, scope)
    # One row more than the page takes shows whether there is a next page.
    return _make_page(_read_recorded(deps, scope, limit + 1, cursor, oldest_first, conversation), limit, cursor)


def _read_cached(
    deps: SessionDeps, scope: Scope, cursor: str | None, oldest_first: bool, conversation: str | None
) -> Messages | None:
    """Return the cached messages after the cursor, or None if the cache does not reach that far."""
    working = read_working_memory(deps, scope)
    complete = is_complete(deps, working)
    if oldest_first and not complete:
        return None
    history = working.history[::-1] if oldest_first else working.history
    messages = tuple(
        message
        for message in history
        if is_message_of(scope, message) and conversation in (None, message.conversation_id)
    )
    if cursor is not None:
        positions = [position for position, message in enumerate(messages) if message.id == cursor]
        if not positions:
            return None
        messages = messages[positions[0] + 1 :]
    # Callers never get this cursor: it only shows `list_messages` that the records may have older messages.
    return Messages(messages, None if complete else "further back")


def _read_recorded(
    deps: SessionDeps, scope: Scope, limit: int, cursor: str | None, oldest_first: bool, conversation: str | None
) -> Sequence[Message]:
    after = _find_cursor(deps, scope, cursor) if cursor is not None else None
    return deps.records.scan(
        Message,
        scope.organization,
        [
            *make_message_conditions(scope),
            *([Where("conversation_id", Op.EQ, conversation)] if conversation is not None else []),
        ],
        order=NEWEST,
        descending=not oldest_first,
        after=after,
        limit=limit,
    )


def _find_cursor(deps: SessionDeps, scope: Scope, cursor: str) -> Page:
    """Return the position of the cursor's message in the order, even if the message has been deleted since."""
    rows = deps.records.get(Message, scope.organization, [cursor], deleted=True) if is_id(cursor) else {}
    last = rows.get(cursor)
    if last is None or not is_message_of(scope, last):
        raise InvalidInput(
            f"invalid cursor {cursor[:40]!r}", value=cursor, remedy="pass the value from the previous page"
        )
    return Page(last.created_at, (scope.organization, last.id))


def find_readable(deps: SessionDeps, scope: Scope, message_ids: Iterable[str]) -> tuple[Message, ...]:
    """Return the messages with these ids that exist and that the scope may read."""
    ids = list(dict.fromkeys(message_id for message_id in message_ids if is_id(message_id)))
    rows = deps.records.get(Message, scope.organization, ids) if ids else {}
    if len(rows) < len(ids) and put_back_sessions_with_messages(
        deps, scope, [message_id for message_id in ids if message_id not in rows]
    ):
        rows = deps.records.get(Message, scope.organization, ids)
    return tuple(rows[message_id] for message_id in ids if message_id in rows and scope.can_read(rows[message_id]))


def _make_page(rows: Sequence[Message], limit: int, cursor: str | None) -> Messages:
    page = tuple(rows[:limit])
    # A page that was read with a cursor has at least one message before it: the message of the cursor.
    back_cursor = page[0].id if page and cursor is not None else None
    return Messages(page, page[-1].id if len(rows) > limit else None, back_cursor)


def list_sessions(deps: SessionDeps, scope: Scope, *, limit: int) -> list[Session]:
    """Return the scope's sessions, the most recently active first.

    They are read from the records, because the cache holds only some of them.
    """
    values = {("id" if column == "session_id" else column): value for column, value in scope.columns.items()}
    where = [Where(column, Op.EQ, value) for column, value in values.items()]
    return deps.records.scan(Session, scope.organization, where, order="last_active", descending=True, limit=limit)
