"""The vectors of one place, always in step with the records: a mapped file, and over it what has changed since.

Every question first reads what the feed has new. A line about a memory replaces that memory's rows; a line about
anything above memories (a user, a session) rebuilds, which is rare and always right. What is slow goes on in a thread
while the file and the changes answer: making a graph of a place grown large, and writing many changes to the file.
"""

import threading
from contextlib import suppress

from everhold.adapters.usearch.base import EXACT, GRAPH, Base, Interrupted, Shape, build, extend
from everhold.adapters.usearch.files import IndexFiles, Position
from everhold.adapters.usearch.recent import Found, Recent
from everhold.adapters.usearch.rows import Place, all_rows, rows_of
from everhold.background import BackgroundThread
from everhold.interrupts import uninterrupted
from everhold.model.housekeeping import Outbox
from everhold.ports.embedder import Vector
from everhold.ports.records import Records

_FEED_PAGE = 1000
_RECENT_LEAST = 2_000
_RECENT_SHARE = 0.1
_RECENT_MOST = 20_000
_GONE_SHARE = 0.25


class PlaceIndex:
    """Nearest vectors in one place."""

    def __init__(self, records: Records, place: Place, files: IndexFiles, exact_up_to: int) -> None:
        self._records = records
        self._place = place
        self._files = files
        self._exact_up_to = exact_up_to
        self._turn = threading.Lock()
        self._stop = threading.Event()
        self._next_shape = EXACT
        self._thread: BackgroundThread | None = None
        self._base: Base | None = None
        self._position: Position | None = None
        self._recent = Recent(place.dimensions)

    def nearest(self, vector: Vector, limit: int) -> list[Found]:
        """The nearest chunks as of now, best first."""
        with self._turn:
            self._get_in_step()
            found = self._recent.nearest(vector, limit)
            if self._base is not None and self._base.size:
                found += self._base.nearest(vector, limit, self._recent.changed)
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
        with uninterrupted:
            self._stop.set()
        self.settle()

    # following

    def _get_in_step(self) -> None:
        if self._position is None:
            saved = self._files.open()
            if saved is not None and self._stands(saved[1]):
                self._base, self._position = saved
            else:
                self._rebuild()
        if not self._follow():
            self._rebuild()

    def _rebuild(self) -> None:
        """Everything anew from the records, searched exactly until a graph is ready."""
        position = self._here()
        base = build(EXACT, self._place.dimensions, all_rows(self._records, self._place), lambda: False)
        self._take(self._files.save(base, position) if base.size else base, position)
        self._follow()

    def _take(self, base: Base, position: Position) -> None:
        self._base, self._position, self._recent = base, position, Recent(self._place.dimensions)

    def _here(self) -> Position:
        sequence = self._records.head()
        line = self._line(sequence)
        return Position(sequence, line.entity_id if line else None)

    def _line(self, sequence: int) -> Outbox | None:
        lines = self._records.feed(sequence - 1, limit=1).lines if sequence else []
        return lines[0] if lines and lines[0].sequence == sequence else None

    def _stands(self, position: Position) -> bool:
        """Whether the feed still leads on from a position: it is this store's, and nothing after it was trimmed."""
        line = self._line(position.sequence)
        return line is not None and line.entity_id == position.entity_id

    def _follow(self) -> bool:
        """Takes in what is new; False if that cannot be known or is more than memories."""
        at, changed = self._position or Position(0, None), set[str]()
        while True:
            feed = self._records.feed(at.sequence, limit=_FEED_PAGE)
            if feed.lines and feed.lines[0].sequence > at.sequence + 1 and at.sequence and not self._stands(at):
                return False
            mine = [line for line in feed.lines if line.organization_id == self._place.organization_id]
            if any(line.entity != "memories" for line in mine):
                return False
            changed.update(line.entity_id for line in mine)
            moved = feed.position != at.sequence
            if moved:
                at = Position(feed.position, feed.lines[-1].entity_id if feed.lines else at.entity_id)
            if not moved or len(feed.lines) < _FEED_PAGE:
                break
        if changed:
            rows = list(rows_of(self._records, self._place, changed))
            with uninterrupted:  # half a replacement would assign rows to the wrong memories
                self._recent.replace(changed, rows)
        self._position = at
        return True

    # improving

    def _improve(self) -> None:
        """Starts what would make the next questions quicker, unless something goes on already."""
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
        with suppress(Interrupted):
            extended = self._extended(shape)
            base, position = extended if extended is not None else self._built(shape)
            saved = self._files.save(base, position)
            with self._turn:
                self._take(saved, position)

    def _built(self, shape: Shape) -> tuple[Base, Position]:
        position = self._here()
        rows = all_rows(self._records, self._place)
        return build(shape, self._place.dimensions, rows, self._stop.is_set), position

    def _extended(self, shape: Shape) -> tuple[Base, Position] | None:
        """The saved index with the changes added to it; None if it is better built anew."""
        with self._turn:
            base, position = self._base, self._position
            gone, rows = set(self._recent.changed), self._recent.rows()
        if base is None or position is None or base.shape != shape:
            return None
        index = self._files.loaded(base)
        if index is None:
            return None
        longer = extend(index, base, self._place.dimensions, gone, rows, self._stop.is_set)
        nobodys = sum(1 for one in longer.owners.all() if not one)
        return (longer, position) if nobodys <= _GONE_SHARE * longer.size else None
