"""Delete many rows, batch by batch."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from everhold.batches import split_into_batches
from everhold.model.base import Row
from everhold.schema.operations import Delete, Operation


def delete_in_batches(
    entity: type[Row],
    keys: Iterable[tuple[Any, ...]],
    commit: Callable[[Sequence[Operation]], None],
    add: Callable[[int], None],
    *,
    batch: int,
) -> None:
    """Delete the rows with these keys. Each batch is one call of `commit`, followed by one call of `add`."""
    for part in split_into_batches(list(keys), batch):
        commit([Delete(entity, key) for key in part])
        add(len(part))
