"""Read the current chunks of a search space row by row."""

from collections.abc import Iterator
from typing import Any

from everhold.model import Chunk
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.schema.operations import Where


def read_current_chunks(
    records: Records, space: SearchSpace, column: str, *conditions: Where
) -> Iterator[tuple[str, Any]]:
    """Yield the owner's id and one column of every current chunk that meets the conditions and has a live owner."""
    organization_id, entity = space.organization_id, space.owner.entity
    live_ids = {owner_id for (owner_id,) in records.columns(entity, organization_id, ["id"])}
    where = [*space.chunks(), *conditions]
    for owner_id, value in records.columns(Chunk, organization_id, ("owner_id", column), where):
        if owner_id in live_ids:
            yield owner_id, value
