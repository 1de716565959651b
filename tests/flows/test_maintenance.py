"""Maintenance: a list of jobs, each with a lease, a time limit, a dry run and a report."""

import threading
from datetime import timedelta
from typing import Any

import pytest

from everhold import Everhold, StepProgress, clock
from everhold.errors import InvalidInput, StoreError
from everhold.exchange.moving import compute_table_hash
from everhold.maintenance.pipeline import JobRun, MaintenanceJob, MaintenanceReport, run_jobs
from everhold.maintenance_jobs import JOBS
from everhold.model import AccessLog, Chunk, EmbeddingModel, Job, Lease, Memory, OutboxMark
from everhold.ports.records import Records
from everhold.schema.catalog import CATALOG, TABLES
from everhold.schema.operations import Op, Patch, Put, Where
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.testing.records_rows import make_family
from tests.engines import Store, get_records

LONG_AGO = timedelta(days=90)


def get_outcomes(report: MaintenanceReport) -> dict[str, str]:
    return {job.name: job.outcome for job in report.jobs}


def hash_all(records: Records) -> dict[str, Any]:
    return {table.name: compute_table_hash(records, entity, table) for entity, table in CATALOG.items()}


# what has expired


def test_everything_that_can_expire_expires(any_store: Store) -> None:
    """There is a row of every table; each row that can expire has expired long ago."""
    engine, past = any_store.open(), clock.now() - LONG_AGO
    expiring = {name for name, table in TABLES.items() if "expires_at" in table.by_name}
    assert expiring >= {"memories", "agent_states", "api_keys"}
    rows = {name: row for name, row in make_family("acme", "one").items() if TABLES[name].tenant}
    rows["chunks"] = rows["chunks"].model_copy(update={"user_id": "one", "span_end": 1})
    dated = [row.model_copy(update={"expires_at": past}) if name in expiring else row for name, row in rows.items()]
    records = get_records(engine)
    records.commit([Put(row) for row in dated])

    assert engine.maintain(["expire"], dry_run=True)["expire"].counts == dict.fromkeys(expiring, 1)
    assert engine.maintain(["expire"])["expire"].counts == dict.fromkeys(expiring, 1)
    for entity, table in CATALOG.items():
        if table.name in expiring:
            assert records.scan(entity, "acme", deleted=True) == [], table.name
    lines = records.scan(AccessLog, "acme", [Where("operation", Op.EQ, "delete")])
    assert {line.request.get("table", "memories") for line in lines if line.request.get("purged")} == expiring
    assert engine.maintain(["expire"])["expire"].counts == {}


def test_memories_that_expired_within_the_grace_period_stay(store: Store) -> None:
    engine = store.open(grace_days=30)
    for days in (-31, -29, 1):
        expires_at = clock.now() + timedelta(days=days)
        engine.scope(user="alice").remember(f"expires after {days}", expires_at=expires_at)
    assert engine.maintain(["expire"])["expire"].counts == {"memories": 1}


# dry runs


def prepare_work(engine: Everhold, other_engine: Everhold) -> None:
    """Prepare a store so that every job that needs no model has something to do."""
    alice = engine.scope(user="alice")
    ids = [alice.remember(f"fact number {number}", kind="fact").id for number in range(6)]
    engine.scope(user="alice", session="s1").say("hello", role="user")
    alice.forget(ids[0])
    alice.forget(ids[1], hard=True)
    alice.remember("soon gone", expires_at=clock.now() - timedelta(days=1))
    now = clock.now()
    task = {"parameters": {"hard": False, "scope": {"organization": "default"}}, "state": {"ids": ids[2:4]}, "total": 2}
    common = {"organization_id": "default", "created_at": now, "updated_at": now}
    records = get_records(engine)
    records.commit([Put(Job(id="job-1", kind="forget", status="running", **common, **task))])
    old_day = (now - timedelta(days=10)).date().isoformat()
    records.commit([Put(OutboxMark(day=old_day, last_sequence=records.feed(0).lines[1].sequence))])
    other_engine.delete_session("s1")
    alice.recall("fact")


def test_a_dry_run_changes_nothing_and_tells_what_a_run_does(store: Store) -> None:
    engine, other_engine = store.open(grace_days=0), store.open()
    prepare_work(engine, other_engine)
    records = get_records(engine)
    before = hash_all(records)
    planned = engine.maintain(dry_run=True)
    assert planned.dry_run
    assert set(get_outcomes(planned).values()) == {"planned"}
    assert hash_all(records) == before
    counts = {job.name: dict(job.counts) for job in planned.jobs}
    assert {name for name, count in counts.items() if count} == {
        "log", "forget", "expire", "purge", "outbox", "files", "sessions",
    }  # fmt: skip

    report = engine.maintain()
    assert set(get_outcomes(report).values()) == {"done"}
    for name in ("log", "forget", "expire", "outbox", "sessions"):
        assert report[name].counts == counts[name], name
    assert report["files"].counts["purges"] > counts["files"]["purges"], "this run has purged too"
    pending = [job.name for job in engine.maintain(dry_run=True).jobs if job.counts]
    assert set(pending) <= {"log", "purge", "runs"}, "without a grace period, the row of this run can be deleted, too"


# what can go wrong


