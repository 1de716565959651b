"""The cache of images: an image is built at first use, updated from the change feed, and evicted to free memory.

Every recall first reads the new lines of the change feed. A line about something searchable marks it as changed in its
images. A line about a user, a session or anything else drops the images of the organization, which is rare and safe.
"""

import ctypes
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from everhold.batches import split_into_batches
from everhold.errors import EverholdError
from everhold.model import Chunk, Relationship
from everhold.model.announcement import affects_descendants
from everhold.model.memory import LONG_TERM, SHARED_NAME
from everhold.model.searchable import KIND_OF_TABLE
from everhold.ports.feed_follower import FeedFollower
from everhold.ports.records import Records
from everhold.ports.search_space import SearchSpace
from everhold.recall.image import CHUNK_COLUMNS, Image, ImageEntry
from everhold.schema.operations import Op, Where

if TYPE_CHECKING:
    from everhold.model.change_feed import Outbox

logger = logging.getLogger(__name__)

T = TypeVar("T")
SHARED = ""
_BATCH = 500
_MANY = 10_000
# Relations that do not pass relevance on: a superseded or contradicted memory is not an answer, a fact repeats its
# message, and memories that share a name are often about different things.
_NOT_FOLLOWED = frozenset({"supersedes", "contradicts", "derived_from", SHARED_NAME})


@dataclass
class CachedImage:
    """An image, the ids of owners that have changed since it was updated, and a lock for the thread that uses it.

    `loaded` is false while the image is built or changed. If building fails or is interrupted, `loaded` stays false,
    and the next caller loads the image again instead of using half of it.
    """

    image: Image
    loaded: bool = False
    pending: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)


class ImageCache:
    """Images of one store and one embedding model.

    An image holds a search space of one user, of the entities without a user, or of a whole organization.
    """

    def __init__(self, records: Records, model: str, dimensions: int, *, budget: int, max_memories: int) -> None:
        self.model = model
        self.max_memories = max_memories
        self._records = records
        self._dimensions = dimensions
        self._budget = budget
        self._entries: OrderedDict[SearchSpace, CachedImage] = OrderedDict()
        self._too_many: set[SearchSpace] = set()
        self._namespaces: set[str] = set()
        self._follower = FeedFollower(records)
        self._lock = threading.Lock()

    def space(
        self, organization: str, user: str | None, kind: str = "memory", namespace: str = LONG_TERM
    ) -> SearchSpace:
        """Return the search space of a user for the model of these images; of the whole organization if `user` is
        None."""
        return SearchSpace(organization, None if user is None else (user,), self.model, kind, namespace)

    def use(self, spaces: Sequence[SearchSpace], work: Callable[[list[Image]], T]) -> T:
        """Call `work` with the images of these spaces and return its result.

        The images contain everything committed before the call, and no other thread changes them until `work` returns.
        """
        while True:
            entries = {space: self._find(space) for space in spaces}
            used = self._use_locked(
                list(entries.values()) if len(entries) == 1 else _sort_for_locking(entries), entries, work
            )
            if used is not None:
                return used[0]

    def _use_locked(
        self, waiting: Sequence[CachedImage], entries: dict[SearchSpace, CachedImage], work: Callable[[list[Image]], T]
    ) -> tuple[T] | None:
        """Lock the images and return the result of `work`; None if an image was dropped while this thread waited.

        The locks are taken by nested `with` statements. An interrupt inside the __exit__ of an ExitStack would leave
        them locked.
        """
        with waiting[0].lock:
            if len(waiting) > 1:
                return self._use_locked(waiting[1:], entries, work)
            for space, entry in entries.items():
                if not self._bring_up_to_date(space, entry):
                    return None
            return (work([entry.image for entry in entries.values()]),)

    def fits(self, space: SearchSpace) -> bool:
        """Return whether the space has few enough records for an image."""
        if space in self._entries:
            return True
        if space not in self._too_many and self._count(space) > self.max_memories:
            self._too_many.add(space)
        return space not in self._too_many

    def _count(self, space: SearchSpace) -> int:
        return self._records.count(space.owner.entity, space.organization_id, space.owners())

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._too_many.clear()

    @property
    def size_in_bytes(self) -> int:
        return sum(entry.image.size_in_bytes for entry in list(self._entries.values()))

    def _find(self, space: SearchSpace) -> CachedImage:
        with self._lock:
            self._follow()
            entry = self._entries.get(space)
            if entry is None:
                entry = self._entries[space] = CachedImage(Image(self._dimensions, space.kind))
                self._namespaces.add(space.namespace)
            else:
                self._entries.move_to_end(space)
            return entry

    def _bring_up_to_date(self, space: SearchSpace, entry: CachedImage) -> bool:
        """Load the image or apply the changes since.

        Return False if it was dropped while this thread waited for its lock.
        """
        if self._entries.get(space) is not entry:
            return False
        if entry.loaded:
            self._catch_up(space, entry)
        else:
            self._load(space, entry)
            self._make_room(space)
        return True

    def _follow(self) -> None:
        if self._entries and self._follower.has_lost_place:
            logger.info("dropped %d images: lines of the change feed were missed", len(self._entries))
            self._entries.clear()
        if not self._entries:  # an image that is not loaded yet needs no lines
            self._follower.jump()
            return
        self._follower.follow(self._note)

    def _note(self, lines: "Sequence[Outbox]") -> None:
        for line in lines:
            if affects_descendants(line):
                for space in [space for space in self._entries if space.organization_id == line.organization_id]:
                    del self._entries[space]
            kind = KIND_OF_TABLE.get(line.entity)
            if kind is None:
                continue
            # the line does not name the namespace; and a memory moved to another namespace must leave its old image
            for namespace in self._namespaces:
                for user in (line.user_id, None):
                    entry = self._entries.get(self.space(line.organization_id, user, kind, namespace))
                    if entry is not None:
                        entry.pending.add(line.entity_id)

    def _load(self, space: SearchSpace, entry: CachedImage) -> None:
        started = time.monotonic()
        expected = self._count(space)
        image = Image(self._dimensions, space.kind)
        image.load(self._blocks(space), expected)
        related = read_related(self._records, space, dict.fromkeys(image.owners))
        image.link(related, related)
        entry.image = image
        entry.loaded = True
        logger.info("loaded the image of %d %s rows in %.3f s", image.size, space.kind, time.monotonic() - started)
        if expected > _MANY:
            _give_back_memory()

    def _blocks(self, space: SearchSpace) -> Iterator[list[ImageEntry]]:
        rows = self._records.columns(space.owner.entity, space.organization_id, space.owner.columns, space.owners())
        while block := list(islice(rows, _BATCH)):
            yield list(join_chunks(self._records, space, block))

    def _catch_up(self, space: SearchSpace, entry: CachedImage) -> None:
        """Apply the pending changes of the store to a loaded image."""
        if not entry.pending:
            return
        entry.loaded = False  # before the pending ids are taken: an interrupt from here on must not lose them
        with self._lock:
            changed, entry.pending = list(entry.pending), set()
        try:
            entries = list(self._read_changed(space, changed))
            # A relationship may have changed with its target alone: undoing the deletion of the target restores it.
            linked = {*changed, *_read_sources(self._records, space, changed)}
            related = read_related(self._records, space, linked)
        except EverholdError:  # the image has not been changed yet
            with self._lock:
                entry.pending.update(changed)
            entry.loaded = True
            raise
        entry.image.replace(changed, entries)
        entry.image.link(linked, related)
        entry.loaded = True

    def _read_changed(self, space: SearchSpace, changed: list[str]) -> Iterator[ImageEntry]:
        """Yield the entries of changed owners. Owners that do not belong in the image, or no longer, are left out."""
        yield from read_entries(self._records, space, changed, space.owners())

    def _make_room(self, kept: SearchSpace) -> None:
        """Evict the least recently used images until the rest fits the budget, but never the image of `kept`."""
        with self._lock:
            for space in list(self._entries):
                if self.size_in_bytes <= self._budget:
                    return
                if space != kept:
                    del self._entries[space]


