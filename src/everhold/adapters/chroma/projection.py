"""One collection that follows the change feed, and its generations.

The process with the lease applies the lines of the feed in order. For each line it writes the current state of the
memory from the records, so applying a line twice is harmless. Then it moves the watermark. Chroma answers a query only
if it has applied everything that was committed before, and only with chunks that the records confirm.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

from everhold import clock
from everhold.adapters.chroma.connection import ChromaProcess
from everhold.adapters.chroma.content import Content
from everhold.adapters.chroma.failures import (
    CannotAnswer,
    ConnectionBroken,
    Damaged,
    NotReady,
    ServerRestarted,
    Unavailable,
)
from everhold.adapters.chroma.rows import CollectionSpace, confirm_chunks
from everhold.adapters.chroma.search import ChromaQuery, Match, make_conditions
from everhold.adapters.chroma.state import State
from everhold.errors import EverholdError
from everhold.interrupts import uninterrupted
from everhold.model import ProjectionState
from everhold.ports.feed_follower import MAX_ABSENCE, PAGE, FeedFollower, FeedPage
from everhold.ports.records import Records

_MAX_INLINE_LINES = 500  # lines of the feed that a query applies itself; with more, the store answers
_WAIT_SECONDS = 1.0  # how long a query waits for the collection's lock
_MAX_WIDENING = 4  # a search asks for at most this many times `n_results`
_MAX_CRASHES = 3  # after this many, the collection counts as damaged
_CHECK_INTERVAL = timedelta(seconds=30)
# A check that takes long is followed by a pause of this many times its duration.
_CHECK_PAUSE_FACTOR = 50


logger = logging.getLogger(__name__)


class Projection:
    """The chunks of one collection space in Chroma. `attached` is the generation that answers queries, or None.

    Every call to the serving collection, queries included, holds `_content_lock`, which guards the collection's
    content, the watermark and `_follower`. Opening, checking and building hold `_maintenance_lock`, which guards
    `_damaged_generation` and `_check_at`. `_maintenance_lock` is taken before `_content_lock`. No lock guards
    `attached`, `failure` and `_crashes`: each is a single assignment, and a query that loses a race is answered by the
    store, or a crash is not counted.
    """

    def __init__(
        self,
        records: Records,
        chroma: ChromaProcess,
        space: CollectionSpace,
        *,
        prefix: str,
        batch: int,
        lease_seconds: float,
        is_stopped: Callable[[], bool],
        is_main: bool = False,
    ) -> None:
        self._records, self._chroma, self._space, self._is_stopped = records, chroma, space, is_stopped
        # A collection with a fixed name is built again in its place. The store answers until it is complete.
        self._is_in_place = is_main
        self.collection = str(chroma.address.main_collection) if is_main else space.make_collection_name(prefix)
        self.state = State(records, f"{chroma.address.digest}/{self.collection}", lease_seconds)
        self._content = Content(records, chroma, space, batch, self._require_lease)
        self.attached: int | None = None
        self.failure: str | None = None
        self._content_lock = threading.Lock()
        self._maintenance_lock = threading.RLock()
        self._follower = FeedFollower(records)
        self._crashes = 0
        self._damaged_generation: int | None = None
        self._check_at = clock.EPOCH

    def name(self, generation: int) -> str:
        return self.collection if self._is_in_place else f"{self.collection}-{generation}"

    # queries

    def matches(self, query: ChromaQuery) -> list[Match]:
        """Return the nearest chunks that the records confirm, best first. Raise CannotAnswer if Chroma cannot."""
        if query.users is not None and not query.users:
            return []
        generation = self._catch_up_for_query()
        try:
            return self._search(self.name(generation), query)
        except (Unavailable, Damaged, ServerRestarted) as error:
            self._detach(generation, error)
            raise

    def _search(self, name: str, query: ChromaQuery) -> list[Match]:
        """Return the matches that the records confirm. Search for more until enough are confirmed."""
        where = make_conditions(query.organization_id, query.users, query.where)
        limit, has_rewritten = query.n_results, False
        while True:
            matches: list[Match] = self._chroma.ask("nearest", name, query.vector, limit, where, query.where_document)
            confirmed_vectors = confirm_chunks(
                self._records, self._space, query.organization_id, query.users, (match.id for match in matches)
            )
            lost_owners = self._content.check_matches(query, limit, matches, confirmed_vectors)
            if lost_owners:
                if has_rewritten:
                    raise NotReady(f"Chroma does not find {len(lost_owners)} records")
                self._rewrite(name, query.organization_id, lost_owners)
                has_rewritten = True
                continue
            confirmed_matches = [match for match in matches if match.id in confirmed_vectors]
            has_all = len(matches) < limit or limit >= _MAX_WIDENING * query.n_results
            if len(confirmed_matches) >= query.n_results or has_all:
                return confirmed_matches[: query.n_results]
            limit *= 2

    def _rewrite(self, name: str, organization_id: str, owner_ids: Sequence[str]) -> None:
        """Write the entries of these owners again. Raise NotReady if another process or thread has to do it."""
        with uninterrupted:
            if not self.state.has_lease or not self._content_lock.acquire(timeout=_WAIT_SECONDS):
                raise NotReady(f"Chroma does not find {len(owner_ids)} records yet")
            try:
                self._content.rewrite(name, organization_id, owner_ids)
            finally:
                self._content_lock.release()

    def _catch_up_for_query(self) -> int:
        """Return the serving generation after applying everything that was committed before this call."""
        with uninterrupted:
            return self._catch_up_locked()

    def _catch_up_locked(self) -> int:
        generation = self.attached
        if generation is None or not self._content_lock.acquire(timeout=_WAIT_SECONDS):
            raise NotReady("Chroma is being opened or built")
        try:
            serving = self.state.get_serving()
            if serving is None or serving.generation != generation:
                self.attached = None
                raise NotReady("another generation serves")
            self._apply_inline(generation, serving.applied_sequence)
        except (Unavailable, Damaged, ServerRestarted) as error:
            self._detach(generation, error)
            raise
        finally:
            self._content_lock.release()
        return generation

    def _apply_inline(self, generation: int, position: int) -> None:
        """Apply the feed from a position. Raise NotReady if it has too many lines, or if another process applies it."""
        applied, has_more = 0, True
        while has_more:
            page = self._read_from(position, _MAX_INLINE_LINES + 1)
            applied, has_more = applied + len(page.lines), page.has_more
            if applied > _MAX_INLINE_LINES or (page.lines and not self.state.has_lease):
                raise NotReady("Chroma has not applied the whole change feed yet")
            if page.lines or has_more:
                self._apply(generation, position, page)
            position = page.position

    def _detach(self, generation: int, error: CannotAnswer) -> None:
        self.failure = str(error)
        if isinstance(error, ConnectionBroken):
            self._crashes += 1
        if self.attached == generation:
            self.attached = None
            logger.warning(
                "collection %s is not used (%s); the store answers", self.name(generation), type(error).__name__
            )

    # following

    def _read_from(self, position: int, limit: int) -> FeedPage:
        """Return the page after the watermark. If another process moved it, lines may be applied again."""
        if self._follower.position != position:
            self._follower.jump(position)
        return self._follower.read(limit)

    def _apply(self, generation: int, position: int, page: FeedPage) -> None:
        self._content.apply(self.name(generation), page.lines)
        if page.position != position:
            self.state.move(page.position)
        self._follower.advance(page)

    def follow(self) -> None:
        """Apply all new lines of the feed."""
        while True:
            with self._content_lock:
                serving = self.state.get_serving()
                if serving is None:
                    return
                page = self._read_from(serving.applied_sequence, PAGE)
                if page.lines or page.has_more:
                    self._apply(serving.generation, serving.applied_sequence, page)
            if not page.has_more:
                self.state.note_end_reached()
                return

    @property
    def lag(self) -> int:
        """The number of lines of the feed that are not applied yet, up to one page."""
        serving = self.state.get_serving()
        if serving is None:
            return 0
        is_current = self._follower.position == serving.applied_sequence
        follower = self._follower if is_current else FeedFollower(self._records, serving.applied_sequence)
        return len(follower.read(PAGE).lines)

    # maintenance

    def advance(self) -> None:
        """Open the collection, check it if it is due, apply the feed, and rebuild the collection if it is damaged."""
        with self._maintenance_lock, self._release_if_unreachable():
            has_lease, serving = self.state.take(), self.state.get_serving()
            try:
                self._attach(serving, has_lease=has_lease)
                if has_lease:
                    self.follow()
            except ConnectionBroken:
                self._crashes += 1
                raise
            except Damaged as error:
                self._damaged_generation = serving.generation if serving is not None else None
                self.attached, self.failure = None, str(error)
                if not has_lease:
                    raise
                logger.info("building a collection again, because it is damaged")
                self.build()
            if has_lease:
                self._drop_retired()
            self.failure = None

    @contextmanager
    def _release_if_unreachable(self) -> Iterator[None]:
        """Release the lease if Chroma cannot be reached: the process that has the folder open can then take it."""
        try:
            yield
        except ConnectionBroken:
            raise
        except Unavailable:
            with suppress(EverholdError):
                self.state.release()
            raise

    def _attach(self, serving: ProjectionState | None, *, has_lease: bool) -> None:
        """Prepare the serving collection for queries: open it, continue from its position in the feed, and check it.

        Without the lease, leave the check to the process that has it. Raise Damaged if the collection must be built
        again.
        """
        if serving is None or not serving.generation:
            raise Damaged("nothing has been built yet")
        if serving.generation == self._damaged_generation:
            raise Damaged(self.failure or "the collection is damaged")
        is_attached = self.attached == serving.generation
        if is_attached and (not has_lease or clock.now() < self._check_at):
            return
        name, started = self.name(serving.generation), clock.now()
        if has_lease and self._crashes >= _MAX_CRASHES:
            self._crashes = 0
            raise Damaged("Chroma crashes repeatedly when it is searched")
        with suppress(ServerRestarted):
            self._chroma.ask("count", name)
        if not is_attached:
            with self._content_lock:
                self._follower.jump(serving.applied_sequence)
        if has_lease:
            if self.state.may_have_missed_lines(serving):
                self._compare(name)
            self._content.verify(name, self.follow, lambda: self._compare(name))
            with self._content_lock:
                self._content.rewrite_unreachable(name)
        if is_attached:
            self._crashes = 0
        else:
            logger.info("collection %s is used", name)
        now = clock.now()
        self._check_at = now + max(_CHECK_INTERVAL, _CHECK_PAUSE_FACTOR * (now - started))
        self.attached = serving.generation

    def _compare(self, name: str) -> None:
        """Compare the serving collection with the records. The lock keeps other writers out of the collection."""
        with self._content_lock:
            self._content.compare_all(name)

    # building

    def build(self) -> None:
        """Build a new generation from the records, make it the serving one, and drop the previous one."""
        with self._maintenance_lock, self._release_if_unreachable():
            if not self.state.take():
                raise NotReady("another process feeds Chroma")
            building = self._begin_generation()
            name = self.name(building.generation)
            try:
                self._content.fill(name)
                position = self._catch_up_from(name, building.applied_sequence)
                self._content.verify(
                    name, lambda: self._catch_up_from(name, position), lambda: self._content.compare_all(name)
                )
            except Damaged:
                self.state.abandon()
                raise
            with self._content_lock:
                self.state.swap(building, position)
                self._follower.jump(position)
                self.attached, self._check_at = building.generation, clock.now() + _CHECK_INTERVAL
            logger.info("built collection %s", name)
            self.follow()
            self._drop_retired()

    def _begin_generation(self) -> ProjectionState:
        """Return the interrupted generation if building it can continue, or a new one."""
        building = self.state.get_building()
        if building is not None and clock.now() - clock.from_micros(building.generation) < MAX_ABSENCE:
            with suppress(Damaged):
                self._chroma.ask("count", self.name(building.generation))
                return building
        generation = clock.micros(clock.now())
        self.state.begin(generation, self._records.head(), in_place=self._is_in_place)
        self._chroma.ask("create", self.name(generation))
        started = self.state.get_building()
        if started is None:
            raise NotReady("another process has taken over feeding Chroma")
        return started

    def _catch_up_from(self, name: str, position: int) -> int:
        """Apply the feed from a position to the generation being built, and return the new position."""
        follower = FeedFollower(self._records, position)
        follower.follow(lambda lines: self._content.apply(name, lines))
        return follower.position

    def _drop_retired(self) -> None:
        for generation in self.state.list_retired():
            with suppress(CannotAnswer):  # dropping is tried again in the next round
                if not self._is_in_place:
                    self._chroma.ask("drop", self.name(generation))
                self.state.forget_retired(generation)

    def _require_lease(self) -> None:
        """Raise NotReady if the engine is closing or the lease is lost. It is called between batches."""
        if self._is_stopped():
            raise NotReady("the engine is closing")
        self.state.renew_if_due()
