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

_MAX_LAYERS = 30
# A table whose later layers have more than this share of its rows is stored in full again.
_MAX_CHANGED = 0.5
_NONE = np.array([], np.uint64)
INDEX, DELETED = "index", "deleted"

Count = Callable[[int], None]
# Waits until the objects of a table are stored, and returns the table.
Pending = Callable[[], TableEntry]
# Waits until an index is stored, and returns its base and the changes since the base.
StoredIndex = Callable[[], tuple[ObjectEntry | None, ObjectEntry | None]]


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
        if previous is not None and not self._should_start_anew(previous):
            index = load_index(previous, self.writer.objects)
            changed = None if index is None else self._store_changes(previous, index, mark)
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

    def _store_all(self) -> Pending:
        parts, table_writer = [], self._make_writer()
        for batch in self.snapshot.read(self.entity, table_writer.collect):
            packed = table_writer.store()
            parts.append(_digest_batch(batch, packed))
            self.report(batch.size)
        index = TableIndex.of(combine(parts))
        return self._finish(None, index, (), table_writer.finish(), _NONE)

    def _store_changes(self, previous: TableEntry, index: TableIndex, mark: str) -> Pending | None:
        """Store a layer of changes; return None if the store's own count shows that changes were missed."""
        table_writer = self._make_writer()
        changes = self.snapshot.read_changes(self.entity, mark, table_writer.collect) if mark else None
        touched = None if changes is None or changes.touched is None else np.array(changes.touched, np.uint64)
        if changes is None or (touched is not None and not index.is_tracked):
            after, deleted = self._compare_all(index, table_writer)
        elif touched is None:
            after, deleted = self._compare_some(index, changes.batches, table_writer)
        else:
            after, deleted = self._compare_touched(index, changes.batches, touched, table_writer)
        if len(after) != self.snapshot.count(self.entity) or not after.has_unique_keys():
            return None
        rows = table_writer.finish()
        if not rows and not len(deleted) and (after is index or after.merge().equals(index.merge())):
            return lambda: previous
        return self._finish(previous if after.base is index.base else None, after, previous.layers, rows, deleted)

    def _compare_all(self, index: TableIndex, table_writer: TableWriter) -> tuple[TableIndex, Digests]:
        """Compare every row with the index."""
        batches = self.snapshot.read(self.entity, table_writer.collect)
        after = TableIndex.of(self._store_changed(batches, index, table_writer))
        return after, np.setdiff1d(index.list_keys(), after.base.keys, assume_unique=True)

    def _compare_some(
        self, index: TableIndex, batches: Iterator[RowBatch], table_writer: TableWriter
    ) -> tuple[TableIndex, Digests]:
        """Compare the rows that may have changed; if rows are missing then, find out which were deleted."""
        seen = self._store_changed(batches, index, table_writer)
        after = index.replace(index.find_by_keys(seen.keys), seen)
        deleted = _NONE
        if len(after) != self.snapshot.count(self.entity):
            deleted = np.setdiff1d(index.list_keys(), self._read_keys(), assume_unique=True)
            after = after.replace(after.find_by_keys(deleted), seen.select(np.zeros(len(seen), bool)))
        return after, deleted

    def _compare_touched(
        self, index: TableIndex, batches: Iterator[RowBatch], touched: Digests, table_writer: TableWriter
    ) -> tuple[TableIndex, Digests]:
        """Compare the rows with these numbers; those that are gone were deleted."""
        seen = self._store_changed(batches, index, table_writer)
        before = index.find_by_numbers(touched)
        # A row that was deleted and added again has a new number but the same key.
        return index.replace(before, seen), np.setdiff1d(before.keys, seen.keys)

    def _store_changed(self, batches: Iterator[RowBatch], index: TableIndex, table_writer: TableWriter) -> DigestedRows:
        """Store those rows that differ from the index, and return the digests of all."""
        parts = []
        for batch in batches:
            packed = table_writer.store(index.find_changed)
            parts.append(_digest_batch(batch, packed))
            self.report(batch.size)
        return combine(parts)

    def _read_keys(self) -> Digests:
        shape, packing = RowShape.of(get_table(self.entity)), self.writer.objects.packing
        keys = [packing.digest_keys(batch, shape) for batch in self.snapshot.read_keys(self.entity)]
        return np.concatenate([_NONE, *keys])

    def _make_writer(self) -> TableWriter:
        return TableWriter(self.writer, get_table(self.entity), self.find_owner)

    def _finish(
        self,
        previous: TableEntry | None,
        index: TableIndex,
        layers: tuple[Layer, ...],
        rows: list[Future[ObjectEntry]],
        deleted: Digests,
    ) -> Pending:
        """Return a function that waits until the objects of the new layer are stored, and returns the table.

        `previous` is the table of the previous backup if the index has the same base.
        """
        find_index = self._store_index(index, previous) if len(index) else lambda: (None, None)
        removed = (
            [self.writer.put_bytes(deleted.astype("<u8").tobytes(), DELETED, len(deleted))] if len(deleted) else []
        )

        def resolve() -> TableEntry:
            layer = Layer(
                rows=tuple(future.result() for future in rows), deleted=tuple(future.result() for future in removed)
            )
            base, changes = find_index()
            return TableEntry(
                columns=get_table(self.entity).names,
                rows=len(index),
                hash=index.hash,
                layers=(*layers, layer) if layer.rows or layer.deleted else layers,
                index=base,
                index_changes=changes,
                is_tracked=index.is_tracked,
            )

        return resolve

    def _store_index(self, index: TableIndex, previous: TableEntry | None) -> StoredIndex:
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
