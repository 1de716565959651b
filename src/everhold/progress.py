"""Report the progress of a long call."""

from collections.abc import Callable
from typing import NamedTuple


class StepProgress(NamedTuple):
    """The progress of one step of a long call, for example of "importing". `total` is None if it is unknown."""

    step: str
    done: int
    total: int | None = None


class UnstoredProgress(StepProgress):
    """Progress inside a batch that is not stored yet. Work that is stopped at this point would lose the batch."""


ReportProgress = Callable[[StepProgress], None]


def ignore_progress(_: StepProgress) -> None:
    """Do nothing, for callers that show no progress."""


class StepCounter:
    """Counts what a step has done, and reports its start and each addition.

    `total` may be changed while the step runs. It is never less than `done`.
    """

    def __init__(
        self,
        report: ReportProgress,
        step: str,
        total: int | None = None,
        make_progress: type[StepProgress] = StepProgress,
    ) -> None:
        self.total = total
        self.done = 0
        self._report, self._step, self._make_progress = report, step, make_progress
        self.add(0)

    def add(self, count: int) -> None:
        """Add the number of units done since the last call and report the sum; 0 only reports that the work
        continues."""
        self.done += count
        if self.total is not None:
            self.total = max(self.total, self.done)
        self._report(self._make_progress(self._step, self.done, self.total))
