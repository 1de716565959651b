"""Agents, their core-memory blocks, their tools and their state."""

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from everhold.model.base import Entity, Owned
from everhold.model.fields import Count, Flag, Id, Json, JsonList, JsonObject, Label, Name, Text, Texts, Time, Word100


class Agent(Entity):
    """An AI agent: its directives and its configuration."""

    agent_type: Word100 | None = None
    name: Name | None = None
    description: Text | None = None
    system: Text | None = None
    topic: Text | None = None
    message_ids: Texts = Field(default_factory=list)
    llm_config: JsonObject = Field(default_factory=dict)
    embedding_config: JsonObject = Field(default_factory=dict)
    tool_rules: JsonList = Field(default_factory=list)
    mcp_tools: JsonList = Field(default_factory=list)
    config: JsonObject = Field(default_factory=dict)
    status: Literal["active", "paused", "terminated"] = "active"


class Block(Entity):
    """A piece of core memory that is always in an agent's context, within `limit` characters."""

    user_id: Id | None = None
    label: Label
    value: Text
    limit: Count = 2000
    description: Text | None = None
    template_name: Name | None = None
    is_template: Flag = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.value) > self.limit:
            raise PydanticCustomError(
                "block_limit",
                f"block {self.label!r} holds {len(self.value)} characters, over its limit of {self.limit}; "
                "shorten it or raise the limit",
            )
        return self


class Tool(Entity):
    """Something an agent can call."""

    name: Name
    description: Text | None = None
    json_schema: JsonObject = Field(default_factory=dict)
    source_type: Word100 | None = None
    source_code: Text | None = None
    tags: Texts = Field(default_factory=list)


class BlockAgent(Owned):
    """Which block is in which agent's context."""

    block_id: Id
    block_label: Label
    agent_id: Id


class ToolAgent(Owned):
    """Which agent may call which tool."""

    tool_id: Id
    agent_id: Id


class AgentState(Entity):
    """What an agent keeps between calls, for one session or for all."""

    agent_id: Id
    session_id: Id | None = None
    state: Json
    expires_at: Time | None = None