def _give_back_memory() -> None:
    """Return freed memory to the system, if the C library can. Loading needs more than the image itself."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _sort_for_locking(entries: dict[SearchSpace, CachedImage]) -> list[CachedImage]:
    """Return the images in one fixed order, so that two recalls never wait for each other's locks."""
    return [entries[space] for space in sorted(entries, key=lambda space: (space[3:], space.users or ()))]


def read_entries(
    records: Records, space: SearchSpace, owner_ids: Sequence[str], conditions: Sequence[Where] = ()
) -> Iterator[ImageEntry]:
    """Yield the chunks of the owners that meet the conditions, each with its owner's columns."""
    owner, ids = space.owner, list(owner_ids)
    for start in range(0, len(ids), _BATCH):
        where = [Where("id", Op.IN, ids[start : start + _BATCH]), *conditions]
        rows = list(records.columns(owner.entity, space.organization_id, owner.columns, where))
        yield from join_chunks(records, space, rows)


def join_chunks(records: Records, space: SearchSpace, rows: Sequence[tuple[Any, ...]]) -> Iterator[ImageEntry]:
    """Yield the chunks of these owners, including those of earlier texts, each with its owner's columns."""
    arrange = space.owner.arrange
    owners = {row[0]: arrange(row) for row in rows}
    if owners:
        # no condition on users: the owners were already chosen by user
        where = [Where("owner_id", Op.IN, list(owners)), *space._replace(users=None).chunks(closed=True)]
        for chunk in records.columns(Chunk, space.organization_id, CHUNK_COLUMNS, where):
            yield ImageEntry(chunk, owners[chunk[0]])


def read_related(records: Records, space: SearchSpace, memory_ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the ids of the memories that each of these memories passes relevance on to, if there are any.

    Relevance passes from the source of a relationship to its target, not back.
    """
    related: dict[str, set[str]] = {}
    for source_id, target_id in _read_relationships(records, space, "source_memory_id", memory_ids):
        related.setdefault(source_id, set()).add(target_id)
    return related


def _read_sources(records: Records, space: SearchSpace, memory_ids: Iterable[str]) -> set[str]:
    """Return the ids of the memories that pass relevance on to one of these memories."""
    return {source_id for source_id, _ in _read_relationships(records, space, "target_memory_id", memory_ids)}


def _read_relationships(
    records: Records, space: SearchSpace, column: str, memory_ids: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Yield the source and the target of each relationship that passes relevance on and has an id in `column`."""
    organization, ids = space.organization_id, list(memory_ids)
    if space.kind != "memory":
        return
    if len(ids) > _BATCH and not records.scan(Relationship, organization, limit=1):
        return  # one query instead of many
    names = ("source_memory_id", "target_memory_id", "relationship_type")
    for batch in split_into_batches(ids, _BATCH):
        where = [Where(column, Op.IN, batch)]
        for source_id, target_id, kind in records.columns(Relationship, organization, names, where):
            if kind not in _NOT_FOLLOWED:
                yield source_id, target_id
