"""What things are: frozen values that know nothing of storage."""

from recollect.model.agent import Agent, AgentState, Block, BlockAgent, Tool, ToolAgent
from recollect.model.base import Entity, Row
from recollect.model.dataset import Connection, FieldMetadata, QueryPattern, QueryRun, Source, TableMetadata
from recollect.model.episode import Episode
from recollect.model.execution import ActionProposal, ActionResult, Cycle, Execution
from recollect.model.housekeeping import ApiKey, DataKey, Job, LogHead, Outbox, ProjectionState, SchemaVersion
from recollect.model.memory import AccessLog, Change, Chunk, Memory, Relationship, Revision, Tag
from recollect.model.scope import Scope
from recollect.model.session import Message, Session
from recollect.model.tenancy import Organization, Project, User
from recollect.model.workspace import Blob, Snapshot, Workspace, WorkspaceFile

__all__ = [
    "AccessLog",
    "ActionProposal",
    "ActionResult",
    "Agent",
    "AgentState",
    "ApiKey",
    "Blob",
    "Block",
    "BlockAgent",
    "Change",
    "Chunk",
    "Connection",
    "Cycle",
    "DataKey",
    "Entity",
    "Episode",
    "Execution",
    "FieldMetadata",
    "Job",
    "LogHead",
    "Memory",
    "Message",
    "Organization",
    "Outbox",
    "Project",
    "ProjectionState",
    "QueryPattern",
    "QueryRun",
    "Relationship",
    "Revision",
    "Row",
    "SchemaVersion",
    "Scope",
    "Session",
    "Snapshot",
    "Source",
    "TableMetadata",
    "Tag",
    "Tool",
    "ToolAgent",
    "User",
    "Workspace",
    "WorkspaceFile",
]
