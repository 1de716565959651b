"""Make the rows of a new agent with its blocks, tools, state and messages, as operations of one commit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from everhold import clock
from everhold.agents.content import AgentContent, BlockPart, MessagePart, StatePart, ToolPart
from everhold.agents.creating import make_taken_error
from everhold.agents.deps import AgentDeps
from everhold.errors import Argument, InvalidInput, Remedy
from everhold.model import Agent, AgentState, Block, BlockAgent, Chunk, Message, Scope, Session, Tool, ToolAgent
from everhold.model.agent import make_state_id
from everhold.model.announcement import is_announced, make_announcement
from everhold.model.base import Entity, Owned
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.schema.operations import Op, Operation, Patch, Put, Where

# Returns the chunks that make a block or a message searchable.
MakeChunks = Callable[[Entity], list[Chunk]]
# Returns the validated message of these values. Its position is assigned later.
DraftMessage = Callable[[Scope, Mapping[str, Any]], Message]


@dataclass(frozen=True)
class NewAgent:
    """A new agent, the rows to add with it, and the existing blocks and tools to link to it."""

    agent: Agent
    blocks: Sequence[Block] = ()
    shared_blocks: Sequence[Block] = ()
    tools: Sequence[Tool] = ()
    shared_tools: Sequence[Tool] = ()
    state: StatePart | None = None
    session: Session | None = None
    messages: Sequence[Message] = ()


def make_operations(
    deps: AgentDeps, scope: Scope, new: NewAgent, implicit: Agent | None, make_chunks: MakeChunks
) -> list[Operation]:
    """Return the operations that add a new agent, or complete an implicit one, with its rows and links."""
    agent, now = new.agent, new.agent.updated_at
    owner = Scope(organization=scope.organization, project=scope.project, user=scope.user)
    operations = [*deps.make_missing_rows(owner, now), *_add_agent(agent, implicit)]
    for row in (*new.blocks, *new.tools):
        operations += _add(row, make_chunks)
    operations += [Put(_link_block(agent, block)) for block in (*new.blocks, *new.shared_blocks)]
    operations += [Put(_link_tool(agent, tool)) for tool in (*new.tools, *new.shared_tools)]
    if new.state is not None:
        operations += _add(make_state(agent, new.state), make_chunks)
    if new.session is not None:
        operations += _add(new.session, make_chunks)
    for message in new.messages:
        operations += _add(message, make_chunks)
    return operations


def _add_agent(agent: Agent, implicit: Agent | None) -> list[Operation]:
    if implicit is None:
        return [Put(agent), Put(make_announcement(agent))]
    fixed_fields = ("id", "organization_id", "created_at", "version", "is_deleted", "deleted_at", "deletion_id")
    changes = {name: value for name, value in agent.__dict__.items() if name not in fixed_fields}
    patch = Patch(Agent, (agent.organization_id, agent.id), changes, implicit.version)
    return [patch, Put(make_announcement(agent))]


def _add(row: Entity, make_chunks: MakeChunks) -> list[Operation]:
    chunks = make_chunks(row) if isinstance(row, Block | Message) else []
    if isinstance(row, Message):
        chunks = [Chunk.build_unchecked({**chunk.__dict__, "known_from": row.created_at}) for chunk in chunks]
    announcements = [Put(make_announcement(row))] if is_announced(row) else []
    return [Put(row), *map(Put, chunks), *announcements]


def make_agent(scope: Scope, agent_id: str, values: Mapping[str, Any], now: datetime) -> Agent:
    """Return the row of a new agent."""
    engine_values = {"id": agent_id, "organization_id": scope.organization, "created_at": now, "updated_at": now}
    return validate_row(Agent, {**values, **engine_values, "created_by_id": scope.actor})


def find_implicit_agent(records: Records, organization: str, agent_id: str, *, can_complete: bool) -> Agent | None:
    """Return the implicit agent with this id, or None if the id is free.

    Raise AlreadyExists if the agent is not implicit or is deleted, or if `can_complete` is false.
    """
    stored = records.get(Agent, organization, [agent_id], deleted=True).get(agent_id)
    if stored is None:
        return None
    if stored.is_deleted or not stored.is_implicit or not can_complete:
        raise make_taken_error(agent_id, is_deleted=stored.is_deleted)
    return stored


def plan_new_agent(
    deps: AgentDeps, scope: Scope, agent_id: str, content: AgentContent, draft_message: DraftMessage
) -> NewAgent:
    """Return the validated rows of an agent file's content: the agent with the id `agent_id`, the others with new
    ids."""
    now = clock.now()
    values = content.agent.read_values()
    agent = make_agent(scope, agent_id, {**values, "name": values["name"] or agent_id}, now)
    shared_tools, tools = _match_tools(deps.records, agent, content.tools)
    session, messages = _place_messages(scope, agent, content.messages, draft_message)
    in_context = [row.id for row, part in zip(messages, content.messages, strict=True) if part.in_context]
    return NewAgent(
        agent.evolve(message_ids=in_context),
        blocks=[_make_block(scope, agent, part) for part in content.blocks],
        tools=tools,
        shared_tools=shared_tools,
        state=content.state,
        session=session,
        messages=messages,
    )


def _make_block(scope: Scope, agent: Agent, part: BlockPart) -> Block:
    values = part.read_values()
    if values.pop("is_personal"):
        if scope.user is None:
            raise InvalidInput(
                f"block {part.label!r} belongs to a user, and the scope names none",
                value=part.label,
                remedy=Remedy("name one with {}", Argument("user", "ID")),
            )
        values["user_id"] = scope.user
    return validate_row(Block, {**values, **_make_stamps(agent), "id": clock.make_id("blk")})


def _match_tools(records: Records, agent: Agent, parts: Sequence[ToolPart]) -> tuple[list[Tool], list[Tool]]:
    """Return the organization's tools that equal a tool in `parts`, and new rows for the other parts."""
    tool_names = sorted({part.name for part in parts})
    where = [Where("name", Op.IN, tool_names)]
    stored = records.scan(Tool, agent.organization_id, where) if tool_names else []
    shared: list[Tool] = []
    added: list[Tool] = []
    for part in parts:
        values = part.read_values()
        equal_tools = [tool for tool in stored if all(tool.__dict__[name] == value for name, value in values.items())]
        if equal_tools:
            shared.append(equal_tools[0])
        else:
            added.append(validate_row(Tool, {**values, **_make_stamps(agent), "id": clock.make_id("tool")}))
    return shared, added


