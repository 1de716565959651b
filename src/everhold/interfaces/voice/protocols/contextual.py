"""contextual_memory_pc2: interactions and decisions of a session, and its summary.

Its older build named a user and a project instead of a session. Requests of both are answered. The service answered a
successful write with an error; here the reply is {"status": "ok"}.
"""

from typing import Any

from everhold import clock
from everhold.errors import NotFound
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_message
from everhold.interfaces.voice.protocols.fields import (
    MAX_TOKENS,
    format_epoch,
    read_count,
    read_object,
    read_text,
    require_text,
    require_value,
)
from everhold.interfaces.voice.protocols.interactions import (
    DEFAULT_TOKENS,
    SessionName,
    clear_messages,
    record_decision,
    summarise_session,
)
from everhold.interfaces.voice.protocols.interactions import add_interaction as store_interaction
from everhold.interfaces.voice.service import VoiceService

# The values of the older build, which reported how long it kept each part of its memory.
HIERARCHY = {"short_term": "sessions", "medium_term": "summaries", "long_term": "memories"}


def name_session(request: Document) -> SessionName:
    """Return the session id of a request. Without one, make it from the user and the project, or from user and day."""
    if request.get("session_id"):
        return SessionName(require_text(request, "session_id"))
    user, today = read_text(request, "user_id", "default"), f"{clock.now():%Y-%m-%d}"
    return SessionName(f"{user}_{read_text(request, 'project', today)}", user)


def add_interaction(service: VoiceService, request: Document) -> dict[str, Any]:
    kind, content = require_text(request, "type"), require_value(request, "content")
    store_interaction(service, name_session(request), kind, content, read_object(request, "metadata"))
    return {"status": "ok"}


def make_summary(service: VoiceService, request: Document) -> dict[str, Any]:
    """Return the summary of the session that a request names."""
    tokens = read_count(request, "max_tokens", DEFAULT_TOKENS, MAX_TOKENS)
    return summarise_session(service, name_session(request).session_id, tokens)


def get_context(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", **make_summary(service, request)}


def get_summary(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", "summary": make_summary(service, request)}


def add_decision(service: VoiceService, request: Document) -> dict[str, Any]:
    record_decision(service, name_session(request), require_value(request, "decision"))
    return {"status": "ok"}


def get_session_id(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", "session_id": name_session(request).session_id}


def clear_session(service: VoiceService, request: Document) -> dict[str, Any]:
    try:
        service.use_session(name_session(request).session_id, clear_messages)
    except NotFound:  # clearing a session that never began succeeded
        return {"status": "ok"}
    return {"status": "ok"}


def get_memory_config(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", "hierarchy": HIERARCHY}


def describe_health(service: VoiceService, name: str) -> dict[str, Any]:
    """Return the health report that the contextual and the unified services gave."""
    return {
        "status": "ok",
        "service": name,
        "timestamp": format_epoch(clock.now()),
        "uptime_seconds": service.uptime,
        "total_requests": service.answered + service.failed,
        "successful_requests": service.answered,
        "failed_requests": service.failed,
    }


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return describe_health(service, "contextual_memory_agent")


CONTEXTUAL = VoiceProtocol(
    "contextual",
    {
        "add_interaction": add_interaction,
        "get_context": get_context,
        "record_decision": add_decision,
        "get_session_id": get_session_id,
        "get_summary": get_summary,
        "clear_session": clear_session,
        "get_memory_config": get_memory_config,
        "health_check": check_health,
    },
    report_message,
)
