"""Lines of the access log."""

import hashlib
import json
from datetime import datetime
from typing import Any

from recollect.model.memory import AccessLog
from recollect.model.scope import Scope

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def access_line(
    scope: Scope,
    operation: str,
    at: datetime,
    request: dict[str, Any],
    *,
    memory_id: str | None = None,
    error: str | None = None,
    interface: str | None = None,
) -> AccessLog:
    """One act on memories. The request says what was asked, never what a memory or a question holds."""
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
    """A digest of all that a line must never lose or change.

    The memory and the session may be purged later and are then forgotten by the line, so they are not part of it;
    what was done to which memory stays in the request.
    """
    fixed = [
        values["organization_id"], values["user_id"], values["agent_id"], values["operation"],
        values["timestamp"].isoformat(), values["request"], bool(values["success"]), values["error_message"],
        values["interface"],
    ]  # fmt: skip
    return hashlib.sha256(_encode(fixed).encode()).digest()
