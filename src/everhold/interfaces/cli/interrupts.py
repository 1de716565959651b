"""Handle Ctrl-C during long work: the work ends between two steps, never inside one, and reports what was kept."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from everhold.interfaces.cli.failures import Interrupted
from everhold.interfaces.cli.progress import show_steps
from everhold.progress import ReportProgress, StepProgress, UnstoredProgress

# The last report of each step, in the order in which the steps began.
Steps = Mapping[str, StepProgress]

# A function that gets the steps that the work reported before Ctrl-C, and returns the error that says what was kept.
Explain = Callable[[Steps], Interrupted]

_CONTINUE = "run the same command again to continue"
_START_AGAIN = "run the same command again"
_STOPPING = "stopping after this batch; Ctrl-C again stops at once"


@contextmanager
def track_steps(explain: Explain, *, is_quiet: bool) -> Iterator[ReportProgress]:
    """Yield a function that shows each step and, after Ctrl-C, raises what `explain` returns.

    The work calls the function after each batch, so what it has reported is stored. Inside a batch it reports
    `UnstoredProgress`, which is only shown. A second Ctrl-C ends the work at once. A driver may turn that into an error
    of its own, so every error after Ctrl-C counts as the interruption.
    """
    is_pressed = False
    steps: dict[str, StepProgress] = {}

    def handle_signal(_: int, __: FrameType | None) -> None:
        nonlocal is_pressed
        if is_pressed:
            raise KeyboardInterrupt
        is_pressed = True

    previous_handler = signal.getsignal(signal.SIGINT)
    # A process in the background ignores Ctrl-C, which is meant for other processes.
    if previous_handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handle_signal)
    try:
        with show_steps(is_quiet=is_quiet, read_hint=lambda: _STOPPING if is_pressed else "") as show:

            def report(progress: StepProgress) -> None:
                steps[progress.step] = progress
                show(progress)
                if is_pressed and not isinstance(progress, UnstoredProgress):
                    raise KeyboardInterrupt

            yield report
    except (Exception, KeyboardInterrupt):
        if is_pressed:
            raise explain(steps) from None
        raise
    finally:
        signal.signal(signal.SIGINT, previous_handler)


@contextmanager
def catch_stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed or SIGTERM came.

    A second signal ends the work at once.
    """
    is_stopped = False

    def handle_signal(_: int, __: FrameType | None) -> None:
        nonlocal is_stopped
        if is_stopped:
            raise KeyboardInterrupt
        is_stopped = True

    previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in previous_handlers.items() if handler is not signal.SIG_IGN}
    for number in handlers:
        signal.signal(number, handle_signal)
    try:
        yield lambda: is_stopped
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def explain_interrupted_import(steps: Steps) -> Interrupted:
    """Return the error that says what an interrupted import has added to the store."""
    importing = steps.get("importing")
    if importing is None or not importing.done:
        return Interrupted("nothing was imported", _START_AGAIN)
    unit = "rows" if "checking" in steps else "memories"
    if importing.done == importing.total:
        return Interrupted(f"all {importing.done:,} {unit} were imported, but not all are embedded", _CONTINUE)
    return Interrupted(f"{_count(importing)} {unit} were imported and are kept", _CONTINUE)


def explain_interrupted_export(file: Path, steps: Steps) -> Interrupted:
    """Return the error that says what an interrupted export has written: a file appears only when it is complete."""
    if str(file) == "-" or file.is_fifo() or file.is_char_device():
        return Interrupted("the export is incomplete and cannot be imported", _START_AGAIN)
    return Interrupted(f"{file} was not {'changed' if file.exists() else 'written'}", _START_AGAIN)


def explain_interrupted_move(steps: Steps) -> Interrupted:
    """Return the error that says what an interrupted move has copied."""
    if "copying" not in steps:
        return Interrupted("nothing was copied", _START_AGAIN)
    if "comparing" in steps:
        return Interrupted(f"all {steps['copying'].done:,} rows were copied, but not all are compared", _CONTINUE)
    return Interrupted(f"{_count(steps['copying'])} rows were copied and are kept", _CONTINUE)


def explain_interrupted_maintenance(steps: Steps) -> Interrupted:
    """Return the error that says what interrupted maintenance jobs have done."""
    jobs = list(steps.values())
    finished = [job.step for job in jobs[:-1]]
    if jobs and jobs[-1].done:
        finished.append(f"{jobs[-1].step} ({_count(jobs[-1])})")
    kept = f"the work of {', '.join(finished)} is kept" if finished else "no job has done anything"
    return Interrupted(kept, _CONTINUE)


def explain_interrupted_undo_run(steps: Steps) -> Interrupted:
    """Return the error that says how much of a run an interrupted undo has undone."""
    undoing = steps.get("undoing")
    if undoing is None or not undoing.done:
        return Interrupted("nothing was undone", _START_AGAIN)
    return Interrupted(f"{_count(undoing)} changes were undone", _CONTINUE)


def explain_interrupted_rotation(steps: Steps) -> Interrupted:
    """Return the error for an interrupted rotation of keys: rows under old and under new keys can be read."""
    encrypting = steps.get("encrypting")
    rows = encrypting.done if encrypting is not None else 0
    return Interrupted(f"{rows:,} rows were encrypted again, and everything can still be read", _CONTINUE)


def explain_interrupted_erasure(steps: Steps) -> Interrupted:
    """Return the error that says what an interrupted erasure has done."""
    return Interrupted("the erasure has begun and is not complete", _CONTINUE)


def explain_interrupted_backup(steps: Steps) -> Interrupted:
    """Return the error for an interrupted backup: a backup exists only when it is complete."""
    return Interrupted("no backup was made; earlier backups are unchanged", _START_AGAIN)


def explain_interrupted_restore(steps: Steps) -> Interrupted:
    """Return the error that says what an interrupted restore has written."""
    restoring = steps.get("restoring")
    if restoring is None or not restoring.done:
        return Interrupted("nothing was restored", _START_AGAIN)
    if "restoring files" in steps:
        return Interrupted(f"all {restoring.done:,} rows were restored, but not all files", _CONTINUE)
    return Interrupted(f"{_count(restoring)} rows were restored and are kept", _CONTINUE)


def explain_interrupted_verification(steps: Steps) -> Interrupted:
    """Return the error that says what an interrupted check of a backup has found."""
    return Interrupted("the backup was not checked to its end; nothing was changed", _START_AGAIN)


def _count(progress: StepProgress) -> str:
    return f"{progress.done:,}" if progress.total is None else f"{progress.done:,} of {progress.total:,}"
