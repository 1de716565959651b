"""The vectors of one place, always in step with the records: a mapped file, and over it what has changed since.

Every question first reads what the feed has new. A line about an owner of the place's kind replaces that owner's rows,
a line about another kind changes nothing; a line about anything above them (a user, a session) rebuilds, which is rare
and always right. What is slow goes on in a thread
while the file and the changes answer: making a graph of a place grown large, and writing many changes to the file.
"""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from everhold.adapters.usearch.base import EXACT, GRAPH, Base, BuildStopped, Shape, build, extend
from everhold.adapters.usearch.files import IndexFiles, Position
from everhold.adapters.usearch.recent import Found, Recent
from everhold.adapters.usearch.rows import IndexSpace, read_all_rows, read_rows
from everhold.background import BackgroundThread
from everhold.interrupts import GuardedEvent, uninterrupted
from everhold.model.announcement import affects_descendants
from everhold.model.housekeeping import Outbox
from everhold.ports.embedder import Vector
from everhold.ports.feed_follower import FeedFollower
from everhold.ports.records import Records

_RECENT_LEAST = 2_000
_RECENT_SHARE = 0.1
_RECENT_MOST = 20_000
_GONE_SHARE = 0.25


class _ChangedAbove(Exception):
    """The feed names something that chunks of many owners belong to. Never leaves this module."""


logger = logging.getLogger(__name__)


class PlaceIndex:
    """Nearest vectors in one place."""

    def __init__(self, records: Records, index_space: IndexSpace, files: IndexFiles, exact_up_to: int) -> None:
        self._records = records
        self._space = index_space
        self._files = files
        self._exact_up_to = exact_up_to
        self._turn = threading.Lock()
        self._stop = GuardedEvent()
        self._next_shape = EXACT
        self._thread: BackgroundThread | None = None
        self._base: Base | None = None
        self._follower: FeedFollower | None = None
        self._recent = Recent(index_space.dimensions)

    def find_nearest(self, vector: Vector, limit: int) -> list[Found]:
        """Return the nearest chunks as of now, best first."""
        with self._turn:
            self._get_in_step()
            found = self._recent.find_nearest(vector, limit)
            if self._base is not None and self._base.size:
                found += self._base.find_nearest(vector, limit, self._recent.changed)
            self._improve()
        return sorted(found, key=lambda one: (-one.score, one.owner_id))[:limit]

    @property
    def exact(self) -> bool:
        return self._base is None or self._base.shape.exact

    @property
    def failure(self) -> Exception | None:
        """The error of the latest rebuild, or None."""
        return None if self._thread is None else self._thread.failure

    def settle(self) -> None:
        """Waits until nothing goes on in the background."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        self._stop.set()
        self.settle()

    # following

    def _get_in_step(self) -> None:
        if self._follower is None:
            saved = self._files.open()
            if saved is not None and self._leads_on(saved[1]):
                self._take(*saved)
        if self._follower is None or self._follower.was_absent or not self._follow():
            self._rebuild()

    def _rebuild(self) -> None:
        """Build the index again from the records. It is searched exactly until a graph is ready."""
        started = time.monotonic()
        position = self._here()
        base = build(EXACT, self._space.dimensions, read_all_rows(self._records, self._space), lambda: False)
        self._take(self._files.save(base, position) if base.size else base, position)
        self._follow()
        logger.info("built the vector index of %d chunks again in %.3f s", base.size, time.monotonic() - started)

    def _take(self, base: Base, position: Position) -> None:
        self._base, self._recent = base, Recent(self._space.dimensions)
        self._follower = FeedFollower(self._records, position.sequence)

    def _here(self) -> Position:
        return self._position_at(self._records.head())

    def _position_at(self, sequence: int) -> Position:
        line = self._line(sequence)
        return Position(sequence, line.entity_id if line else None)

    def _line(self, sequence: int) -> Outbox | None:
        lines = self._records.feed(sequence - 1, limit=1).lines if sequence else []
        return lines[0] if lines and lines[0].sequence == sequence else None

    def _leads_on(self, position: Position) -> bool:
        """Return whether the feed leads on from a position: it is this store's, and nothing after it was trimmed."""
        line = self._line(position.sequence)
        return line is not None and line.entity_id == position.entity_id

    def _follow(self) -> bool:
        """Apply what is new; return False if the index must be built again instead."""
        assert self._follower is not None
        try:
            self._follower.follow(self._apply)
        except _ChangedAbove:
            return False
        return True

    def _apply(self, lines: Sequence[Outbox]) -> None:
        organization_id, table = self._space.space.organization_id, self._space.space.owner.table
        mine = [line for line in lines if line.organization_id == organization_id]
        if any(map(affects_descendants, mine)):
            raise _ChangedAbove
        changed = {line.entity_id for line in mine if line.entity == table}
        if changed:
            rows = list(read_rows(self._records, self._space, changed))
            with uninterrupted:  # half a replacement would assign rows to the wrong owners
                self._recent.replace(changed, rows)

    # improving

    def _improve(self) -> None:
        """Start building a better index in the background, unless one is being built."""
        if self._base is None or self._stop.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        shape = EXACT if self._base.size <= self._exact_up_to else GRAPH
        room = min(_RECENT_MOST, max(_RECENT_LEAST, int(_RECENT_SHARE * self._base.size)))
        if shape == self._base.shape and len(self._recent.changed) <= room:
            return
        self._next_shape = shape
        self._thread = BackgroundThread("everhold-usearch", self._run, self._stop)
        self._thread.start()

    def _run(self) -> None:
        # an error loses nothing: the current index keeps answering, and the next query starts another thread
        if self._thread is not None:
            self._thread.attempt(self._build_next)

    def _build_next(self) -> None:
        shape = self._next_shape
        with suppress(BuildStopped):
            extended = self._extend_saved(shape)
            base, position = extended if extended is not None else self._build_all(shape)
            saved = self._files.save(base, position)
            with self._turn:
                self._take(saved, position)

    def _build_all(self, shape: Shape) -> tuple[Base, Position]:
        position = self._here()
        rows = read_all_rows(self._records, self._space)
        return build(shape, self._space.dimensions, rows, self._stop.is_set), position

    def _extend_saved(self, shape: Shape) -> tuple[Base, Position] | None:
        """Return the saved index with the changes added; None if building it again is better."""
        with self._turn:
            base, follower = self._base, self._follower
            gone, rows = set(self._recent.changed), self._recent.rows()
            position = None if follower is None else self._position_at(follower.position)
        if base is None or position is None or base.shape != shape:
            return None
        index = self._files.load_for_change(base)
        if index is None:
            return None
        longer = extend(index, base, self._space.dimensions, gone, rows, self._stop.is_set)
        deleted = sum(1 for owner_id in longer.owners.list_ids() if not owner_id)
        return (longer, position) if deleted <= _GONE_SHARE * longer.size else None
