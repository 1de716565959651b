"""Run maintenance in a background thread, at the interval in the settings.

If several processes use one store, only one of them runs it, because each first checks when the last run began.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from everhold import clock
from everhold.background import BackgroundThread
from everhold.interrupts import GuardedEvent
from everhold.maintenance.pipeline import read_runs
from everhold.ports.records import Records

# Seconds before the first run and after a failed one, unless the interval is shorter. A process that ends earlier
# never begins a run.
_FIRST_SECONDS = 60.0
_RUNS = 50  # the number of latest runs that are searched for a run of all jobs


def find_last_start(records: Records, job_names: Collection[str]) -> datetime | None:
    """Return when the latest finished run of all these jobs began, or None."""
    complete = [run for run in read_runs(records, _RUNS) if run.jobs.keys() >= set(job_names)]
    return complete[0].started_at if complete else None


class MaintenanceThread:
    """Calls `run` whenever a run is due, until it is stopped.

    `run` gets a function that returns whether it should end after its current batch.
    """

    def __init__(
        self,
        every: timedelta,
        find_last: Callable[[], datetime | None],
        run: Callable[[Callable[[], bool]], object],
    ) -> None:
        self._every, self._find_last, self._run = every, find_last, run
        self._stop = GuardedEvent()
        self._thread = BackgroundThread("maintenance", self._repeat, self._stop)

    @property
    def failure(self) -> Exception | None:
        """The error of the last attempt, if it failed. Errors of single jobs are in the report on the run."""
        return self._thread.failure

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the current batch, which is kept."""
        self._thread.stop()

    def _repeat(self) -> None:
        retry_seconds = pause = min(self._every.total_seconds(), _FIRST_SECONDS)
        while not self._stop.wait(pause):
            error = self._thread.attempt(self._run_if_due)
            pause = retry_seconds if error is not None else self._find_wait().total_seconds()

    def _run_if_due(self) -> None:
        if self._find_wait() <= timedelta(0):
            self._run(self._stop.is_set)

    def _find_wait(self) -> timedelta:
        last = self._find_last()
        # If the clock was ahead at the last run, wait for one interval only, and not until that time is reached.
        return timedelta(0) if last is None else min(last + self._every - clock.now(), self._every)
