"""jarvis_memory_pc2: a list of memories per user; a reminder among them is announced to subscribers."""

from typing import Any

from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_reason
from everhold.interfaces.voice.protocols.contextual import describe_health
from everhold.interfaces.voice.protocols.entries import (
    add_entry,
    announce_reminder,
    clear_entries,
    get_value,
    list_entries,
)
from everhold.interfaces.voice.protocols.fields import format_epoch, read_text, require_value
from everhold.interfaces.voice.service import VoiceService

_MEMORIES = "jarvis"


def _read_user(request: Document) -> str:
    return read_text(request, "user_id", "default")


def add_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    user, memory = _read_user(request), require_value(request, "memory")
    add_entry(service, user, _MEMORIES, memory)
    announce_reminder(service, user, memory)
    return {"status": "ok"}


def get_memories(service: VoiceService, request: Document) -> dict[str, Any]:
    entries = list_entries(service, _read_user(request), _MEMORIES)
    memories = [{"timestamp": format_epoch(entry.created_at), "memory": get_value(entry)} for entry in entries]
    return {"status": "ok", "memories": memories}


def clear_memories(service: VoiceService, request: Document) -> dict[str, Any]:
    clear_entries(service, _read_user(request), _MEMORIES)
    return {"status": "ok"}


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return describe_health(service, "jarvis_memory_agent")


JARVIS = VoiceProtocol(
    "jarvis",
    {
        "add_memory": add_memory,
        "get_memories": get_memories,
        "clear_memories": clear_memories,
        "health_check": check_health,
    },
    report_reason,
)
