"""Attach blocks to agents and detach them; a block that several agents have is shared by them."""

from everhold import clock
from everhold.blocks.deps import BlockDeps
from everhold.blocks.lookup import find_agents, require_block, require_free_label, require_owned
from everhold.blocks.pipeline import make_link
from everhold.errors import AlreadyExists, Argument, BrokenReference, Conflict, InvalidInput, NotFound, Remedy, Verb
from everhold.model import Block, BlockAgent, Scope
from everhold.model.announcement import make_announcement
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Delete, Put


def attach_block(deps: BlockDeps, scope: Scope, name: str, agent: str | None) -> Block:
    """Attach a block to an agent, and return the block; do nothing if it is attached."""
    agent_id = _choose_agent(scope, agent)

    def commit(_: int) -> Block:
        block = require_block(deps.records, scope, name)
        if block.is_template:
            raise Conflict(
                f"block {block.id!r} is a template",
                value=block.id,
                remedy=Remedy("make a block of it with {}", Verb("create_block")),
            )
        if agent_id in find_agents(deps.records, block):
            return block
        require_free_label(deps.records, block, agent_id)
        now = clock.now()
        rows = deps.make_missing_rows(Scope(organization=scope.organization, agent=agent_id), now)
        line = deps.make_line(scope, "update", block, now, attached=agent_id)
        link = make_link(scope, block, agent_id, now)
        try:
            deps.records.commit([*rows, Put(link), line, Put(make_announcement(block))])
        except (AlreadyExists, BrokenReference) as error:
            deps.invalidate_rows()
            raise TryAgain("another caller attached or deleted the block") from error
        return block

    return retry("attach a block", commit, CONFLICTS)


def detach_block(deps: BlockDeps, scope: Scope, name: str, agent: str | None) -> Block:
    """Detach a block from an agent, and return the block; raise NotFound if it is not attached."""
    agent_id = _choose_agent(scope, agent)
    block = require_block(deps.records, scope, name)
    require_owned(scope, block)
    if agent_id not in find_agents(deps.records, block):
        raise NotFound(
            f"block {block.label!r} is not attached to agent {agent_id!r}",
            value=block.id,
            remedy="there is nothing to detach",
        )
    line = deps.make_line(scope, "update", block, clock.now(), detached=agent_id)
    link = Delete(BlockAgent, (block.organization_id, block.id, block.label, agent_id))
    deps.records.commit([link, line, Put(make_announcement(block))])
    return block


def _choose_agent(scope: Scope, agent: str | None) -> str:
    """Return the id of `agent` or of the scope's agent; raise InvalidInput if they differ or neither is given."""
    if agent is None and scope.agent is None:
        raise InvalidInput("no agent is named", remedy=Remedy("name one with {}", Argument("agent", "ID")))
    if agent is not None and scope.agent is not None and agent != scope.agent:
        raise InvalidInput(
            f"this scope is about agent {scope.agent!r}", value=agent, remedy="use a scope without an agent"
        )
    return agent or scope.agent or ""
