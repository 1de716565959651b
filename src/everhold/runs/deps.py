"""The dependencies of the verbs on runs, and the lookups that they share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from everhold.errors import Conflict, NotFound, Remedy, Verb
from everhold.model import Agent, Execution, Memory, Scope
from everhold.model.access import make_access_line
from everhold.model.announcement import make_announcement
from everhold.ports.records import Records
from everhold.schema.operations import Operation, Put

RunStatus = Literal["running", "paused", "succeeded", "failed", "cancelled"]
STATUSES: tuple[RunStatus, ...] = ("running", "paused", "succeeded", "failed", "cancelled")
UNFINISHED = ("running", "paused")
_VERBS_OF_AGENTS = {"paused": "resume_agent", "terminated": "create_agent"}


class RememberTogether(Protocol):
    """Stores memories, possibly none, and the operations that `make_further` returns, in one commit."""

    def __call__(
        self,
        scope: Scope,
        items: Sequence[str | Mapping[str, Any]],
        *,
        cycle_id: str | None,
        make_further: Callable[[], Sequence[Operation]],
    ) -> list[Memory]: ...


@dataclass(frozen=True)
class RunDeps:
    """The store, and the function that stores memories."""

    records: Records
    remember: RememberTogether
    interface: str


def require_run(records: Records, scope: Scope, run_id: str, *, deleted: bool = False) -> Execution:
    """Return a run of the scope; raise NotFound without revealing whether another scope has it."""
    execution = records.get(Execution, scope.organization, [run_id], deleted=deleted).get(run_id)
    if execution is None or not scope.can_read(execution):
        raise NotFound(f"no run {run_id!r} in this scope", value=run_id, remedy="list the runs of the scope")
    return execution


def make_run_scope(execution: Execution) -> Scope:
    """Return the scope that began a run. Memories that the run makes belong to this scope, even if another scope
    resumes the run."""
    return Scope(
        organization=execution.organization_id,
        project=execution.project_id,
        user=execution.user_id,
        agent=execution.agent_id,
        session=execution.session_id,
    )


def require_active_agent(records: Records, organization: str, agent_id: str | None) -> None:
    """Raise Conflict if the agent is paused or terminated."""
    agent = records.get(Agent, organization, [agent_id]).get(agent_id) if agent_id is not None else None
    if agent is None or agent.status == "active":
        return
    remedy = "call {} first" if agent.status == "paused" else "use another agent; {} makes one"
    raise Conflict(
        f"agent {agent.id!r} is {agent.status}",
        value=agent.id,
        remedy=Remedy(remedy, Verb(_VERBS_OF_AGENTS[agent.status])),
    )


def require_running(execution: Execution) -> None:
    """Raise Conflict unless the run takes proposals."""
    if execution.status == "running":
        return
    remedies = {
        "paused": Remedy("call {} first", Verb("resume")),
        "failed": Remedy("call {} to try its last action again, or {}", Verb("retry"), Verb("fork")),
    }
    raise Conflict(
        f"run {execution.id!r} {_describe_status(execution.status)}",
        value=execution.id,
        remedy=remedies.get(execution.status, Remedy("begin another one, or call {}", Verb("fork"))),
    )


def _describe_status(status: str) -> str:
    return {"paused": "is paused", "cancelled": "was cancelled"}.get(status, f"has {status}")


def make_lines(
    deps: RunDeps,
    scope: Scope,
    execution: Execution,
    operation: Literal["create", "update"],
    now: datetime,
    request: Mapping[str, Any],
) -> list[Operation]:
    """Return the line of the access log and the line of the change feed for a change of a run."""
    details = {"run": execution.id, **request}
    return [
        Put(make_access_line(scope, operation, now, details, interface=deps.interface)),
        Put(make_announcement(execution)),
    ]
