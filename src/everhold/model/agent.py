"""Agents, their core-memory blocks, their tools and their state."""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import Field, TypeAdapter
from pydantic_core import PydanticCustomError

from everhold.model.base import Entity, Owned, RowRule, cut_text, make_field_adapter
from everhold.model.fields import Count, Flag, Id, Json, JsonList, JsonObject, Label, Name, Text, Texts, Time, Word100


class Agent(Entity):
    """An AI agent: its directives and its configuration.

    `is_implicit` says that nobody created the agent explicitly: it was added when something was written in a scope that
    names it.
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


def describe_excess(label: str, length: int, limit: int) -> str | None:
    """Return the error message for a block value of this length; None if the length is within the limit."""
    if length <= limit:
        return None
    return (
        f"block {label!r} would hold {length:,} characters, {length - limit:,} over its limit of {limit:,}; "
        "shorten it or raise the limit"
    )


def _check_block_limit(values: Mapping[str, Any]) -> None:
    excess = describe_excess(values["label"], len(values["value"]), values["limit"])
    if excess is not None:
        raise PydanticCustomError("block_limit", "{excess}", {"excess": excess})


# The fields of a block that may change. The label must not, because links refer to it.
BLOCK_REVISABLE = ("value", "limit", "description", "template_name", "metadata")


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

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        owner = [("user", self.user_id)] if self.user_id is not None else []
        return [(None, cut_text(self.value)), ("label", self.label), *owner, ("id", self.id)]


def check_block_value(value: Mapping[str, Any]) -> None:
    """Raise PydanticCustomError if a revision of a block lacks a field, or has an unknown field or an invalid value."""
    for name in BLOCK_REVISABLE:
        if name not in value:
            raise PydanticCustomError("revision_value", f"the revision's value has no {name!r}")
    for name, field_value in value.items():
        if name not in BLOCK_REVISABLE:
            raise PydanticCustomError("revision_value", f"a block's {name[:60]!r} cannot be revised")
        _find_block_adapter(name).validate_python(field_value)


@cache
def _find_block_adapter(name: str) -> TypeAdapter[Any]:
    return make_field_adapter(Block.model_fields[name])


class Tool(Entity):
    """A tool that agents can call."""

    name: Name
    description: Text | None = None
    json_schema: JsonObject = Field(default_factory=dict)
    source_type: Word100 | None = None
    source_code: Text | None = None
    tags: Texts = Field(default_factory=list)


class BlockAgent(Owned):
    """A link that puts a block into the context of an agent."""

    block_id: Id
    block_label: Label
    agent_id: Id


class ToolAgent(Owned):
    """A link that lets an agent call a tool."""

    tool_id: Id
    agent_id: Id


class AgentState(Entity):
    """The state that an agent stores between calls, for one session or, without `session_id`, for all sessions."""

    agent_id: Id
    session_id: Id | None = None
    state: Json
    expires_at: Time | None = None


def make_state_id(agent_id: str, session_id: str | None) -> str:
    """Return the id of an agent's state for a session, or for all sessions if `session_id` is None.

    Because the id is computed, the key of the table keeps two writers from adding two states. A unique rule would not
    be enough: some stores have none, and it would not cover rows without a session.
    """
    # No id is empty or contains the unit separator, so different pairs make different texts.
    identity = f"{agent_id}\x1f{session_id or ''}"
    return f"ast_{hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()}"
