"""Summaries of conversations."""

from pydantic import Field

from everhold.model.base import Entity
from everhold.model.fields import Count, Flag, Id, Name, Text, Texts, Time


class Episode(Entity):
    """A summary of consecutive messages (level 1) or of consecutive episodes (level 2 and up)."""

    session_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    span_from: Time
    span_to: Time
    level: Count = 1
    parent_ids: Texts = Field(default_factory=list)
    name: Name | None = None
    summary: Text
    first_message_id: Id | None = None
    last_message_id: Id | None = None
    message_count: Count = 0
    token_count: Count = 0
    is_active: Flag = True
