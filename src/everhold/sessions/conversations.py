"""Create, list and update the conversations of a session."""

from collections.abc import Mapping
from typing import Any

from everhold import clock
from everhold.errors import AlreadyExists, NotFound, StaleVersion
from everhold.model import Conversation, Message, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.retries import CONFLICTS, retry
from everhold.schema.catalog import get_table
from everhold.schema.operations import Op, Operation, Patch, Put, Where
from everhold.sessions.deps import SessionDeps, make_session_key, require_session


def make_missing_conversation(records: Records, message: Message) -> list[Operation]:
    """Return the operations that create the conversation of a message; none if it exists or the message has none.

    Raise AlreadyExists if another session has a conversation with that id, and NotFound if the conversation was
    deleted.
    """
    conversation_id = message.conversation_id
    if conversation_id is None:
        return []
    # Deleted conversations are read too: their ids stay taken until they are purged.
    stored = records.get(Conversation, message.organization_id, [conversation_id], deleted=True).get(conversation_id)
    if stored is None:
        values = {
            "id": conversation_id,
            "organization_id": message.organization_id,
            "session_id": message.session_id,
            "started_at": message.created_at,
            "created_at": message.created_at,
            "updated_at": message.created_at,
            "created_by_id": message.created_by_id,
        }
        conversation = validate_row(Conversation, values)
        return [Put(conversation), Put(make_announcement(conversation, owner=message))]
    if stored.session_id != message.session_id:
        raise AlreadyExists(
            f"conversation id {conversation_id!r} is taken by another session",
            value=conversation_id,
            remedy="choose another id",
            table=get_table(Conversation).name,
            rule="key",
        )
    if stored.is_deleted:
        raise NotFound(
            f"conversation {conversation_id!r} has been deleted", value=conversation_id, remedy="use another id"
        )
    return []


def list_conversations(deps: SessionDeps, scope: Scope, *, limit: int) -> list[Conversation]:
    """Return the conversations of the scope's session, most recently started first."""
    session = require_session(deps.records, scope)
    where = [Where("session_id", Op.EQ, session.id)]
    return deps.records.scan(Conversation, scope.organization, where, order="started_at", descending=True, limit=limit)


def update_conversation(
    deps: SessionDeps, scope: Scope, conversation_id: str, values: Mapping[str, Any]
) -> Conversation:
    """Set fields of a conversation in the scope's session; raise NotFound if the session has none with that id."""
    return retry(
        "update a conversation", lambda _: _update(deps, scope, conversation_id, values), CONFLICTS, on=StaleVersion
    )


def _update(deps: SessionDeps, scope: Scope, conversation_id: str, values: Mapping[str, Any]) -> Conversation:
    """Change fields of a conversation in the scope's session, and return it."""
    session = require_session(deps.records, scope)
    row = deps.records.get(Conversation, scope.organization, [conversation_id]).get(conversation_id)
    if row is None or row.session_id != session.id:
        raise NotFound(
            f"no conversation {conversation_id!r} in session {make_session_key(scope).session!r}",
            value=conversation_id,
            remedy="add a message to it to begin it",
        )
    now = max(clock.now(), row.updated_at)  # another computer's clock may be ahead
    after = validate_row(Conversation, {**row.__dict__, **values, "updated_at": now, "version": row.version + 1})
    changes = {field: after.__dict__[field] for field in values}
    line = make_access_line(
        scope, "update", now, {"conversation": conversation_id, "fields": sorted(values)}, interface=deps.interface
    )
    patch = Patch(Conversation, (scope.organization, conversation_id), {**changes, "updated_at": now}, row.version)
    deps.records.commit([patch, Put(line), Put(make_announcement(after, owner=session))])
    return after
