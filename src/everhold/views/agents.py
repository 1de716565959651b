"""The verbs on the agent that a scope names."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

import everhold
from everhold import clock
from everhold.arguments.checks import Body, Checked, Cursor, Identifier, PageSize, make_choice_check, make_integer_check
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import AlreadyExists
from everhold.model import Agent, Message
from everhold.schema.operations import Op, Where
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

if TYPE_CHECKING:
    from everhold.agents.deps import AgentDeps
    from everhold.parts import Parts

MAX_BUFFERED = 100_000

Status = Annotated[
    Literal["active", "paused", "terminated"], Checked(make_choice_check("active", "paused", "terminated"))
]
BlockChoice = Annotated[Literal["copy", "share"], Checked(make_choice_check("copy", "share"))]
BufferSize = Annotated[int, Checked(make_integer_check(0, MAX_BUFFERED))]


class AgentFields(TypedDict, total=False):
    """The fields of an agent that a caller may set."""

    agent_type: str | None
    name: str | None
    description: Body | None
    system: Body | None
    topic: Body | None
    message_ids: Sequence[Identifier]
    llm_config: Mapping[str, Any]
    embedding_config: Mapping[str, Any]
    tool_rules: Sequence[Any]
    mcp_tools: Sequence[Any]
    config: Mapping[str, Any]
    metadata: Mapping[str, Any]


def make_agent_deps(parts: "Parts") -> "AgentDeps":
    """Return the parts of an engine that the verbs on agents use."""
    from everhold.agents.deps import AgentDeps

    scope_rows = parts.write_deps.scope_rows
    return AgentDeps(parts.records, scope_rows.make_missing_rows, scope_rows.invalidate, parts.settings.interface)


@check_verbs
class AgentVerbs(ScopedView):
    """The verbs that list the agents of the organization, and create, change and delete the scope's agent."""

    @log_as("create")
    def create_agent(self, /, **fields: Unpack[AgentFields]) -> Agent:
        """Create the agent that the scope names, or an agent with a new id if the scope names none.

        Fields: agent_type, name, description, system, topic, message_ids, llm_config, embedding_config, tool_rules,
        mcp_tools, config, metadata. An agent that exists only because a scope named it is completed. Creating an agent
        again with the same values returns it. Raise AlreadyExists if the agent exists with other values.
        """
        from everhold.agents.creating import check_text_sizes, find_same_agent
        from everhold.tenancy import accounts

        check_text_sizes(fields, self._parts.settings.text_bytes)
        name = self.scope.agent or clock.make_id("agt")
        records = self._parts.records
        line = self._make_line("create", {"agent": name})
        try:
            agent = accounts.create(records, Agent, self.scope.organization, name, fields, line, actor=self.scope.actor)
        except AlreadyExists:
            agent = find_same_agent(records, self.scope.organization, name, fields)
        self._parts.write_deps.scope_rows.invalidate()
        return agent

    @log_as("read")
    def agent(self) -> Agent:
        """Return the agent that the scope names. Raise NotFound if it does not exist."""
        from everhold.agents.deps import require_agent

        agent = require_agent(self._parts.records, self.scope)
        self._log_call("read", {"agent": agent.id})
        return agent

    @log_as("read")
    def agents(
        self,
        *,
        status: Status | None = None,
        deleted: bool = False,
        limit: PageSize = 50,
        cursor: Cursor | None = None,
    ) -> "everhold.AccountPage[Agent]":
        """Return the agents of the organization, ordered by id; with `deleted`, the deleted ones that can be
        restored."""
        from everhold.tenancy import accounts

        where = [Where("status", Op.EQ, status)] if status is not None else []
        page = accounts.list_rows(
            self._parts.records, Agent, self.scope.organization, where, deleted=deleted, limit=limit, cursor=cursor
        )
        self._log_call("read", {"agents": len(page)})
        return page

    @log_as("update")
    def update_agent(self, /, *, expected_version: int | None = None, **fields: Unpack[AgentFields]) -> Agent:
        """Change fields of the scope's agent. Raise StaleVersion if its version is not `expected_version`.

        The fields are those of `create_agent`. Each replaces the old value.
        """
        from everhold.agents.changing import update_agent
        from everhold.agents.creating import check_text_sizes

        check_text_sizes(fields, self._parts.settings.text_bytes)
        return update_agent(make_agent_deps(self._parts), self.scope, fields, expected_version)

    @log_as("update")
    def buffer_messages(self, *message_ids: Identifier, keep: BufferSize | None = None) -> Agent:
        """Append messages to the agent's in-context window, and keep only the last `keep` of the window.

        A message that is already in the window keeps its position, so a call can be repeated.
        """
        from everhold.agents.changing import buffer_messages

        return buffer_messages(make_agent_deps(self._parts), self.scope, message_ids, keep)

    @log_as("read")
    def buffered_messages(self) -> Sequence[Message]:
        """Return those messages of the agent's in-context window that the scope may read, in the order of the
        window."""
        from everhold.agents.deps import require_agent
        from everhold.sessions.messages import find_readable

        agent = require_agent(self._parts.records, self.scope)
        messages = find_readable(self._parts.session_deps, self.scope, agent.message_ids)
        self._log_call("read", {"messages": len(messages)})
        return messages

    @log_as("update")
    def pause_agent(self) -> Agent:
        """Pause the scope's agent: until `resume_agent` it takes no new runs and proposals.

        Raise Conflict if it is terminated.
        """
        from everhold.agents.changing import set_status

        return set_status(make_agent_deps(self._parts), self.scope, "paused")

    @log_as("update")
    def resume_agent(self) -> Agent:
        """Set the scope's paused agent to active again. Raise Conflict if it is terminated."""
        from everhold.agents.changing import set_status

        return set_status(make_agent_deps(self._parts), self.scope, "active")

    @log_as("update")
    def terminate_agent(self) -> Agent:
        """End the scope's agent permanently: it can be read and cloned, but takes no more runs and proposals."""
        from everhold.agents.changing import set_status

        return set_status(make_agent_deps(self._parts), self.scope, "terminated")

    @log_as("delete")
    def delete_agent(self, *, hard: bool = False, preview: bool = False) -> "everhold.Deleted":
        """Hide the scope's agent until `restore_agent`.

        Its state, its links to blocks and tools, its sessions, runs and memories are hidden too. With `hard` everything
        is purged; with `preview` the rows are only counted. Raise Conflict if the scope names a user, a project or a
        session, because others may use the agent.
        """
        from everhold.agents.deps import require_deletable_agent
        from everhold.tenancy.deletion import Deleted
        from everhold.views.deletion import count_rows, delete_rows

        agent = require_deletable_agent(self._parts.records, self.scope, deleted=hard)
        rows = count_rows(self._parts, "agent", agent.organization_id, agent.id, hard=hard)
        if preview:
            self._log_call("read", {"preview": sum(rows.values())})
            return Deleted(rows, preview=True)
        line = self._make_line("delete", {"agent": agent.id, "hard": hard})
        delete_rows(self._parts, "agent", agent.organization_id, agent.id, hard=hard, line=line)
        return Deleted(rows)

    @log_as("update")
    def restore_agent(self) -> Agent:
        """Restore the scope's agent and all rows that its deletion hid."""
        from everhold.agents.deps import require_agent, require_deletable_agent
        from everhold.views.deletion import restore_rows

        agent = require_deletable_agent(self._parts.records, self.scope, deleted=True)
        line = self._make_line("update", {"agent": agent.id, "restored": True})
        restore_rows(self._parts, "agent", agent.organization_id, agent.id, line)
        return require_agent(self._parts.records, self.scope)


class AsyncAgentVerbs(AsyncFacade):
    """The verbs of `AgentVerbs`, awaited."""

    create_agent = Awaited(AgentVerbs.create_agent)
    agent = Awaited(AgentVerbs.agent)
    agents = Awaited(AgentVerbs.agents)
    update_agent = Awaited(AgentVerbs.update_agent)
    buffer_messages = Awaited(AgentVerbs.buffer_messages)
    buffered_messages = Awaited(AgentVerbs.buffered_messages)
    pause_agent = Awaited(AgentVerbs.pause_agent)
    resume_agent = Awaited(AgentVerbs.resume_agent)
    terminate_agent = Awaited(AgentVerbs.terminate_agent)
    delete_agent = Awaited(AgentVerbs.delete_agent)
    restore_agent = Awaited(AgentVerbs.restore_agent)
