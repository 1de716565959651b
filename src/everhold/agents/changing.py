"""Change an agent: its fields, its status and the messages in its context."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from everhold import clock
from everhold.agents.deps import AgentDeps, require_agent, require_agent_id, require_version
from everhold.errors import Conflict, InvalidInput, Remedy, StaleVersion, StoreBusy, Verb
from everhold.model import Agent, Scope
from everhold.model.announcement import make_announcement
from everhold.model.validation import validate_row
from everhold.retries import CONFLICTS, TryAgain, retry
from everhold.schema.operations import Patch, Put

AgentStatus = Literal["active", "paused", "terminated"]


def update_agent(deps: AgentDeps, scope: Scope, fields: Mapping[str, Any], expected_version: int | None) -> Agent:
    """Set fields of the scope's agent; raise StaleVersion if it is not at the expected version."""
    if not fields:
        raise InvalidInput("there is nothing to change", remedy="pass at least one field")
    return _change(deps, scope, lambda _: fields, {"fields": sorted(fields)}, expected_version)


def set_status(deps: AgentDeps, scope: Scope, status: AgentStatus) -> Agent:
    """Set the status of the scope's agent; raise Conflict if it is terminated, which is final."""

    def compute_changes(agent: Agent) -> Mapping[str, Any]:
        if agent.status == "terminated" and status != "terminated":
            raise Conflict(
                f"agent {agent.id!r} is terminated, which is final",
                value=agent.id,
                remedy=Remedy("continue with a copy from {}", Verb("clone_agent")),
            )
        return {} if agent.status == status and not agent.is_implicit else {"status": status}

    return _change(deps, scope, compute_changes, {"status": status})


def buffer_messages(deps: AgentDeps, scope: Scope, message_ids: Sequence[str], keep: int | None) -> Agent:
    """Append ids to the agent's in-context messages, and keep only the last `keep` of all ids.

    An id that is already among them keeps its position.
    """

    def compute_changes(agent: Agent) -> Mapping[str, Any]:
        all_ids = list(dict.fromkeys((*agent.message_ids, *message_ids)))
        kept_ids = all_ids if keep is None else all_ids[max(0, len(all_ids) - keep) :]
        return {} if kept_ids == agent.message_ids else {"message_ids": kept_ids}

    return _change(deps, scope, compute_changes, {"buffered": len(message_ids)})


def _change(
    deps: AgentDeps,
    scope: Scope,
    compute_changes: Callable[[Agent], Mapping[str, Any]],
    request: dict[str, Any],
    expected_version: int | None = None,
) -> Agent:
    """Commit the changes that `compute_changes` returns for the current agent; after a version conflict, start
    again."""

    def commit(_: int) -> Agent:
        agent = require_agent(deps.records, scope)
        require_version(agent, expected_version)
        changes = compute_changes(agent)
        if not changes:
            return agent
        now = max(clock.now(), agent.updated_at)  # another computer's clock may be ahead
        stamps = {"updated_at": now, "last_updated_by_id": scope.actor, "is_implicit": False}
        updated = validate_row(Agent, {**agent.__dict__, **changes, **stamps, "version": agent.version + 1})
        values = {name: updated.__dict__[name] for name in (*changes, *stamps)}
        patch = Patch(Agent, (agent.organization_id, agent.id), values, agent.version)
        try:
            deps.records.commit([patch, deps.make_line(scope, "update", now, request), Put(make_announcement(updated))])
        except StaleVersion as error:
            raise TryAgain("another writer changed the agent") from error
        return updated

    agent_id = require_agent_id(scope)
    busy_error = StoreBusy(f"agent {agent_id!r} kept changing while it was updated", value=agent_id, remedy="try again")
    return retry("change an agent", commit, CONFLICTS, give_up=lambda _: busy_error)
