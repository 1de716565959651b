"""The parts of the engine that the verbs on blocks use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from everhold.model import Block, Chunk, Scope
from everhold.model.access import LoggedOperation, make_access_line
from everhold.ports.records import Records
from everhold.schema.operations import Operation, Put


@dataclass(frozen=True)
class BlockDeps:
    """The store and the functions that the verbs on blocks use."""

    records: Records
    make_missing_rows: Callable[[Scope, datetime], list[Operation]]
    """Returns the operations that add those rows named by a scope that do not exist yet."""
    invalidate_rows: Callable[[], None]
    """Clears the cache of existing scope rows, so that they are read again."""
    make_chunks: Callable[[Sequence[Block]], list[list[Chunk]]]
    """Returns the chunks that make each block searchable."""
    text_bytes: int
    interface: str = "library"

    def make_line(
        self, scope: Scope, operation: LoggedOperation, block: Block, now: datetime, **request: object
    ) -> Operation:
        """Return the operation that adds a change of a block to the access log."""
        line = make_access_line(scope, operation, now, {"block": block.id, **request}, interface=self.interface)
        return Put(line)
