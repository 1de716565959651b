"""How far a long call has come, for callers that show it."""

from collections.abc import Callable
from typing import NamedTuple


class StepProgress(NamedTuple):
    """How much of one step of a long call is done, for example of "importing". `total` is None if it is not known."""

    step: str
    done: int
    total: int | None = None


ReportProgress = Callable[[StepProgress], None]


def ignore_progress(_: StepProgress) -> None:
    """Do nothing: the caller does not want to know."""


class StepCounter:
    """Counts what a step has done, and reports each addition and the start, so that no step begins in silence.

    `total` may be changed when it is known better. It never gets less than what is done.
    """

    def __init__(self, report: ReportProgress, step: str, total: int | None = None) -> None:
        self.total = total
        self.done = 0
        self._report, self._step = report, step
        self.add(0)

    def add(self, count: int) -> None:
        """Count what was done since the last call. 0 shows that the work goes on."""
        self.done += count
        if self.total is not None:
            self.total = max(self.total, self.done)
        self._report(StepProgress(self._step, self.done, self.total))
