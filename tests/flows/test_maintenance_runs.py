"""Runs of maintenance: each has an id, and all that it changed in memories is undone by one call."""

import time

import pytest

from everhold import Everhold, View
from everhold.errors import NotFound
from everhold.maintenance.pipeline import JobRun, MaintenanceJob, MaintenanceReport, run_jobs
from everhold.maintenance.schedule import find_last_start
from everhold.maintenance_jobs import JOBS
from everhold.parts import Parts
from everhold.remember.journal import find_undone_ids
from everhold.testing.logical_hash import hash_logically
from tests.engines import Store, get_parts, get_records

NEAR_DUPLICATES = ("Prefers window seats on long flights", "Prefers window seats on long flights!")


def fill(engine: Everhold) -> dict[str, str]:
    """Store the memories that `change_everything` changes, and return their ids."""
    alice = engine.scope(user="alice")
    first, second = (alice.remember(text, tags=[tag]) for text, tag in zip(NEAR_DUPLICATES, "ab", strict=True))
    texts = {"revised": "Rides a red bicycle", "ended": "Lives in Oslo", "hidden": "Owns a boat", "other": "Eats fish"}
    ids = {name: alice.remember(text, kind="fact").id for name, text in texts.items()}
    alice.relate(ids["hidden"], ids["other"])
    engine.scope(organization="acme", user="bob").remember("Sings in a choir")
    return {**ids, "first": first.id, "second": second.id}


def change_everything(engine: Everhold, ids: dict[str, str]) -> MaintenanceReport:
    """Run a job that makes every kind of change."""

    def perform(parts: Parts, run: JobRun) -> None:
        journalled = parts.journal_under(run.run_id)
        alice = View(journalled, engine.scope(user="alice").scope)
        assert alice.merge_duplicates().count == 1
        alice.revise(ids["revised"], text="Rides a blue bicycle", importance=0.9)
        successor = alice.supersede(ids["ended"], "Lives in Bergen")
        alice.revise(successor.id, text="Lives in the old town of Bergen")
        alice.relate(successor.id, ids["other"], "related_to", metadata={"reason": "both are about Alice"})
        alice.remember("Alice likes the sea", kind="reflection", tags=["pattern"], provenance={"memory": ids["hidden"]})
        alice.remember("Eats fish", kind="fact", importance=1.0)
        alice.forget(ids["hidden"])
        View(journalled, engine.scope(organization="acme", user="bob").scope).remember("Bob likes music")
        run.add("changes", 8)

    parts = get_parts(engine)
    job: MaintenanceJob[Parts] = MaintenanceJob("dream", "", lambda _: {}, perform)
    return run_jobs(parts.records, [job], parts)


def test_a_run_is_undone_as_a_whole(any_store: Store) -> None:
    engine = any_store.open()
    ids, records = fill(engine), get_records(engine)
    before = hash_logically(records)
    report = change_everything(engine, ids)
    assert (report["dream"].outcome, report.run_id) == ("done", engine.runs()[0].id)
    assert hash_logically(records) != before
    assert report.run_id is not None

    undone = engine.undo_run(report.run_id)
    assert (undone.skipped, undone.count > 8) == ((), True)
    assert hash_logically(records) == before
    alice = engine.scope(user="alice")
    assert {hit.memory.id for hit in alice.recall("Lives in Oslo or Bergen")} >= {ids["ended"]}
    assert not [memory for memory in alice.list().memories if "Bergen" in memory.text or "the sea" in memory.text]
    assert engine.runs()[0].undone_at is not None
    assert engine.undo_run(report.run_id).count == 0, "it was undone before"
    assert find_undone_ids(records, "default", "forget") == {ids["hidden"]}


def test_later_changes_are_not_lost(store: Store) -> None:
    engine = store.open()
    ids = fill(engine)
    report = change_everything(engine, ids)
    alice = engine.scope(user="alice")
    alice.revise(ids["revised"], text="Rides a green bicycle")
    assert report.run_id is not None
    [skipped] = engine.undo_run(report.run_id).skipped
    assert (skipped.change.memory_ids, "changed again later" in skipped.reason) == ([ids["revised"]], True)
    assert alice.get(ids["revised"]).text == "Rides a green bicycle"
    assert engine.runs()[0].undone_at is None
    alice.undo(ids["revised"])
    assert engine.undo_run(report.run_id).skipped == ()
    assert alice.get(ids["revised"]).text == "Rides a red bicycle"


def test_undo_means_the_callers_own_change(store: Store) -> None:
    engine = store.open()
    ids = fill(engine)
    alice = engine.scope(user="alice")
    alice.revise(ids["other"], importance=0.2)
    change_everything(engine, ids)
    assert alice.undo().memory_ids == [ids["other"]]
    assert alice.undo(ids["hidden"]).kind == "forget", "a change of maintenance is undone by the id of its memory"


def test_a_run_of_another_store_is_refused(sqlite_store: Store) -> None:
    engine = sqlite_store.open()
    with pytest.raises(NotFound, match="no run 'run_1'"):
        engine.undo_run("run_1")


def test_an_interrupted_run_is_undone_too(store: Store) -> None:
    engine = store.open()
    ids, records = fill(engine), get_records(engine)
    before = hash_logically(records)

    def perform(parts: Parts, run: JobRun) -> None:
        View(parts.journal_under(run.run_id), engine.scope(user="alice").scope).forget(ids["hidden"])
        raise KeyboardInterrupt

    parts = get_parts(engine)
    job: MaintenanceJob[Parts] = MaintenanceJob("dream", "", lambda _: {}, perform)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(records, [job], parts)
    [run] = engine.runs()
    assert (run.finished_at, run.jobs) == (None, {})
    assert engine.undo_run(run.id).count == 1
    assert hash_logically(records) == before


def wait_for_run(engine: Everhold) -> None:
    deadline = time.monotonic() + 300
    while not engine.runs() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_an_engine_maintains_its_store_by_itself(store: Store) -> None:
    engine = store.open(maintenance={"every_minutes": 0.0005})
    wait_for_run(engine)
    assert {job["outcome"] for job in engine.runs()[-1].jobs.values()} == {"done"}
    engine.close()
    thread = get_parts(engine).maintenance
    assert thread is not None
    assert thread.failure is None


def test_one_of_several_engines_maintains(sqlite_store: Store) -> None:
    """A run by any engine postpones the next run, so this engine never begins a run."""
    first = sqlite_store.open()
    first.maintain()
    second = sqlite_store.open(maintenance={"every_minutes": 60})
    thread = get_parts(second).maintenance
    assert thread is not None
    thread._run_if_due()
    assert len(first.runs()) == 1
    first.maintain(["log"])
    assert find_last_start(get_records(first), [job.name for job in JOBS]) == first.runs()[1].started_at


def test_a_stopped_run_ends_between_two_batches(sqlite_store: Store) -> None:
    engine = sqlite_store.open(maintenance={"max_memories": 1})
    engine.scope(user="alice").remember_many([f"note {number}" for number in range(250)])
    counts: list[int] = []
    report = engine.maintain(
        ["prune", "outbox"],
        progress=lambda job: counts.append(job.done),
        should_stop=lambda: bool(counts) and counts[-1] > 0,
    )
    assert [(job.name, job.outcome, dict(job.counts)) for job in report.jobs] == [
        ("prune", "unfinished", {"memories": 100})
    ]
    assert report["prune"].left == {"memories": 149}
