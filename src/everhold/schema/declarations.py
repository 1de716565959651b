"""The declarations of all tables.

The columns come from the entity's annotations. A declaration adds the name, the key, the indexes (lookups), the unique
rules and the references. Keys, lookups and unique rules begin with the organization unless they say otherwise.

A row that belongs to another one is deleted with it. A row that only mentions another one stays, and the mention is set
to None. Deleting a user must never delete a row of another user. So what several users may share (a project, an agent,
a cycle of a run, a session without a user) belongs to no user.
"""

from collections.abc import Mapping
from typing import NamedTuple

from everhold.model.searchable import SEARCHABLE
from everhold.schema.table import TENANT, Lookup, Reference, Unique

OWNER_TABLES = {kind: searchable.table for kind, searchable in SEARCHABLE.items()}


def _cascade(column: str, target: str) -> Reference:
    """Return the reference of a row that belongs to a row of `target`: it is deleted with that row."""
    return Reference((column,), target)


def _set_null(column: str, target: str) -> Reference:
    """Return the reference of a row that mentions a row of `target`: the column becomes None with its deletion."""
    return Reference((column,), target, on_delete="set_null")


def _lookup(*columns: str) -> Lookup:
    return Lookup(columns)


_ORGANIZATION = Reference((TENANT,), "organizations")
_USER = _cascade("user_id", "users")
_AGENT = _cascade("agent_id", "agents")
_SESSION = _cascade("session_id", "sessions")
_PROJECT = _cascade("project_id", "projects")
_CYCLE = _cascade("cycle_id", "cycles")


class Declaration(NamedTuple):
    """A table without its columns. These are derived from the entity when the table is first used."""

    entity: str
    name: str
    key: tuple[str, ...]
    lookups: tuple[Lookup, ...]
    uniques: tuple[Unique, ...]
    references: tuple[Reference, ...]
    generated: str | None
    internal: bool


def _declare(
    entity: str,
    name: str,
    *,
    key: tuple[str, ...] = (TENANT, "id"),
    lookups: tuple[Lookup, ...] = (),
    uniques: tuple[Unique, ...] = (),
    references: tuple[Reference, ...] = (_ORGANIZATION,),
    generated: str | None = None,
    internal: bool = False,
) -> Declaration:
    return Declaration(entity, name, key, lookups, uniques, references, generated, internal)


def _declare_internal(entity: str, name: str, *, key: tuple[str, ...]) -> Declaration:
    """Declare a table with the engine's own state in one store. Its rows belong to no organization."""
    return _declare(entity, name, key=key, references=(), internal=True)


