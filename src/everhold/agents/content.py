"""The content of an agent file: strict models, without ids of other rows and without values that the engine sets.

A file is not trusted. These models refuse unknown fields, and the rows made from them are checked again by the
models of the tables.
"""

from collections import Counter
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from everhold.errors import InvalidInput
from everhold.model.base import DeferredModel
from everhold.model.fields import (
    Count,
    Flag,
    Id,
    Json,
    JsonList,
    JsonObject,
    JsonParts,
    Label,
    Name,
    Number,
    Share,
    Text,
    Texts,
    Time,
    Word64,
    Word100,
)
from everhold.model.validation import explain_errors

# These limits let everything in a file fit into one commit on every store.
MAX_BLOCKS = MAX_TOOLS = 1_000
MAX_MESSAGES = MAX_MEMORIES = 5_000


class FilePart(DeferredModel):
    """A part of an agent file; fields that it does not declare are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def read_values(self) -> dict[str, Any]:
        """Return the values by field."""
        return dict(self.__dict__)


class AgentPart(FilePart):
    """The agent itself. Its id is used unless the scope names an agent."""

    id: Id | None = None
    agent_type: Word100 | None = None
    name: Name | None = None
    description: Text | None = None
    system: Text | None = None
    topic: Text | None = None
    llm_config: JsonObject = Field(default_factory=dict)
    embedding_config: JsonObject = Field(default_factory=dict)
    tool_rules: JsonList = Field(default_factory=list)
    mcp_tools: JsonList = Field(default_factory=list)
    config: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)


class BlockPart(FilePart):
    """A block of the agent; a personal block belongs to the user of the scope."""

    label: Label
    value: Text
    limit: Count = 2000
    description: Text | None = None
    template_name: Name | None = None
    metadata: JsonObject = Field(default_factory=dict)
    is_personal: Flag = False


class ToolPart(FilePart):
    """A tool of the agent."""

    name: Name
    description: Text | None = None
    json_schema: JsonObject = Field(default_factory=dict)
    source_type: Word100 | None = None
    source_code: Text | None = None
    tags: Texts = Field(default_factory=list)
    metadata: JsonObject = Field(default_factory=dict)


class StatePart(FilePart):
    """The state that the agent has outside of sessions."""

    state: Json
    expires_at: Time | None = None
    metadata: JsonObject = Field(default_factory=dict)


class MessagePart(FilePart):
    """A message of the agent; a message `in_context` is part of its window."""

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
    metadata: JsonObject = Field(default_factory=dict)
    created_at: Time | None = None
    in_context: Flag = True


class MemoryPart(FilePart):
    """A memory of the agent, with the fields that a caller of `remember` may pass."""

    text: Text = ""
    kind: Label = "observation"
    namespace: Label = "long-term"
    content: JsonObject = Field(default_factory=dict)
    tags: Texts = Field(default_factory=list)
    key: Name | None = None
    importance: Share | None = None
    confidence: Share = 1.0
    trust: Share = 1.0
    scope: Label | None = None
    level: Label | None = None
    score: Number | None = None
    pinned: Flag = False
    occurred_at: Time | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    expires_at: Time | None = None
    speaker: Name | None = None
    source_agent: Word64 | None = None
    aliases: Texts = Field(default_factory=list)
    provenance: JsonObject = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)
    created_at: Time | None = None


class AgentContent(FilePart):
    """The whole content of an agent file."""

    agent: AgentPart
    blocks: list[BlockPart] = Field(default_factory=list, max_length=MAX_BLOCKS)
    tools: list[ToolPart] = Field(default_factory=list, max_length=MAX_TOOLS)
    state: StatePart | None = None
    messages: list[MessagePart] = Field(default_factory=list, max_length=MAX_MESSAGES)
    memories: list[MemoryPart] = Field(default_factory=list, max_length=MAX_MEMORIES)


def validate_content(values: Any, label: str) -> AgentContent:
    """Return the content of an agent file; raise InvalidInput for the first problem in it."""
    try:
        content = AgentContent.model_validate(values)
    except ValidationError as error:
        raise explain_errors(error, label, AgentContent.model_fields) from None
    for kind, names in (
        ("shared blocks with the label", [block.label for block in content.blocks if not block.is_personal]),
        ("personal blocks with the label", [block.label for block in content.blocks if block.is_personal]),
        ("tools with the name", [tool.name for tool in content.tools]),
    ):
        repeated = next((name for name, count in Counter(names).items() if count > 1), None)
        if repeated is not None:
            raise InvalidInput(f"{label} has two {kind} {repeated!r}", value=repeated, remedy="rename one of them")
    return content
