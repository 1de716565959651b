"""The content of a store's snapshot, and snapshots of stores that do not track changes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, starmap
from typing import Any, NamedTuple

from everhold.model.base import Row
from everhold.schema.catalog import CATALOG, get_table
from everhold.schema.plain_values import PlainRow, make_plain_encoder

_BATCH = 1000
# Tables of the store itself that belong to its data: which models its vectors are of, which fields are encrypted, and
# what maintenance did.
_KEPT_INTERNAL = ("embedding_models", "maintenance_runs", "counters")


# Takes the plain values of a row's columns, in their order.
CollectRow = Callable[[PlainRow], object]


class RowBatch(NamedTuple):
    """Some rows of a table that were passed to a CollectRow.

    `numbers` are the numbers by which the store itself knows the rows, if it tracks changes by such numbers.
    """

    size: int
    numbers: Sequence[int] | None = None


class ChangedRows(NamedTuple):
    """The rows of a table that may have changed between two moments.

    `batches` collect the rows as they are now; rows that have not changed may be among them. `touched` are the numbers
    of all rows that were added, changed or deleted. If it is None, the store does not know which rows were deleted.
    """

    batches: Iterator[RowBatch]
    touched: Sequence[int] | None = None


def list_snapshot_entities() -> list[type[Row]]:
    """Return the entities of the tables that a snapshot has, parents before the rows that belong to them.

    Other tables describe the running store only: leases, the progress of projections, schema versions.
    """
    return [entity for entity, table in CATALOG.items() if table.tenant is not None or table.name in _KEPT_INTERNAL]


class UntrackedSnapshot:
    """A snapshot of a store that does not track changes."""

    mark = ""

    def __init__(
        self,
        sequence: int,
        count: Callable[[type[Row]], int],
        read: Callable[[type[Row]], Iterator[tuple[Any, ...]]],
    ) -> None:
        """`read` yields the values of all columns of each row."""
        self.sequence = sequence
        self._count, self._read = count, read

    def count(self, entity: type[Row]) -> int:
        return self._count(entity)

    def read(self, entity: type[Row], collect: CollectRow) -> Iterator[RowBatch]:
        return collect_batches(entity, self._read(entity), collect)

    def read_keys(self, entity: type[Row]) -> Iterator[Sequence[PlainRow]]:
        rows: list[PlainRow] = []
        for _ in self.read(entity, rows.append):
            yield select_keys(entity, rows)
            rows.clear()

    def read_changes(self, entity: type[Row], mark: str, collect: CollectRow) -> ChangedRows | None:
        return None


def select_keys(entity: type[Row], rows: Sequence[PlainRow]) -> list[PlainRow]:
    """Return the values of the key columns of plain rows."""
    table = get_table(entity)
    indexes = [table.names.index(name) for name in table.key]
    return [[row[index] for index in indexes] for row in rows]


def collect_batches(entity: type[Row], values: Iterator[tuple[Any, ...]], collect: CollectRow) -> Iterator[RowBatch]:
    """Pass rows in their plain form to `collect`, some at a time, from the values of the entity's columns."""
    rows = starmap(make_plain_encoder(entity), values)
    while batch := list(islice(rows, _BATCH)):
        for row in batch:
            collect(row)
        yield RowBatch(len(batch))


def make_collected_snapshot(sequence: int, rows: Mapping[str, Sequence[Row]]) -> UntrackedSnapshot:
    """Return a snapshot of rows that were collected at one moment, by table."""

    def read(entity: type[Row]) -> Iterator[tuple[Any, ...]]:
        table = get_table(entity)
        for row in rows[table.name]:
            yield tuple(map(row.__dict__.__getitem__, table.names))

    return UntrackedSnapshot(sequence, lambda entity: len(rows[get_table(entity).name]), read)
