"""The types of what `__init__.py` exports when it is first used."""

from everhold.model.agent import Agent, AgentState, Block, BlockAgent, Tool, ToolAgent
from everhold.model.base import Entity, Row
from everhold.model.change_feed import Outbox, OutboxMark
from everhold.model.counter import Counter
from everhold.model.data_key import DataKey
from everhold.model.dataset import Connection, FieldMetadata, QueryLesson, QueryPattern, QueryRun, Source, TableMetadata
from everhold.model.embedding_model import EmbeddingModel
from everhold.model.episode import Episode
from everhold.model.execution import ActionProposal, ActionResult, Cycle, Execution
from everhold.model.history import Change, Revision
from everhold.model.housekeeping import (
    ApiKey,
    ArchiveFile,
    BackupTarget,
    Job,
    Lease,
    LogHead,
    MaintenanceRun,
    MoveMark,
    ProjectionState,
    SchemaVersion,
    Secret,
    UserErasure,
)
from everhold.model.memory import AccessLog, Chunk, Memory, Relationship, Tag
from everhold.model.scope import Scope
from everhold.model.session import Conversation, Message, Session, SessionArchive
from everhold.model.tenancy import Organization, Project, User
from everhold.model.workspace import Blob, Snapshot, Workspace, WorkspaceFile

__all__ = [
    "AccessLog",
    "ActionProposal",
    "ActionResult",
    "Agent",
    "AgentState",
    "ApiKey",
    "ArchiveFile",
    "BackupTarget",
    "Blob",
    "Block",
    "BlockAgent",
    "Change",
    "Chunk",
    "Connection",
    "Conversation",
    "Counter",
    "Cycle",
    "DataKey",
    "EmbeddingModel",
    "Entity",
    "Episode",
    "Execution",
    "FieldMetadata",
    "Job",
    "Lease",
    "LogHead",
    "MaintenanceRun",
    "Memory",
    "Message",
    "MoveMark",
    "Organization",
    "Outbox",
    "OutboxMark",
    "Project",
    "ProjectionState",
    "QueryLesson",
    "QueryPattern",
    "QueryRun",
    "Relationship",
    "Revision",
    "Row",
    "SchemaVersion",
    "Scope",
    "Secret",
    "Session",
    "SessionArchive",
    "Snapshot",
    "Source",
    "TableMetadata",
    "Tag",
    "Tool",
    "ToolAgent",
    "User",
    "UserErasure",
    "Workspace",
    "WorkspaceFile",
]
