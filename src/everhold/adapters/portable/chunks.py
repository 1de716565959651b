"""The chunks that may be proposed, read row by row."""

from collections.abc import Iterator, Sequence
from typing import Any

from everhold.model import Chunk, Memory
from everhold.ports.records import Records
from everhold.schema.operations import Op, Where


def proposable(
    records: Records, organization_id: str, images: Sequence[str] | None, model: str, column: str, *more: Where
) -> Iterator[tuple[str, Any]]:
    """The owner and one column of every current chunk of a live memory."""
    where = [
        Where("owner_kind", Op.EQ, "memory"),
        Where("namespace", Op.EQ, "long-term"),
        Where("model", Op.EQ, model),
        Where("known_to", Op.EQ, None),
        *more,
    ]
    if images is not None:
        where.append(Where("user_id", Op.IN, list(images)))
    live = {memory_id for (memory_id,) in records.columns(Memory, organization_id, ["id"])}
    for owner_id, value in records.columns(Chunk, organization_id, ("owner_id", column), where):
        if owner_id in live:
            yield owner_id, value
