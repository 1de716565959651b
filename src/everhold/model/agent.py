"""Agents, their core-memory blocks, their tools and their state."""

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field
from pydantic_core import PydanticCustomError

from everhold.model.base import Entity, Owned, RowRule
from everhold.model.fields import Count, Flag, Id, Json, JsonList, JsonObject, Label, Name, Text, Texts, Time, Word100


class Agent(Entity):
    """An AI agent: its directives and its configuration.

    With `is_implicit` it exists only because something was written through a scope that names it.
    """

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
    is_implicit: Flag = False


def _check_block_limit(values: Mapping[str, Any]) -> None:
    length, limit = len(values["value"]), values["limit"]
    if length > limit:
        raise PydanticCustomError(
            "block_limit",
            f"block {values['label']!r} holds {length} characters, over its limit of {limit}; "
            "shorten it or raise the limit",
        )


class Block(Entity):
    """A text that is always part of an agent's context, with at most `limit` characters."""

    rules: ClassVar[tuple[RowRule, ...]] = (RowRule(("label", "value", "limit"), _check_block_limit),)

    user_id: Id | None = None
    label: Label
    value: Text
    limit: Count = 2000
    description: Text | None = None
    template_name: Name | None = None
    is_template: Flag = False


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
    """The state that an agent stores between calls, for one session or for all."""

    agent_id: Id
    session_id: Id | None = None
    state: Json
    expires_at: Time | None = None


def make_state_id(agent_id: str, session_id: str | None) -> str:
    """Return the id of an agent's state for a session, or for none.

    The key of the table then keeps two writers from adding two states, also on stores and for rows without a session,
    which no unique rule covers.
    """
    # No id contains the unit separator, and none is empty, so different pairs make different texts.
    pair = f"{agent_id}\x1f{session_id or ''}"
    return f"ast_{hashlib.blake2b(pair.encode(), digest_size=16).hexdigest()}"
