"""The types of what `__init__.py` exports when it is first used."""

from everhold.access.chain import Verification
from everhold.adapters.caller_embedder import FunctionEmbedder
from everhold.agents.files import AgentFile
from everhold.ask.answer import Answer
from everhold.ask.connections.connecting import ConnectedDatabase
from everhold.ask.connections.summary import ConnectionSummary
from everhold.ask.connections.syncing import TableChange
from everhold.ask.earlier import EarlierQuestion
from everhold.ask.learning.items import LearnedItem
from everhold.ask.learning.verdicts import VerdictResult
from everhold.ask.outcome import AnswerChoice, AnswerStatus, NotUnderstood
from everhold.ask.sources.finding import FoundTable
from everhold.ask.sources.pipeline import UploadedFile
from everhold.ask.sources.rows import DescribedTable
from everhold.async_engine import AsyncEverhold, OpeningEngine
from everhold.backups.listing import BackupSummary
from everhold.backups.pipeline import BackupResult
from everhold.backups.verification import BackupVerification
from everhold.context.section import Context, SectionUse
from everhold.context.window import Window
from everhold.encryption.rotation import Rotated
from everhold.encryption.status import KeyDescription, KeyReport
from everhold.engine import Everhold
from everhold.episodes.listing import EpisodeDetails, Episodes
from everhold.episodes.reading import SpanSummary
from everhold.errors import (
    AlreadyExists,
    ArgumentFault,
    BatchTooLarge,
    BrokenReference,
    Conflict,
    DataKeyDestroyed,
    DataKeyMissing,
    DataUnavailable,
    EmptyQuery,
    EncryptionError,
    EnvelopeDamaged,
    EverholdError,
    FileError,
    IdempotencyMismatch,
    InvalidArguments,
    InvalidInput,
    InvalidSettings,
    MalformedId,
    MasterKeyMissing,
    MasterKeyWrong,
    MissingExtra,
    ModelDamaged,
    ModelError,
    ModelNotFound,
    ModelUnavailable,
    NotFound,
    QueryError,
    QueryFailed,
    QueryMemoryExceeded,
    QueryTimeout,
    Remedy,
    ResultTooLarge,
    SchemaTooNew,
    SignInRefused,
    StaleVersion,
    StatementRefused,
    StepFailed,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreUnavailable,
    UnknownField,
    UnreadableFile,
)
from everhold.events.event import ChangeEvent
from everhold.events.reader import EventStream
from everhold.events.subscription import Subscription
from everhold.exchange.moving import Moved
from everhold.import_results import ImportResult, MappedRows, RowFault, RowsLeftOut
from everhold.maintenance.extraction import Extracted
from everhold.maintenance.pipeline import JobReport, MaintenanceReport
from everhold.model import (
    AccessLog,
    ActionProposal,
    ActionResult,
    Agent,
    AgentState,
    Block,
    Change,
    Conversation,
    Cycle,
    Episode,
    Execution,
    FieldMetadata,
    MaintenanceRun,
    Memory,
    Message,
    Organization,
    Project,
    QueryRun,
    Relationship,
    Revision,
    Scope,
    Session,
    Snapshot,
    Source,
    TableMetadata,
    Tool,
    User,
    Workspace,
    WorkspaceFile,
)
from everhold.model.base import Entity
from everhold.ports.backup_targets import TargetErasure
from everhold.ports.data_engine import ColumnType, QueryResult, ResultColumn
from everhold.ports.embedder import Embedder
from everhold.ports.reranker import Reranker
from everhold.ports.result_table import AnswerColumn, ResultTable
from everhold.ports.session_cache import WorkingMemory
from everhold.progress import StepProgress
from everhold.recall.filters import FilterArguments
from everhold.recall.hit import Hit, Hits, Why
from everhold.recall.listing import Listing
from everhold.recall.message_hits import MessageHit, MessageHits
from everhold.recall.recipe import Recipe
from everhold.recall.timeline import Period
from everhold.recall.why_not import WhyNot
from everhold.remember.contradictions import MemoryConflict
from everhold.remember.draft import MemoryFields, MemoryInput
from everhold.remember.forget import Forgotten
from everhold.remember.merge import Merged, MergedPair
from everhold.remember.relate import Related
from everhold.remember.undo_run import SkippedChange, UndoneRun
from everhold.report import Report
from everhold.runs.comparing import RunComparison, StepPair
from everhold.runs.procedures import Procedure, ProcedureStep
from everhold.runs.recollections import Recollection, Recollections
from everhold.runs.steps import RunStep
from everhold.sessions.messages import AddResult, Messages
from everhold.settings import Settings
from everhold.settings_fields import SettingsFields
from everhold.sql_views.installing import PresetViews
from everhold.tenancy.accounts import AccountPage
from everhold.tenancy.deletion import Deleted
from everhold.tenancy.erasure import ErasedPlace, ErasureProof
from everhold.tools.definitions import ToolList
from everhold.views.accounts import OrganizationFields, ProjectFields, UserFields
from everhold.views.agents import AgentFields
from everhold.views.blocks import BlockFields, NewBlockFields
from everhold.views.messages import MessageFields, MessageInput
from everhold.views.restoring import Restored
from everhold.views.run import AsyncRun, Run
from everhold.views.sessions import ConversationFields, SessionFields
from everhold.views.tools import DerivedToolFields, NewToolFields, ToolFields
from everhold.views.view import AsyncView, View
from everhold.views.workspace_folder import AsyncWorkspaceFolder, WorkspaceFolder
from everhold.workspaces.diffs import FileDifference
from everhold.workspaces.garbage import CollectedGarbage
from everhold.workspaces.scanning import ScannedFiles
from everhold.workspaces.snapshots import RestoredFiles
from everhold.workspaces.verification import VerifiedWorkspace

