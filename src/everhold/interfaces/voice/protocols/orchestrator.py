"""The protocol "orchestrator": a request with `data` belongs to the later service, any other request is an envelope."""

from typing import Any

from everhold.interfaces.shared.failures import Failure
from everhold.interfaces.voice.protocols.base import Document, Handler, VoiceProtocol, report_message
from everhold.interfaces.voice.protocols.orchestrator_envelope import (
    ENVELOPE_ACTIONS,
    complete_envelope,
    report_envelope,
)
from everhold.interfaces.voice.protocols.orchestrator_service import SERVICE_ACTIONS
from everhold.interfaces.voice.service import VoiceService


def is_envelope(request: Document) -> bool:
    """Return whether a request is an envelope.

    It has no `data`, and an action that the later service does not have, or a `payload`.
    """
    action = request.get("action")
    is_of_service = isinstance(action, str) and action in SERVICE_ACTIONS
    return "data" not in request and (not is_of_service or "payload" in request)


def _choose_by_form(envelope_handler: Handler | None, service_handler: Handler | None) -> Handler:
    """Return a handler for an action that one or both forms have."""

    def handle(service: VoiceService, request: Document) -> dict[str, Any]:
        preferred_handler = envelope_handler if is_envelope(request) else service_handler
        handler = preferred_handler or envelope_handler or service_handler
        assert handler is not None, "an action of the table has a handler"
        return handler(service, request)

    return handle


def complete(request: Document, reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply in the form of its request."""
    return complete_envelope(request, reply) if is_envelope(request) else reply


def report(request: Document, failure: Failure) -> dict[str, Any]:
    """Return an error in the form of its request."""
    return report_envelope(request, failure) if is_envelope(request) else report_message(request, failure)


ORCHESTRATOR = VoiceProtocol(
    "orchestrator",
    {
        action: _choose_by_form(ENVELOPE_ACTIONS.get(action), SERVICE_ACTIONS.get(action))
        for action in (*ENVELOPE_ACTIONS, *SERVICE_ACTIONS)
    },
    report,
    complete=complete,
)
