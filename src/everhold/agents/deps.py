"""The dependencies of the verbs on agents, and the lookup of a scope's agent."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from everhold.errors import Argument, Conflict, InvalidInput, NotFound, Remedy, StaleVersion, Verb
from everhold.model import Agent, Scope
from everhold.model.access import LoggedOperation, make_access_line
from everhold.model.base import Entity
from everhold.ports.records import Records
from everhold.schema.operations import Operation, Put


@dataclass(frozen=True)
class AgentDeps:
    """The store and the functions that the verbs on agents use."""

    records: Records
    make_missing_rows: Callable[[Scope, datetime], list[Operation]]
    """Returns the operations that add those rows named by a scope that do not exist yet."""
    forget_known_rows: Callable[[], None]
    """Clears the cache of existing scope rows, so that they are read again after one was deleted."""
    interface: str = "library"

    def make_line(self, scope: Scope, operation: LoggedOperation, now: datetime, request: dict[str, Any]) -> Put:
        """Return the operation that adds a line to the access log."""
        return Put(make_access_line(scope, operation, now, request, interface=self.interface))


def require_agent_id(scope: Scope) -> str:
    """Return the id of the scope's agent; raise InvalidInput if it names none."""
    if scope.agent is None:
        raise InvalidInput("the scope names no agent", remedy=Remedy("name one with {}", Argument("agent", "ID")))
    return scope.agent


def require_agent(records: Records, scope: Scope, *, deleted: bool = False) -> Agent:
    """Return the scope's agent; raise NotFound if it does not exist, or is deleted and `deleted` is false."""
    agent_id = require_agent_id(scope)
    agent = records.get(Agent, scope.organization, [agent_id], deleted=True).get(agent_id)
    if agent is None:
        raise NotFound(
            f"no agent {agent_id!r}", value=agent_id, remedy=Remedy("create it with {}", Verb("create_agent"))
        )
    if agent.is_deleted and not deleted:
        remedy = Remedy("call {}, or use another id", Verb("restore_agent"))
        raise NotFound(f"agent {agent_id!r} has been deleted", value=agent_id, remedy=remedy)
    return agent


def require_deletable_agent(records: Records, scope: Scope, *, deleted: bool = False) -> Agent:
    """Return the scope's agent, to delete or restore it; raise Conflict if the scope names more than the agent.

    Several users may use an agent, and none of them may delete the data of the others.
    """
    agent = require_agent(records, scope, deleted=deleted)
    for kind in ("user", "project", "session"):
        if getattr(scope, kind) is not None:
            raise Conflict(
                f"agent {agent.id!r} belongs to the organization, and others may use it",
                value=agent.id,
                remedy=f"use a scope without the {kind}",
            )
    return agent


def require_version(row: Entity, expected: int | None) -> None:
    """Raise StaleVersion if a version is expected and the row is at another one."""
    if expected is not None and row.version != expected:
        raise make_stale_error(f"{type(row).__name__.lower()} {row.id!r}", row.version, expected)


def make_stale_error(label: str, current: int, expected: int) -> StaleVersion:
    return StaleVersion(
        f"{label} is at version {current}, not {expected}",
        remedy=Remedy("read it again and retry with {}", Argument("expected_version", current)),
        current_version=current,
    )
