"""Read the messages of a session from the records, page by page, without the session cache."""

from everhold.model import Message, Scope
from everhold.ports.records import Records
from everhold.schema.operations import Op, Page, Where
from everhold.sessions.deps import make_message_conditions
from everhold.sessions.working import NEWEST


def read_recorded(
    records: Records,
    scope: Scope,
    limit: int,
    *,
    after: Message | None = None,
    oldest_first: bool = False,
    conversation: str | None = None,
) -> list[Message]:
    """Return up to `limit` messages of the scope's session, or of one conversation in it, newest first.

    `after` is the last message of the previous page. The caller has checked that the scope may use the session.
    """
    where = make_message_conditions(scope)
    where += [Where("conversation_id", Op.EQ, conversation)] if conversation is not None else []
    return records.scan(
        Message,
        scope.organization,
        where,
        order=NEWEST,
        descending=not oldest_first,
        after=None if after is None else Page(after.created_at, (scope.organization, after.id)),
        limit=limit,
    )
