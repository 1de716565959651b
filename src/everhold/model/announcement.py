"""Lines of the feed that everything derived follows."""

from typing import Literal

from everhold.model.housekeeping import Outbox
from everhold.model.memory import Memory


def announcement(
    memory: Memory,
    operation: Literal["put", "delete"] = "put",
    *,
    idempotency_key: str | None = None,
    digest: bytes | None = None,
) -> Outbox:
    """Tells that a memory has changed. With an idempotency key, `digest` says of what the key was used for."""
    return Outbox.trusted(
        {
            "organization_id": memory.organization_id,
            "user_id": memory.user_id or "",
            "entity": "memories",
            "entity_id": memory.id,
            "operation": operation,
            "idempotency_key": idempotency_key,
            "digest": digest,
        }
    )
