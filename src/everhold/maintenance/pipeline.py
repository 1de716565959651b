"""Run maintenance jobs one after the other and report on each.

    for each job:  take its lease → perform it, batch by batch → count the remaining work, if it did not finish

The next job runs even if a job fails, runs out of time or is being done by another process.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from everhold import clock
from everhold.batches import split_into_batches
from everhold.errors import EverholdError, InvalidInput, StaleVersion, format_value
from everhold.maintenance.deleting import delete_in_batches
from everhold.model import Change, MaintenanceRun
from everhold.model.announcement import make_run_announcement
from everhold.ports.leases import DURATION, HeldLease, hold_lease
from everhold.ports.records import Records
from everhold.progress import ReportProgress, StepCounter, ignore_progress
from everhold.schema.operations import AnyOf, Condition, Ensure, Op, Operation, Patch, Put, Where

logger = logging.getLogger(__name__)

TIME_LIMIT = timedelta(minutes=10)

D = TypeVar("D")
Counts = Mapping[str, int]
Outcome = Literal["done", "unfinished", "held", "failed", "planned"]


@dataclass(frozen=True)
class MaintenanceJob(Generic[D]):
    """One named piece of maintenance; `D` is what its functions work on.

    `preview` changes nothing and counts the work to do, by kind. It is used for a dry run, and after a job that did not
    finish. `perform` does the work in batches and reports each to its `JobRun`. A job with a lease runs in one process
    at a time.
    """

    name: str
    description: str
    preview: Callable[[D], Counts]
    perform: Callable[[D, "JobRun"], None]
    lease: str | None = None
    lease_duration: timedelta = DURATION
    time_limit: timedelta = TIME_LIMIT


@dataclass(frozen=True)
class JobReport:
    """The result of one job.

    The outcome is `done`; `unfinished` if time ran out or work remains for the next run; `held` if another process has
    the lease; `failed`; or `planned` after a dry run. `counts` is the work that was done, or would be done, by kind;
    `left` is the remaining work.
    """

    name: str
    outcome: Outcome
    counts: Counts = field(default_factory=dict)
    left: Counts = field(default_factory=dict)
    seconds: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class MaintenanceReport:
    """The reports of all jobs that were run, in their order. `report["purge"]` is the report of one job.

    `run_id` identifies the run, for `undo_run`; a dry run has none.
    """

    jobs: tuple[JobReport, ...]
    dry_run: bool = False
    run_id: str | None = None

    def __getitem__(self, name: str) -> JobReport:
        return {job.name: job for job in self.jobs}[name]

    @property
    def failed(self) -> tuple[JobReport, ...]:
        return tuple(job for job in self.jobs if job.outcome == "failed")


class OutOfTime(Exception):
    """Raised when a job's time limit has passed. Callers outside this package never see it."""


class RunRow:
    """The row of one run of maintenance. It is stored before the first journalled change, or when the run ends."""

    def __init__(self, records: Records) -> None:
        self.id = clock.make_id("run")
        self._records = records
        self._row = MaintenanceRun(id=self.id, started_at=clock.now())
        self._is_stored = False

    def store(self) -> None:
        """Store the row, if it is not stored yet."""
        if not self._is_stored:
            self._records.commit([Ensure(self._row)])
            self._is_stored = True

    def finish(self, reports: Sequence["JobReport"]) -> None:
        """Store when the run ended, and what each job reported."""
        jobs = {report.name: {**asdict(report), "seconds": round(report.seconds, 3)} for report in reports}
        values: dict[str, Any] = {"finished_at": clock.now(), "jobs": jobs}
        self._records.commit([Ensure(self._row), Patch(MaintenanceRun, (self.id,), values)])
        if self._is_stored:
            self._announce()

    def _announce(self) -> None:
        """Add a line to the change feed of each organization in which the run changed memories."""
        changes = self._records.columns(Change, None, ("organization_id",), [Where("run_id", Op.EQ, self.id)])
        organizations = sorted({organization for (organization,) in changes})
        for batch in split_into_batches(organizations, self._records.traits.commit_limit):
            self._records.commit([Put(make_run_announcement(self.id, organization)) for organization in batch])


def _never_stop() -> bool:
    return False


@dataclass(frozen=True)
class RunContext:
    """The context that the jobs of one run share: its row, the function to report progress to, and a check whether to
    stop."""

    row: RunRow
    report: ReportProgress = ignore_progress
    should_stop: Callable[[], bool] = _never_stop


class JobRun:
    """One run of a job: it counts the finished work, extends the lease, and stops the job when its time is up."""

    def __init__(self, records: Records, job: MaintenanceJob[D], counter: StepCounter, context: "RunContext") -> None:
        self.counts: Counter[str] = Counter()
        self.left: Counts = {}
        self.lease: HeldLease | None = None
        self.counter = counter
        self._records = records
        self._context = context
        # The monotonic clock is used because setting the system's time must neither end nor extend a job.
        self._deadline = time.monotonic() + job.time_limit.total_seconds()

    @property
    def run_id(self) -> str:
        """The id under which the job must journal what it changes, so that `undo_run` can undo it."""
        self._context.row.store()
        return self._context.row.id

    def commit(self, operations: Sequence[Operation]) -> None:
        """Commit under the job's lease; raise StaleVersion if another process has taken the lease."""
        if self.lease is None:
            self._records.commit(operations)
        else:
            self.lease.commit(operations)

    def try_commit(self, operations: Sequence[Operation]) -> bool:
        """Commit under the job's lease; return False if a row has changed since it was read.

        Raise StaleVersion if another process has taken the lease.
        """
        try:
            self.commit(operations)
        except StaleVersion:
            if self.lease is not None and self.lease.is_lost:
                raise
            return False
        return True

    def add(self, name: str, count: int = 1) -> None:
        """Count a finished batch and extend the lease; raise OutOfTime if time is up. Call it after each batch."""
        self.counts[name] += count
        self.counter.add(count)
        self.check_time()
        if self.lease is not None:
            self.lease.extend_if_due()

    def check_time(self) -> None:
        """Raise OutOfTime if the job's time is up, or if maintenance should stop."""
        if time.monotonic() >= self._deadline or self._context.should_stop():
            raise OutOfTime

    def leave(self, left: Counts) -> None:
        """Set the remaining work that this run cannot do, for the report."""
        self.left = {name: count for name, count in left.items() if count}


