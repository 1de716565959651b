"""The tables of AgentMem, a multi-tenant store for agents."""

from everhold.schema.legacy_views.declarations import HexDigest, SqlExpression, ViewPreset, declare_view
from everhold.schema.table import Kind

_TIMES = {"created_at": "created_at", "updated_at": "updated_at", "is_deleted": "is_deleted"}
_AUDIT = {**_TIMES, "created_by_id": "created_by_id", "last_updated_by_id": "last_updated_by_id"}
_OWNED = {"id": "id", "organization_id": "organization_id"}

_ORGANIZATIONS = declare_view("organizations", "organizations", {"id": "id", "name": "name", **_TIMES})

_USERS = declare_view(
    "users", "users", {**_OWNED, "name": "name", "status": "status", "timezone": "timezone", **_AUDIT}
)

_AGENTS = declare_view(
    "agents",
    "agents",
    {
        **_OWNED,
        "agent_type": "agent_type",
        "name": "name",
        "description": "description",
        "system": "system",
        "topic": "topic",
        "message_ids": "message_ids",
        "metadata_": "metadata",
        "llm_config": "llm_config",
        "embedding_config": "embedding_config",
        "tool_rules": "tool_rules",
        "mcp_tools": "mcp_tools",
        **_AUDIT,
    },
)

_MESSAGES = declare_view(
    "messages",
    "messages",
    {
        **_OWNED,
        "user_id": "user_id",
        "agent_id": "agent_id",
        "role": "role",
        "text": "text",
        "content": "content",
        "model": "model",
        "name": "name",
        "tool_calls": "tool_calls",
        "tool_call_id": "tool_call_id",
        "step_id": "step_id",
        "otid": "otid",
        "tool_returns": "tool_returns",
        "group_id": "group_id",
        "sender_id": "sender_id",
        **_AUDIT,
    },
)

_BLOCKS = declare_view(
    "blocks",
    "blocks",
    {
        **_OWNED,
        "user_id": "user_id",
        "template_name": "template_name",
        "description": "description",
        "label": "label",
        "is_template": "is_template",
        "value": "value",
        "limit": "limit",
        "metadata_": "metadata",
        **_AUDIT,
    },
)

_TOOLS = declare_view(
    "tools",
    "tools",
    {
        **_OWNED,
        "name": "name",
        "description": "description",
        "json_schema": "json_schema",
        "source_type": "source_type",
        "source_code": "source_code",
        "tags": "tags",
        "metadata_": "metadata",
        **_AUDIT,
    },
)

_MEMORIES = declare_view(
    "memories",
    "memories",
    {
        **_OWNED,
        "user_id": "user_id",
        "agent_id": "agent_id",
        "content": "text",
        "hash": HexDigest("hash"),
        "metadata": "metadata",
        "score": "score",
        "memory_type": "kind",
        # The scope is required there. A memory without the caller's own label is labelled with its reach.
        "scope": SqlExpression(Kind.TEXT, "coalesce(t.scope, t.reach)"),
        "level": "level",
        "importance": "importance",
        "access_count": "access_count",
        "last_accessed": "last_accessed",
        **_AUDIT,
    },
)

_BLOCKS_AGENTS = declare_view(
    "blocks_agents",
    "blocks_agents",
    {"block_id": "block_id", "block_label": "block_label", "agent_id": "agent_id"},
)

_TOOLS_AGENTS = declare_view("tools_agents", "tools_agents", {"tool_id": "tool_id", "agent_id": "agent_id"})

AGENTMEM = ViewPreset(
    "agentmem",
    "s3",
    "AgentMem: a multi-tenant store for agents.",
    (
        _ORGANIZATIONS,
        _USERS,
        _AGENTS,
        _MESSAGES,
        _BLOCKS,
        _TOOLS,
        _MEMORIES,
        _BLOCKS_AGENTS,
        _TOOLS_AGENTS,
    ),
    has_zones=True,
    has_organizations=True,
)
