"""The later memory orchestrator service: {action, data}, with tiers, parents, relationships and context groups.

A tier is the memory's `level`, a parent is in its metadata, and a context group is a tag and a memory that describes
it.
"""

import zlib
from typing import Any

from everhold import Memory, View, clock
from everhold.errors import AlreadyExists, InvalidInput, NotFound, format_value
from everhold.interfaces.voice.protocols.base import Document
from everhold.interfaces.voice.protocols.fields import (
    MAX_ITEMS,
    describe_value,
    format_epoch,
    read_count,
    read_list,
    read_number,
    read_object,
    read_text,
    read_texts,
    require_text,
    require_value,
)
from everhold.interfaces.voice.protocols.memory_names import get_name, match_names
from everhold.interfaces.voice.protocols.orchestrator_envelope import MAX_SOURCE_AGENT, read_moment
from everhold.interfaces.voice.service import VoiceService

_PARENT = "parent_id"
_DEFAULT_TIER = "short"
_DEFAULT_KIND = "general"
_GROUPS = "context-group"
# The fields that `update_memory` may change, with the service's names for them.
_CHANGES = {"content": "text", "memory_type": "kind", "memory_tier": "level", "importance": "importance"}


def _read_data(request: Document) -> dict[str, Any]:
    return read_object(request, "data")


def _read_fields(data: Document) -> dict[str, Any]:
    """Return the fields of a memory from the data of a request."""
    value = require_value(data, "content")
    metadata = read_object(data, "metadata")
    if data.get(_PARENT):
        metadata = {**metadata, _PARENT: require_text(data, _PARENT)}
    return {
        "text": describe_value(value),
        "content": value if isinstance(value, dict) else {},
        "key": read_text(data, "memory_id", "") or None,
        "kind": read_text(data, "memory_type", _DEFAULT_KIND),
        "level": read_text(data, "memory_tier", _DEFAULT_TIER),
        "importance": min(max(read_number(data, "importance", 0.5), 0.0), 1.0),
        "tags": read_texts(data, "tags"),
        "expires_at": read_moment(data, "expires_at"),
        "metadata": metadata,
        "source_agent": read_text(data, "created_by", "")[:MAX_SOURCE_AGENT] or None,
    }


def add_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    memory = service.view().remember(**_read_fields(_read_data(request)))
    return {"status": "success", "memory_id": get_name(memory)}


def batch_add_memories(service: VoiceService, request: Document) -> dict[str, Any]:
    items: list[Any] = []
    for item in read_list(_read_data(request), "memories"):
        if not isinstance(item, dict):
            raise InvalidInput(f"memories holds {format_value(item)}", value=item, remedy="send objects")
        items.append({name: value for name, value in _read_fields(item).items() if value is not None})
    if not items:
        raise InvalidInput("memories is missing", remedy="send at least one")
    memory_ids = [get_name(memory) for memory in service.view().remember_many(items)]
    # Facts that were extracted from an interaction are memories too, but the old service did not send them.
    return {"status": "success", "message": f"Added {len(items)} memories", "memory_ids": memory_ids[: len(items)]}


def get_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    view = service.view()
    memory = view.get(require_text(_read_data(request), "memory_id"))
    relationships = [
        {"target_id": get_name(relations.memory), "relationship_type": relations.relationship.relationship_type}
        for relations in view.relations(memory.id)
    ]
    return {"status": "success", "memory": {**_describe_all(view, [memory])[0], "relationships": relationships}}


def batch_get_memories(service: VoiceService, request: Document) -> dict[str, Any]:
    memory_ids = read_texts(_read_data(request), "memory_ids")
    if not memory_ids:
        raise InvalidInput("memory_ids is missing", remedy="send at least one")
    view = service.view()
    stored_memories = view.list(where=match_names(memory_ids), limit=MAX_ITEMS)
    by_id = {name: memory for memory in stored_memories for name in (memory.id, get_name(memory))}
    memories = _describe_all(view, [by_id[memory_id] for memory_id in memory_ids if memory_id in by_id])
    return {"status": "success", "memories": memories, "count": len(memories)}


