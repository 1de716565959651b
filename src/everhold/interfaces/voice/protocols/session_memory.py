"""SessionMemoryAgent: sessions and their messages.

"session-memory" is the generation with its own SQLite file, "session-memory-2" the one that stored through the memory
orchestrator. They differ in `get_context` and `health_check`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from everhold import Message, View, clock
from everhold.errors import NotFound
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_message
from everhold.interfaces.voice.protocols.fields import (
    CHARACTERS_PER_TOKEN,
    MAX_TOKENS,
    format_iso,
    read_count,
    read_object,
    read_text,
    require_text,
)
from everhold.interfaces.voice.protocols.interactions import clear_messages, limit_to_session
from everhold.interfaces.voice.service import VoiceService

_DEFAULT_TOKENS = 2000
_DEFAULT_TURNS = 20
_PAGE = 100  # the default size of the session cache
_MAX_MESSAGES = 1000


def create_session(service: VoiceService, request: Document) -> dict[str, Any]:
    session_id = read_text(request, "session_id", "") or clock.make_id("session")
    view = service.view(user=read_text(request, "user_id", "default"), session=session_id)
    view.open_session(
        metadata=read_object(request, "metadata"), session_type=read_text(request, "session_type", "conversation")
    )
    return {"status": "success", "session_id": session_id}


def add_interaction(service: VoiceService, request: Document) -> dict[str, Any]:
    message = service.use_session(require_text(request, "session_id"), _make_interaction_writer(request))
    return {"status": "success", "interaction_id": message.id}


def add_interaction_to_any_session(service: VoiceService, request: Document) -> dict[str, Any]:
    """Store an interaction. If its session does not exist, it is created."""
    session_id = require_text(request, "session_id")
    message = service.begin_or_use_session(session_id, lambda: "default", _make_interaction_writer(request))
    return {"status": "success", "message": "Interaction added", "interaction_id": message.id}


def _make_interaction_writer(request: Document) -> Callable[[View], Message]:
    """Return a function that stores the interaction of a request in the session of a view."""
    content, role = require_text(request, "content"), require_text(request, "role")
    metadata = read_object(request, "metadata")
    return lambda view: view.say(content, role=role, metadata=metadata)


def get_context(service: VoiceService, request: Document) -> dict[str, Any]:
    budget = read_count(request, "max_tokens", _DEFAULT_TOKENS, MAX_TOKENS) * CHARACTERS_PER_TOKEN
    messages = _read_session(service, request, lambda view: _read_within(view, budget))
    return {
        "status": "success",
        "context": [
            {"role": message.role, "content": message.text or "", "timestamp": format_iso(message.created_at)}
            for message in messages
        ],
    }


def get_turns(service: VoiceService, request: Document) -> dict[str, Any]:
    """Return the last turns, by their number and not by their length."""
    limit = read_count(request, "limit", _DEFAULT_TURNS)
    messages = _read_session(service, request, lambda view: list(view.messages(limit=limit))[::-1])
    return {
        "status": "success",
        "context": [{"role": message.role, "content": message.text or ""} for message in messages],
    }


def _read_session(service: VoiceService, request: Document, read: Callable[[View], list[Message]]) -> Sequence[Message]:
    """Return messages of the session that a request names, or an empty list if the session does not exist."""
    try:
        return service.use_session(require_text(request, "session_id"), read)
    except NotFound:
        return []


def _read_within(view: View, characters: int) -> list[Message]:
    """Return the newest messages that have at most so many characters together, oldest first."""
    chosen_messages: list[Message] = []
    cursor = None
    while len(chosen_messages) < _MAX_MESSAGES:
        page = view.messages(limit=_PAGE, cursor=cursor)
        for message in page:
            characters -= len(message.text or "")
            if characters < 0:
                return chosen_messages[::-1]
            chosen_messages.append(message)
        cursor = page.cursor
        if cursor is None:
            break
    return chosen_messages[::-1]


def clear_session(service: VoiceService, request: Document) -> dict[str, Any]:
    service.use_session(require_text(request, "session_id"), clear_messages)
    return {"status": "success"}


def delete_session(service: VoiceService, request: Document) -> dict[str, Any]:
    """Purge a session, as the older service did: its id can be used again."""
    session_id = require_text(request, "session_id")
    service.use_session(session_id, lambda view: view.delete_session(hard=True))
    service.forget_owner(session_id)
    return {"status": "success", "message": "Session deleted"}


def search_interactions(service: VoiceService, request: Document) -> dict[str, Any]:
    query, limit = require_text(request, "query"), read_count(request, "limit", 10, 100)

    def search(view: View) -> list[dict[str, Any]]:
        hits = view.search_messages(query, k=limit, neighbours=0, only=limit_to_session(view))
        return [{**_describe(hit.message), "score": hit.score} for hit in hits]

    session_id = read_text(request, "session_id", "")
    results = service.use_session(session_id, search) if session_id else search(service.view())
    return {"status": "success", "results": results}


def _describe(message: Message) -> dict[str, Any]:
    """Return a message as the memory orchestrator described an interaction."""
    said_at = message.created_at.isoformat()
    return {
        "memory_id": message.id,
        "memory_type": "interaction",
        "parent_id": message.session_id,
        "role": message.role,
        "content": message.text or "",
        "timestamp": said_at,
        "metadata": {**message.metadata, "role": message.role, "timestamp": said_at},
    }


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    ready = {"is_initialized": True, "error": None, "progress": 1.0}
    return {"status": "ok", "initialization_status": ready, "uptime": service.uptime}


def check_agent(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "success", "agent": "SessionMemoryAgent", "healthy": True}


def echo_request_id(request: Document, reply: dict[str, Any]) -> dict[str, Any]:
    """Add the id of the request to its reply."""
    return {**reply, "request_id": request.get("request_id", "")}


_SHARED = {
    "create_session": create_session,
    "delete_session": delete_session,
    "clear_session": clear_session,
    "search_interactions": search_interactions,
}
SESSION_MEMORY = VoiceProtocol(
    "session-memory",
    {**_SHARED, "add_interaction": add_interaction, "get_context": get_context, "health_check": check_health},
    report_message,
    complete=echo_request_id,
)
SESSION_MEMORY_2 = VoiceProtocol(
    "session-memory-2",
    {
        **_SHARED,
        "add_interaction": add_interaction_to_any_session,
        "get_context": get_turns,
        "health_check": check_agent,
    },
    report_message,
    complete=echo_request_id,
)
