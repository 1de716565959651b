"""Runs the maintenance jobs that expire, purge and trim, without an engine and at a time that the test chooses."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from everhold.maintenance import outbox
from everhold.maintenance.pipeline import JobRun, MaintenanceJob, MaintenanceReport, run_jobs
from everhold.maintenance.purge import PurgeWork, count_deleted, count_expired, purge_deleted, purge_expired
from everhold.ports.records import Records
from everhold.progress import ReportProgress, ignore_progress

GRACE = timedelta(days=30)


def make_jobs(now: datetime, batch: int = 500) -> list[MaintenanceJob[Records]]:
    """Return the jobs that expire, purge and trim as if it were `now`."""

    def make_purge_job(
        name: str, perform: Callable[[PurgeWork], None], preview: Callable[..., dict[str, int]]
    ) -> MaintenanceJob[Records]:
        def run_purge(records: Records, run: JobRun) -> None:
            perform(PurgeWork(records, now - GRACE, now, run.commit, run.add, lambda *_: [], batch=batch))

        return MaintenanceJob(name, "", lambda records: preview(records, now - GRACE), run_purge, lease="purge")

    def trim(records: Records, run: JobRun) -> None:
        outbox.trim(records, run.commit, now=now, batch=batch, progress=partial(run.add, "outbox"))

    return [
        make_purge_job("expire", purge_expired, count_expired),
        make_purge_job("purge", purge_deleted, count_deleted),
        MaintenanceJob(
            "outbox", "", lambda records: {"outbox": outbox.count_trimmable(records, now=now)}, trim, lease="outbox"
        ),
    ]


def run_purge(
    records: Records,
    now: datetime,
    batch: int = 500,
    report: ReportProgress = ignore_progress,
    *,
    dry_run: bool = False,
) -> MaintenanceReport:
    return run_jobs(records, make_jobs(now, batch), records, report=report, dry_run=dry_run)
