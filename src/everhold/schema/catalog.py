"""Every table, declared once.

Columns come from the entity's annotations. Here stand only the name, the key, what rows are found by, what must be
unique among live rows, and what belongs to what. Everything starts with the organization unless it says otherwise.

A row that belongs to another is deleted with it; a row that mentions another stays, and the mention is emptied.
Deleting a user must never delete a row of another user: what several users may write into (a project, an agent, a cycle
of a run, a session without a user) belongs to no user.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from everhold.model import (
    AccessLog,
    ActionProposal,
    ActionResult,
    Agent,
    AgentState,
    ApiKey,
    Blob,
    Block,
    BlockAgent,
    Change,
    Chunk,
    Connection,
    Conversation,
    Counter,
    Cycle,
    DataKey,
    EmbeddingModel,
    Episode,
    Execution,
    FieldMetadata,
    Job,
    Lease,
    LogHead,
    MaintenanceRun,
    Memory,
    Message,
    MoveMark,
    Organization,
    Outbox,
    OutboxMark,
    Project,
    ProjectionState,
    QueryPattern,
    QueryRun,
    Relationship,
    Revision,
    SchemaVersion,
    Secret,
    Session,
    Snapshot,
    Source,
    TableMetadata,
    Tag,
    Tool,
    ToolAgent,
    User,
    Workspace,
    WorkspaceFile,
)  # fmt: skip
from everhold.model.base import Row
from everhold.model.searchable import SEARCHABLE
from everhold.schema.table import TENANT, Lookup, Reference, Table, Unique, columns_of

R = TypeVar("R", bound=Row)

OWNER_TABLES = {kind: one.table for kind, one in SEARCHABLE.items()}


def _belongs(column: str, target: str) -> Reference:
    return Reference((column,), target)


def _mentions(column: str, target: str) -> Reference:
    return Reference((column,), target, on_delete="set_null")


def _by(*columns: str) -> Lookup:
    return Lookup(columns)


_organization = Reference((TENANT,), "organizations")
_user = _belongs("user_id", "users")
_agent = _belongs("agent_id", "agents")
_session = _belongs("session_id", "sessions")
_project = _belongs("project_id", "projects")
_cycle = _belongs("cycle_id", "cycles")


def _table(
    entity: type[Row],
    name: str,
    *,
    key: tuple[str, ...] = (TENANT, "id"),
    lookups: tuple[Lookup, ...] = (),
    uniques: tuple[Unique, ...] = (),
    references: tuple[Reference, ...] = (_organization,),
    drawn: str | None = None,
    internal: bool = False,
) -> tuple[type[Row], Table]:
    columns = columns_of(entity)
    if any(column.name == "deletion_id" for column in columns):
        lookups = (*lookups, _by("deletion_id"))
    return entity, Table(name, columns, key, lookups, uniques, references, drawn, internal)


def _own(entity: type[Row], name: str, *, key: tuple[str, ...]) -> tuple[type[Row], Table]:
    """Declare a table of the store itself, which belongs to no organization."""
    return _table(entity, name, key=key, references=(), internal=True)


CATALOG: Mapping[type[Row], Table] = dict(
    [
        # who
        _table(Organization, "organizations", key=("id",), references=()),
        _table(
            User,
            "users",
            lookups=(_by("status"), _by("created_at")),
            uniques=(Unique("email", ("email",), when="email"),),
        ),
        _table(
            Project,
            "projects",
            lookups=(_by("user_id"),),
            references=(_organization, _mentions("user_id", "users")),
        ),
        # agents
        _table(Agent, "agents", lookups=(_by("status"), _by("created_at"))),
        _table(
            Block,
            "blocks",
            lookups=(_by("user_id", "label"), _by("label")),
            uniques=(Unique("id_label", ("id", "label"), always=True),),
            references=(_organization, _user),
        ),
        _table(Tool, "tools", lookups=(_by("name"),)),
        _table(
            BlockAgent,
            "blocks_agents",
            key=(TENANT, "block_id", "block_label", "agent_id"),
            lookups=(_by("agent_id"),),
            references=(Reference(("block_id", "block_label"), "blocks", ("id", "label")), _agent),
        ),
        _table(
            ToolAgent,
            "tools_agents",
            key=(TENANT, "tool_id", "agent_id"),
            lookups=(_by("agent_id"),),
            references=(_belongs("tool_id", "tools"), _agent),
        ),
        # conversations
        _table(
            Session,
            "sessions",
            lookups=(
                _by("user_id", "last_active"), _by("project_id"), _by("agent_id"), _by("created_at"),
                _by("session_type"),
            ),
            references=(_organization, _project, _user, _agent),
        ),
        _table(
            AgentState,
            "agent_states",
            lookups=(_by("agent_id"), _by("session_id"), _by("expires_at")),
            uniques=(Unique("agent_session", ("agent_id", "session_id"), when="session_id"),),
            references=(_organization, _agent, _mentions("session_id", "sessions")),
        ),
        _table(
            Conversation,
            "conversations",
            lookups=(_by("session_id", "started_at"),),
            references=(_organization, _session),
        ),
        _table(
            Message,
            "messages",
            lookups=(
                _by("session_id", "created_at"), _by("agent_id", "created_at"), _by("user_id", "created_at"),
                _by("updated_at"),
                _by("conversation_id", "created_at"),
            ),
            uniques=(Unique("position", ("session_id", "position"), when="position"),),
            references=(
                _organization, _project, _session, _user, _agent, _belongs("conversation_id", "conversations"),
            ),
        ),
        _table(
            Episode,
            "episodes",
            lookups=(_by("session_id", "level"), _by("user_id"), _by("project_id"), _by("agent_id")),
            references=(_organization, _session, _user, _project, _agent),
        ),
        # runs of an agent
        _table(
            Execution,
            "executions",
            lookups=(_by("message_id"), _by("session_id"), _by("agent_id", "started_at"), _by("status")),
            references=(_organization, _belongs("message_id", "messages"), _session, _agent),
        ),
        _table(
            Cycle,
            "cycles",
            lookups=(_by("execution_id"), _by("parent_id")),
            uniques=(
                Unique("agent_cycle", ("agent_id", "cycle_index"), when="agent_id"),
                Unique("execution_cycle", ("execution_id", "cycle_index"), unless="agent_id"),
            ),
            references=(
                _organization, _agent, _belongs("execution_id", "executions"), _mentions("parent_id", "cycles"),
            ),
        ),
        _table(
            ActionProposal,
            "action_proposals",
            uniques=(Unique("cycle", ("cycle_id",)),),
            references=(_organization, _cycle),
        ),
        _table(
            ActionResult,
            "action_results",
            uniques=(Unique("cycle", ("cycle_id",)),),
            references=(_organization, _cycle),
        ),
        # memories
        _table(
            Memory,
            "memories",
            lookups=(
                _by("user_id", "created_at"), _by("kind"), _by("created_at"), _by("importance"), _by("session_id"),
                _by("agent_id"), _by("project_id"), _by("cycle_id"), _by("source_agent"), _by("expires_at"),
                _by("attribute", "user_id"),
            ),
            uniques=(
                Unique("hash", ("hash",), when="hash"),
                Unique("own_key", ("key", "user_id", "project_id", "agent_id", "session_id"), when="key"),
            ),
            references=(_organization, _user, _agent, _project, _session, _mentions("cycle_id", "cycles")),
        ),
        _table(
            Tag,
            "memory_tags",
            key=(TENANT, "memory_id", "tag"),
            lookups=(_by("tag"),),
            references=(_belongs("memory_id", "memories"),),
        ),
        _table(
            Relationship,
            "memory_relationships",
            lookups=(_by("target_memory_id"), _by("relationship_type")),
            uniques=(Unique("relationship", ("source_memory_id", "target_memory_id", "relationship_type")),),
            references=(
                _organization, _belongs("source_memory_id", "memories"), _belongs("target_memory_id", "memories"),
            ),
        ),
        _table(
            AccessLog,
            "memory_access_logs",
            key=("sequence",),
            drawn="sequence",
            lookups=(
                _by("memory_id"), _by("session_id"), _by("agent_id"),
                # Serves both columns: the log is read by time, and every further lookup slows each write.
                _by("timestamp", "operation"),
                Lookup(("success", "timestamp"), only_false=True),
            ),
            uniques=(Unique("sealed", ("sealed",), when="sealed"),),
            references=(_organization,),  # a line keeps the ids of what has been purged
        ),
        _table(
            Revision,
            "revisions",
            lookups=(_by("owner_id"),),
            uniques=(Unique("revision", ("owner_kind", "owner_id", "revision")),),
            references=(
                _organization,
                Reference(("owner_id",), "memories", kind=("owner_kind", "memory")),
                Reference(("owner_id",), "blocks", kind=("owner_kind", "block")),
            ),
        ),
        _table(Change, "changes", lookups=(_by("user_id"), _by("created_at")), references=(_organization, _user)),
        # artifacts
        _table(
            Workspace,
            "workspaces",
            lookups=(_by("agent_id"), _by("user_id"), _by("project_id")),
            references=(_organization, _agent, _user, _project),
        ),
        _table(
            WorkspaceFile,
            "workspace_files",
            lookups=(_by("sha256"), _by("cycle_id")),
            uniques=(Unique("path", ("workspace_id", "path")),),
            references=(_organization, _belongs("workspace_id", "workspaces"), _mentions("cycle_id", "cycles")),
        ),
        _table(
            Snapshot,
            "snapshots",
            lookups=(_by("workspace_id", "created_at"), _by("cycle_id"), _by("parent_id")),
            references=(
                _organization, _belongs("workspace_id", "workspaces"), _mentions("cycle_id", "cycles"),
                _mentions("parent_id", "snapshots"),
            ),
        ),
        _table(Blob, "blobs", uniques=(Unique("sha256", ("sha256",)),)),
        # data
        _table(Source, "sources", lookups=(_by("project_id"), _by("sha256")), references=(_organization, _project)),
        _table(
            Connection,
            "connections",
            uniques=(Unique("name", ("project_id", "name")),),
            references=(_organization, _project),
        ),
        _table(
            TableMetadata,
            "table_metadata",
            uniques=(Unique("table_name", ("source_id", "connection_id", "table_name")),),
            lookups=(_by("connection_id"),),
            references=(_organization, _belongs("source_id", "sources"), _belongs("connection_id", "connections")),
        ),
        _table(
            FieldMetadata,
            "field_metadata",
            uniques=(Unique("name", ("table_id", "name")),),
            references=(_organization, _belongs("table_id", "table_metadata")),
        ),
        _table(
            QueryPattern,
            "query_patterns",
            lookups=(_by("project_id"), _by("fingerprint"), _by("last_used")),
            references=(_organization, _project),
        ),
        _table(
            QueryRun,
            "query_runs",
            lookups=(_by("project_id"), _by("session_id"), _by("pattern_id")),
            references=(_organization, _project, _session, _mentions("pattern_id", "query_patterns")),
        ),
        # search
        _table(
            Chunk,
            "chunks",
            key=(TENANT, "owner_id", "owner_kind", "namespace", "model", "revision", "chunk_index"),
            lookups=(_by("namespace", "user_id"),),
            references=tuple(
                Reference(("owner_id",), target, kind=("owner_kind", kind)) for kind, target in OWNER_TABLES.items()
            ),
        ),
        # housekeeping
        _table(
            Outbox,
            "outbox",
            key=("sequence",),
            uniques=(Unique("idempotency_key", ("user_id", "idempotency_key"), when="idempotency_key"),),
            references=(),
            drawn="sequence",
            internal=True,
        ),
        _table(LogHead, "log_heads", references=(), internal=True),  # outlives its organization
        # about this store alone: no organization's, and never moved to another store
        _own(OutboxMark, "outbox_marks", key=("day",)),
        _own(ProjectionState, "projection_states", key=("projection", "generation")),
        _own(EmbeddingModel, "embedding_models", key=("name",)),
        _own(Lease, "leases", key=("name",)),
        _own(MaintenanceRun, "maintenance_runs", key=("job",)),
        _own(MoveMark, "move_marks", key=("table_name",)),
        _own(Counter, "counters", key=("name",)),
        _own(Secret, "secrets", key=("name",)),
        _own(SchemaVersion, "schema_versions", key=("version",)),
        _table(
            ApiKey,
            "api_keys",
            lookups=(_by("user_id"),),
            uniques=(Unique("prefix", ("prefix",)),),
            references=(_organization, _user),
        ),
        _table(DataKey, "data_keys", lookups=(_by("subject"),)),
        _table(Job, "jobs", lookups=(_by("status"), _by("kind")), internal=True),
    ]
)  # fmt: skip

TABLES: Mapping[str, Table] = {table.name: table for table in CATALOG.values()}
ENTITIES: Mapping[str, type[Row]] = {table.name: entity for entity, table in CATALOG.items()}


def table_of(entity: type[Row]) -> Table:
    return CATALOG[entity]


def key_of(row: Row) -> tuple[Any, ...]:
    """The values by which a row is told from all others of its table."""
    return tuple(row.__dict__[name] for name in CATALOG[type(row)].key)
