"""Change the embedding model of a store in a background thread."""

import time
from collections.abc import Callable
from typing import NamedTuple

from everhold.background import BackgroundThread
from everhold.errors import AlreadyExists, EverholdError, InvalidSettings, StaleVersion
from everhold.interrupts import GuardedEvent
from everhold.maintenance.reembed import MakeChunks, ReembedWork, Stopped, count_all, drop_retired, reembed
from everhold.maintenance.serving import list_models, list_unused_models
from everhold.model import EmbeddingModel
from everhold.ports.records import Records

_CHECK_SECONDS = 1.0
_MAX_PAUSE = 60.0


class ReembedProgress(NamedTuple):
    """The number of memories embedded again, their total, and whether the new model serves."""

    done: int
    total: int
    serves: bool


class Reembedding:
    """Embeds a store again by another model, and lets that model serve when it is complete.

    The thread calls `on_switch` once, as soon as the new model serves. From then on, recall uses the new model and
    writers stop writing chunks of the old one. `settle_seconds` later the old model's chunks are deleted. A change that
    was stopped or killed continues at the next start; a retryable error is retried.
    """

    def __init__(
        self,
        records: Records,
        make_chunks: MakeChunks,
        *,
        old: EmbeddingModel,
        new: EmbeddingModel,
        on_switch: Callable[[], None],
        batch: int = 64,
        settle_seconds: float = 2.0,
        keep_old: bool = False,
    ) -> None:
        if old.name == new.name and old.dimensions != new.dimensions:
            raise InvalidSettings(
                f"model {old.name!r} has {old.dimensions} dimensions in this store and {new.dimensions} in the "
                "settings",
                value=old.name,
                remedy="vectors of one name are all alike, so give it another name",
            )
        self._records = records
        self._new = new
        self._on_switch = on_switch
        self._settle_seconds = settle_seconds
        self._work = ReembedWork(records, make_chunks, old, new, self._watch, batch, keep_old)
        self._done = self._total = 0
        self._serves = old.name == new.name
        self._has_called_back = self._serves
        self._checked_at = 0.0
        self._is_finished = False
        self._stop = GuardedEvent()
        self._thread = BackgroundThread("everhold-reembedding", self._run, self._stop)

    @property
    def failure(self) -> Exception | None:
        """The error that stops the change, or None."""
        return self._thread.failure

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the current batch, which is kept."""
        self._thread.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds; return whether the change is complete and the old chunks are deleted."""
        self._thread.join(timeout)
        return not self._thread.is_alive() and self._serves and self.failure is None and not self._stop.is_set()

    @property
    def progress(self) -> ReembedProgress:
        return ReembedProgress(min(self._done, self._total), self._total, self._serves)

    def _run(self) -> None:
        # `retry` does not fit: this loop ends when `stop` is set, even in a pause, and repeats without an error too.
        pause = _CHECK_SECONDS
        while not self._stop.is_set():
            error = self._thread.attempt(self._attempt)
            if error is None and self._is_finished:
                return
            if error is None:
                pause = _CHECK_SECONDS
                self._stop.wait(pause)
                continue
            if isinstance(error, EverholdError) and not error.retryable:
                return  # `failure` says why
            pause = min(2 * pause, _MAX_PAUSE)
            self._stop.wait(pause)

    def _attempt(self) -> None:
        """Do what is left, and set `_is_finished` to whether the change is complete."""
        try:
            self._change()
            self._is_finished = True
        except (Stopped, StaleVersion, AlreadyExists):
            self._is_finished = False  # stopped, or another process is making the same change and was faster

    def _change(self) -> None:
        if not self._has_switched():
            self._done, self._total = 0, count_all(self._records)
            reembed(self._work)
        self._serves = True
        if not self._has_called_back:
            self._has_called_back = True
            self._on_switch()
        while list_unused_models(self._records):
            # Recalls that began with the old model may still read its chunks, and late writers may still add some.
            if self._stop.wait(self._settle_seconds):
                raise Stopped
            drop_retired(self._records, {self._new.name}, self._watch)

    def _has_switched(self) -> bool:
        return list_models(self._records)[0].name == self._new.name

    def _watch(self, done: int) -> None:
        """Count a batch; raise Stopped after `stop`, or if another process has finished the change."""
        self._done += done
        if self._stop.is_set():
            raise Stopped
        # A batch may take only milliseconds, so the store is checked once a second and not at every batch.
        if not self._serves and time.monotonic() - self._checked_at > _CHECK_SECONDS:
            self._checked_at = time.monotonic()
            if self._has_switched():
                raise Stopped
