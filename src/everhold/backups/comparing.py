"""Find the rows of a table that changed since the previous backup, and store them.

A table is a list of layers. The first layer has all rows at one moment. Each later layer has the rows that were added
or changed, and the digests of the keys of deleted rows. Unchanged rows are recognised by the index of the previous
backup.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from everhold.backups.index import IndexBuilder, TableIndex
from everhold.backups.manifest import Layer, ObjectEntry, TableEntry
from everhold.backups.owners import OwnerLookup
from everhold.backups.sealing import EVERYONE
from everhold.backups.writing import ObjectWriter, TableWriter
from everhold.model.base import Row
from everhold.ports.row_packing import Digests, PackedRows, RowShape
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.schema.catalog import get_table
from everhold.schema.snapshots import RowBatch

_MAX_LAYERS = 30
# A table whose later layers have more than this share of its rows is stored in full again.
_MAX_CHANGED = 0.5
_NONE = np.array([], np.uint64)
INDEX, DELETED = "index", "deleted"

Count = Callable[[int], None]
# Waits until the objects of a table are stored, and returns the table.
Pending = Callable[[], TableEntry]


@dataclass(frozen=True)
class TableBackup:
    """Stores the rows of one table of a snapshot."""

    snapshot: StoreSnapshot
    entity: type[Row]
    writer: ObjectWriter
    find_owner: OwnerLookup | None
    report: Count

    def store(self, previous: TableEntry | None, mark: str) -> Pending:
        """Store the changes since the previous backup; without one, all rows. `mark` identifies the previous moment.

        Objects are stored in threads. The returned function waits for them and returns the table.
        """
        if previous is not None and self._is_still_empty(previous):
            return lambda: previous
        index = None if previous is None or self._should_start_anew(previous) else self._load_index(previous)
        if previous is not None and index is not None:
            changed = self._store_changes(previous, index, mark)
            if changed is not None:
                return changed
        return self._store_all()

    def _is_still_empty(self, previous: TableEntry) -> bool:
        """Return whether a table has no rows, as before."""
        is_same = previous.columns == get_table(self.entity).names and not previous.layers
        return is_same and previous.rows == 0 and self.snapshot.count(self.entity) == 0

    def _should_start_anew(self, previous: TableEntry) -> bool:
        later = [*previous.layers[1:]]
        changed = sum(entry.count for layer in later for entry in (*layer.rows, *layer.deleted))
        same_columns = previous.columns == get_table(self.entity).names
        return not same_columns or len(previous.layers) >= _MAX_LAYERS or changed > _MAX_CHANGED * (previous.rows + 1)

    def _load_index(self, previous: TableEntry) -> TableIndex | None:
        if previous.index is None:
            return None
        content = self.writer.objects.get_bytes(previous.index, EVERYONE, INDEX)
        if content is None:
            return None
        return TableIndex.decode(content, previous.rows, is_tracked=previous.is_tracked)

    def _store_all(self) -> Pending:
        builder, table_writer = IndexBuilder(is_tracked=True), self._make_writer()
        for batch in self.snapshot.read(self.entity, table_writer.collect):
            packed = table_writer.store()
            builder.add(_index_batch(batch, packed))
            self.report(batch.size)
        index = builder.build()
        return self._finish(index, (), table_writer.finish(), _NONE)

    def _store_changes(self, previous: TableEntry, index: TableIndex, mark: str) -> Pending | None:
        """Store a layer of changes; return None if the store's own count shows that changes were missed."""
        table_writer = self._make_writer()
        changes = self.snapshot.read_changes(self.entity, mark, table_writer.collect) if mark else None
        touched = None if changes is None or changes.touched is None else np.array(changes.touched, np.uint64)
        if changes is None or (touched is not None and index.numbers is None):
            after, rows, deleted = self._compare_all(index, table_writer)
        elif touched is None:
            after, rows, deleted = self._compare_some(index, changes.batches, table_writer)
        else:
            after, rows, deleted = self._compare_touched(index, changes.batches, touched, table_writer)
        if len(after) != self.snapshot.count(self.entity) or not after.has_unique_keys:
            return None
        if not rows and not len(deleted) and after.is_same_as(index):
            return lambda: previous
        return self._finish(after, previous.layers, rows, deleted)

    def _compare_all(
        self, index: TableIndex, table_writer: TableWriter
    ) -> tuple[TableIndex, list[Future[ObjectEntry]], Digests]:
        """Compare every row with the index."""
        builder = IndexBuilder(is_tracked=True)
        for batch in self.snapshot.read(self.entity, table_writer.collect):
            self._add_changed(batch, index, builder, table_writer)
        after = builder.build()
        return after, table_writer.finish(), np.setdiff1d(index.keys, after.keys, assume_unique=True)

    def _compare_some(
        self, index: TableIndex, batches: Iterator[RowBatch], table_writer: TableWriter
    ) -> tuple[TableIndex, list[Future[ObjectEntry]], Digests]:
        """Compare the rows that may have changed; if rows are missing then, find out which were deleted."""
        builder = IndexBuilder(is_tracked=False)
        for batch in batches:
            self._add_changed(batch, index, builder, table_writer)
        seen = builder.build()
        builder.add(index.without(np.isin(index.keys, seen.keys)))
        after = builder.build()
        deleted = _NONE
        if len(after) != self.snapshot.count(self.entity):
            current = self._read_keys()
            deleted = np.setdiff1d(index.keys, current, assume_unique=True)
            after = after.without(np.isin(after.keys, deleted))
        return after, table_writer.finish(), deleted

    def _compare_touched(
        self, index: TableIndex, batches: Iterator[RowBatch], touched: Digests, table_writer: TableWriter
    ) -> tuple[TableIndex, list[Future[ObjectEntry]], Digests]:
        """Compare the rows with these numbers; those that are gone were deleted."""
        builder = IndexBuilder(is_tracked=True)
        for batch in batches:
            self._add_changed(batch, index, builder, table_writer)
        seen = builder.build()
        mask = index.find_by_numbers(touched)
        # A row that was deleted and added again has a new number but the same key.
        deleted = np.setdiff1d(index.keys[mask], seen.keys)
        builder.add(index.without(mask))
        return builder.build(), table_writer.finish(), deleted

    def _add_changed(
        self, batch: RowBatch, index: TableIndex, builder: IndexBuilder, table_writer: TableWriter
    ) -> None:
        packed = table_writer.store(index.find_changed)
        builder.add(_index_batch(batch, packed))
        self.report(batch.size)

    def _read_keys(self) -> Digests:
        shape, packing = RowShape.of(get_table(self.entity)), self.writer.objects.packing
        keys = [packing.digest_keys(batch, shape) for batch in self.snapshot.read_keys(self.entity)]
        return np.concatenate([_NONE, *keys])

    def _make_writer(self) -> TableWriter:
        return TableWriter(self.writer, get_table(self.entity), self.find_owner)

    def _finish(
        self, index: TableIndex, layers: tuple[Layer, ...], rows: list[Future[ObjectEntry]], deleted: Digests
    ) -> Pending:
        """Return a function that waits until the objects of the new layer are stored, and returns the table."""
        stored = None
        if len(index) and index.has_unique_keys:
            stored = self.writer.put_bytes(index.encode(), INDEX, len(index))
        removed = (
            [self.writer.put_bytes(deleted.astype("<u8").tobytes(), DELETED, len(deleted))] if len(deleted) else []
        )

        def resolve() -> TableEntry:
            layer = Layer(
                rows=tuple(future.result() for future in rows), deleted=tuple(future.result() for future in removed)
            )
            return TableEntry(
                columns=get_table(self.entity).names,
                rows=len(index),
                hash=index.hash,
                layers=(*layers, layer) if layer.rows or layer.deleted else layers,
                index=None if stored is None else stored.result(),
                is_tracked=index.numbers is not None,
            )

        return resolve


def _index_batch(batch: RowBatch, packed: PackedRows) -> TableIndex:
    numbers = None if batch.numbers is None else np.array(batch.numbers, np.uint64)
    return TableIndex(packed.keys, packed.hashes, numbers)
