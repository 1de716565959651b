"""Read what belongs to an agent: its blocks, tools, state and memories."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from everhold import clock
from everhold.agents.content import (
    MAX_MEMORIES,
    AgentContent,
    AgentPart,
    BlockPart,
    FilePart,
    MemoryPart,
    MessagePart,
    StatePart,
    ToolPart,
)
from everhold.agents.states import find_state
from everhold.batches import split_into_batches
from everhold.errors import InvalidInput
from everhold.model import Agent, Block, BlockAgent, Memory, Message, Scope, Tag, Tool, ToolAgent
from everhold.model.base import Entity
from everhold.model.scope import SHORT_TERM
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where

_BATCH = 500  # ids in one query
# The keys of a memory's provenance whose values are ids of other rows in the same store.
_LINK_KEYS = ("memory", "message", "messages", "restated")

P = TypeVar("P", bound=FilePart)


def find_blocks(records: Records, scope: Scope, agent: Agent) -> list[Block]:
    """Return the blocks of an agent that the scope may read: shared ones and its user's; without a user, all."""
    where = [Where("agent_id", Op.EQ, agent.id)]
    links = records.columns(BlockAgent, agent.organization_id, ("block_id",), where)
    blocks = records.get(Block, agent.organization_id, sorted(str(link[0]) for link in links))
    readable = [
        block for block in blocks.values() if None in (scope.user, block.user_id) or block.user_id == scope.user
    ]
    return sorted(readable, key=lambda block: (block.label, block.id))


def find_tools(records: Records, agent: Agent) -> list[Tool]:
    """Return the tools of an agent."""
    where = [Where("agent_id", Op.EQ, agent.id)]
    links = records.columns(ToolAgent, agent.organization_id, ("tool_id",), where)
    tools = records.get(Tool, agent.organization_id, sorted(str(link[0]) for link in links))
    return sorted(tools.values(), key=lambda tool: (tool.name, tool.id))


def read_state(records: Records, scope: Scope) -> StatePart | None:
    """Return the agent's state without a session."""
    state = find_state(records, drop_session(scope))
    return None if state is None else _make_part(StatePart, state)


def drop_session(scope: Scope) -> Scope:
    return Scope.model_validate({**scope.__dict__, "session": None, "is_confined": False})


def read_content(
    records: Records, scope: Scope, agent: Agent, messages: Sequence[Message], *, with_memories: bool
) -> AgentContent:
    """Return the content of the agent's file, without data of users other than the scope's.

    `messages` are the messages in the agent's context.
    """
    blocks = [block for block in find_blocks(records, scope, agent) if block.user_id in (None, scope.user)]
    return AgentContent(
        agent=_make_part(AgentPart, agent),
        blocks=[_make_part(BlockPart, block, is_personal=block.user_id is not None) for block in blocks],
        tools=[_make_part(ToolPart, tool) for tool in find_tools(records, agent)],
        state=read_state(records, scope),
        messages=[_make_part(MessagePart, message, in_context=True) for message in messages],
        memories=read_memories(records, scope, agent) if with_memories else [],
    )


def read_memories(records: Records, scope: Scope, agent: Agent) -> list[MemoryPart]:
    """Return the current memories of the agent that have exactly the scope's user and project, oldest first.

    Memories of other users are left out, because the importing user would become their owner.
    """
    now = clock.now()
    where = [
        Where("agent_id", Op.EQ, agent.id),
        Where("user_id", Op.EQ, scope.user),
        Where("project_id", Op.EQ, scope.project),
        Where("superseded_by", Op.EQ, None),
        Where("namespace", Op.NE, SHORT_TERM),
    ]
    rows = records.scan(Memory, agent.organization_id, where, order="created_at", limit=MAX_MEMORIES + 1)
    current = [memory for memory in rows if memory.expires_at is None or memory.expires_at > now]
    if len(current) > MAX_MEMORIES:
        raise InvalidInput(
            f"agent {agent.id!r} has more than {MAX_MEMORIES:,} memories in this scope",
            remedy="leave its memories out, and export the organization for all of them",
        )
    tags = _read_tags(records, agent.organization_id, [memory.id for memory in current])
    return [
        _make_part(MemoryPart, memory, tags=sorted(tags.get(memory.id, ())), provenance=drop_links(memory.provenance))
        for memory in current
    ]


def drop_links(provenance: dict[str, Any]) -> dict[str, Any]:
    """Return a provenance without ids of other rows, which mean nothing in another store."""
    return {name: value for name, value in provenance.items() if name not in _LINK_KEYS}


def _read_tags(records: Records, organization: str, memory_ids: Iterable[str]) -> dict[str, list[str]]:
    tags: dict[str, list[str]] = {}
    for memory_id, tag in _scan_tags(records, organization, memory_ids):
        tags.setdefault(memory_id, []).append(tag)
    return tags


def _scan_tags(records: Records, organization: str, memory_ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    for batch in split_into_batches(sorted(memory_ids), _BATCH):
        where = [Where("memory_id", Op.IN, list(batch))]
        yield from records.columns(Tag, organization, ("memory_id", "tag"), where)


def _make_part(part_type: type[P], row: Entity, **other_values: Any) -> P:
    """Return a part of a file with the fields that it shares with a row, and other values."""
    shared = {name: row.__dict__[name] for name in part_type.model_fields if name in row.__dict__}
    return part_type.model_validate({**shared, **other_values})
