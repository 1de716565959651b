"""Embed the memories that have no chunks of a second model, in a background thread."""

from collections.abc import Callable
from typing import NamedTuple

from everhold.background import BackgroundThread
from everhold.errors import EverholdError, ModelUnavailable, StaleVersion
from everhold.interrupts import GuardedEvent
from everhold.maintenance.reembed import MakeChunks, ReembedWork, Stopped, count_all, fill, is_complete
from everhold.maintenance.serving import list_models
from everhold.model import EmbeddingModel
from everhold.ports.records import Records

_PAUSE = 1.0
_MAX_PAUSE = 60.0  # while a model is down for hours, it is tried once a minute
# Seconds that a query waits for the first check, which counts the chunks of the store.
_WAIT_FOR_CHECK = 30.0


class FillProgress(NamedTuple):
    """The number of memories checked, their total, and whether the model has all of them."""

    done: int
    total: int
    is_complete: bool


class Filling:
    """Makes the missing chunks of a second model for everything that has chunks of the serving model.

    Each batch is one commit and only missing chunks are made, so a fill that was stopped or killed continues at the
    next start. `is_changing` returns whether the serving model is being replaced. A fill compares with the chunks of
    the serving model, so it waits for the end of that change.
    """

    def __init__(
        self,
        records: Records,
        make_chunks: MakeChunks,
        model: EmbeddingModel,
        *,
        is_changing: Callable[[], bool],
        batch: int = 64,
    ) -> None:
        self._records, self._make_chunks, self._model = records, make_chunks, model
        self._is_changing, self._batch = is_changing, batch
        self._done = self._total = 0
        self._is_complete = False
        self._has_checked = GuardedEvent()
        self._stop = GuardedEvent()
        self._thread = BackgroundThread("everhold-filling", self._run, self._stop)

    @property
    def model(self) -> EmbeddingModel:
        return self._model

    @property
    def failure(self) -> Exception | None:
        """The error because of which memories still have no chunks of the model, or None."""
        return self._thread.failure

    @property
    def progress(self) -> FillProgress:
        return FillProgress(min(self._done, self._total), self._total, self._is_complete)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the current batch, which is kept."""
        self._thread.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the fill, at most `timeout` seconds; return whether the model has every memory."""
        self._thread.join(timeout)
        return self._is_complete

    def require_complete(self) -> None:
        """Raise ModelUnavailable if memories are missing: a search would not find them."""
        self._has_checked.wait(_WAIT_FOR_CHECK)
        if not self._is_complete:
            reason = "" if self.failure is None else f" ({self.failure})"
            raise ModelUnavailable(
                f"model {self._model.name!r} has embedded {self._done:,} of {self._total:,} memories so far{reason}",
                value=self._model.name,
                remedy="try again later, or recall by the first model",
            )

    def _run(self) -> None:
        # `everhold.retries` does not fit: this loop ends when `_stop` is set, even in a pause, and it repeats after an
        # attempt without an error, too.
        pause = _PAUSE
        while not self._stop.is_set():
            error = self._thread.attempt(self._attempt)
            self._has_checked.set()
            if self._is_complete or (isinstance(error, EverholdError) and not error.retryable):
                return
            pause = _PAUSE if error is None else min(2 * pause, _MAX_PAUSE)
            self._stop.wait(pause)

    def _attempt(self) -> None:
        serving = list_models(self._records)[0]
        try:
            if is_complete(self._records, serving, self._model):
                self._is_complete = True
                return
            self._done, self._total = 0, count_all(self._records)
            # A query waits for this check only, so the event is set before the fill, which may take hours.
            self._has_checked.set()
            if self._is_changing():
                return
            fill(ReembedWork(self._records, self._make_chunks, serving, self._model, self._watch, self._batch))
            self._is_complete = True
        except (Stopped, StaleVersion):
            return  # stopped, or another process has changed the same rows; `_run` decides whether to try again

    def _watch(self, done: int) -> None:
        self._done += done
        if self._stop.is_set():
            raise Stopped