DECLARATIONS: Mapping[str, Declaration] = {
    declaration.name: declaration
    for declaration in [
        # accounts
        _declare("Organization", "organizations", key=("id",), references=()),
        _declare(
            "User",
            "users",
            lookups=(_lookup("status"), _lookup("created_at")),
            uniques=(Unique("email", ("email",), when="email"),),
        ),
        _declare(
            "Project",
            "projects",
            lookups=(_lookup("user_id"),),
            references=(_ORGANIZATION, _set_null("user_id", "users")),
        ),
        # agents
        _declare("Agent", "agents", lookups=(_lookup("status"), _lookup("created_at"))),
        _declare(
            "Block",
            "blocks",
            lookups=(_lookup("user_id", "label"), _lookup("label")),
            # An id is unique without the organization, but a foreign key needs a unique rule with exactly its columns,
            # and blocks_agents refers to both columns.
            uniques=(Unique("id_label", ("id", "label"), always=True),),
            references=(_ORGANIZATION, _USER),
        ),
        _declare("Tool", "tools", lookups=(_lookup("name"),)),
        _declare(
            "BlockAgent",
            "blocks_agents",
            key=(TENANT, "block_id", "block_label", "agent_id"),
            lookups=(_lookup("agent_id"),),
            references=(Reference(("block_id", "block_label"), "blocks", ("id", "label")), _AGENT),
        ),
        _declare(
            "ToolAgent",
            "tools_agents",
            key=(TENANT, "tool_id", "agent_id"),
            lookups=(_lookup("agent_id"),),
            references=(_cascade("tool_id", "tools"), _AGENT),
        ),
        # conversations
        _declare(
            "Session",
            "sessions",
            lookups=(
                _lookup("user_id", "last_active"), _lookup("project_id"), _lookup("agent_id"), _lookup("created_at"),
                _lookup("session_type"),
            ),
            references=(_ORGANIZATION, _PROJECT, _USER, _AGENT),
        ),
        _declare(
            "AgentState",
            "agent_states",
            lookups=(_lookup("agent_id"), _lookup("session_id"), _lookup("expires_at")),
            uniques=(Unique("agent_session", ("agent_id", "session_id"), when="session_id"),),
            references=(_ORGANIZATION, _AGENT, _set_null("session_id", "sessions")),
        ),
        _declare(
            "Conversation",
            "conversations",
            lookups=(_lookup("session_id", "started_at"),),
            references=(_ORGANIZATION, _SESSION),
        ),
        _declare(
            "Message",
            "messages",
            lookups=(
                _lookup("session_id", "created_at"), _lookup("agent_id", "created_at"),
                _lookup("user_id", "created_at"),
                _lookup("updated_at"),
                _lookup("conversation_id", "created_at"),
            ),
            uniques=(Unique("position", ("session_id", "position"), when="position"),),
            references=(
                _ORGANIZATION, _PROJECT, _SESSION, _USER, _AGENT, _cascade("conversation_id", "conversations"),
            ),
        ),
        _declare(
            "SessionArchive",
            "session_archives",
            lookups=(_lookup("session_id"),),
            references=(_ORGANIZATION, _SESSION),
            internal=True,  # an export writes the archived messages instead
        ),
        _declare(
            "Episode",
            "episodes",
            lookups=(
                _lookup("session_id", "level", "span_from"), _lookup("user_id", "level", "span_from"),
                _lookup("project_id", "level", "span_from"), _lookup("agent_id", "level", "span_from"),
            ),
            references=(_ORGANIZATION, _SESSION, _USER, _PROJECT, _AGENT),
        ),
        # runs of an agent
        _declare(
            "Execution",
            "executions",
            lookups=(
                _lookup("message_id"), _lookup("session_id"), _lookup("agent_id", "started_at"), _lookup("status"),
                _lookup("user_id", "started_at"), _lookup("project_id"), _lookup("parent_id"),
            ),
            references=(
                _ORGANIZATION, _cascade("message_id", "messages"), _SESSION, _AGENT, _USER, _PROJECT,
                _set_null("parent_id", "executions"),
            ),
        ),
        _declare(
            "Cycle",
            "cycles",
            lookups=(
                _lookup("execution_id", "cycle_index"), _lookup("parent_id"),
                # The unique rule below leaves out deleted rows. This index finds their numbers too, so that none is
                # given to another cycle: a cycle that is restored gets its number back.
                _lookup("agent_id", "cycle_index"),
            ),
            uniques=(
                Unique("agent_cycle", ("agent_id", "cycle_index"), when="agent_id"),
                Unique("execution_cycle", ("execution_id", "cycle_index"), unless="agent_id"),
            ),
            references=(
                _ORGANIZATION, _AGENT, _cascade("execution_id", "executions"), _set_null("parent_id", "cycles"),
            ),
        ),
        _declare(
            "ActionProposal",
            "action_proposals",
            uniques=(Unique("cycle", ("cycle_id",)),),
            references=(_ORGANIZATION, _CYCLE),
        ),
        _declare(
            "ActionResult",
            "action_results",
            uniques=(Unique("cycle", ("cycle_id",)),),
            references=(_ORGANIZATION, _CYCLE),
        ),
        # memories
        _declare(
            "Memory",
            "memories",
            lookups=(
                _lookup("user_id", "created_at"), _lookup("kind"), _lookup("created_at"), _lookup("importance"),
                _lookup("session_id"), _lookup("agent_id"), _lookup("project_id"), _lookup("cycle_id"),
                _lookup("source_agent"), _lookup("expires_at"), _lookup("attribute", "user_id"),
            ),
            uniques=(
                Unique("hash", ("hash",), when="hash"),
                Unique("own_key", ("key", "user_id", "project_id", "agent_id", "session_id"), when="key"),
            ),
            references=(_ORGANIZATION, _USER, _AGENT, _PROJECT, _SESSION, _set_null("cycle_id", "cycles")),
        ),
        _declare(
            "Tag",
            "memory_tags",
            key=(TENANT, "memory_id", "tag"),
            lookups=(_lookup("tag"),),
            references=(_cascade("memory_id", "memories"),),
        ),
        _declare(
            "Relationship",
            "memory_relationships",
            lookups=(_lookup("target_memory_id"), _lookup("relationship_type")),
            uniques=(Unique("relationship", ("source_memory_id", "target_memory_id", "relationship_type")),),
            references=(
                _ORGANIZATION, _cascade("source_memory_id", "memories"), _cascade("target_memory_id", "memories"),
            ),
        ),
        _declare(
            "AccessLog",
            "memory_access_logs",
            key=("sequence",),
            generated="sequence",
            lookups=(
                _lookup("memory_id"), _lookup("session_id"), _lookup("agent_id"),
                # One index for queries by time and by time and operation, because each index slows every write.
                _lookup("timestamp", "operation"),
                # Failed calls are rare.
                Lookup(("success", "timestamp"), only_false=True),
            ),
            # The position in the organization's chain. If two processes extend the chain at once, one of them fails.
            uniques=(Unique("sealed", ("sealed",), when="sealed"),),
            # No other references: a line keeps the ids of memories and sessions that were purged.
            references=(_ORGANIZATION,),
        ),
        _declare(
            "Revision",
            "revisions",
            lookups=(_lookup("owner_id"),),
            uniques=(Unique("revision", ("owner_kind", "owner_id", "revision")),),
            references=(
                _ORGANIZATION,
                Reference(("owner_id",), "memories", kind=("owner_kind", "memory")),
                Reference(("owner_id",), "blocks", kind=("owner_kind", "block")),
            ),
        ),
        _declare(
            "Change",
            "changes",
            lookups=(_lookup("user_id"), _lookup("created_at"), _lookup("run_id")),
            references=(_ORGANIZATION, _USER),
        ),
        # workspaces
        _declare(
            "Workspace",
            "workspaces",
            lookups=(_lookup("agent_id"), _lookup("user_id"), _lookup("project_id")),
            references=(_ORGANIZATION, _AGENT, _USER, _PROJECT),
        ),
        _declare(
            "WorkspaceFile",
            "workspace_files",
            lookups=(_lookup("sha256"), _lookup("cycle_id")),
            uniques=(Unique("path", ("workspace_id", "path")),),
            references=(_ORGANIZATION, _cascade("workspace_id", "workspaces"), _set_null("cycle_id", "cycles")),
        ),
        _declare(
            "Snapshot",
            "snapshots",
            lookups=(_lookup("workspace_id", "created_at"), _lookup("cycle_id"), _lookup("parent_id")),
            references=(
                _ORGANIZATION, _cascade("workspace_id", "workspaces"), _set_null("cycle_id", "cycles"),
                _set_null("parent_id", "snapshots"),
            ),
        ),
        _declare("Blob", "blobs", uniques=(Unique("sha256", ("sha256",)),), internal=True),
        # uploaded files and databases
        _declare(
            "Source", "sources", lookups=(_lookup("project_id"), _lookup("sha256")),
            references=(_ORGANIZATION, _PROJECT),
        ),
        _declare(
            "Connection",
            "connections",
            uniques=(Unique("name", ("project_id", "name")),),
            references=(_ORGANIZATION, _PROJECT),
        ),
        _declare(
            "TableMetadata",
            "table_metadata",
            uniques=(Unique("table_name", ("source_id", "connection_id", "table_name")),),
            lookups=(_lookup("connection_id"), _lookup("project_id")),
            references=(
                _ORGANIZATION, _PROJECT, _cascade("source_id", "sources"), _cascade("connection_id", "connections"),
            ),
        ),
        _declare(
            "FieldMetadata",
            "field_metadata",
            lookups=(_lookup("project_id"),),
            uniques=(Unique("name", ("table_id", "name")),),
            references=(_ORGANIZATION, _PROJECT, _cascade("table_id", "table_metadata")),
        ),
        _declare(
            "QueryPattern",
            "query_patterns",
            lookups=(_lookup("project_id"), _lookup("fingerprint"), _lookup("last_used")),
            references=(_ORGANIZATION, _PROJECT, _USER),
        ),
        _declare(
            "QueryLesson",
            "query_lessons",
            lookups=(_lookup("project_id"),),
            references=(_ORGANIZATION, _PROJECT, _USER),
        ),
        _declare(
            "QueryRun",
            "query_runs",
            lookups=(_lookup("project_id"), _lookup("session_id"), _lookup("pattern_id")),
            references=(_ORGANIZATION, _PROJECT, _SESSION, _set_null("pattern_id", "query_patterns")),
        ),
        # search
        _declare(
            "Chunk",
            "chunks",
            key=(TENANT, "owner_id", "owner_kind", "namespace", "model", "revision", "chunk_index"),
            lookups=(_lookup("namespace", "user_id"),),
            references=tuple(
                Reference(("owner_id",), target, kind=("owner_kind", kind)) for kind, target in OWNER_TABLES.items()
            ),
        ),
        # state of the engine
        _declare(
            "Outbox",
            "outbox",
            key=("sequence",),
            uniques=(Unique("idempotency_key", ("user_id", "idempotency_key"), when="idempotency_key"),),
            references=(),
            generated="sequence",
            internal=True,
        ),
        _declare("LogHead", "log_heads", references=(), internal=True),  # kept when the organization is purged
        # State of this store. It is not copied to another store.
        _declare_internal("ArchiveFile", "archive_files", key=("address",)),
        _declare_internal("BackupTarget", "backup_targets", key=("id",)),
        _declare_internal("OutboxMark", "outbox_marks", key=("day",)),
        _declare_internal("ProjectionState", "projection_states", key=("projection", "generation")),
        _declare_internal("EmbeddingModel", "embedding_models", key=("name",)),
        _declare_internal("Lease", "leases", key=("name",)),
        _declare_internal("MaintenanceRun", "maintenance_runs", key=("id",)),
        _declare_internal("MoveMark", "move_marks", key=("table_name",)),
        _declare_internal("Counter", "counters", key=("name",)),
        _declare_internal("Secret", "secrets", key=("name",)),
        _declare_internal("SchemaVersion", "schema_versions", key=("version",)),
        _declare(
            "ApiKey",
            "api_keys",
            lookups=(_lookup("user_id"),),
            uniques=(Unique("prefix", ("prefix",)),),
            references=(_ORGANIZATION, _USER),
        ),
        # No references: a key is stored before the organization's row, and deleting that row must not destroy the key.
        _declare(
            "DataKey",
            "data_keys",
            uniques=(Unique("generation", ("subject", "purpose", "generation"), always=True),),
            references=(),
            internal=True,
        ),
        _declare("UserErasure", "user_erasures", references=(), internal=True),  # kept when the user is erased
        _declare("Job", "jobs", lookups=(_lookup("status"), _lookup("kind")), internal=True),
    ]
}  # fmt: skip
