"""The definition of a protocol: a table from actions to handlers, and the form of its errors."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from everhold.errors import EverholdError, InvalidInput, format_value, spell_for_library
from everhold.interfaces.shared.failures import Failure, describe_failure
from everhold.interfaces.voice.service import VoiceService

logger = logging.getLogger(__name__)

Document = Mapping[str, Any]
Handler = Callable[[VoiceService, Document], dict[str, Any]]


def keep_reply(request: Document, reply: dict[str, Any]) -> dict[str, Any]:
    """Return a reply as its handler made it."""
    return reply


@dataclass(frozen=True)
class VoiceProtocol:
    """The protocol of one older service. `complete` adds the common fields to a reply; `report` makes the reply to an
    error.

    `otherwise` handles requests whose action is not in the table.
    """

    name: str
    actions: Mapping[str, Handler]
    report: Callable[[Document, Failure], dict[str, Any]]
    complete: Callable[[Document, dict[str, Any]], dict[str, Any]] = keep_reply
    action_field: str = "action"
    otherwise: Handler | None = None

    def answer(self, service: VoiceService, request: Document) -> dict[str, Any]:
        """Return the reply to a request. Every failure becomes an error reply of the protocol."""
        try:
            reply = self._find_handler(request)(service, request)
        except Exception as error:
            service.failed += 1
            return self.complete(request, self.report(request, explain(error)))
        service.answered += 1
        return self.complete(request, reply)

    def refuse(self, request: Document, error: Exception) -> dict[str, Any]:
        """Return the reply to a request that was not handled at all."""
        return self.complete(request, self.report(request, explain(error)))

    def _find_handler(self, request: Document) -> Handler:
        # Requests to the health ports of the older services had a `request_type` and no action.
        action = request.get(self.action_field, request.get("request_type"))
        handler = self.actions.get(action) if isinstance(action, str) else None
        handler = handler or self.otherwise
        if handler is None:
            action_names = ", ".join(self.actions)
            raise InvalidInput(
                f"Unknown action: {format_value(action)}", value=action, remedy=f"use one of {action_names}"
            )
        return handler


def explain(error: Exception) -> Failure:
    """Return the message about an error for a client. For an unexpected error, it only refers to the gateway's log."""
    if isinstance(error, EverholdError):
        return describe_failure(error, spell_for_library)
    logger.error("a request failed unexpectedly", exc_info=error)
    return Failure("the gateway failed", type(error).__name__, remedy="its log says why", expected=False)


def report_message(request: Document, failure: Failure) -> dict[str, Any]:
    """Return an error as services of the SessionMemoryAgent's family write it."""
    return {"status": "error", "message": failure.message}


def report_reason(request: Document, failure: Failure) -> dict[str, Any]:
    """Return an error as jarvis and the unified agents write it."""
    return {"status": "error", "reason": failure.message}
