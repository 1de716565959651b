"""Find the rows of a table that changed since the previous backup, and store them.

A table is a list of layers. The first layer has all rows at one moment. Each later layer has the rows that were added
or changed, and the digests of the keys of deleted rows. Unchanged rows are recognised by the index of the previous
backup.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from everhold.backups.index import DigestedRows, TableIndex, combine
from everhold.backups.manifest import Layer, ObjectEntry, TableEntry
from everhold.backups.objects import Objects
from everhold.backups.owners import OwnerLookup
from everhold.backups.sealing import EVERYONE
from everhold.backups.writing import ObjectWriter, TableWriter
from everhold.errors import StoreDamaged
from everhold.model.base import Row
from everhold.ports.row_packing import Digests, PackedRows, RowShape
from everhold.ports.store_snapshot import StoreSnapshot
from everhold.schema.catalog import get_table
from everhold.schema.snapshots import RowBatch

# After that many layers, a table is stored in full again, because a restore reads all layers.
_MAX_LAYERS = 30
# A table whose later layers have more than this share of its rows is stored in full again.
_MAX_CHANGED = 0.5
_NO_DIGESTS = np.array([], np.uint64)
INDEX, DELETED = "index", "deleted"

CountRows = Callable[[int], None]
# Waits until the objects of a table are stored, and returns the table.
WaitForTable = Callable[[], TableEntry]
# Waits until an index is stored, and returns its base and the changes since the base.
_WaitForIndex = Callable[[], tuple[ObjectEntry | None, ObjectEntry | None]]


@dataclass(frozen=True)
class TableBackup:
    """Stores the rows of one table of a snapshot."""

    snapshot: StoreSnapshot
    entity: type[Row]
    writer: ObjectWriter
    find_owner: OwnerLookup | None
    report: CountRows

    def store(self, previous: TableEntry | None, mark: str) -> WaitForTable:
        """Store the changes since the previous backup; without one, all rows. `mark` identifies the previous moment.

        Objects are stored in threads. The returned function waits for them and returns the table.
        """
        if previous is not None and self._is_still_empty(previous):
            return lambda: previous
        if previous is not None and not self._should_store_all(previous):
            index = load_index(previous, self.writer.objects)
            wait_for_table = None if index is None else self._store_changes(previous, index, mark)
            if wait_for_table is not None:
                return wait_for_table
        return self._store_all()

    def _is_still_empty(self, previous: TableEntry) -> bool:
        """Return whether a table had no rows at the previous backup and has none now."""
        is_same = previous.columns == get_table(self.entity).names and not previous.layers
        return is_same and previous.rows == 0 and self.snapshot.count(self.entity) == 0

    def _should_store_all(self, previous: TableEntry) -> bool:
        """Return whether a new list of layers should begin with all rows."""
        changed_rows = sum(entry.count for layer in previous.layers[1:] for entry in (*layer.rows, *layer.deleted))
        if previous.columns != get_table(self.entity).names or len(previous.layers) >= _MAX_LAYERS:
            return True
        return changed_rows > _MAX_CHANGED * (previous.rows + 1)

    def _store_all(self) -> WaitForTable:
        parts, table_writer = [], self._make_writer()
        for batch in self.snapshot.read(self.entity, table_writer.collect):
            packed = table_writer.store()
            parts.append(_digest_batch(batch, packed))
            self.report(batch.size)
        index = TableIndex.of(combine(parts))
        return self._finish(None, index, (), table_writer.finish(), _NO_DIGESTS)

    def _store_changes(self, previous: TableEntry, index: TableIndex, mark: str) -> WaitForTable | None:
        """Store a layer of changes; return None if the store's own count shows that changes were missed."""
        table_writer = self._make_writer()
        changes = self.snapshot.read_changes(self.entity, mark, table_writer.collect) if mark else None
        touched_numbers = None if changes is None or changes.touched is None else np.array(changes.touched, np.uint64)
        if changes is None or (touched_numbers is not None and not index.is_tracked):
            updated_index, deleted = self._compare_all(index, table_writer)
        elif touched_numbers is None:
            updated_index, deleted = self._compare_some(index, changes.batches, table_writer)
        else:
            updated_index, deleted = self._compare_touched(index, changes.batches, touched_numbers, table_writer)
        if len(updated_index) != self.snapshot.count(self.entity) or not updated_index.has_unique_keys():
            return None
        rows = table_writer.finish()
        if not rows and not len(deleted) and (updated_index is index or updated_index.merge().equals(index.merge())):
            return lambda: previous
        return self._finish(
            previous if updated_index.base is index.base else None, updated_index, previous.layers, rows, deleted
        )

    def _compare_all(self, index: TableIndex, table_writer: TableWriter) -> tuple[TableIndex, Digests]:
        """Compare every row with the index."""
        batches = self.snapshot.read(self.entity, table_writer.collect)
        updated_index = TableIndex.of(self._store_changed(batches, index, table_writer))
        return updated_index, np.setdiff1d(index.list_keys(), updated_index.base.keys, assume_unique=True)

    def _compare_some(
        self, index: TableIndex, batches: Iterator[RowBatch], table_writer: TableWriter
    ) -> tuple[TableIndex, Digests]:
        """Compare the rows that may have changed. If the store has fewer rows than expected, find the deleted ones."""
        seen_rows = self._store_changed(batches, index, table_writer)
        updated_index = index.replace(index.find_by_keys(seen_rows.keys), seen_rows)
        deleted = _NO_DIGESTS
        if len(updated_index) != self.snapshot.count(self.entity):
            deleted = np.setdiff1d(index.list_keys(), self._read_keys(), assume_unique=True)
            no_rows = seen_rows.select(np.zeros(len(seen_rows), bool))
            updated_index = updated_index.replace(updated_index.find_by_keys(deleted), no_rows)
        return updated_index, deleted

    def _compare_touched(
        self, index: TableIndex, batches: Iterator[RowBatch], touched_numbers: Digests, table_writer: TableWriter
    ) -> tuple[TableIndex, Digests]:
        """Compare the rows with the numbers `touched_numbers`; those that no longer exist were deleted."""
        seen_rows = self._store_changed(batches, index, table_writer)
        old_rows = index.find_by_numbers(touched_numbers)
        # A row that was deleted and added again has a new number but the same key.
        return index.replace(old_rows, seen_rows), np.setdiff1d(old_rows.keys, seen_rows.keys)

    def _store_changed(self, batches: Iterator[RowBatch], index: TableIndex, table_writer: TableWriter) -> DigestedRows:
        """Store the rows that differ from the index, and return the digests of all rows of the batches."""
        parts = []
        for batch in batches:
            packed = table_writer.store(index.find_changed)
            parts.append(_digest_batch(batch, packed))
            self.report(batch.size)
        return combine(parts)

    def _read_keys(self) -> Digests:
        shape, packing = RowShape.of(get_table(self.entity)), self.writer.objects.packing
        keys = [packing.digest_keys(batch, shape) for batch in self.snapshot.read_keys(self.entity)]
        return np.concatenate([_NO_DIGESTS, *keys])

    def _make_writer(self) -> TableWriter:
        return TableWriter(self.writer, get_table(self.entity), self.find_owner)

    def _finish(
        self,
        previous: TableEntry | None,
        index: TableIndex,
        layers: tuple[Layer, ...],
        rows: list[Future[ObjectEntry]],
        deleted: Digests,
    ) -> WaitForTable:
        """Return a function that waits until the objects of the new layer are stored, and returns the table.

        `previous` is the table of the previous backup if the index has the same base.
        """
        wait_for_index = self._store_index(index, previous) if len(index) else lambda: (None, None)
        deleted_keys = (
            [self.writer.put_bytes(deleted.astype("<u8").tobytes(), DELETED, len(deleted))] if len(deleted) else []
        )

        def wait_for_table() -> TableEntry:
            layer = Layer(
                rows=tuple(future.result() for future in rows),
                deleted=tuple(future.result() for future in deleted_keys),
            )
            base, changes = wait_for_index()
            return TableEntry(
                columns=get_table(self.entity).names,
                rows=len(index),
                hash=index.hash,
                layers=(*layers, layer) if layer.rows or layer.deleted else layers,
                index=base,
                index_changes=changes,
                is_tracked=index.is_tracked,
            )

        return wait_for_table

    def _store_index(self, index: TableIndex, previous: TableEntry | None) -> _WaitForIndex:
        """Store an index, or only its changes if its base is stored already."""
        if previous is None or index.has_many_changes:
            if not index.has_unique_keys():
                return lambda: (None, None)
            base = self.writer.put_bytes(index.merge().encode(), INDEX, len(index))
            return lambda: (base.result(), None)
        changes = self.writer.put_bytes(index.encode_changes(), INDEX, len(index.added) + len(index.removed))
        return lambda: (previous.index, changes.result())


def load_index(entry: TableEntry, objects: Objects) -> TableIndex | None:
    """Return the index of a table; None if it has none.

    Raise NotFound if the index was deleted, and StoreDamaged if it cannot be read.
    """
    if entry.index is None:
        return None
    content = objects.get_bytes(entry.index, EVERYONE, INDEX) or b""
    base = DigestedRows.decode(content, entry.index.count, is_tracked=entry.is_tracked)
    if entry.index_changes is None:
        index = TableIndex.of(base)
    else:
        index = TableIndex.decode(base, objects.get_bytes(entry.index_changes, EVERYONE, INDEX) or b"")
    if len(index) != entry.rows:
        raise StoreDamaged("the index of a table has a wrong number of rows", remedy="delete the latest backup")
    return index


def _digest_batch(batch: RowBatch, packed: PackedRows) -> DigestedRows:
    numbers = None if batch.numbers is None else np.array(batch.numbers, np.uint64)
    return DigestedRows(packed.keys, packed.hashes, numbers)
