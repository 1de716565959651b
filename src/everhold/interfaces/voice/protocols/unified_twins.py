"""UnifiedMemoryReasoningAgent, second protocol ("unified-2"): the first one, digital twins, all memories."""

from typing import Any

from everhold import Memory, Message
from everhold.errors import InvalidInput, NotFound
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_reason
from everhold.interfaces.voice.protocols.contextual import add_interaction, make_summary
from everhold.interfaces.voice.protocols.fields import (
    MAX_ITEMS,
    describe_value,
    read_count,
    read_object,
    read_text,
    require_text,
    require_value,
)
from everhold.interfaces.voice.protocols.memory_names import get_name
from everhold.interfaces.voice.protocols.profiles import delete_twin as remove_twin
from everhold.interfaces.voice.protocols.profiles import get_twin as read_twin
from everhold.interfaces.voice.protocols.profiles import update_twin as change_twin
from everhold.interfaces.voice.protocols.unified_archive import ARCHIVE_ACTIONS
from everhold.interfaces.voice.service import VoiceService

_EPISODIC = "episodic"


def _read_user(request: Document) -> str:
    return read_text(request, "user_id", "default")


def update_twin(service: VoiceService, request: Document) -> dict[str, Any]:
    require_value(request, "twin_data")
    change_twin(service, _read_user(request), read_object(request, "twin_data"))
    return {"status": "ok"}


def get_twin(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", "twin": read_twin(service, _read_user(request))}


def delete_twin(service: VoiceService, request: Document) -> dict[str, Any]:
    user = _read_user(request)
    if not remove_twin(service, user):
        raise NotFound(f"user {user!r} has no twin", value=user, remedy="call update_twin first")
    return {"status": "ok"}


def add_typed_interaction(service: VoiceService, request: Document) -> dict[str, Any]:
    """Store an interaction. This protocol names the type `interaction_type`."""
    require_text(request, "session_id")
    return add_interaction(service, {**request, "type": request.get("interaction_type") or request.get("type")})


def get_context(service: VoiceService, request: Document) -> dict[str, Any]:
    require_text(request, "session_id")
    return {"status": "ok", "context": make_summary(service, request)}


def get_all_memories(service: VoiceService, request: Document) -> dict[str, Any]:
    """Return the last `limit` interactions of all sessions, at most 1,000, oldest first."""
    messages = service.view().recent_messages(n=read_count(request, "limit", MAX_ITEMS))
    return {"status": "success", "memories": [_describe(message) for message in reversed(messages)]}


def _describe(message: Message) -> dict[str, Any]:
    return {
        "type": message.metadata.get("memory_type", "short_term"),
        "freshness_score": message.metadata.get("freshness_score", 1.0),
        "timestamp": message.created_at.isoformat(),
        "session_id": message.session_id,
        "content": message.text or "",
    }


def coordinate(service: VoiceService, request: Document) -> dict[str, Any]:
    """Answer a request for another agent: episodic memories are stored here, simulations are not."""
    agent = request.get("coordinate_with")
    if agent is None:
        action_names = ", ".join(TWIN_ACTIONS)
        raise InvalidInput("Unknown action", value=request.get("action"), remedy=f"use one of {action_names}")
    if agent != _EPISODIC:
        result: dict[str, Any] = {"status": "error", "error": f"no agent {agent!r} here; only 'episodic' is a memory"}
    else:
        result = _use_episodic(service, request)
    return {"status": "coordinated", "result": result}


def _use_episodic(service: VoiceService, request: Document) -> dict[str, Any]:
    data = read_object(request, "data")
    view = service.view(user=_read_user({**request, **data}))
    if read_text(request, "operation", "read") in ("read", "get", "search", "query"):
        query = read_text(data, "query", "")
        memories = [hit.memory for hit in view.recall(query, kind=_EPISODIC)] if query else view.list(kind=_EPISODIC)
        return {"status": "success", "memories": [_describe_episode(memory) for memory in memories]}
    memory = view.remember(describe_value(data.get("content") or require_value(request, "data")), kind=_EPISODIC)
    return {"status": "success", "memory_id": get_name(memory)}


def _describe_episode(memory: Memory) -> dict[str, Any]:
    return {"memory_id": get_name(memory), "content": memory.text, "timestamp": memory.created_at.isoformat()}


TWIN_ACTIONS = {
    **ARCHIVE_ACTIONS,
    "add_interaction": add_typed_interaction,
    "get_context": get_context,
    "update_twin": update_twin,
    "get_twin": get_twin,
    "delete_twin": delete_twin,
    "get_all_memories": get_all_memories,
}
UNIFIED_2 = VoiceProtocol("unified-2", TWIN_ACTIONS, report_reason, otherwise=coordinate)
