"""Lines of the change feed, which everything derived follows."""

from typing import Literal

from everhold.model.base import Entity
from everhold.model.housekeeping import Outbox
from everhold.model.searchable import SEARCHABLE_BY_ENTITY


def announcement(
    row: Entity,
    operation: Literal["put", "delete"] = "put",
    *,
    idempotency_key: str | None = None,
    digest: bytes | None = None,
) -> Outbox:
    """Return the line that says that something searchable has changed.

    With an idempotency key, `digest` says of what the key was used for.
    """
    return Outbox.trusted(
        {
            "organization_id": row.organization_id,
            "user_id": row.__dict__.get("user_id") or "",
            "entity": SEARCHABLE_BY_ENTITY[type(row)].table,
            "entity_id": row.id,
            "operation": operation,
            "idempotency_key": idempotency_key,
            "digest": digest,
        }
    )
