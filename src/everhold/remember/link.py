"""Make the row of a directed, typed relationship between two memories."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from everhold import clock
from everhold.model import Relationship, Scope
from everhold.model.validation import validate_row


def make_relationship(
    scope: Scope,
    source_id: str,
    target_id: str,
    relationship_type: str,
    now: datetime,
    metadata: Mapping[str, Any] | None = None,
) -> Relationship:
    """Return the row of a relationship; raise InvalidInput if its type is not a valid word."""
    values = {
        "id": clock.make_id("rel"),
        "organization_id": scope.organization,
        "created_at": now,
        "updated_at": now,
        "created_by_id": scope.actor,
        "source_memory_id": source_id,
        "target_memory_id": target_id,
        "relationship_type": relationship_type,
        "metadata": dict(metadata or {}),
    }
    return validate_row(Relationship, values)
