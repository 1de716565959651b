"""Sessions, the conversations inside them, and their messages."""

from typing import Any

from pydantic import Field

from everhold.errors import NotFound
from everhold.model.base import Entity, cut_text
from everhold.model.fields import (
    Count,
    Flag,
    Id,
    JsonList,
    JsonObject,
    JsonParts,
    Label,
    Name,
    Sha256,
    Text,
    Texts,
    Time,
    Word32,
)
from everhold.model.scope import Scope, list_dimensions


class Session(Entity):
    """One conversation or task, from its first message to its end.

    It belongs to the user, the project and the agent that it has. A session without a user is a group session: every
    user may take part.
    """

    project_id: Id | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    session_type: Word32 = "conversation"
    title: Name | None = None
    summary: Text | None = None
    topic: Text | None = None
    context: JsonObject = Field(default_factory=dict)
    last_active: Time
    last_position: Count | None = None
    """The position of the last message; None before the first message."""
    ended_at: Time | None = None
    is_archived: Flag = False
    archived_messages: Count = 0
    """The number of its messages that are in cold storage. They are put back before the session is read."""
    archived_at: Time | None = None
    """The time when the last of its messages was moved to cold storage; None after they were put back."""
    unarchived_at: Time | None = None
    """The time when its messages were last put back."""

    def is_open_to(self, scope: Scope) -> bool:
        """Return whether a scope may use this session.

        If both name a user, this must be the same user. The same holds for projects and agents.
        """
        owners = ((self.user_id, scope.user), (self.project_id, scope.project), (self.agent_id, scope.agent))
        return all(None in (own_id, scope_id) or own_id == scope_id for own_id, scope_id in owners)


def make_session_not_found(session_id: str) -> NotFound:
    """Return the error for a session that does not exist or that the scope may not use.

    Both cases have the same message, so that it does not reveal which sessions exist.
    """
    return NotFound(
        f"no session {session_id!r} in this scope",
        value=session_id,
        remedy="a session begins when something is first written in it, so use the id of one of your own or a new id",
    )


class SessionArchive(Entity):
    """Messages of an ended session in cold storage: compressed, with their chunks.

    The content is in the row itself, or in the file with this address if the settings name a place for blobs. A long
    session has several archives.
    """

    session_id: Id
    user_ids: Texts
    """The users who have messages in the archive."""
    message_ids: Texts
    models: Texts
    """The embedding models of the chunks."""
    size: Count
    address: Sha256 | None = None
    content: bytes | None = Field(default=None, repr=False)


class Conversation(Entity):
    """One of several conversations inside a session.

    Deleting a conversation also deletes its messages. Deleting a session also deletes its conversations.
    """

    session_id: Id
    name: Name | None = None
    started_at: Time


class Message(Entity):
    """One turn of a conversation.

    `content` is the message as the provider returned it, a list of parts or an object, and `text` its words.
    """

    project_id: Id | None = None
    session_id: Id | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    position: Count | None = None
    conversation_id: Id | None = None
    role: Label
    text: Text | None = None
    content: JsonParts = Field(default_factory=list)
    model: Name | None = None
    name: Name | None = None
    tool_calls: JsonList = Field(default_factory=list)
    tool_call_id: Name | None = None
    tool_returns: JsonList = Field(default_factory=list)
    step_id: Name | None = None
    otid: Name | None = None
    group_id: Name | None = None
    sender_id: Name | None = None
    references: JsonList = Field(default_factory=list)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        scope = list_dimensions(self.__dict__, "_id")
        return [(None, cut_text(self.text or "")), ("role", self.role), *scope, ("id", self.id)]
