"""Commands that run maintenance jobs, list maintenance runs and undo one."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from everhold import MaintenanceReport, MaintenanceRun, clock
from everhold.errors import InvalidInput
from everhold.interfaces.cli import show
from everhold.interfaces.cli.call import Call, CommandResult, command, make_store_call
from everhold.interfaces.cli.interrupts import (
    catch_stop_signals,
    explain_interrupted_maintenance,
    explain_interrupted_undo_run,
)
from everhold.interfaces.shared.documents import Line, document, encode_json
from everhold.interfaces.shared.times import format_local, parse_duration
from everhold.maintenance_jobs import JOBS

app = typer.Typer()
_JOB_NAMES = [job.name for job in JOBS]
_POLL_SECONDS = 0.2  # between two checks for a signal while the command waits


@command(app, "maintain", make_store_call)
def maintain(
    call: Call,
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB]...", help=f"Run only these jobs: {', '.join(_JOB_NAMES)}."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what each job would do.")] = False,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Repeat at this interval, for example 1h, until stopped.")
    ] = None,
) -> CommandResult:
    """Run maintenance jobs, such as purging expired memories."""
    if every is not None:
        if dry_run:
            raise InvalidInput("--dry-run and --every exclude each other", remedy="leave out one of them")
        return _maintain_repeatedly(call, jobs or None, parse_duration(every, "--every"))
    with call.track_steps(explain_interrupted_maintenance) as show_progress:
        report = call.engine.maintain(jobs or None, dry_run=dry_run, progress=show_progress)
    return _render_report(report)


def _maintain_repeatedly(call: Call, jobs: Sequence[str] | None, every: timedelta) -> CommandResult:
    """Run maintenance at an interval, and print a line for each run.

    Ctrl-C or SIGTERM ends this at once while it waits, and after the current batch while a job runs.
    """
    with catch_stop_signals() as is_stopped:
        while not is_stopped():
            due = time.monotonic() + every.total_seconds()
            report = call.engine.maintain(jobs, should_stop=is_stopped)
            print(encode_json(Line(document(report))) if call.as_json else _format_line(call, report), flush=True)
            _wait_until(due, is_stopped)
    return CommandResult(None, None)


def _wait_until(due: float, is_stopped: Callable[[], bool]) -> None:
    while not is_stopped() and (remaining := due - time.monotonic()) > 0:
        time.sleep(min(_POLL_SECONDS, remaining))


def _format_line(call: Call, report: MaintenanceReport) -> str:
    counts = [f"{job.name}: {_describe_counts(job.counts)}" for job in report.jobs if job.counts]
    outcomes = [f"{job.name} {job.outcome}" for job in report.jobs if job.outcome != "done"]
    summary = "; ".join([*counts, *outcomes]) or "nothing to do"
    return f"{format_local(clock.now(), call.zone)}  {report.run_id}  {summary}"


def _render_report(report: MaintenanceReport) -> CommandResult:
    table = show.make_table("job", "outcome", "would do" if report.dry_run else "did", "left", "seconds")
    for job in report.jobs:
        counts, left = _describe_counts(job.counts), _describe_counts(job.left)
        table.add_row(job.name, job.outcome, counts, left, f"{job.seconds:.1f}")
    errors = [show.render_text(f"{failed.name} failed: {failed.error}", style="bold red") for failed in report.failed]
    run_line = [] if report.run_id is None else [show.render_text(f"run {report.run_id}", style="dim")]
    return CommandResult(report, Group(table, *errors, *run_line), 1 if report.failed else 0)


@command(app, "runs", make_store_call)
def list_runs(
    call: Call,
    limit: Annotated[int, typer.Option(metavar="N", help="The maximum number of runs.", min=1)] = 20,
) -> CommandResult:
    """List the latest maintenance runs."""
    latest = call.engine.runs(limit=limit)
    table = show.make_table("run", "began", "did", "state")
    for run in latest:
        counts_by_job = {job: report["counts"] for job, report in run.jobs.items() if report["counts"]}
        summary = "; ".join(f"{job}: {_describe_counts(counts)}" for job, counts in counts_by_job.items()) or "–"
        table.add_row(run.id, format_local(run.started_at, call.zone), summary, _describe_state(run))
    return CommandResult({"runs": latest}, table if latest else Text("maintenance has not run yet"))


@command(app, "undo-run", make_store_call)
def undo_run(
    call: Call, run: Annotated[str, typer.Argument(metavar="RUN", help="The id of a run; `everhold runs` lists them.")]
) -> CommandResult:
    """Undo the changes that a maintenance run made to memories."""
    with call.track_steps(explain_interrupted_undo_run) as show_progress:
        result = call.engine.undo_run(run, progress=show_progress)
    lines = [f"undid {result.count:,} change{'' if result.count == 1 else 's'}"]
    lines += [f"skipped a {skipped.change.kind}: {skipped.reason}" for skipped in result.skipped]
    return CommandResult(result, show.render_text("\n".join(lines)), 1 if result.skipped else 0)


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {unit}" for unit, count in counts.items()) or "–"


def _describe_state(run: MaintenanceRun) -> str:
    """Return "undone" or "interrupted" for such a run; otherwise the outcomes of the jobs that are not `done`."""
    if run.undone_at is not None:
        return "undone"
    if run.finished_at is None:
        return "interrupted"
    outcomes = [f"{job} {report['outcome']}" for job, report in run.jobs.items() if report["outcome"] != "done"]
    return ", ".join(outcomes) or "done"
