"""Runs of an agent: executions, their cycles, proposed actions and results."""

from pydantic import Field

from everhold.model.base import Entity
from everhold.model.fields import Count, Id, Json, JsonList, JsonObject, Label, Name, Number, Text, Texts, Time


class Execution(Entity):
    """One run of a task by an agent, or by a program without an agent.

    A fork continues the run `parent_id` after the cycle with the number `fork_index`; both runs share the cycles up to
    this number.
    """

    message_id: Id | None = None
    session_id: Id | None = None
    agent_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    parent_id: Id | None = None
    fork_index: Count | None = None
    task: Text
    status: Label = "running"
    started_at: Time
    ended_at: Time | None = None
    output: Json = None
    error: Text | None = None


class Cycle(Entity):
    """One iteration of an agent or one step of an execution, with the snapshot to resume from.

    `cycle_index` counts the cycles of the agent. If there is no agent, it counts the cycles of the execution.
    `parent_id` is the failed cycle that this cycle retries. For the first cycle of a fork it is the cycle after which
    the fork begins.
    """

    agent_id: Id | None = None
    execution_id: Id
    cycle_index: Count
    status: Label = "running"
    parent_id: Id | None = None
    snapshot: JsonObject = Field(default_factory=dict)


class ActionProposal(Entity):
    """The action that an agent planned in a cycle, with its reasons."""

    cycle_id: Id
    tool: Name | None = None
    arguments: JsonObject = Field(default_factory=dict)
    thoughts: Text | None = None
    reasoning: Text | None = None
    plan: JsonList = Field(default_factory=list)
    criticism: Text | None = None
    workspace_cues: JsonList = Field(default_factory=list)
    raw: Json = None
    idempotency_key: Name | None = None
    """A key that is passed to the tool, the same at every attempt, so that repeated calls have only one effect."""
    attempt: Count = 1


class ActionResult(Entity):
    """The result of a cycle's action."""

    cycle_id: Id
    status: Label
    summary: Text | None = None
    output: Json = None
    error: Json = None
    artifacts: Texts = Field(default_factory=list)
    duration: Number | None = None
