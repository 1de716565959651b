"""Lines of the change feed, which every projection follows."""

from typing import Literal

from everhold.model.base import Entity
from everhold.model.housekeeping import Outbox
from everhold.model.searchable import SEARCHABLE_BY_CLASS_NAME


def make_announcement(
    row: Entity,
    operation: Literal["put", "delete"] = "put",
    *,
    idempotency_key: str | None = None,
    digest: bytes | None = None,
) -> Outbox:
    """Return the line of the change feed that announces a change of a searchable row.

    With an idempotency key, `digest` is a hash of what was written with the key.
    """
    return Outbox.build_unchecked(
        {
            "organization_id": row.organization_id,
            "user_id": row.__dict__.get("user_id") or "",
            "entity": SEARCHABLE_BY_CLASS_NAME[type(row).__name__].table,
            "entity_id": row.id,
            "operation": operation,
            "idempotency_key": idempotency_key,
            "digest": digest,
        }
    )
