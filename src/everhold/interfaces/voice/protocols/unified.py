"""The protocol "unified", for clients of a unified agent whose version is not known.

A request with a `command` belongs to the fourth protocol, any other request to the first or the second. Replies have
the fields of both: `get_context` returns its summary as `summary` and as `context`. The third protocol answered
everything in the same way, so its clients cannot be distinguished: bind "unified-3" for them.
"""

from typing import Any

from everhold.interfaces.shared.failures import Failure
from everhold.interfaces.voice.protocols.base import Document, VoiceProtocol, report_reason
from everhold.interfaces.voice.protocols.contextual import make_summary
from everhold.interfaces.voice.protocols.fields import require_text
from everhold.interfaces.voice.protocols.unified_commands import COMMANDS, report_error
from everhold.interfaces.voice.protocols.unified_twins import TWIN_ACTIONS, coordinate
from everhold.interfaces.voice.service import VoiceService


def get_context(service: VoiceService, request: Document) -> dict[str, Any]:
    require_text(request, "session_id")
    summary = make_summary(service, request)
    return {"status": "ok", "summary": summary, "context": summary}


def run_command(service: VoiceService, request: Document) -> dict[str, Any]:
    """Answer a request of the fourth protocol, or a request to coordinate agents."""
    command = request.get("command")
    handler = COMMANDS.get(command) if isinstance(command, str) else None
    return coordinate(service, request) if handler is None else handler(service, request)


def report(request: Document, failure: Failure) -> dict[str, Any]:
    """Return an error as the protocol of the request writes it."""
    return report_error(request, failure) if "command" in request else report_reason(request, failure)


UNIFIED = VoiceProtocol("unified", {**TWIN_ACTIONS, "get_context": get_context}, report, otherwise=run_command)
