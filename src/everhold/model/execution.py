"""Runs of an agent: executions, their cycles, proposed actions and results."""

from pydantic import Field

from everhold.model.base import Entity
from everhold.model.fields import Count, Id, Json, JsonList, JsonObject, Label, Name, Number, Text, Texts, Time


class Execution(Entity):
    """One task given to an agent."""

    message_id: Id | None = None
    session_id: Id | None = None
    agent_id: Id | None = None
    task: Text
    status: Label = "running"
    started_at: Time
    ended_at: Time | None = None
    error: Text | None = None


class Cycle(Entity):
    """One iteration of an agent or one step of an execution, with the snapshot to resume from.

    `cycle_index` counts the cycles of the agent. If there is no agent, it counts the cycles of the execution.
    """

    agent_id: Id | None = None
    execution_id: Id
    cycle_index: Count
    status: Label = "running"
    parent_id: Id | None = None
    snapshot: JsonObject = Field(default_factory=dict)


class ActionProposal(Entity):
    """The action that an agent planned in a cycle, and why."""

    cycle_id: Id
    tool: Name | None = None
    arguments: JsonObject = Field(default_factory=dict)
    thoughts: Text | None = None
    reasoning: Text | None = None
    plan: JsonList = Field(default_factory=list)
    criticism: Text | None = None
    workspace_cues: JsonList = Field(default_factory=list)
    raw: Json = None


class ActionResult(Entity):
    """The result of a cycle's action."""

    cycle_id: Id
    status: Label
    summary: Text | None = None
    output: Json = None
    error: Json = None
    artifacts: Texts = Field(default_factory=list)
    duration: Number | None = None