def _place_messages(
    scope: Scope, agent: Agent, parts: Sequence[MessagePart], draft_message: DraftMessage
) -> tuple[Session | None, list[Message]]:
    """Return a new session of the agent and its messages, in the order of the file."""
    if not parts:
        return None, []
    session_id = clock.make_id("ses")
    session_scope = Scope(
        organization=scope.organization, project=scope.project, user=scope.user, agent=agent.id, session=session_id
    )
    rows: list[Message] = []
    for position, part in enumerate(parts):
        values = {key: value for key, value in part.read_values().items() if key != "in_context" and value is not None}
        if not part.text and part.content == []:
            del values["content"]
        draft = draft_message(session_scope, values)
        # Messages are read in the order of their times, so a later position needs a later time.
        earliest = rows[-1].created_at + timedelta(microseconds=1) if rows else draft.created_at
        placement = {"position": position, "project_id": scope.project, "created_at": max(draft.created_at, earliest)}
        rows.append(Message.build_complete({**draft.__dict__, **placement}))
    last = rows[-1]
    session = validate_row(
        Session,
        {
            **_make_stamps(agent),
            "id": session_id,
            "project_id": scope.project,
            "user_id": scope.user,
            "agent_id": agent.id,
            "title": "Imported with the agent",
            "last_active": last.created_at,
            "last_position": last.position,
        },
    )
    return session, rows


def make_state(agent: Agent, part: StatePart) -> AgentState:
    """Return the row of an agent's state without a session."""
    owner_ids = {"id": make_state_id(agent.id, None), "agent_id": agent.id}
    return validate_row(AgentState, {**part.read_values(), **_make_stamps(agent), **owner_ids})


def copy_block(agent: Agent, block: Block) -> Block:
    """Return a new block with the text of another one, for the same user."""
    changes = {**_make_stamps(agent), "id": clock.make_id("blk"), "last_updated_by_id": None, "version": 1}
    return validate_row(Block, {**block.__dict__, **changes})


def _link_block(agent: Agent, block: Block) -> Owned:
    return validate_row(
        BlockAgent, {**_make_stamps(agent), "block_id": block.id, "block_label": block.label, "agent_id": agent.id}
    )


def _link_tool(agent: Agent, tool: Tool) -> Owned:
    return validate_row(ToolAgent, {**_make_stamps(agent), "tool_id": tool.id, "agent_id": agent.id})


def _make_stamps(agent: Agent) -> dict[str, Any]:
    """Return the values that all rows of a new agent share."""
    return {
        "organization_id": agent.organization_id,
        "created_at": agent.updated_at,
        "updated_at": agent.updated_at,
        "created_by_id": agent.created_by_id,
    }