def add_things(_: Records, run: JobRun) -> None:
    run.add("things", 3)


def fail(_: Records, run: JobRun) -> None:
    run.add("things", 1)
    raise StoreError("the disk is full; free some space")


def make_job(name: str, perform: Any, **options: Any) -> MaintenanceJob[Records]:
    return MaintenanceJob(name, "", lambda _: {"things": 7}, perform, **options)


def test_a_job_that_fails_does_not_stop_the_rest(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    records = get_records(engine)
    report = run_jobs(records, [make_job("first", fail, lease="first"), make_job("second", add_things)], records)
    assert get_outcomes(report) == {"first": "failed", "second": "done"}
    assert [job.name for job in report.failed] == ["first"]
    first = report["first"]
    assert (first.counts, first.left, first.error) == (
        {"things": 1},
        {"things": 7},
        "the disk is full; free some space",
    )
    assert records.scan(Lease, None)[0].holder is None, "a failed job releases its lease"
    assert engine.doctor().parts["maintenance"].endswith("failed: first")


def test_a_job_stops_between_two_batches_when_its_time_is_up(sqlite_store: Store) -> None:
    records = get_records(sqlite_store.open())
    batches: list[int] = []

    def perform(_: Records, run: JobRun) -> None:
        for number in range(5):
            batches.append(number)
            run.add("things")

    report = run_jobs(
        records, [make_job("slow", perform, time_limit=timedelta(0)), make_job("next", add_things)], records
    )
    assert get_outcomes(report) == {"slow": "unfinished", "next": "done"}
    assert (batches, report["slow"].counts, report["slow"].left) == ([0], {"things": 1}, {"things": 7})


def test_a_job_is_held_or_taken_over_by_another_process(store: Store) -> None:
    records = get_records(store.open())
    job = make_job("same", add_things, lease="work")

    def run_beside(_: Records, run: JobRun) -> None:
        assert get_outcomes(run_jobs(records, [job], records)) == {"same": "held"}
        records.commit([Patch(Lease, ("work",), {"until": clock.now() - LONG_AGO})])  # as if it had taken too long
        assert get_outcomes(run_jobs(records, [job], records)) == {"same": "done"}
        run.add("things")
        run.commit([Put(OutboxMark(day="2020-01-01", last_sequence=1))])

    report = run_jobs(records, [make_job("slow", run_beside, lease="work")], records)
    assert get_outcomes(report) == {"slow": "held"}
    assert records.scan(OutboxMark, None) == [], "a job that lost its lease changes nothing more"


def test_only_the_named_jobs_run_in_their_own_order(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    assert list(get_outcomes(engine.maintain(["purge", "log"]))) == ["log", "purge"]
    assert list(get_outcomes(engine.maintain())) == [job.name for job in JOBS]
    with pytest.raises(InvalidInput, match=r"no maintenance job 'purg'; choose from log, forget, expire, purge"):
        engine.maintain(["purg"])


def test_two_threads_at_once_do_everything_once(store: Store) -> None:
    engines = [store.open(grace_days=0) for _ in range(2)]
    alice = engines[0].scope(user="alice")
    for memory in alice.remember_many([f"fact number {number}" for number in range(120)]):
        alice.forget(memory.id)
    reports: list[MaintenanceReport] = []
    threads = [threading.Thread(target=lambda engine=engine: reports.append(engine.maintain())) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    reported = {(name, outcome) for report in reports for name, outcome in get_outcomes(report).items()}
    # An engine that still reads the file keeps it from being rewritten; the next run finishes that.
    assert {outcome for _, outcome in reported - {("files", "unfinished")}} <= {"done", "held"}
    assert engines[0].maintain(["files"])["files"].outcome == "done"
    assert sum(report["purge"].counts.get("memories", 0) for report in reports) == 120
    records = get_records(engines[0])
    assert records.count(Memory, None, deleted=True) == 0
    assert engines[0].verify_log().intact


def test_a_change_of_the_model_is_finished(sqlite_store: Store) -> None:
    first = sqlite_store.open(FakeEmbedder("small", 32))
    first.scope(user="alice").remember_many([f"fact number {number}" for number in range(30)])
    first.close()
    engine = sqlite_store.open(FakeEmbedder("large", 96))
    report = engine.maintain(["reembed"])["reembed"]
    assert (report.outcome, report.left) == ("done", {})
    records = get_records(engine)
    assert [(model.name, model.status) for model in records.scan(EmbeddingModel, None)] == [("large", "serving")]
    assert {chunk.model for chunk in records.scan(Chunk, "default")} == {"large"}


def test_doctor_tells_when_maintenance_last_ran(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    assert engine.doctor().parts["maintenance"] == "has not run yet; run `everhold maintain`"
    engine.maintain()
    assert engine.doctor().parts["maintenance"].startswith(f"last ran at {clock.now():%Y-%m-%d}")


def test_progress_names_the_job(sqlite_store: Store) -> None:
    engine = sqlite_store.open(grace_days=0)
    prepare_work(engine, sqlite_store.open())
    updates: list[StepProgress] = []
    report = engine.maintain(progress=updates.append)
    assert report["forget"].counts["memories"] == 2
    assert [progress for progress in updates if progress.step == "forget"] == [("forget", 0, 2), ("forget", 2, 2)]
