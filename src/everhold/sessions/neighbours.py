"""Read the messages before and after a message, and the last messages of all sessions."""

from collections.abc import Iterator, Mapping, Sequence

from everhold.errors import NotFound
from everhold.model import Message, Scope, Session, SessionArchive
from everhold.ports.records import Records
from everhold.schema.conditions import make_equalities
from everhold.schema.operations import AnyOf, Condition, Op, Page, Where
from everhold.sessions.archive import put_back_messages, require_readable_session
from everhold.sessions.deps import SessionDeps, is_message_of, make_message_conditions
from everhold.sessions.messages import Messages
from everhold.sessions.working import NEWEST


def read_around(
    deps: SessionDeps, scope: Scope, message_id: str, *, limit: int, oldest_first: bool, conversation: str | None
) -> Messages:
    """Return a page of messages of the scope's session, with the given message in the middle of the page.

    Raise NotFound if the session, or the conversation, has no message with this id that the scope may read.
    """
    require_readable_session(deps, scope)
    message = deps.records.get(Message, scope.organization, [message_id]).get(message_id)
    if message is None or not is_message_of(scope, message) or conversation not in (None, message.conversation_id):
        raise NotFound(
            f"no message {message_id!r} in this session",
            value=message_id,
            remedy="pass the id of a message of the session",
        )
    where = make_message_conditions(scope)
    if conversation is not None:
        where.append(Where("conversation_id", Op.EQ, conversation))
    older_limit = (limit - 1) // 2
    newer_limit = limit - 1 - older_limit
    # One row more than is returned shows whether there is another page on that side.
    older = _read_beside(deps.records, where, message, older_limit + 1, descending=True)
    newer = _read_beside(deps.records, where, message, newer_limit + 1, descending=False)
    page = (*reversed(newer[:newer_limit]), message, *older[:older_limit])
    older_cursor = page[-1].id if len(older) > older_limit else None
    newer_cursor = page[0].id if len(newer) > newer_limit else None
    if oldest_first:
        return Messages(page[::-1], newer_cursor, older_cursor)
    return Messages(page, older_cursor, newer_cursor)


def read_neighbours(
    records: Records, scope: Scope, message: Message, count: int
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return up to `count` messages before a message and up to `count` after it, both oldest first.

    They are in the same conversation as the message, or in no conversation if it is in none. The scope may read them.
    """
    if count == 0 or message.session_id is None:
        return (), ()
    # The message may be in another session than the scope's: a scope with a user reads all sessions of that user.
    columns = {**scope.columns, "session_id": message.session_id, "conversation_id": message.conversation_id}
    columns.pop("project_id", None)  # a message has the project of its session
    where = make_equalities(columns)
    older = _read_beside(records, where, message, count, descending=True)
    return tuple(reversed(older)), tuple(_read_beside(records, where, message, count, descending=False))


def _read_beside(
    records: Records, where: Sequence[Where], message: Message, limit: int, *, descending: bool
) -> list[Message]:
    organization = message.organization_id
    after = Page(message.created_at, (organization, message.id))
    return records.scan(Message, organization, where, order=NEWEST, descending=descending, after=after, limit=limit)


def list_recent(deps: SessionDeps, scope: Scope, agent: str | None, limit: int) -> list[Message]:
    """Return the last messages of all sessions that the scope reads, newest first; with `agent`, only that agent's.

    Archived sessions that may have one of these messages are put back, the most recently active first.
    """
    column_values = scope.limits if agent is None else {**scope.limits, "agent_id": agent}
    if agent is not None and scope.agent not in (None, agent):
        return []
    messages = _read_last(deps.records, scope, column_values, limit)
    for session in _find_archived(deps.records, scope, column_values, limit):
        if len(messages) == limit and session.last_active < messages[-1].created_at:
            break
        if put_back_messages(deps, session.organization_id, session.id):
            messages = _read_last(deps.records, scope, column_values, limit)
    return messages


def _read_last(records: Records, scope: Scope, column_values: Mapping[str, str], limit: int) -> list[Message]:
    where = make_equalities(column_values)
    return records.scan(Message, scope.organization, where, order=NEWEST, descending=True, limit=limit)


def _find_archived(records: Records, scope: Scope, column_values: Mapping[str, str], size: int) -> Iterator[Session]:
    """Yield the archived sessions that may have messages with these column values, the most recently active first."""
    where: list[Condition] = [Where("archived_messages", Op.GT, 0)]
    for column, value in column_values.items():
        equal = Where("id" if column == "session_id" else column, Op.EQ, value)
        # A session without a user or an agent may have messages of any user or agent.
        where.append(AnyOf((equal, Where(column, Op.EQ, None))) if column in ("user_id", "agent_id") else equal)
    page: Page | None = None
    while True:
        sessions = records.scan(
            Session, scope.organization, where, order="last_active", descending=True, after=page, limit=size
        )
        yield from (session for session in sessions if _has_archived(records, session, column_values.get("user_id")))
        if len(sessions) < size:
            return
        page = Page(sessions[-1].last_active, (scope.organization, sessions[-1].id))


def _has_archived(records: Records, session: Session, user: str | None) -> bool:
    """Return whether a session may have archived messages of a user; `user` None stands for any user."""
    if user is None or session.user_id is not None:
        return True
    where = [Where("session_id", Op.EQ, session.id), Where("user_ids", Op.CONTAINS, user)]
    return records.count(SessionArchive, session.organization_id, where) > 0
