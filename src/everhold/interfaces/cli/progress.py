"""Progress bars on standard error: one line per step, with a count, a rate and the time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from everhold.progress import ReportProgress, StepProgress, ignore_progress

_OPENING = "opening the store"


class _CountColumn(ProgressColumn):
    """Shows how many are done, of how many, and how many per second."""

    def render(self, task: Task) -> Text:
        if not task.completed and not task.total:
            return Text()
        total = "" if task.total is None else f" of {task.total:,.0f}"
        speed = task.finished_speed or task.speed
        rate = "" if not speed else f", {speed:,.0f}/s" if speed >= 10 else f", {speed:.1f}/s"
        return Text(f"{task.completed:,.0f}{total}{rate}", style="progress.download")


class _HintColumn(ProgressColumn):
    """Shows a hint that may change at any time, such as that the work is about to stop."""

    def __init__(self, read_hint: Callable[[], str]) -> None:
        super().__init__()
        self._read_hint = read_hint

    def render(self, task: Task) -> Text:
        return Text(self._read_hint(), style="yellow")


@contextmanager
def show_steps(*, is_quiet: bool, read_hint: Callable[[], str] = str) -> Iterator[ReportProgress]:
    """Yield a function that shows the steps it is called with, if standard error is a terminal."""
    console = Console(stderr=True)
    if is_quiet or not console.is_terminal:
        yield ignore_progress
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), _CountColumn(), TimeElapsedColumn())
    with Progress(*columns, _HintColumn(read_hint), console=console, transient=True) as bar:
        bar.add_task(_OPENING, total=None)
        tasks: dict[str, TaskID] = {}

        def show(progress: StepProgress) -> None:
            if progress.step not in tasks:
                for earlier in bar.tasks:  # hide the earlier steps that had nothing to do
                    bar.update(earlier.id, visible=earlier.completed > 0)
                tasks[progress.step] = bar.add_task(progress.step, total=progress.total)
            bar.update(tasks[progress.step], completed=progress.done, total=progress.total, visible=True)

        yield show
