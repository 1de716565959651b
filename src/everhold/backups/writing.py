"""Write the rows of a table into objects. Threads compress and store them while the caller continues to read."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import compress

from everhold.backups.index import Mask
from everhold.backups.manifest import ObjectEntry
from everhold.backups.objects import Frame, Objects
from everhold.backups.owners import OwnerLookup
from everhold.backups.sealing import EVERYONE, RowOwner
from everhold.ports.row_packing import Digests, PackedRows, RowShape
from everhold.schema.plain_values import PlainRow
from everhold.schema.table import Table

_PACK_BYTES = 4 * 1024 * 1024
_THREADS = 4  # they wait for the disk most of the time
_MAX_WAITING = 8  # the maximum number of objects that wait for a thread; more would only take memory

# Returns a mask of the rows to store, from the digests of their keys and of their values.
SelectRows = Callable[[Digests, Digests], Mask]


class ObjectWriter:
    """Stores packs in threads. An error of a thread is raised by the next call."""

    def __init__(self, objects: Objects, pool: ThreadPoolExecutor) -> None:
        self.objects = objects
        self._pool = pool
        self._waiting: deque[Future[ObjectEntry]] = deque()

    def put_pack(self, frames: Sequence[Frame], table: str) -> "Future[ObjectEntry]":
        return self._submit(partial(self.objects.put_pack, frames, table))

    def put_bytes(self, content: bytes, context: str, count: int) -> "Future[ObjectEntry]":
        return self._submit(partial(self.objects.put_bytes, content, EVERYONE, context, count))

    def _submit(self, work: Callable[[], ObjectEntry]) -> "Future[ObjectEntry]":
        while len(self._waiting) >= _MAX_WAITING:
            self._waiting.popleft().result()
        future = self._pool.submit(work)
        self._waiting.append(future)
        return future


@contextmanager
def write_objects(objects: Objects) -> Iterator[ObjectWriter]:
    """Yield a writer. At the end of the block, wait for its threads; after an error, drop work that has not begun."""
    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="everhold-backup")
    try:
        yield ObjectWriter(objects, pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class TableWriter:
    """Collects rows of one table, by owner, and stores them as packs of limited size."""

    def __init__(self, writer: ObjectWriter, table: Table, find_owner: OwnerLookup | None) -> None:
        """`find_owner` returns the owner of a row; without it, rows are not separated by owner."""
        self._writer, self._table = writer, table.name
        self._packer = writer.objects.packing.make_packer(RowShape.of(table))
        self._owners: list[RowOwner] = []
        self.collect = self._packer.add if find_owner is None else self._make_collect(find_owner)
        self._items: dict[RowOwner, list[bytes]] = {}
        self._size = 0
        self._stored: list[Future[ObjectEntry]] = []

    def _make_collect(self, find_owner: OwnerLookup) -> Callable[[PlainRow], None]:
        add_row, add_owner = self._packer.add, self._owners.append

        def collect(row: PlainRow) -> None:
            add_row(row)
            add_owner(find_owner(row))

        return collect

    def store(self, select: SelectRows | None = None) -> PackedRows:
        """Store the collected rows; with a function, only those that it selects. Return all of them."""
        packed = self._packer.take()
        mask = None if select is None else select(packed.keys, packed.hashes)
        items = packed.items if mask is None else [*compress(packed.items, mask)]
        if self._owners:
            owners = self._owners if mask is None else compress(self._owners, mask)
            for owner, item in zip(owners, items, strict=True):
                self._items.setdefault(owner, []).append(item)
            self._owners.clear()
        elif items:
            self._items.setdefault(EVERYONE, []).extend(items)
        self._size += sum(map(len, items))
        if self._size >= _PACK_BYTES:
            self._flush()
        return packed

    def finish(self) -> "list[Future[ObjectEntry]]":
        """Start to store the remaining rows, and return all objects."""
        self._flush()
        return self._stored

    def _flush(self) -> None:
        by_organization: dict[str | None, list[Frame]] = {}
        for owner, items in self._items.items():
            by_organization.setdefault(owner.organization, []).append(Frame(owner, items))
        for frames in by_organization.values():
            self._stored.append(self._writer.put_pack(frames, self._table))
        self._items, self._size = {}, 0
