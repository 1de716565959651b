"""Make the lines of the access log."""

import hashlib
import json
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, NamedTuple

from everhold import clock
from everhold.model.memory import AccessLog
from everhold.model.scope import Scope

# The values of a log line's `operation`.
LoggedOperation = Literal["create", "read", "search", "update", "delete", "sign_in", "export", "import", "accept"]


# The network address of the client that a server is working for. A program that calls the library has none.
caller_address: ContextVar[str | None] = ContextVar("caller_address", default=None)


class AccessEvent(NamedTuple):
    """One use of the engine, to be written as a line of the access log."""

    scope: Scope
    operation: LoggedOperation
    at: datetime
    request: dict[str, Any]
    memory_id: str | None = None
    error: str | None = None
    ip_address: str | None = None

    def make_line(self, interface: str) -> AccessLog:
        """Return the log line of the event, with the event's own address: this may run in another thread."""
        return _make_line(
            self.scope,
            self.operation,
            self.at,
            self.request,
            interface=interface,
            memory_id=self.memory_id,
            error=self.error,
            ip_address=self.ip_address,
        )


# Keys are sorted because a store may return them in another order, and the digest must stay the same.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode

_REQUEST_DIMENSIONS = ("project", "session")


def make_access_line(
    scope: Scope,
    operation: LoggedOperation,
    at: datetime,
    request: dict[str, Any],
    *,
    interface: str,
    memory_id: str | None = None,
    error: str | None = None,
) -> AccessLog:
    """Make one line of the access log, with the address of the client that this thread or task works for, if any.

    `request` holds ids and counts, never the text of a memory or a question.
    """
    return _make_line(
        scope,
        operation,
        at,
        request,
        interface=interface,
        memory_id=memory_id,
        error=error,
        ip_address=caller_address.get(),
    )


def _make_line(
    scope: Scope,
    operation: LoggedOperation,
    at: datetime,
    request: dict[str, Any],
    *,
    interface: str,
    memory_id: str | None,
    error: str | None,
    ip_address: str | None,
) -> AccessLog:
    """Return a line of the access log about a call, with the digest of its values."""
    if scope.project or scope.session:
        request = {**request, **{name: getattr(scope, name) for name in _REQUEST_DIMENSIONS if getattr(scope, name)}}
    values: dict[str, Any] = {
        "organization_id": scope.organization,
        "memory_id": memory_id,
        "session_id": scope.session,
        "agent_id": scope.agent,
        "user_id": scope.user,
        "operation": operation,
        "timestamp": at,
        "request": request,
        "success": error is None,
        "error_message": error,
        "interface": interface,
        "ip_address": ip_address,
    }
    values["digest"] = compute_digest(values)
    return AccessLog.build_unchecked(values)


def compute_digest(values: dict[str, Any]) -> bytes:
    """Return the SHA-256 digest of all fields that describe what happened; those of the chain are not included."""
    request, moment = _encode(values["request"]), str(clock.micros(values["timestamp"]))
    parts = (
        values["organization_id"], values["user_id"], values["agent_id"], values["operation"], moment, request,
        "yes" if values["success"] else "no", values["error_message"], values["interface"],
        values.get("ip_address"), values["memory_id"], values["session_id"],
    )  # fmt: skip
    # "\x1e" stands for None, so that None differs from an empty text.
    return hashlib.sha256("\x1f".join(["\x1e" if part is None else part for part in parts]).encode()).digest()
