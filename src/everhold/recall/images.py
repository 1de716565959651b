"""The images held in memory: built when first asked for, kept in step by following the feed, dropped when there is
no room.

Every recall first reads what the feed has new. A line about a memory marks it in the images that hold it; a line
about anything above memories (a user, a session) drops the organization's images, which is rare and always right.
"""

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from everhold.errors import EverholdError
from everhold.model import Chunk, Memory, Relationship
from everhold.model.housekeeping import Outbox
from everhold.ports.records import Records
from everhold.recall.image import CHUNK_COLUMNS, MEMORY_COLUMNS, Entry, Image
from everhold.schema.operations import Op, Where

T = TypeVar("T")
SHARED = ""
NAMESPACE = "long-term"
_BATCH = 500
_FEED_PAGE = 1000
_MANY = 10_000
_NOT_FOLLOWED = frozenset({"supersedes", "contradicts", "derived_from"})
"""Relations over which relevance is not passed on: the replaced and the contradicted are not meant, and a fact says
the same as its message."""


class ImageKey(NamedTuple):
    """Which rows: one user's, the shared ones (user ''), or with no user all of the organization's."""

    organization: str
    user: str | None


@dataclass
class Held:
    """An image, the ids of memories that have changed since it was up to date, and the lock of its user.

    `loaded` is false while the image is built or changed. If that fails or is interrupted, it stays false, and the next
    caller loads the image again instead of using half of it.
    """

    image: Image
    loaded: bool = False
    pending: set[str] = field(default_factory=set)
    turn: threading.RLock = field(default_factory=threading.RLock)


