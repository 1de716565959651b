"""UnifiedMemoryReasoningAgent, fourth protocol ("unified-4"): commands on memories with a strength.

The service's strength is the memory's weight in the engine, importance × strength, relative to a new memory with the
default importance. Forgetting hides a memory, as elsewhere in the engine.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from everhold import Memory, View
from everhold.errors import AlreadyExists, InvalidInput, NotFound
from everhold.interfaces.shared.failures import Failure
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol
from everhold.interfaces.voice.protocols.entries import get_value
from everhold.interfaces.voice.protocols.fields import (
    MAX_ITEMS,
    describe_value,
    format_epoch,
    read_list,
    read_number,
    read_object,
    read_text,
    read_texts,
    require_text,
    require_value,
)
from everhold.interfaces.voice.protocols.memory_names import get_name
from everhold.interfaces.voice.service import VoiceService
from everhold.model.memory import DEFAULT_PRIORITY, compute_importance

_KIND = "interaction"  # the service stored the same content twice if it was sent twice
_TAG = "unified"
_DEFAULT_IMPORTANCE = compute_importance(DEFAULT_PRIORITY)
_REINFORCEMENT = 1.2
_MAX_HITS = 100
_MAX_SOURCE = 64


def ping(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "SUCCESS", "message": "PONG"}


def store_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    memory = _store(service.view(), read_object(request, "data"))
    return _make_reply({"memory_id": get_name(memory)})


def _store(view: View, item: Document) -> Memory:
    """Store an item. If a memory with the item's id is stored, its content is replaced."""
    fields, name = _read_item(item), read_text(item, "id", "")
    if not name:
        return view.remember(kind=_KIND, tags=[_TAG], **fields)
    try:
        return view.revise(name, **fields)
    except NotFound:
        return _remember_named(view, name, fields)


def _remember_named(view: View, name: str, fields: dict[str, Any]) -> Memory:
    try:
        return view.remember(key=name, kind=_KIND, tags=[_TAG], **fields)
    except AlreadyExists:  # another client has just stored a memory with this id
        return view.revise(name, **fields)


def _read_item(item: Document) -> dict[str, Any]:
    value = require_value(item, "content")
    strength = read_number(item, "strength", 1.0)
    return {
        "text": describe_value(value),
        "content": {"value": value},
        "source_agent": read_text(item, "source", "unknown")[:_MAX_SOURCE],
        "importance": min(max(strength, 0.0) * _DEFAULT_IMPORTANCE, 1.0),
    }


def query_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    query = read_object(request, "query")
    min_strength = read_number(query, "min_strength", 0.0)
    items = [_describe(memory) for memory in _find(service.view(), query)]
    return _make_reply({"memories": [item for item in items if item["strength"] >= min_strength]})


def _find(view: View, query: Document) -> Sequence[Memory]:
    if query.get("id") or query.get("ids"):
        return _get_existing(view, [*read_texts(query, "id"), *read_texts(query, "ids")])
    where = {"source_agent": read_text(query, "source", "")} if query.get("source") else None
    keywords = read_texts(query, "keywords")
    if not keywords:
        return view.list(kind=_KIND, tags=_TAG, where=where, limit=MAX_ITEMS)
    hits = view.recall(" ".join(keywords), k=_MAX_HITS, kind=_KIND, tags=_TAG, where=where, minimum=0.0)
    return [hit.memory for hit in hits if _mentions(hit.memory, keywords)]


def _mentions(memory: Memory, keywords: Sequence[str]) -> bool:
    return any(keyword.casefold() in memory.text.casefold() for keyword in keywords)


def _get_existing(view: View, memory_ids: Sequence[str]) -> list[Memory]:
    memories = []
    for memory_id in dict.fromkeys(memory_ids):
        try:
            memories.append(view.get(memory_id))
        except NotFound:
            continue
    return memories


def reinforce_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    """Make a memory more important. Reading it also resets its decay."""
    view = service.view()
    memory = view.get(require_text(request, "memory_id"))
    importance = min(memory.importance * _REINFORCEMENT, 1.0)
    if importance > memory.importance:
        memory = view.revise(memory.id, importance=importance, reason="reinforced")
    return _make_reply({"memory_id": get_name(memory), "strength": _compute_strength(memory)})


def delete_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    memory = service.view().forget(require_text(request, "memory_id"))
    return _make_reply({"memory_id": get_name(memory)})


def sync_memories(service: VoiceService, request: Document) -> dict[str, Any]:
    """Store memories of another store.

    For a memory in both, keep the more recently used content and the greater strength.
    """
    view, count = service.view(), 0
    for item in read_list(request, "memories"):
        if not isinstance(item, dict):
            raise InvalidInput("memories holds something else than objects", remedy="send objects")
        count += _sync(view, item)
    return _make_reply({"synced": count})


def _sync(view: View, item: Document) -> bool:
    """Store an item of another store; return whether its content was taken."""
    existing_memories = _get_existing(view, [require_text(item, "id")])
    if not existing_memories:
        _store(view, item)
        return True
    memory, fields = existing_memories[0], _read_item(item)
    used_at = datetime.fromtimestamp(read_number(item, "last_accessed", 0.0), UTC)
    is_newer = used_at > (memory.last_accessed or memory.updated_at)
    importance = max(memory.importance, fields.pop("importance"))
    changes = {**(fields if is_newer else {}), "importance": importance}
    view.revise(memory.id, **changes)
    return is_newer


def get_status(service: VoiceService, request: Document) -> dict[str, Any]:
    count = service.view().count(kind=_KIND, tags=_TAG)
    return _make_reply({"total_memories": count, "active_memories": count, "forgotten_memories": 0})


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return _make_reply({"health": "OK", "uptime": service.uptime})


def _make_reply(data: dict[str, Any]) -> dict[str, Any]:
    return {"status": "SUCCESS", "data": data}


def _describe(memory: Memory) -> dict[str, Any]:
    used_at = memory.last_accessed or memory.created_at
    return {
        "id": get_name(memory),
        "content": get_value(memory),
        "created_at": format_epoch(memory.created_at),
        "last_accessed": format_epoch(used_at),
        "strength": _compute_strength(memory),
        "source": memory.source_agent,
        "forgotten": False,
    }


def _compute_strength(memory: Memory) -> float:
    return round(memory.weight / _DEFAULT_IMPORTANCE, 6)


def report_error(request: Document, failure: Failure) -> dict[str, Any]:
    """Return an error as this protocol writes it."""
    return {"status": "ERROR", "message": failure.message, "error": failure.message}


COMMANDS = {
    "TEST_PING": ping,
    "STORE_MEMORY": store_memory,
    "QUERY_MEMORY": query_memory,
    "REINFORCE_MEMORY": reinforce_memory,
    "DELETE_MEMORY": delete_memory,
    "SYNC_MEMORIES": sync_memories,
    "GET_MEMORY_STATUS": get_status,
    "HEALTH_CHECK": check_health,
    "health_check": check_health,
}
UNIFIED_4 = VoiceProtocol("unified-4", COMMANDS, report_error, action_field="command")