__all__ = [
    "AccessLog",
    "AccountPage",
    "ActionProposal",
    "ActionResult",
    "AddResult",
    "Agent",
    "AgentFields",
    "AgentFile",
    "AgentState",
    "AlreadyExists",
    "Answer",
    "AnswerChoice",
    "AnswerColumn",
    "AnswerStatus",
    "ArgumentFault",
    "AsyncEverhold",
    "AsyncRun",
    "AsyncView",
    "AsyncWorkspaceFolder",
    "BackupResult",
    "BackupSummary",
    "BackupVerification",
    "BatchTooLarge",
    "Block",
    "BlockFields",
    "BrokenReference",
    "Change",
    "ChangeEvent",
    "CollectedGarbage",
    "ColumnType",
    "Conflict",
    "ConnectedDatabase",
    "ConnectionSummary",
    "Context",
    "Conversation",
    "ConversationFields",
    "Cycle",
    "DataKeyDestroyed",
    "DataKeyMissing",
    "DataUnavailable",
    "Deleted",
    "DerivedToolFields",
    "DescribedTable",
    "EarlierQuestion",
    "Embedder",
    "EmptyQuery",
    "EncryptionError",
    "Entity",
    "EnvelopeDamaged",
    "Episode",
    "EpisodeDetails",
    "Episodes",
    "ErasedPlace",
    "ErasureProof",
    "EventStream",
    "Everhold",
    "EverholdError",
    "Execution",
    "Extracted",
    "FieldMetadata",
    "FileDifference",
    "FileError",
    "FilterArguments",
    "Forgotten",
    "FoundTable",
    "FunctionEmbedder",
    "Hit",
    "Hits",
    "IdempotencyMismatch",
    "ImportResult",
    "InvalidArguments",
    "InvalidInput",
    "InvalidSettings",
    "JobReport",
    "KeyDescription",
    "KeyReport",
    "LearnedItem",
    "Listing",
    "MaintenanceReport",
    "MaintenanceRun",
    "MalformedId",
    "MappedRows",
    "MasterKeyMissing",
    "MasterKeyWrong",
    "Memory",
    "MemoryConflict",
    "MemoryFields",
    "MemoryInput",
    "Merged",
    "MergedPair",
    "Message",
    "MessageFields",
    "MessageHit",
    "MessageHits",
    "MessageInput",
    "Messages",
    "MissingExtra",
    "ModelDamaged",
    "ModelError",
    "ModelNotFound",
    "ModelUnavailable",
    "Moved",
    "NewBlockFields",
    "NewToolFields",
    "NotFound",
    "NotUnderstood",
    "OpeningEngine",
    "Organization",
    "OrganizationFields",
    "Period",
    "PresetViews",
    "Procedure",
    "ProcedureStep",
    "Project",
    "ProjectFields",
    "QueryError",
    "QueryFailed",
    "QueryMemoryExceeded",
    "QueryResult",
    "QueryRun",
    "QueryTimeout",
    "Recipe",
    "Recollection",
    "Recollections",
    "Related",
    "Relationship",
    "Remedy",
    "Report",
    "Reranker",
    "Restored",
    "RestoredFiles",
    "ResultColumn",
    "ResultTable",
    "ResultTooLarge",
    "Revision",
    "Rotated",
    "RowFault",
    "RowsLeftOut",
    "Run",
    "RunComparison",
    "RunStep",
    "ScannedFiles",
    "SchemaTooNew",
    "Scope",
    "SectionUse",
    "Session",
    "SessionFields",
    "Settings",
    "SettingsFields",
    "SignInRefused",
    "SkippedChange",
    "Snapshot",
    "Source",
    "SpanSummary",
    "StaleVersion",
    "StatementRefused",
    "StepFailed",
    "StepPair",
    "StepProgress",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreMissing",
    "StoreReadOnly",
    "StoreUnavailable",
    "Subscription",
    "TableChange",
    "TableMetadata",
    "TargetErasure",
    "Tool",
    "ToolFields",
    "ToolList",
    "UndoneRun",
    "UnknownField",
    "UnreadableFile",
    "UploadedFile",
    "User",
    "UserFields",
    "VerdictResult",
    "Verification",
    "VerifiedWorkspace",
    "View",
    "Why",
    "WhyNot",
    "Window",
    "WorkingMemory",
    "Workspace",
    "WorkspaceFile",
    "WorkspaceFolder",
]
__version__: str