def get_children(service: VoiceService, request: Document) -> dict[str, Any]:
    data = _read_data(request)
    children = _list_children(
        service.view(),
        require_text(data, _PARENT),
        read_count(data, "limit", 50),
        oldest_first=data.get("sort_order") == "asc",
    )
    documents = _describe_all(service.view(), children)
    return {"status": "success", "children": documents, "results": documents}


def _list_children(view: View, parent_id: str, limit: int, *, oldest_first: bool = False) -> list[Memory]:
    return list(view.list(where={f"metadata.{_PARENT}": parent_id}, limit=limit, oldest_first=oldest_first))


def add_relationship(service: VoiceService, request: Document) -> dict[str, Any]:
    data = _read_data(request)
    source, target = require_text(data, "source_id"), require_text(data, "target_id")
    strength = read_number(data, "strength", 1.0)
    service.view().relate(source, target, require_text(data, "relationship_type"), metadata={"strength": strength})
    return {"status": "success"}


def get_related(service: VoiceService, request: Document) -> dict[str, Any]:
    data, view = _read_data(request), service.view()
    kind = read_text(data, "relationship_type", "") or None
    relations = view.relations(require_text(data, "memory_id"), relationship_type=kind)
    documents = _describe_all(view, [item.memory for item in relations])
    return {
        "status": "success",
        "related_memories": [
            {
                **memory,
                "relationship_type": item.relationship.relationship_type,
                "strength": item.relationship.metadata.get("strength", 1.0),
            }
            for memory, item in zip(documents, relations, strict=True)
        ],
    }


def search_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    """Find memories that answer a query. `semantic_search` does the same: recall compares words and meaning."""
    data, view = _read_data(request), service.view()
    filters = read_object(data, "filters")
    kind = data.get("memory_type") or filters.get("memory_type")
    parent_id = data.get(_PARENT) or filters.get(_PARENT)
    where = {f"metadata.{_PARENT}": parent_id} if parent_id else None
    k = read_count(data, "limit", read_count(data, "k", 10, 100), 100)
    hits = view.recall(require_text(data, "query"), k=k, kind=kind, where=where)
    documents = _describe_all(view, [hit.memory for hit in hits])
    results = [{**memory, "score": hit.score} for memory, hit in zip(documents, hits, strict=True)]
    return {"status": "success", "results": results, "count": len(results)}


def update_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    data, view = _read_data(request), service.view()
    memory_id, update = require_text(data, "memory_id"), read_object(data, "update_data")
    changes = {name: update[old_name] for old_name, name in _CHANGES.items() if update.get(old_name) is not None}
    if "text" in changes:
        changes["text"] = describe_value(changes["text"])
    if update.get("metadata") is not None:
        changes["metadata"] = {**view.get(memory_id).metadata, **read_object(update, "metadata")}
    memory = view.revise(memory_id, **changes) if changes else view.get(memory_id)
    if update.get("tags"):
        view.tag(memory.id, *read_texts(update, "tags"))
    return {"status": "success", "memory_id": get_name(memory)}


def delete_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    """Forget a memory; with `cascade` also its children, their children, and so on."""
    data, view = _read_data(request), service.view()
    memory = view.forget(require_text(data, "memory_id"))
    parent_ids = [get_name(memory)] if data.get("cascade") else []
    count = 1
    while parent_ids and count < MAX_ITEMS:
        for child in _list_children(view, parent_ids.pop(), MAX_ITEMS):
            view.forget(child.id)
            parent_ids.append(get_name(child))
            count += 1
    return {"status": "success", "message": f"Memory {get_name(memory)} deleted successfully.", "deleted": count}


def reinforce_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    data, view = _read_data(request), service.view()
    memory = view.get(require_text(data, "memory_id"))
    importance = min(memory.importance * max(read_number(data, "reinforcement_factor", 1.2), 0.0), 1.0)
    if importance != memory.importance:
        view.revise(memory.id, importance=importance, reason="reinforced")
    return {"status": "success", "new_importance": importance}


