"""The verbs that copy a whole agent: to another id, to a file, or from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Unpack

import everhold
from everhold import clock
from everhold.arguments.checks import Identifier, PathText
from everhold.arguments.verbs import check_verbs, log_as
from everhold.errors import AlreadyExists, InvalidInput
from everhold.model import Agent, Message, Scope
from everhold.views.agents import AgentFields, BlockChoice, make_agent_deps
from everhold.views.awaited import AsyncFacade, Awaited
from everhold.views.base import ScopedView

if TYPE_CHECKING:
    from everhold.agents.adding import NewAgent
    from everhold.agents.content import AgentContent, MemoryPart
    from everhold.model import Chunk
    from everhold.schema.operations import Operation


@check_verbs
class AgentFileVerbs(ScopedView):
    """Copies of the scope's agent: clones and files."""

    @log_as("create")
    def clone_agent(
        self,
        clone_id: Identifier,
        *,
        blocks: BlockChoice = "copy",
        state: bool = False,
        memories: bool = False,
        **fields: Unpack[AgentFields],
    ) -> Agent:
        """Create a copy of the scope's agent with its tools and blocks, and return the new agent.

        Blocks are copied; with `blocks="share"`, both agents have the same blocks. `state` also copies the agent's
        state that belongs to no session, and `memories` the agent's memories of the scope's user and project. `fields`
        replace fields of the original. The clone is active, and its window of messages is empty. Raise AlreadyExists if
        `clone_id` is taken.
        """
        from everhold.agents.adding import NewAgent, copy_block, find_implicit_agent, make_agent
        from everhold.agents.creating import IDENTITY_FIELDS, check_text_sizes
        from everhold.agents.deps import require_agent
        from everhold.agents.reading import find_blocks, find_tools, read_memories, read_state

        check_text_sizes(fields, self._parts.settings.text_bytes)
        records = self._parts.records
        original = require_agent(records, self.scope)
        find_implicit_agent(
            records, original.organization_id, clone_id, can_complete=False
        )  # before anything is copied
        values = {**{name: original.__dict__[name] for name in IDENTITY_FIELDS}, **fields}
        clone = make_agent(self.scope, clone_id, values, clock.now())
        linked_blocks = find_blocks(records, self.scope, original)
        agent_plan = NewAgent(
            clone,
            blocks=[copy_block(clone, block) for block in linked_blocks] if blocks == "copy" else (),
            shared_blocks=linked_blocks if blocks == "share" else (),
            shared_tools=find_tools(records, original),
            state=read_state(records, self.scope) if state else None,
        )
        agent_memories = read_memories(records, self.scope, original) if memories else []
        self._add_agent(agent_plan, agent_memories, {"agent": clone_id, "cloned": original.id}, can_complete=False)
        return clone

    @log_as("export")
    def export_agent(
        self, path: PathText | Path | IO[str], *, memories: bool = False, overwrite: bool = False
    ) -> "everhold.AgentFile":
        """Write the scope's agent to one JSON file, with its blocks, tools, state and the messages in its window.

        `memories` adds the agent's memories of exactly the scope's user and project. No data of other users is written.
        The file appears when it is complete, and only its owner can read it. An existing file is replaced only with
        `overwrite`.
        """
        from everhold.agents.deps import require_agent
        from everhold.agents.files import summarise, write_agent_file
        from everhold.agents.reading import drop_session, read_content
        from everhold.sessions.messages import find_readable

        scope = drop_session(self.scope)
        agent = require_agent(self._parts.records, scope)
        readable = find_readable(self._parts.session_deps, scope, agent.message_ids)
        window = [message for message in readable if message.user_id == scope.user]
        content = read_content(self._parts.records, scope, agent, window, with_memories=memories)
        write_agent_file(path, content, overwrite=overwrite)
        self._log_call("export", {"agent": agent.id, "memories": len(content.memories)})
        return summarise(agent, content)

    @log_as("import")
    def import_agent(self, path: PathText | Path, *, source: str | None = None) -> "everhold.AgentFile":
        """Create an agent from a file of `export_agent`, or from Letta's agent file (.af).

        The agent gets the id that the scope names, else the id in the file, else a new id. The content of the file
        becomes new rows of the scope; existing rows are not changed. Raise AlreadyExists if the id is taken. `source`
        is the id or the name of the agent if a Letta file has several. The whole file is checked first and stored in
        one commit. A tool whose name or schema cannot be used is left out; `skipped` of the result says why.
        """
        from everhold.agents.adding import find_implicit_agent, plan_new_agent
        from everhold.agents.creating import check_text_sizes
        from everhold.agents.files import read_agent_file, summarise
        from everhold.sessions.pipeline import draft_message

        content, skipped_parts = read_agent_file(Path(path), source)
        content, unusable = _drop_unusable_tools(content)
        for part in (content.agent, *content.blocks, *content.tools):
            check_text_sizes(part.read_values(), self._parts.settings.text_bytes)
        name = self.scope.agent or content.agent.id or clock.make_id("agt")
        deps = make_agent_deps(self._parts)
        # An implicit agent with the id in the file belongs to other scopes, so the file must not complete it.
        can_complete = self.scope.agent is not None
        find_implicit_agent(deps.records, self.scope.organization, name, can_complete=can_complete)
        agent_plan = plan_new_agent(deps, self.scope, name, content, partial(draft_message, self._parts.session_deps))
        self._add_agent(agent_plan, content.memories, {"agent": name, "imported": True}, can_complete=can_complete)
        return summarise(agent_plan.agent, content, (*skipped_parts, *unusable))

    def _add_agent(
        self, agent_plan: "NewAgent", memories: "Sequence[MemoryPart]", request: dict[str, Any], *, can_complete: bool
    ) -> None:
        """Commit a new agent and its memories at once. Raise AlreadyExists if another caller has taken its id."""
        from everhold.agents.adding import find_implicit_agent, make_operations
        from everhold.agents.reading import drop_links
        from everhold.remember.pipeline import remember
        from everhold.remember.scope_rows import AddedScopeRows

        deps, parts, agent = make_agent_deps(self._parts), self._parts, agent_plan.agent
        owner = Scope(organization=self.scope.organization, project=self.scope.project, user=self.scope.user)
        line = deps.make_line(self.scope, "create", agent.updated_at, request)

        def make_agent_operations() -> "list[Operation]":
            try:
                implicit = find_implicit_agent(deps.records, owner.organization, agent.id, can_complete=can_complete)
            except AlreadyExists as error:
                raise _AgentExistsError from error
            return [*make_operations(deps, owner, agent_plan, implicit, self._make_chunks), line]

        scope = owner.narrow(agent=agent.id)
        rows = AddedScopeRows(parts.records, strict=False, timezone=parts.settings.timezone)
        items: list[Mapping[str, Any]] = [
            {**memory.read_values(), "provenance": drop_links(memory.provenance)} for memory in memories
        ]
        try:
            remember(replace(parts.write_deps, scope_rows=rows), scope, items, make_further=make_agent_operations)
        except _AgentExistsError as error:
            raise error.__cause__ or error from None
        parts.write_deps.scope_rows.invalidate()

    def _make_chunks(self, row: Any) -> "list[Chunk]":
        """Return the chunks of a block or a message."""
        from everhold.remember.chunks import make_chunks_or_words

        if isinstance(row, Message):
            return self._parts.session_deps.make_chunks(row)
        return make_chunks_or_words([row], self._parts.write_deps.chunking)[0]


def _drop_unusable_tools(content: "AgentContent") -> "tuple[AgentContent, list[str]]":
    """Return the content without the tools that `create_tool` would refuse, and for each of them a sentence with
    why."""
    from everhold.tools.checking import check_defaults
    from everhold.tools.definitions import check_name

    usable, sentences = [], []
    for tool in content.tools:
        try:
            check_name(tool.name)
            check_defaults(tool.json_schema)
        except InvalidInput as error:
            sentences.append(f"tool {tool.name!r}: {error}")
        else:
            usable.append(tool)
    return content.model_copy(update={"tools": usable}), sentences


class _AgentExistsError(Exception):
    """The id of an agent has been taken. It is not an AlreadyExists, because `remember` reads that as a memory's id."""


class AsyncAgentFileVerbs(AsyncFacade):
    """The verbs of `AgentFileVerbs`, awaited."""

    clone_agent = Awaited(AgentFileVerbs.clone_agent)
    export_agent = Awaited(AgentFileVerbs.export_agent)
    import_agent = Awaited(AgentFileVerbs.import_agent)
