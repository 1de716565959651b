"""The vectors of one search space, always up to date: a mapped index file, and the changes since it was written.

Every query first reads the new lines of the change feed. The owner of a row is the record that it
was made from, such as a memory. A line about an owner of the kind that the space has replaces that owner's rows; a line
about another kind changes nothing; a line about a user, a session or another ancestor of owners rebuilds the index,
which is rare. Slow work runs in a background thread while the file and the changes answer:
building a graph for a large space, and writing many changes to the file.
"""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from everhold.adapters.usearch.base import EXACT, GRAPH, Base, BuildStopped, Shape, build, extend
from everhold.adapters.usearch.files import IndexFiles, Position
from everhold.adapters.usearch.recent import NearChunk, Recent
from everhold.adapters.usearch.rows import IndexSpace, read_all_rows, read_rows
from everhold.background import BackgroundThread
from everhold.interrupts import GuardedEvent, uninterrupted
from everhold.model.announcement import affects_descendants
from everhold.model.change_feed import Outbox
from everhold.ports.embedder import Vector
from everhold.ports.feed_follower import FeedFollower
from everhold.ports.records import Records

# Changes are written to the file when they exceed this share of the index, within these bounds.
_RECENT_SHARE = 0.1
_MIN_RECENT = 2_000
_MAX_RECENT = 20_000
# An index with more deleted rows than this share is rebuilt.
_MAX_DELETED_SHARE = 0.25


class _AncestorChanged(Exception):
    """A line of the feed is about an ancestor of many owners. It is always caught in this module."""


logger = logging.getLogger(__name__)


class SpaceIndex:
    """Finds the nearest vectors of one search space."""

    def __init__(self, records: Records, index_space: IndexSpace, files: IndexFiles, exact_up_to: int) -> None:
        self._records = records
        self._index_space = index_space
        self._files = files
        self._exact_up_to = exact_up_to
        self._lock = threading.Lock()
        self._stop = GuardedEvent()
        self._next_shape = EXACT
        self._thread: BackgroundThread | None = None
        self._base: Base | None = None
        self._follower: FeedFollower | None = None
        self._recent = Recent(index_space.dimensions)

    def find_nearest(self, vector: Vector, limit: int) -> list[NearChunk]:
        """Return the nearest chunks as of now, best first."""
        with self._lock:
            self._bring_up_to_date()
            nearest = self._recent.find_nearest(vector, limit)
            if self._base is not None and self._base.size:
                nearest += self._base.find_nearest(vector, limit, self._recent.changed)
            self._improve()
        return sorted(nearest, key=lambda chunk: (-chunk.score, chunk.owner_id))[:limit]

    @property
    def exact(self) -> bool:
        return self._base is None or self._base.shape.is_exact

    @property
    def failure(self) -> Exception | None:
        """The error of the latest rebuild, or None."""
        return None if self._thread is None else self._thread.failure

    def settle(self) -> None:
        """Wait until no work is running in the background."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        self._stop.set()
        self.settle()

    # the change feed

    def _bring_up_to_date(self) -> None:
        if self._follower is None:
            base, position = self._files.open() or (None, None)
            if base is not None and position is not None and self._continues_from(position):
                self._use(base, position)
        if self._follower is None or self._follower.has_lost_place or not self._follow():
            self._rebuild()

    def _rebuild(self) -> None:
        """Build the index again from the records. It is searched exactly until a graph is ready."""
        started = time.monotonic()
        position = self._read_position()
        base = build(
            EXACT, self._index_space.dimensions, read_all_rows(self._records, self._index_space), lambda: False
        )
        self._use(self._files.save(base, position) if base.size else base, position)
        self._follow()
        logger.info("built the vector index of %d chunks again in %.3f s", base.size, time.monotonic() - started)

    def _use(self, base: Base, position: Position) -> None:
        self._base, self._recent = base, Recent(self._index_space.dimensions)
        self._follower = FeedFollower(self._records, position.sequence)

    def _read_position(self) -> Position:
        return self._find_position(self._records.head())

    def _find_position(self, sequence: int) -> Position:
        line = self._read_line(sequence)
        return Position(sequence, line.entity_id if line else None)

    def _read_line(self, sequence: int) -> Outbox | None:
        lines = self._records.feed(sequence - 1, limit=1).lines if sequence else []
        return lines[0] if lines and lines[0].sequence == sequence else None

    def _continues_from(self, position: Position) -> bool:
        """Return whether the feed still has the line at this position: only then does it have all later lines, too."""
        line = self._read_line(position.sequence)
        return line is not None and line.entity_id == position.entity_id

    def _follow(self) -> bool:
        """Apply new lines of the feed; return False if the index must be rebuilt instead."""
        assert self._follower is not None
        try:
            self._follower.follow(self._apply)
        except _AncestorChanged:
            return False
        return True

    def _apply(self, lines: Sequence[Outbox]) -> None:
        organization_id, table = self._index_space.space.organization_id, self._index_space.space.owner.table
        own_lines = [line for line in lines if line.organization_id == organization_id]
        if any(map(affects_descendants, own_lines)):
            raise _AncestorChanged
        changed = {line.entity_id for line in own_lines if line.entity == table}
        if changed:
            rows = list(read_rows(self._records, self._index_space, changed))
            with uninterrupted:  # an interrupted replacement would assign rows to the wrong owners
                self._recent.replace(changed, rows)

    # background work

    def _improve(self) -> None:
        """Start building a better index in the background, unless one is being built."""
        if self._base is None or self._stop.is_set() or (self._thread is not None and self._thread.is_alive()):
            return
        shape = EXACT if self._base.size <= self._exact_up_to else GRAPH
        max_recent = min(_MAX_RECENT, max(_MIN_RECENT, int(_RECENT_SHARE * self._base.size)))
        if shape == self._base.shape and len(self._recent.changed) <= max_recent:
            return
        self._next_shape = shape
        self._thread = BackgroundThread("everhold-usearch", self._run, self._stop)
        self._thread.start()

    def _run(self) -> None:
        # An error loses nothing: the current index keeps answering, and the next query starts another thread.
        if self._thread is not None:
            self._thread.attempt(self._build_next)

    def _build_next(self) -> None:
        shape = self._next_shape
        with suppress(BuildStopped):
            extended = self._extend_saved(shape)
            base, position = extended if extended is not None else self._build_all(shape)
            saved = self._files.save(base, position)
            with self._lock:
                self._use(saved, position)

    def _build_all(self, shape: Shape) -> tuple[Base, Position]:
        position = self._read_position()
        rows = read_all_rows(self._records, self._index_space)
        return build(shape, self._index_space.dimensions, rows, self._stop.is_set), position

    def _extend_saved(self, shape: Shape) -> tuple[Base, Position] | None:
        """Return the saved index with the changes added; None if building it again is better."""
        with self._lock:
            base, follower = self._base, self._follower
            changed, rows = set(self._recent.changed), self._recent.list_rows()
            position = None if follower is None else self._find_position(follower.position)
        if base is None or position is None or base.shape != shape:
            return None
        index = self._files.load_for_change(base)
        if index is None:
            return None
        extended = extend(index, base, self._index_space.dimensions, changed, rows, self._stop.is_set)
        # A deleted row has an empty owner id.
        deleted = sum(1 for owner_id in extended.owners.list_ids() if not owner_id)
        return (extended, position) if deleted <= _MAX_DELETED_SHARE * extended.size else None
