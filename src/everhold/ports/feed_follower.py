"""Read the change feed page by page, for everything that is derived from the records."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from everhold import clock
from everhold.ports.feed_start import read_feed_start
from everhold.ports.records import Records

if TYPE_CHECKING:
    from everhold.model.change_feed import Outbox

PAGE = 1000
# The feed is kept for a week. A follower that has not read it for longer than this may have missed lines.
MAX_ABSENCE = timedelta(days=6)

# A follower checks at this interval whether the store was replaced by a restored store.
_CHECK_SECONDS = 1.0
_NO_NUMBERS: frozenset[int] = frozenset()


logger = logging.getLogger(__name__)


class FeedPage(NamedTuple):
    """New lines of the feed, the position after them, and whether there may be more.

    `delivered` are the sequence numbers of all lines that the store returned, including those left out of `lines`.
    """

    lines: "list[Outbox]"
    delivered: frozenset[int]
    position: int
    has_more: bool


class FeedFollower:
    """Reads the change feed from a position on, page by page, without skipping a line.

    The position moves only after a page has been applied, so a failure repeats lines but loses none. A store whose
    sequence numbers become visible out of order delivers some lines twice; lines already applied are left out.
    """

    def __init__(self, records: Records, position: int | None = None) -> None:
        self._records = records
        self._last_epoch, self._next_check = 0, 0.0
        self._epoch = self._read_epoch()
        self._may_repeat = not records.traits.ordered
        self._applied = _NO_NUMBERS
        self._read_at = clock.now()
        self.position = records.head() if position is None else position

    @property
    def has_lost_place(self) -> bool:
        """Whether the caller must begin again from the current rows, because lines of the feed may be missing.

        Unread lines may have been deleted because the feed was last read long ago, or another store was restored in
        the place of this one.
        """
        return clock.now() - self._read_at > MAX_ABSENCE or self._read_epoch() != self._epoch

    def _read_epoch(self) -> int:
        """Return the epoch of the store's feed. It is read at most once a second, so that recalls stay fast."""
        if time.monotonic() >= self._next_check:
            self._last_epoch = read_feed_start(self._records).epoch
            self._next_check = time.monotonic() + _CHECK_SECONDS
        return self._last_epoch

    def jump(self, position: int | None = None) -> None:
        """Continue from another position, by default from the end of the feed."""
        self._epoch = self._read_epoch()
        self.position = self._records.head() if position is None else position
        self._applied = _NO_NUMBERS
        self._read_at = clock.now()

    def read(self, limit: int = PAGE) -> FeedPage:
        """Return the next page. The position does not move until `advance` is called."""
        feed = self._records.feed(self.position, limit=limit)
        self._read_at = clock.now()
        has_more = len(feed.lines) >= limit and feed.position != self.position
        delivered = frozenset([line.sequence for line in feed.lines]) if self._may_repeat else _NO_NUMBERS
        lines = [line for line in feed.lines if line.sequence not in self._applied] if self._applied else feed.lines
        return FeedPage(lines, delivered, feed.position, has_more)

    def advance(self, page: FeedPage) -> None:
        """Move the position past a page that has been applied."""
        self.position, self._applied = page.position, page.delivered

    def follow(self, apply: "Callable[[list[Outbox]], None]") -> None:
        """Call `apply` with all new lines, page by page."""
        pages = 0
        while True:
            page = self.read()
            if page.lines:
                apply(page.lines)
            self.advance(page)
            pages += 1
            if not page.has_more:
                break
        if pages > 1:  # many lines were written since the last call
            logger.info("caught up with %d pages of the change feed", pages)
