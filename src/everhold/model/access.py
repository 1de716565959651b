"""Lines of the access log."""

import hashlib
import json
from datetime import datetime
from typing import Any, Literal, NamedTuple

from everhold import clock
from everhold.model.memory import AccessLog
from everhold.model.scope import Scope

LoggedOperation = Literal["create", "read", "search", "update", "delete", "sign_in", "export", "import", "accept"]
"""What the access log says was done."""


class Act(NamedTuple):
    """Something done, from which a line of the access log is made when it is written."""

    scope: Scope
    operation: LoggedOperation
    at: datetime
    request: dict[str, Any]
    memory_id: str | None = None
    error: str | None = None

    def make_line(self, interface: str) -> AccessLog:
        return make_access_line(
            self.scope,
            self.operation,
            self.at,
            self.request,
            interface=interface,
            memory_id=self.memory_id,
            error=self.error,
        )


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode  # a store may reorder keys

_NAMED_IN_REQUEST = ("project", "session")


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
    """Make one line of the access log. Every line is made here, so that none lacks a field.

    The request says what was asked, never what a memory or a question holds.
    """
    if scope.project or scope.session:
        request = {**request, **{name: getattr(scope, name) for name in _NAMED_IN_REQUEST if getattr(scope, name)}}
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
    }
    values["digest"] = digest_of(values)
    return AccessLog.trusted(values)


def digest_of(values: dict[str, Any]) -> bytes:
    """Return the SHA-256 digest of every field that describes the act."""
    request, moment = _encode(values["request"]), str(clock.micros(values["timestamp"]))
    fixed = (
        values["organization_id"], values["user_id"], values["agent_id"], values["operation"], moment, request,
        "yes" if values["success"] else "no", values["error_message"], values["interface"],
        values.get("ip_address"), values["memory_id"], values["session_id"],
    )  # fmt: skip
    return hashlib.sha256("\x1f".join(["\x1e" if part is None else part for part in fixed]).encode()).digest()