class Images:
    """Images of one store and one embedding model."""

    def __init__(self, records: Records, model: str, dimensions: int, *, budget: int, most_memories: int) -> None:
        self.model = model
        self.most_memories = most_memories
        self._records = records
        self._dimensions = dimensions
        self._budget = budget
        self._held: OrderedDict[ImageKey, Held] = OrderedDict()
        self._too_many: set[ImageKey] = set()
        self._position = records.head()
        self._lock = threading.Lock()

    def use(self, keys: Sequence[ImageKey], work: Callable[[list[Image]], T]) -> T:
        """Return what `work` returns for the images of these one or two keys.

        The images contain everything committed before the call, and no other thread changes them until `work` returns.
        """
        while True:
            held = [self._find(key) for key in keys]
            # Locks in a `with` statement, not in an ExitStack: an interrupt inside its __exit__ would keep them locked.
            with held[0].turn, held[-1].turn:
                if all(self._bring_up_to_date(key, entry) for key, entry in zip(keys, held, strict=True)):
                    return work([entry.image for entry in held])

    def fits(self, key: ImageKey) -> bool:
        """Whether the rows are few enough to be held."""
        if key in self._held:
            return True
        if (
            key not in self._too_many
            and self._records.count(Memory, key.organization, _rows_of(key)) > self.most_memories
        ):
            self._too_many.add(key)
        return key not in self._too_many

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._too_many.clear()

    @property
    def size_in_bytes(self) -> int:
        return sum(held.image.size_in_bytes for held in list(self._held.values()))

    def _find(self, key: ImageKey) -> Held:
        with self._lock:
            self._follow()
            held = self._held.get(key)
            if held is None:
                held = self._held[key] = Held(Image(self._dimensions))
            else:
                self._held.move_to_end(key)
            return held

    def _bring_up_to_date(self, key: ImageKey, held: Held) -> bool:
        """Load the image or bring it up to date; False if it was dropped while this thread waited for its turn."""
        if self._held.get(key) is not held:
            return False
        if held.loaded:
            self._catch_up(key, held)
        else:
            self._load(key, held)
            self._make_room(key)
        return True

    def _follow(self) -> None:
        if not self._held:  # nothing has to be told of what was written before
            self._position = self._records.head()
            return
        while True:
            feed = self._records.feed(self._position, limit=_FEED_PAGE)
            for line in feed.lines:
                self._note(line)
            moved, self._position = feed.position != self._position, feed.position
            if not moved or len(feed.lines) < _FEED_PAGE:
                return

    def _note(self, line: Outbox) -> None:
        if line.entity == "memories":
            for user in (line.user_id, None):
                held = self._held.get(ImageKey(line.organization_id, user))
                if held is not None:
                    held.pending.add(line.entity_id)
            return
        for key in [key for key in self._held if key.organization == line.organization_id]:
            del self._held[key]

    def _load(self, key: ImageKey, held: Held) -> None:
        expected = self._records.count(Memory, key.organization, _rows_of(key))
        image = Image(self._dimensions)
        image.load(self._blocks(key), expected)
        image.link(self._read_related(key.organization, dict.fromkeys(image.owners)))
        held.image = image
        held.loaded = True
        if expected > _MANY:
            _give_back_memory()

    def _blocks(self, key: ImageKey) -> Iterator[list[Entry]]:
        rows = self._records.columns(Memory, key.organization, MEMORY_COLUMNS, _rows_of(key))
        while block := {row[0]: row for row in islice(rows, _BATCH)}:
            yield list(entries(self._records, key.organization, block, self.model))

    def _catch_up(self, key: ImageKey, held: Held) -> None:
        if not held.pending:
            return
        held.loaded = False  # before the pending ids are taken: an interrupt from here on must not lose them
        with self._lock:
            changed, held.pending = list(held.pending), set()
        try:
            entries = list(self._read_changed(key, changed))
            related = self._read_related(key.organization, changed)
        except EverholdError:  # the image has not been changed yet
            with self._lock:
                held.pending.update(changed)
            held.loaded = True
            raise
        held.image.replace(changed, entries)
        held.image.link(related)
        held.loaded = True

    def _read_related(self, organization: str, changed: Iterable[str]) -> dict[str, set[str]]:
        """Return the ids of the memories that are related to each of these."""
        if not self._records.scan(Relationship, organization, limit=1):
            return {}
        ids = list(changed)
        related: dict[str, set[str]] = {memory_id: set() for memory_id in ids}
        for column, other in (("source_memory_id", "target_memory_id"), ("target_memory_id", "source_memory_id")):
            for start in range(0, len(ids), _BATCH):
                where = [Where(column, Op.IN, ids[start : start + _BATCH])]
                names = (column, other, "relationship_type")
                for memory_id, other_id, kind in self._records.columns(Relationship, organization, names, where):
                    if kind not in _NOT_FOLLOWED:
                        related[memory_id].add(other_id)
        return related

    def _read_changed(self, key: ImageKey, changed: list[str]) -> Iterator[Entry]:
        """Yield the entries of changed memories. Those that do not belong in the image are left out."""
        memories: dict[str, tuple[Any, ...]] = {}
        for start in range(0, len(changed), _BATCH):
            where = [Where("id", Op.IN, changed[start : start + _BATCH]), *_rows_of(key)]
            for row in self._records.columns(Memory, key.organization, MEMORY_COLUMNS, where):
                memories[row[0]] = row
        yield from entries(self._records, key.organization, memories, self.model)

    def _make_room(self, kept: ImageKey) -> None:
        """Drops the images used longest ago until the budget is kept; the one just asked for stays."""
        with self._lock:
            for key in list(self._held):
                if self.size_in_bytes <= self._budget:
                    return
                if key != kept:
                    del self._held[key]


def _give_back_memory() -> None:
    """Returns to the system what loading took besides the image, where the C library can do that."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _rows_of(key: ImageKey) -> list[Where]:
    return [] if key.user is None else [Where("user_id", Op.EQ, key.user or None)]


def entries(records: Records, organization: str, memories: dict[str, tuple[Any, ...]], model: str) -> Iterator[Entry]:
    """The chunks of these memories by this model, each with its memory's columns."""
    ids: Sequence[str] = list(memories)
    for start in range(0, len(ids), _BATCH):
        where = [
            Where("owner_id", Op.IN, ids[start : start + _BATCH]),
            Where("owner_kind", Op.EQ, "memory"),
            Where("namespace", Op.EQ, NAMESPACE),
            Where("model", Op.EQ, model),
        ]
        for chunk in records.columns(Chunk, organization, CHUNK_COLUMNS, where):
            yield Entry(chunk, memories[chunk[0]])
