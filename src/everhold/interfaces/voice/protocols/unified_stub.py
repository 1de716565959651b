"""UnifiedMemoryReasoningAgent, third protocol ("unified-3"): every request updates the memory.

The original agent was a stub that stored nothing. This implementation stores the content of each request.
"""

from typing import Any

from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_message
from everhold.interfaces.voice.protocols.fields import describe_value, read_text
from everhold.interfaces.voice.service import VoiceService

# The fields that may contain the text to store, in the order in which they are tried.
_CONTENT = ("content", "memory", "data", "text", "message")


def update_memory(service: VoiceService, request: Document) -> dict[str, Any]:
    """Store the content of a request, or the whole request if no field is known to be its content."""
    value = next((request[name] for name in _CONTENT if request.get(name)), None)
    if value is None:
        value = {name: inner for name, inner in request.items() if name != "token"}
    view = service.view(user=read_text(request, "user_id", "default"))
    memory = view.remember(describe_value(value), content=value if isinstance(value, dict) else {"value": value})
    return {"status": "success", "message": "Memory updated", "memory_id": memory.id}


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return {"status": "success", "message": "healthy", "uptime_seconds": service.uptime}


UNIFIED_3 = VoiceProtocol("unified-3", {"health_check": check_health}, report_message, otherwise=update_memory)