def select_jobs(jobs: Sequence[MaintenanceJob[D]], names: Sequence[str] | None) -> list[MaintenanceJob[D]]:
    """Return the named jobs, or all of them, in the order in which they run; raise InvalidInput for unknown names."""
    known_names = [job.name for job in jobs]
    for name in names or ():
        if name not in known_names:
            raise InvalidInput(
                f"no maintenance job {format_value(name)}", value=name, remedy=f"choose from {', '.join(known_names)}"
            )
    return [job for job in jobs if names is None or job.name in names]


def run_jobs(
    records: Records,
    jobs: Sequence[MaintenanceJob[D]],
    deps: D,
    *,
    dry_run: bool = False,
    report: ReportProgress = ignore_progress,
    should_stop: Callable[[], bool] = _never_stop,
) -> MaintenanceReport:
    """Run each job, or with `dry_run` only count what each would do; return a report on each.

    When `should_stop` returns True, the current job ends after its batch, and the jobs after it do not run.
    """
    if dry_run:
        return MaintenanceReport(tuple(_preview(job, deps) for job in jobs), dry_run=True)
    context = RunContext(RunRow(records), report, should_stop)
    reports = tuple(_run(records, job, deps, context) for job in jobs if not should_stop())
    with suppress(EverholdError):  # the reports themselves say that the store cannot be written
        context.row.finish(reports)
    return MaintenanceReport(reports, run_id=context.row.id)


def _preview(job: MaintenanceJob[D], deps: D) -> JobReport:
    started = time.monotonic()
    try:
        counts = _drop_zeros(job.preview(deps))
    except EverholdError as error:
        return JobReport(job.name, "failed", seconds=time.monotonic() - started, error=str(error))
    return JobReport(job.name, "planned", counts, seconds=time.monotonic() - started)


def _run(records: Records, job: MaintenanceJob[D], deps: D, context: RunContext) -> JobReport:
    """Run one maintenance job, log its duration, and return its report."""
    logger.info("maintenance job %r started", job.name)
    started = time.monotonic()
    # Counting reads the store, so it is done only for callers that show progress.
    total = None if context.report is ignore_progress else _count_work(job, deps)
    run = JobRun(records, job, StepCounter(context.report, job.name, total), context)
    outcome, error = _perform(records, job, deps, run)
    left = run.left
    if not left and outcome in ("unfinished", "failed"):
        with suppress(EverholdError):  # the reason of the failure may also make the preview fail
            left = _drop_zeros(job.preview(deps))
    seconds = time.monotonic() - started
    level = logging.WARNING if outcome == "failed" else logging.INFO
    reason = dict(run.counts) if error is None else type(error).__name__
    logger.log(level, "maintenance job %r %s after %.3f s: %s", job.name, outcome, seconds, reason)
    message = None if error is None else str(error)
    return JobReport(job.name, outcome, _drop_zeros(run.counts), left, seconds, message)


def _count_work(job: MaintenanceJob[D], deps: D) -> int | None:
    """Return how much there is to do, or None if counting fails: the job itself reports the reason."""
    try:
        return sum(job.preview(deps).values())
    except EverholdError:
        return None


def _perform(records: Records, job: MaintenanceJob[D], deps: D, run: JobRun) -> tuple[Outcome, EverholdError | None]:
    """Run a job under its lease, if it needs one, and return its outcome and error."""
    try:
        if job.lease is None:
            job.perform(deps, run)
        else:
            with hold_lease(records, job.lease, duration=job.lease_duration) as run.lease:
                if run.lease is None:
                    return "held", None
                job.perform(deps, run)
    except OutOfTime:
        return "unfinished", None
    except EverholdError as error:
        # A job that ran longer than its lease without extending it has lost it. Its last batch was not committed.
        if isinstance(error, StaleVersion) and run.lease is not None and run.lease.is_lost:
            return "held", None
        return "failed", error
    return "unfinished" if run.left else "done", None


def _drop_zeros(counts: Counts) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def read_runs(records: Records, limit: int) -> list[MaintenanceRun]:
    """Return the latest runs of maintenance, latest first."""
    return records.scan(MaintenanceRun, None, descending=True, limit=limit)  # ids are in the order of time


def count_old_runs(records: Records, before: datetime) -> int:
    """Return how many runs ended before a time."""
    return records.count(MaintenanceRun, None, [_make_old_condition(before)])


def drop_old_runs(
    records: Records,
    before: datetime,
    commit: Callable[[Sequence[Operation]], None],
    add: Callable[[int], None],
    *,
    batch: int,
) -> None:
    """Delete the rows of runs that ended before a time. `undo_run` can then no longer undo these runs."""
    keys = records.columns(MaintenanceRun, None, ("id",), [_make_old_condition(before)])
    delete_in_batches(MaintenanceRun, keys, commit, add, batch=batch)


def _make_old_condition(before: datetime) -> Condition:
    # A killed run has no end time. It counts as ended a day after its start, because no run takes a day.
    return AnyOf((Where("finished_at", Op.LE, before), Where("started_at", Op.LE, before - timedelta(days=1))))
