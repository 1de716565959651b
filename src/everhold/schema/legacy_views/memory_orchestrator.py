"""The tables of the Memory Orchestrator, a unified store for voice assistants.

Its conversation history was stored as memories of the type `conversation`, so messages are among the memory entries.
"""

from everhold.model.memory import DEFAULT_PRIORITY
from everhold.schema.legacy_views.declarations import (
    AbsentColumn,
    LegacyView,
    RenamedValues,
    RowNumber,
    SqlExpression,
    ViewPreset,
    ViewRows,
    declare_view,
)
from everhold.schema.table import Kind

_TIMES = {"created_at": "created_at", "updated_at": "updated_at"}

_SESSIONS = declare_view(
    "sessions",
    "sessions",
    {
        "session_id": "id",
        "user_id": "user_id",
        **_TIMES,
        "ended_at": "ended_at",
        "metadata": "metadata",
        "summary": "summary",
        "is_archived": "is_archived",
        "session_type": "session_type",
    },
)

_ENTRIES_OF_MEMORIES = ViewRows(
    "memories",
    {
        "memory_id": "id",
        "session_id": "session_id",
        "memory_type": RenamedValues("kind", {"preference": "user_preference"}),
        # The text is part of the content there: `content->>'text'` equals `text_content`.
        "content": SqlExpression(Kind.JSON, "@json_merge(t.content, @json_object('text', t.text))"),
        "text_content": "text",
        "source_agent": "source_agent",
        **_TIMES,
        "expires_at": "expires_at",
        "priority": SqlExpression(Kind.INTEGER, "CAST(round(t.importance * 9) AS @integer) + 1"),
        "is_active": SqlExpression(Kind.BOOLEAN, "@true"),
    },
)
# An importer may have stored a turn as a message and as a memory. It is shown once.
_NOT_A_MEMORY = """NOT EXISTS (
    SELECT 1 FROM @memories AS m WHERE m.organization_id = t.organization_id AND m.session_id = t.session_id
    AND m.kind = 'conversation' AND m.text = t.text AND m.is_deleted = @false)"""
_ENTRIES_OF_MESSAGES = ViewRows(
    "messages",
    {
        "memory_id": "id",
        "session_id": "session_id",
        "memory_type": SqlExpression(Kind.TEXT, "'conversation'"),
        "content": SqlExpression(Kind.JSON, "@json_object('text', t.text, 'role', t.role)"),
        "text_content": "text",
        "source_agent": "agent_id",
        **_TIMES,
        "expires_at": AbsentColumn(Kind.TIME, "a message does not expire"),
        "priority": SqlExpression(Kind.INTEGER, str(DEFAULT_PRIORITY)),
        "is_active": SqlExpression(Kind.BOOLEAN, "@true"),
    },
    where=_NOT_A_MEMORY,
)

_TAGS = declare_view(
    "memory_tags",
    "memory_tags",
    {"tag_id": RowNumber(), "memory_id": "memory_id", "tag": "tag"},
    owners={"memory_id": "memories"},
)


def _embed(kind: str, owner: str) -> ViewRows:
    return ViewRows(
        "chunks",
        {
            "embedding_id": RowNumber(),
            "memory_id": "owner_id",
            "embedding": "vector",
            "embedding_model": "model",
            "created_at": "known_from",
        },
        where=f"t.owner_kind = '{kind}' AND t.known_to IS NULL AND t.vector IS NOT NULL",
        owners={"owner_id": owner},
    )


_USER_PROFILES = declare_view(
    "user_profiles",
    "users",
    {
        "user_id": "id",
        **_TIMES,
        "profile_data": "profile",
        "preferences": "preferences",
        "is_active": SqlExpression(Kind.BOOLEAN, "t.status = 'active'"),
    },
)

_AGENT_STATES = declare_view(
    "agent_states",
    "agent_states",
    {
        "state_id": "id",
        "agent_id": "agent_id",
        "session_id": "session_id",
        "state_data": "state",
        **_TIMES,
        "expires_at": "expires_at",
    },
)

_RELATIONSHIPS = declare_view(
    "memory_relationships",
    "memory_relationships",
    {
        "relationship_id": "id",
        "source_memory_id": "source_memory_id",
        "target_memory_id": "target_memory_id",
        "relationship_type": "relationship_type",
        "metadata": "metadata",
        "created_at": "created_at",
    },
    owners={"source_memory_id": "memories", "target_memory_id": "memories"},
)

_ACCESS_LOGS = declare_view(
    "memory_access_logs",
    "memory_access_logs",
    {
        "log_id": "sequence",
        "memory_id": "memory_id",
        "session_id": "session_id",
        "agent_id": "agent_id",
        "operation": "operation",
        "timestamp": "timestamp",
        "request_data": "request",
        "success": "success",
        "error_message": "error_message",
        "ip_address": "ip_address",
    },
    owners={"organization_id": "organizations"},
)

MEMORY_ORCHESTRATOR = ViewPreset(
    "memory_orchestrator",
    "s2",
    "Memory Orchestrator: the unified store of voice assistants.",
    (
        _SESSIONS,
        LegacyView("memory_entries", (_ENTRIES_OF_MEMORIES, _ENTRIES_OF_MESSAGES)),
        _TAGS,
        LegacyView("vector_embeddings", (_embed("memory", "memories"), _embed("message", "messages"))),
        _USER_PROFILES,
        _AGENT_STATES,
        _RELATIONSHIPS,
        _ACCESS_LOGS,
    ),
)