def create_context_group(service: VoiceService, request: Document) -> dict[str, Any]:
    """Describe a group. Its number follows from its name, so the same name is the same group."""
    data, view = _read_data(request), service.view()
    name, description = require_text(data, "name"), read_text(data, "description", "")
    group_id = zlib.crc32(name.encode())
    text = f"Context group {name}" + (f": {description}" if description else "")
    try:
        view.remember(text, kind="resource", tags=[_GROUPS], key=f"{_GROUPS}:{group_id}")
    except AlreadyExists:
        view.revise(view.get(f"{_GROUPS}:{group_id}").id, text=text)
    return {"status": "success", "group_id": group_id}


def add_to_group(service: VoiceService, request: Document) -> dict[str, Any]:
    data, view = _read_data(request), service.view()
    group_id = _require_group(view, data)
    view.tag(require_text(data, "memory_id"), _make_group_tag(group_id))
    return {"status": "success"}


def get_memories_by_group(service: VoiceService, request: Document) -> dict[str, Any]:
    view = service.view()
    group_id = _require_group(view, _read_data(request))
    memories = _describe_all(view, list(view.list(tags=_make_group_tag(group_id), limit=MAX_ITEMS)))
    return {"status": "success", "memories": memories, "count": len(memories)}


def _require_group(view: View, data: Document) -> int:
    try:
        group_id = int(require_value(data, "group_id"))
    except (TypeError, ValueError):
        raise InvalidInput("group_id is not a number", remedy="send what create_context_group returned") from None
    try:
        view.get(f"{_GROUPS}:{group_id}")
    except NotFound:
        raise NotFound(
            f"no context group {group_id}", value=group_id, remedy="create it with create_context_group"
        ) from None
    return group_id


def _make_group_tag(group_id: int) -> str:
    return f"group-{group_id}"


def create_session(service: VoiceService, request: Document) -> dict[str, Any]:
    data, session_id = _read_data(request), clock.make_id("session")
    view = service.view(user=read_text(data, "user_id", "default"), session=session_id)
    view.open_session(
        session_type=read_text(data, "session_type", "conversation"), metadata=read_object(data, "metadata")
    )
    return {"status": "success", "session_id": session_id}


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "success", "healthy": True, "uptime_seconds": service.uptime}


def _describe_all(view: View, memories: list[Memory]) -> list[dict[str, Any]]:
    tags = view.tags_of([memory.id for memory in memories]) if memories else {}
    return [_describe(memory, tags.get(memory.id, ())) for memory in memories]


def _describe(memory: Memory, tags: tuple[str, ...]) -> dict[str, Any]:
    """Return a memory in the form of the service's replies."""
    used_at = memory.last_accessed or memory.created_at
    return {
        "memory_id": get_name(memory),
        "content": memory.content or memory.text,
        "memory_type": memory.kind,
        "memory_tier": memory.level or _DEFAULT_TIER,
        "importance": memory.importance,
        "access_count": memory.access_count,
        "last_accessed_at": format_epoch(used_at),
        "created_at": format_epoch(memory.created_at),
        "expires_at": format_epoch(memory.expires_at) if memory.expires_at else None,
        "metadata": {name: value for name, value in memory.metadata.items() if name != _PARENT},
        "tags": list(tags),
        "parent_id": memory.metadata.get(_PARENT),
    }


SERVICE_ACTIONS = {
    "add_memory": add_memory,
    "get_memory": get_memory,
    "get_children": get_children,
    "add_relationship": add_relationship,
    "get_related": get_related,
    "search_memory": search_memory,
    "semantic_search": search_memory,
    "update_memory": update_memory,
    "delete_memory": delete_memory,
    "reinforce_memory": reinforce_memory,
    "create_context_group": create_context_group,
    "add_to_group": add_to_group,
    "get_memories_by_group": get_memories_by_group,
    "batch_add_memories": batch_add_memories,
    "batch_get_memories": batch_get_memories,
    "create_session": create_session,
    "health_check": check_health,
}
