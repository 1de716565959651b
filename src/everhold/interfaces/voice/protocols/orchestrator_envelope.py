"""The memory orchestrator's envelope: {action, session_id, payload, request_id, timestamp}."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from everhold import Memory, View, clock
from everhold.errors import InvalidInput, format_value
from everhold.interfaces.shared.failures import Failure
from everhold.interfaces.voice.protocols.base import Document
from everhold.interfaces.voice.protocols.fields import (
    MAX_ITEMS,
    MAX_TOKENS,
    describe_value,
    read_count,
    read_object,
    read_text,
    read_texts,
    require_text,
    require_value,
)
from everhold.interfaces.voice.protocols.interactions import limit_to_session
from everhold.interfaces.voice.protocols.memory_names import get_name, match_names
from everhold.interfaces.voice.service import VoiceService

T = TypeVar("T")

MAX_SOURCE_AGENT = 64  # the width of the column
_DEFAULT_TOKENS = 400
# The code of each class of the engine's errors.
_CODES = {
    "InvalidInput": "invalid_request",
    "MalformedId": "invalid_request",
    "UnknownField": "invalid_request",
    "NotFound": "not_found",
    "Conflict": "conflict",
    "AlreadyExists": "conflict",
    "StaleVersion": "conflict",
}


def use_view(service: VoiceService, request: Document, act: Callable[[View], T]) -> T:
    """Call `act` with a view of the session that a request names, or of the whole organization."""
    session_id = read_text(request, "session_id", "")
    if not session_id:
        return act(service.view())
    user = read_text(read_payload(request), "user_id", "") or None
    return service.begin_or_use_session(session_id, lambda: user, act)


def read_payload(request: Document) -> dict[str, Any]:
    return read_object(request, "payload")


def create(service: VoiceService, request: Document) -> dict[str, Any]:
    fields = _read_fields(read_payload(request))
    memory = use_view(service, request, lambda view: view.remember(**fields))
    return {"memory_id": get_name(memory), "created_at": memory.created_at.isoformat()}


def _read_fields(payload: Document) -> dict[str, Any]:
    content = require_value(payload, "content")
    metadata = read_object(payload, "metadata")
    agent = payload.get("source_agent") or metadata.get("agent_id")
    return {
        "text": describe_value(content),
        "content": content if isinstance(content, dict) else {"text": content},
        "kind": read_text(payload, "memory_type", "observation"),
        "tags": read_texts(payload, "tags"),
        "priority": payload.get("priority"),
        "expires_at": read_moment(payload, "expires_at"),
        "metadata": metadata,
        "source_agent": str(agent)[:MAX_SOURCE_AGENT] if agent else None,
    }


def read_moment(payload: Document, name: str) -> datetime | None:
    """Parse a time in ISO 8601 or in seconds since 1970. A time without a zone is in UTC."""
    value = payload.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return clock.from_micros(int(value * 1_000_000))
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(
            f"{name} is {format_value(value)}", value=value, remedy="send a time such as 2026-05-01T12:00:00Z"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=clock.EPOCH.tzinfo)


def read(service: VoiceService, request: Document) -> dict[str, Any]:
    memory_id = require_text(read_payload(request), "memory_id")
    return use_view(service, request, lambda view: _describe_all(view, [view.get(memory_id)])[0])


def update(service: VoiceService, request: Document) -> dict[str, Any]:
    payload = read_payload(request)
    memory_id, changes = require_text(payload, "memory_id"), _read_changes(payload)
    tags = read_texts(payload, "tags")

    def change(view: View) -> dict[str, Any]:
        memory = view.revise(memory_id, **changes) if changes else view.get(memory_id)
        if tags:
            view.tag(memory.id, *tags)
        return {"memory_id": get_name(memory), "updated_at": memory.updated_at.isoformat()}

    return use_view(service, request, change)


def _read_changes(payload: Document) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if payload.get("content") is not None:
        content = payload["content"]
        changes = {"text": describe_value(content)}
        changes["content"] = content if isinstance(content, dict) else {"text": content}
    for old_name, name in (("memory_type", "kind"), ("priority", "priority"), ("metadata", "metadata")):
        if payload.get(old_name) is not None:
            changes[name] = payload[old_name]
    if payload.get("expires_at") is not None:
        changes["expires_at"] = read_moment(payload, "expires_at")
    return changes


def delete(service: VoiceService, request: Document) -> dict[str, Any]:
    memory_id = require_text(read_payload(request), "memory_id")
    memory = use_view(service, request, lambda view: view.forget(memory_id))
    return {"memory_id": get_name(memory), "deleted": True}


def batch_read(service: VoiceService, request: Document) -> dict[str, Any]:
    """Return memories by id, or the newest or oldest ones of a type."""
    payload = read_payload(request)
    memory_ids, limit = read_texts(payload, "memory_ids"), read_count(payload, "limit", 50)
    kind, oldest_first = payload.get("memory_type"), payload.get("sort_order") == "asc"

    def find(view: View) -> dict[str, Any]:
        if memory_ids:
            page = view.list(where=match_names(memory_ids), limit=MAX_ITEMS)
        else:
            only = limit_to_session(view)
            page = view.list(kind=kind, limit=limit, oldest_first=oldest_first, only=only)
        memories = _describe_all(view, list(page))
        return {"memories": memories, "count": len(memories)}

    return use_view(service, request, find)


def search(service: VoiceService, request: Document) -> dict[str, Any]:
    payload = read_payload(request)
    query, k = require_text(payload, "query"), read_count(payload, "limit", 10, 100)
    tags = read_texts(payload, "tags") or None

    def find(view: View) -> dict[str, Any]:
        hits = view.recall(query, k=k, kind=payload.get("memory_type"), tags=tags)
        documents = _describe_all(view, [hit.memory for hit in hits])
        memories = [{**memory, "score": hit.score} for memory, hit in zip(documents, hits, strict=True)]
        return {"memories": memories, "results": memories, "count": len(memories)}

    return use_view(service, request, find)


def create_session(service: VoiceService, request: Document) -> dict[str, Any]:
    payload = read_payload(request)
    session_id = read_text(request, "session_id", "") or read_text(payload, "session_id", "")
    session_id = session_id or clock.make_id("session")
    view = service.view(user=read_text(payload, "user_id", "") or None, session=session_id)
    view.open_session(
        session_type=read_text(payload, "session_type", "conversation"), metadata=read_object(payload, "metadata")
    )
    return {"session_id": session_id}


def end_session(service: VoiceService, request: Document) -> dict[str, Any]:
    payload, session_id = read_payload(request), require_text(request, "session_id")
    service.use_session(session_id, lambda view: view.end_session(summary=payload.get("summary")))
    if payload.get("archive"):
        service.use_session(session_id, lambda view: view.archive_session())
    return {"session_id": session_id}


def bulk_delete(service: VoiceService, request: Document) -> dict[str, Any]:
    """Forget memories by id, or all memories of a type; if the request names a session, only those written in it."""
    payload = read_payload(request)
    memory_ids = read_texts(payload, "memory_ids")
    filters: dict[str, Any] = {"where": match_names(memory_ids)} if memory_ids else {}
    if not memory_ids:
        filters["kind"] = require_text(payload, "memory_type")

    def forget(view: View) -> int:
        return view.forget_where(only=limit_to_session(view), **filters).count

    return {"deleted": use_view(service, request, forget)}


def summarize(service: VoiceService, request: Document) -> dict[str, Any]:
    budget = read_count(read_payload(request), "max_tokens", _DEFAULT_TOKENS, MAX_TOKENS)
    session_id = require_text(request, "session_id")
    summary = service.use_session(session_id, lambda view: view.summary(budget=budget, only="session"))
    return {"session_id": session_id, "summary": summary.text}


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "ok", "uptime_seconds": service.uptime}


def _describe_all(view: View, memories: list[Memory]) -> list[dict[str, Any]]:
    tags = view.tags_of([memory.id for memory in memories]) if memories else {}
    return [_describe(memory, tags.get(memory.id, ())) for memory in memories]


def _describe(memory: Memory, tags: tuple[str, ...]) -> dict[str, Any]:
    """Return a memory in the form of the protocol's replies."""
    return {
        "memory_id": get_name(memory),
        "session_id": memory.session_id,
        "memory_type": memory.kind,
        "content": memory.content or {"text": memory.text},
        "text_content": memory.text,
        "source_agent": memory.source_agent,
        "created_at": memory.created_at.isoformat(),
        "updated_at": memory.updated_at.isoformat(),
        "expires_at": memory.expires_at.isoformat() if memory.expires_at else None,
        "priority": memory.priority,
        "is_active": True,
        "tags": list(tags),
        "metadata": memory.metadata,
    }


def complete_envelope(request: Document, reply: dict[str, Any]) -> dict[str, Any]:
    """Put a reply into the envelope of the protocol. The reply to an error already has its `error`."""
    body = reply if "error" in reply else {"status": "success", "data": reply}
    request_fields = {"action": request.get("action"), "request_id": request.get("request_id")}
    return {**body, **request_fields, "timestamp": clock.now().isoformat()}


def report_envelope(request: Document, failure: Failure) -> dict[str, Any]:
    """Return the error part of an envelope."""
    code = _CODES.get(failure.kind, "unavailable" if failure.retryable else "internal_error")
    details = {"value": failure.value, "remedy": failure.remedy, "retryable": failure.retryable}
    return {"status": "error", "error": {"code": code, "message": failure.message, "details": details}}


ENVELOPE_ACTIONS = {
    "create": create,
    "read": read,
    "update": update,
    "delete": delete,
    "batch_read": batch_read,
    "search": search,
    "create_session": create_session,
    "end_session": end_session,
    "bulk_delete": bulk_delete,
    "summarize": summarize,
    "health_check": check_health,
}
