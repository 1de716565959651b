"""The tables of the layered memory of Julep agents.

Every message belongs to a conversation there. Messages that were said in a session, and in none of its conversations,
are shown in a conversation with the session's id.
"""

from everhold.schema.legacy_views.declarations import (
    LegacyView,
    RenamedValues,
    SqlExpression,
    ViewPreset,
    ViewRows,
    declare_view,
)
from everhold.schema.table import Kind

_CONVERSATIONS = ViewRows(
    "conversations", {"id": "id", "session_id": "session_id", "timestamp": "started_at", "metadata": "metadata"}
)
_SESSIONS = ViewRows(
    "sessions",
    {"id": "id", "session_id": "id", "timestamp": "created_at", "metadata": "metadata"},
    where="""EXISTS (SELECT 1 FROM @messages AS m WHERE m.organization_id = t.organization_id
    AND m.session_id = t.id AND m.conversation_id IS NULL AND m.is_deleted = @false)""",
)

_MESSAGES = declare_view(
    "messages",
    "messages",
    {
        "id": "id",
        "conversation_id": SqlExpression(Kind.TEXT, "coalesce(t.conversation_id, t.session_id)"),
        "content": "text",
        "role": "role",
        "timestamp": "created_at",
        "metadata": "metadata",
    },
)

_WITH_CATEGORIES = """@json_merge(t.metadata, @json_object('categories', @as_json(coalesce((
    SELECT @json_list(g.tag) FROM (
      SELECT tag FROM @memory_tags WHERE organization_id = t.organization_id AND memory_id = t.id
      AND is_deleted = @false ORDER BY tag) AS g), @empty_list))))"""
_FACTS = declare_view(
    "memory_facts",
    "memories",
    {
        "id": "id",
        "fact_type": RenamedValues("kind", {"fact": "user_fact"}),
        "content": "text",
        "confidence": "confidence",
        "timestamp": "created_at",
        "metadata": SqlExpression(Kind.JSON, _WITH_CATEGORIES),
    },
)

JULEP = ViewPreset(
    "julep",
    "s4",
    "The layered memory of Julep agents: conversations, messages and facts.",
    (LegacyView("conversations", (_CONVERSATIONS, _SESSIONS)), _MESSAGES, _FACTS),
)
