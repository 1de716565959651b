"""The tables of the agentic memory system: projects with uploaded files, chats about them, and what was learned.

The plan of the legacy system names the tables and few of their columns. The other columns have Everhold's names. Times
are shown in the time zone of Bangkok.
"""

from everhold.schema.legacy_views.declarations import (
    AbsentColumn,
    RowNumber,
    SqlExpression,
    ViewPreset,
    declare_view,
)
from everhold.schema.table import Kind

_BANGKOK_HOURS = 7
_TIMES = {"created_at": "created_at", "updated_at": "updated_at"}

_USER = declare_view(
    "user",
    "users",
    {
        "id": "id",
        "name": "name",
        "email": "email",
        "password": AbsentColumn(Kind.TEXT, "a report never sees the hash of a password"),
        "timezone": "timezone",
        **_TIMES,
    },
)

_PROJECT = declare_view(
    "project", "projects", {"id": "id", "user_id": "user_id", "name": "name", "description": "description", **_TIMES}
)

_CHAT_SESSION = declare_view(
    "chat_session",
    "sessions",
    {"id": "id", "project_id": "project_id", "user_id": "user_id", "title": "title", "summary": "summary", **_TIMES},
)

_SOURCE = declare_view(
    "source",
    "sources",
    {
        "id": "id",
        "project_id": "project_id",
        "name": "name",
        "path": "path",
        "file_type": "media_type",
        "file_size": "size",
        "row_count": "row_count",
        "metadata": "metadata",
        **_TIMES,
    },
    where="t.status = 'ready'",  # the current version of a file
)

_CONVERSATION = declare_view(
    "conversation",
    "messages",
    {
        "id": "id",
        "session_id": "session_id",
        "role": "role",
        "content": "text",
        "references": "references",
        **_TIMES,
    },
)

_STEPS = """@as_json(coalesce((SELECT @json_list(@json_object(
    'cycle_index', c.cycle_index, 'status', c.status, 'tool', c.tool, 'summary', c.summary)) FROM (
      SELECT y.cycle_index, y.status, p.tool, r.summary FROM @cycles AS y
      LEFT JOIN @action_proposals AS p ON p.organization_id = y.organization_id AND p.cycle_id = y.id
      LEFT JOIN @action_results AS r ON r.organization_id = y.organization_id AND r.cycle_id = y.id
      WHERE y.organization_id = t.organization_id AND y.execution_id = t.id AND y.is_deleted = @false
      ORDER BY y.cycle_index) AS c), @empty_list))"""
_EXECUTION = declare_view(
    "agent_execution",
    "executions",
    {
        "id": "id",
        "conversation_id": "message_id",
        "session_id": "session_id",
        "agent_id": "agent_id",
        "task": "task",
        "status": "status",
        "steps": SqlExpression(Kind.JSON, _STEPS),
        "error": "error",
        "started_at": "started_at",
        "ended_at": "ended_at",
        **_TIMES,
    },
)

_EPISODE = declare_view(
    "episode",
    "episodes",
    {
        "id": "id",
        "session_id": "session_id",
        "level": "level",
        "parent_ids": "parent_ids",
        "name": "name",
        "summary": "summary",
        "first_conversation_id": "first_message_id",
        "last_conversation_id": "last_message_id",
        "message_count": "message_count",
        "token_count": "token_count",
        "span_from": "span_from",
        "span_to": "span_to",
        "is_active": "is_active",
        **_TIMES,
    },
)

_OF_CURRENT_SOURCE = """EXISTS (SELECT 1 FROM @sources AS s WHERE s.organization_id = t.organization_id
    AND s.id = t.source_id AND s.status = 'ready' AND s.is_deleted = @false)"""
_METADATA = declare_view(
    "metadata",
    "table_metadata",
    {
        "id": "id",
        "source_id": "source_id",
        "table_name": "table_name",
        "description": "description",
        "row_count": "row_count",
        "primary_key": "primary_key",
        "foreign_keys": "foreign_keys",
        **_TIMES,
    },
    where=_OF_CURRENT_SOURCE,
)

_FIELD_METADATA = declare_view(
    "field_metadata",
    "field_metadata",
    {
        "id": "id",
        "metadata_id": "table_id",
        "field_name": "name",
        "data_type": "data_type",
        "semantic_type": "semantic_type",
        "description": "description",
        "sample_values": "sample_values",
        "is_nullable": "nullable",
        "distinct_count": "distinct_count",
        **_TIMES,
    },
    where="""EXISTS (SELECT 1 FROM @table_metadata AS m JOIN @sources AS s
    ON s.organization_id = m.organization_id AND s.id = m.source_id
    WHERE m.organization_id = t.organization_id AND m.id = t.table_id AND s.status = 'ready')""",
)

_SOURCE_METADATA = declare_view(
    "source_metadata",
    "chunks",
    {
        "id": RowNumber(),
        "metadata_id": "owner_id",
        "embedding": "vector",
        "embedding_model": "model",
        "created_at": "known_from",
    },
    where="t.owner_kind = 'table' AND t.known_to IS NULL AND t.vector IS NOT NULL",
    owners={"owner_id": "table_metadata"},
)

_QUERY_PATTERNS = declare_view(
    "query_patterns",
    "query_patterns",
    {
        "id": "id",
        "project_id": "project_id",
        "question": "question",
        "pattern": "masked_question",
        "sql": "sql",
        "dialect": "dialect",
        "success_count": "wins",
        "failure_count": "losses",
        "last_used": "last_used",
        **_TIMES,
    },
)

AGENTIC_MEMORY = ViewPreset(
    "agentic_memory",
    "s0",
    "The agentic memory system: projects, uploaded files, chats and episodes.",
    (
        _USER,
        _PROJECT,
        _CHAT_SESSION,
        _SOURCE,
        _CONVERSATION,
        _EXECUTION,
        _EPISODE,
        _METADATA,
        _FIELD_METADATA,
        _SOURCE_METADATA,
        _QUERY_PATTERNS,
    ),
    utc_offset_hours=_BANGKOK_HOURS,
)
