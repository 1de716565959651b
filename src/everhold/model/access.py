"""Lines of the access log."""

import hashlib
import json
from datetime import datetime
from typing import Any, Literal, NamedTuple

from everhold import clock
from everhold.model.memory import AccessLog
from everhold.model.scope import Scope

LoggedOperation = Literal["create", "read", "search", "update", "delete", "export", "import", "accept"]
"""What the access log says was done."""


class Act(NamedTuple):
    """Something done to memories, not yet a line."""

    scope: Scope
    operation: LoggedOperation
    at: datetime
    request: dict[str, Any]
    memory_id: str | None = None
    error: str | None = None

    def line(self, interface: str | None) -> AccessLog:
        return access_line(
            self.scope,
            self.operation,
            self.at,
            self.request,
            memory_id=self.memory_id,
            error=self.error,
            interface=interface,
        )


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode  # a store may reorder keys

NAMED = ("project", "session")


def access_line(
    scope: Scope,
    operation: LoggedOperation,
    at: datetime,
    request: dict[str, Any],
    *,
    memory_id: str | None = None,
    error: str | None = None,
    interface: str | None = None,
) -> AccessLog:
    """One act on memories. The request says what was asked, never what a memory or a question holds."""
    if scope.project or scope.session:
        request = {**request, **{name: getattr(scope, name) for name in NAMED if getattr(scope, name)}}
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
