"""Find the nearest vectors in Chroma, or in the store itself while Chroma is not up to date.

A background thread opens every collection, applies the change feed, checks it, and rebuilds what is damaged, with
growing pauses while that fails. A query waits at most a second for this thread, up to `seconds` until no other
thread uses Chroma, and up to `seconds` for an answer. Applying new lines before may take six times as long. If a wait
times out, the store answers.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from everhold.adapters.chroma.address import Address
from everhold.adapters.chroma.connection import acquire_process
from everhold.adapters.chroma.failures import CannotAnswer, NotReady
from everhold.adapters.chroma.projection import Projection
from everhold.adapters.chroma.rows import CollectionSpace
from everhold.adapters.chroma.search import ChromaQuery, Match, parse_owner_id
from everhold.background import BackgroundThread
from everhold.errors import EverholdError, MissingExtra, StoreUnavailable
from everhold.interrupts import GuardedEvent, uninterrupted
from everhold.ports.embedder import Vector
from everhold.ports.records import Records
from everhold.ports.search_indexes import VectorIndex
from everhold.ports.search_space import SearchSpace

_MAX_PAUSE = 30.0
# Seconds that `doctor` waits for the first round of the thread. Before it, the state of Chroma is not known.
_FIRST_ROUND_SECONDS = 20.0


class ChromaVectors:
    """Finds candidates in Chroma or, while Chroma cannot answer, with `fallback`, which reads the records."""

    def __init__(
        self,
        records: Records,
        fallback: VectorIndex,
        address: Address,
        *,
        prefix: str = "memories",
        batch: int = 200,
        seconds: float = 10.0,
        lease_seconds: float = 30.0,
        poll_seconds: float = 1.0,
    ) -> None:
        if find_spec("chromadb") is None:
            raise MissingExtra("vectors in Chroma need chromadb", remedy="pip install 'everhold[chroma]'")
        self._records, self._fallback = records, fallback
        self._chroma = acquire_process(address, seconds)
        self._options: dict[str, Any] = {"prefix": prefix, "batch": batch, "lease_seconds": lease_seconds}
        self._poll_seconds = poll_seconds
        self._projections: dict[CollectionSpace, Projection] = {}
        self._stop = GuardedEvent()
        self._wake = GuardedEvent()
        self._main_space: CollectionSpace | None = None
        self._lock = threading.Lock()
        self._round_done = threading.Condition()
        self._is_first_round_done = False
        self._thread = BackgroundThread("everhold-chroma", self._run, self._stop)

    def follow(self, model: str, dimensions: int) -> None:
        """Copy this model's chunks of long-term memories to Chroma from now on.

        Chunks of other kinds and namespaces are copied from the first search for them on.
        """
        space = CollectionSpace(model, dimensions)
        if self._chroma.address.main_collection is not None and self._main_space is None:
            self._main_space = space
        self.projection(space)

    def find_by_vector(self, space: SearchSpace, vector: Vector, limit: int) -> list[str]:
        query = ChromaQuery(space.organization_id, space.users, vector, limit)
        try:
            matches = self.projection(_make_space(space, vector)).matches(query)
        except CannotAnswer:
            self._wake.set()
            return self._fallback.find_by_vector(space, vector, limit)
        return list(dict.fromkeys(parse_owner_id(match.id) for match in matches))

    def search(
        self,
        space: SearchSpace,
        vector: Vector,
        *,
        n_results: int = 5,
        where: Mapping[str, Any] | None = None,
        where_document: Mapping[str, Any] | None = None,
    ) -> list[Match]:
        """Return the nearest chunks that meet Chroma's own conditions on metadata and text, best first.

        Conditions never reach beyond the space. Raise StoreUnavailable while Chroma cannot answer.
        """
        query = ChromaQuery(space.organization_id, space.users, vector, n_results, where, where_document)
        try:
            return self.projection(_make_space(space, vector)).matches(query)
        except CannotAnswer as error:
            self._wake.set()
            raise StoreUnavailable(f"Chroma does not serve now: {error}", remedy="ask again, or use recall") from error

    def projection(self, space: CollectionSpace) -> Projection:
        """Return the projection of a space. It is created at first use."""
        with self._lock:
            projection = self._projections.get(space)
            if projection is None:
                projection = self._projections[space] = Projection(
                    self._records,
                    self._chroma,
                    space,
                    is_stopped=self._stop.is_set,
                    is_main=space == self._main_space,
                    **self._options,
                )
                self._is_first_round_done = False
            if not self._thread.is_alive() and not self._stop.is_set():
                self._thread.start()
            return projection

    # maintenance

    def rebuild(self) -> None:
        """Rebuild every collection from the records, then use the new ones."""
        for projection in list(self._projections.values()):
            try:
                projection.build()
            except CannotAnswer as error:
                projection.failure = str(error)
                self._wake.set()
                raise StoreUnavailable(
                    f"Chroma could not be rebuilt: {error}", remedy="nothing: it is retried in the background"
                ) from error

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until Chroma serves, and return whether it does."""
        deadline = time.monotonic() + seconds
        while not self.serves:
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                return False
            with uninterrupted, self._round_done:
                self._wake.set()
                if not self.serves:
                    self._round_done.wait(min(seconds_left, 0.1))
        return True

    @property
    def serves(self) -> bool:
        """Whether every collection is open and no damage is known."""
        return bool(self._projections) and all(
            projection.attached is not None for projection in self._projections.values()
        )

    def report(self) -> dict[str, str]:
        """Return what `doctor` shows: the address of Chroma, and the generation and lag of every collection."""
        self._wait_for_first_round()
        lines = {"vectors": f"chroma ({self._chroma.address.url})"}
        for projection in self._projections.values():
            serving = projection.state.get_serving()
            generation = f"generation {serving.generation}" if serving else "nothing built yet"
            serves = "serves" if projection.attached is not None else "the store answers instead"
            feeds = "fed by this process" if projection.state.has_lease else "fed by another process or by none"
            lines[projection.collection] = f"{generation}, {projection.lag} lines behind, {serves}, {feeds}"
        return lines

    def find_problems(self) -> list[str]:
        self._wait_for_first_round()
        return [
            f"Chroma does not serve {projection.collection}: {projection.failure}; recall searches in the store"
            for projection in self._projections.values()
            if projection.failure is not None
        ]

    def _wait_for_first_round(self) -> None:
        with uninterrupted, self._round_done:
            self._wake.set()
            self._round_done.wait_for(
                lambda: self._is_first_round_done or not self._thread.is_alive(), _FIRST_ROUND_SECONDS
            )

    def close(self) -> None:
        """Stop the background thread. Unfinished work continues at the next start."""
        with uninterrupted:
            if self._stop.is_set():
                return
            with self._lock:
                self._stop.set()
            self._wake.set()
            self._thread.stop()
            for projection in self._projections.values():
                with suppress(EverholdError):
                    projection.state.release()
            self._chroma.release()

    # the thread

    def _run(self) -> None:
        # Not `retry`: it polls forever, ends when `stop` is set, and one failed projection must not stop the others.
        pause = self._poll_seconds
        while True:
            self._wake.wait(self._poll_seconds)
            self._wake.clear()
            if self._stop.is_set():
                return
            projections = list(self._projections.values())
            failed = [projection for projection in projections if not self._try_to_advance(projection)]
            with self._round_done:
                self._is_first_round_done = len(projections) == len(self._projections)
                self._round_done.notify_all()
            pause = min(2 * pause, _MAX_PAUSE) if failed else self._poll_seconds
            if failed and self._stop.wait(pause):
                return

    def _try_to_advance(self, projection: Projection) -> bool:
        error = self._thread.attempt(lambda: self._advance(projection))
        if error is not None:
            projection.failure = str(error) or type(error).__name__  # shown by doctor
        return error is None

    def _advance(self, projection: Projection) -> None:
        with suppress(NotReady):  # another process feeds, or the engine is closing
            projection.advance()


def _make_space(space: SearchSpace, vector: Vector) -> CollectionSpace:
    return CollectionSpace(space.model, len(vector), space.kind, space.namespace)
