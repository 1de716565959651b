"""The "enhanced" build of the contextual memory: memories with a type and a priority, and a context within a budget."""

from typing import Any

from everhold import Memory
from everhold.errors import InvalidInput, format_value
from everhold.interfaces.shared.failures import Failure
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol
from everhold.interfaces.voice.protocols.contextual import describe_health
from everhold.interfaces.voice.protocols.fields import (
    CHARACTERS_PER_TOKEN,
    MAX_ITEMS,
    MAX_TOKENS,
    describe_value,
    format_epoch,
    read_count,
    read_object,
    read_text,
    require_value,
)
from everhold.interfaces.voice.protocols.interactions import DEFAULT_TOKENS
from everhold.interfaces.voice.service import VoiceService

# The priorities of the engine, 1 to 10, for those of the service.
_PRIORITIES = {"HIGH": 8, "MEDIUM": 5, "LOW": 2}
_TAG = "enhanced"


def add_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    priority = read_text(request, "priority", "MEDIUM").upper()
    if priority not in _PRIORITIES:
        raise InvalidInput(f"priority is {format_value(priority)}", value=priority, remedy="send HIGH, MEDIUM or LOW")
    memory = service.view(user=read_text(request, "user_id", "default")).remember(
        describe_value(require_value(request, "content")),
        kind="interaction",
        tags=[_TAG],
        priority=_PRIORITIES[priority],
        metadata={
            **read_object(request, "metadata"),
            "type": read_text(request, "type", "query"),
            "priority": priority,
        },
    )
    return {"status": "success", "memory_id": memory.id}


def get_context(service: VoiceService, request: Document) -> dict[str, Any]:
    """Return the most important memories that fit the budget, oldest first.

    Of equally important memories, prefer the newest.
    """
    remaining = read_count(request, "max_tokens", DEFAULT_TOKENS, MAX_TOKENS) * CHARACTERS_PER_TOKEN
    view = service.view(user=read_text(request, "user_id", "default"))
    memories = sorted(view.list(kind="interaction", tags=_TAG, limit=MAX_ITEMS), key=lambda memory: -memory.importance)
    chosen_memories: list[Memory] = []
    for memory in memories:
        if len(memory.text) <= remaining:
            remaining -= len(memory.text)
            chosen_memories.append(memory)
    chosen_memories.sort(key=lambda memory: memory.created_at)
    return {
        "status": "success",
        "context": "\n".join(memory.text for memory in chosen_memories),
        "memories": [_describe(memory) for memory in chosen_memories],
    }


def _describe(memory: Memory) -> dict[str, Any]:
    type_and_priority = {name: memory.metadata.get(name) for name in ("type", "priority")}
    metadata = {name: value for name, value in memory.metadata.items() if name not in type_and_priority}
    return {
        "content": memory.text,
        **type_and_priority,
        "metadata": metadata,
        "timestamp": format_epoch(memory.created_at),
    }


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return describe_health(service, "enhanced_contextual_memory")


def report_error(request: Document, failure: Failure) -> dict[str, Any]:
    """Return an error as this build writes it."""
    return {"status": "error", "error": failure.message}


CONTEXTUAL_ENHANCED = VoiceProtocol(
    "contextual-enhanced",
    {"add_memory": add_memory, "get_context": get_context, "health_check": check_health},
    report_error,
)
