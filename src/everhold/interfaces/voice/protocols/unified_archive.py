"""UnifiedMemoryReasoningAgent, first protocol ("unified-1"): interactions, summaries and solutions of errors."""

import re
from typing import Any

from everhold import Memory, View
from everhold.errors import AlreadyExists, InvalidInput, NotFound
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_reason
from everhold.interfaces.voice.protocols.contextual import add_interaction, describe_health, make_summary
from everhold.interfaces.voice.protocols.fields import MAX_ITEMS, require_text
from everhold.interfaces.voice.service import VoiceService
from everhold.tools.patterns import compile_pattern

_TAG = "error-pattern"
_KIND = "procedural"
# One character of a pattern. An escape such as \W is kept together, because its case has a meaning.
_CHARACTER = re.compile(r"\\.|[^\\]", re.DOTALL)


def get_context(service: VoiceService, request: Document) -> dict[str, Any]:
    require_text(request, "session_id")
    return {"status": "ok", "summary": make_summary(service, request)}


def add_error_pattern(service: VoiceService, request: Document) -> dict[str, Any]:
    """Store how an error is solved; a pattern of the same type of error is replaced."""
    error_type, pattern = require_text(request, "error_type"), require_text(request, "pattern")
    solution = request.get("solution")
    text = f"{error_type}: {pattern}" + (f". Solution: {solution}" if solution else "")
    content = {"error_type": error_type, "pattern": pattern, "solution": solution}
    view, key = service.view(), f"{_TAG}:{error_type}"[:255]
    try:
        view.revise(view.get(key).id, text=text, content=content)
    except NotFound:
        _remember_pattern(view, key, text, content)
    return {"status": "ok"}


def _remember_pattern(view: View, key: str, text: str, content: dict[str, Any]) -> None:
    try:
        view.remember(text, kind=_KIND, tags=[_TAG], key=key, content=content)
    except AlreadyExists:  # another client has just added the same type of error
        view.revise(view.get(key).id, text=text, content=content)


def get_error_solution(service: VoiceService, request: Document) -> dict[str, Any]:
    """Return the solution of the newest pattern that occurs in an error message, or None."""
    message = require_text(request, "error_message")
    for memory in service.view().list(kind=_KIND, tags=_TAG, limit=MAX_ITEMS):
        if _matches(memory, message):
            service.view().get(memory.id)  # counts as a use of the memory
            return {"status": "ok", "solution": memory.content.get("solution")}
    return {"status": "ok", "solution": None}


def _matches(memory: Memory, message: str) -> bool:
    """Return whether a pattern occurs in a message, ignoring the case of letters.

    A client's pattern may be malicious, so it is matched in linear time. A pattern whose syntax does not allow this
    is taken literally.
    """
    pattern = str(memory.content.get("pattern", ""))
    lowered = _CHARACTER.sub(lambda match: match[0] if match[0][0] == "\\" else match[0].lower(), pattern)
    try:
        return compile_pattern(lowered).matches(message.lower())
    except InvalidInput:
        return pattern.lower() in message.lower()


def check_health(service: VoiceService, request: Document) -> dict[str, Any]:
    return describe_health(service, "unified_memory_reasoning_agent")


ARCHIVE_ACTIONS = {
    "add_interaction": add_interaction,
    "get_context": get_context,
    "add_error_pattern": add_error_pattern,
    "get_error_solution": get_error_solution,
    "health_check": check_health,
}
UNIFIED_1 = VoiceProtocol("unified-1", ARCHIVE_ACTIONS, report_reason)
