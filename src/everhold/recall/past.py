"""Memories as they were at an earlier time, read from their revisions."""

from datetime import datetime

from everhold.model import Memory
from everhold.model.validation import validate_row
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where


def read_as_known(records: Records, organization: str, memories: dict[str, Memory], at: datetime) -> dict[str, Memory]:
    """Return these memories as they were at a time. Memories that were not stored yet are left out."""
    revised_ids = [memory.id for memory in memories.values() if memory.revision]
    known_memories = {name: memory for name, memory in memories.items() if memory.created_at <= at}
    if not revised_ids:
        return known_memories
    from everhold.model import Revision  # few recalls ask for an earlier time

    where = [
        Where("owner_kind", Op.EQ, "memory"),
        Where("owner_id", Op.IN, revised_ids),
        Where("known_from", Op.LE, at),
        Where("known_to", Op.GT, at),
    ]
    for revision in records.scan(Revision, organization, where):
        memory = memories[revision.owner_id]
        known_memories[revision.owner_id] = validate_row(
            Memory, {**memory.__dict__, **revision.value, "revision": revision.revision}
        )
    return known_memories
