"""Conversations: sessions and their messages."""

from pydantic import Field

from recollect.model.base import Entity
from recollect.model.fields import Count, Id, JsonList, JsonObject, Label, Name, Text, Time, Word32


class Session(Entity):
    """One conversation or task, from its first message to its end."""

    project_id: Id | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    session_type: Word32 = "conversation"
    title: Name | None = None
    summary: Text | None = None
    topic: Text | None = None
    context: JsonObject = Field(default_factory=dict)
    last_active: Time
    ended_at: Time | None = None
    is_archived: bool = False


class Message(Entity):
    """One turn, with the provider's own items kept as they came."""

    session_id: Id | None = None
    user_id: Id | None = None
    agent_id: Id | None = None
    position: Count | None = None
    conversation: Name | None = None
    role: Label
    text: Text | None = None
    content: JsonList = Field(default_factory=list)
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
