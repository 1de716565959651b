"""Does maintenance that is killed lose a memory or leave a partial change? Does undoing its run restore the store?

    python -m benchmarks.maintenance_crash                           # 200 kills on SQLite, 50 on PostgreSQL
    python -m benchmarks.maintenance_crash --kills 20 --store sqlite
    python -m benchmarks.maintenance_crash --kills 20 --plant unjournalled    # a bug that must be caught: exits with 1

Each kill uses a copy of a store that was filled once. A process maintains the store and then undoes the run; it is
killed by SIGKILL at a random moment. Then the store is checked. After every third kill, another run finishes the work.
Finally all runs are undone, and the logical hash must equal that of the filled store.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.maintenance_worker import BUDGET, USERS, fill, maintain, open_store, work
from benchmarks.report import Report
from benchmarks.store_copies import Template, kill_worker, make_template
from everhold import Everhold, MaintenanceReport
from everhold.model import Change, Lease, Memory
from everhold.schema.operations import Delete, Op, Where
from everhold.testing.logical_hash import hash_logically

KILLS: Final = {"sqlite": 200, "postgres": 50}
CONTINUE_EVERY: Final = 3
UNJOURNALLED: Final = "unjournalled"
BARS: Final = dict.fromkeys(("lost", "half_done", "not_restored", "not_continued", "damage"), ("==", 0))


@dataclass
class MaintenanceCrashOutcome:
    """The number of kills on one kind of store, and descriptions of the problems that were found."""

    kills: int = 0
    killed_while_undoing: int = 0
    journalled: int = 0
    lost: list[str] = field(default_factory=list)
    half_done: list[str] = field(default_factory=list)
    not_restored: list[str] = field(default_factory=list)
    not_continued: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, Any]:
        counts = {name: len(getattr(self, name)) for name in BARS}
        others = ("kills", "killed_while_undoing", "journalled")
        return {**{name: getattr(self, name) for name in others}, **counts}

    @property
    def wrong(self) -> list[str]:
        """The first ten problems."""
        return [problem for name in BARS for problem in getattr(self, name)][:10]


@dataclass(frozen=True)
class FilledStore:
    """The state of the store before maintenance."""

    hash: str
    memory_ids: frozenset[str]
    seconds: float
    """The time that an undisturbed worker takes after it has opened the store."""


def run(store: str, kills: int, *, plant: str | None = None, seed: int = 1) -> MaintenanceCrashOutcome:
    """Kill workers `kills` times and return the outcome."""
    outcome, rng = MaintenanceCrashOutcome(), random.Random(seed)
    with make_template(store) as template:
        filled = _fill(template)
        for number in range(1, kills + 1):
            storage = template.copy(number)
            kill_worker(work, storage, rng.uniform(0, 1.1 * filled.seconds))
            outcome.kills += 1
            with open_store(storage) as engine:
                if plant == UNJOURNALLED:
                    _plant_unjournalled(engine)
                _check(engine, filled, outcome, f"kill {number}", should_continue=number % CONTINUE_EVERY == 0)
    return outcome


def _fill(template: Template) -> FilledStore:
    with open_store(template.storage) as engine:
        fill(engine)
        records = engine._parts.records
        before = hash_logically(records)
        ids = frozenset(memory.id for memory in records.scan(Memory, None, deleted=True))
    with open_store(template.copy(0)) as engine:
        started = time.perf_counter()
        report = maintain(engine)
        assert not report.failed, report.failed
        assert report.run_id is not None
        engine.undo_run(report.run_id)
        return FilledStore(before, ids, time.perf_counter() - started)


def _plant_unjournalled(engine: Everhold) -> None:
    """Finish the run, and remove one of its changes from the journal, as if maintenance had not journalled it."""
    _finish(engine)
    where = [Where("kind", Op.EQ, "forget"), Where("undone_at", Op.EQ, None)]
    [change] = engine._parts.records.scan(Change, None, where, limit=1)
    engine._parts.records.commit([Delete(Change, (change.organization_id, change.id))])


def _check(
    engine: Everhold, filled: FilledStore, outcome: MaintenanceCrashOutcome, name: str, *, should_continue: bool
) -> None:
    records = engine._parts.records
    memories = {memory.id: memory for memory in records.scan(Memory, None, deleted=True)}
    outcome.lost += [f"{name}: memory {missing}" for missing in sorted(filled.memory_ids - memories.keys())]
    changes = records.scan(Change, None)
    outcome.journalled += len(changes)
    outcome.killed_while_undoing += any(change.undone_at is not None for change in changes)
    outcome.half_done += [f"{name}: {problem}" for problem in _find_half_done(memories, changes)]
    outcome.damage += [f"{name}: {problem}" for problem in engine.doctor().problems]
    if should_continue:
        outcome.not_continued += [f"{name}: {problem}" for problem in _continue(engine)]
    for maintenance_run in engine.runs(limit=100):
        if maintenance_run.undone_at is None:
            skipped = engine.undo_run(maintenance_run.id).skipped
            outcome.not_restored += [f"{name}: a {skip.change.kind} was skipped: {skip.reason}" for skip in skipped]
    if hash_logically(records) != filled.hash:
        outcome.not_restored.append(f"{name}: the logical hash is different")
    outcome.damage += [f"{name}, undone: {problem}" for problem in engine.doctor().problems]


def _find_half_done(memories: dict[str, Memory], changes: list[Change]) -> Iterator[str]:
    """Yield traces of a commit that was written only in part: hidden memories without a change, and partial merges."""
    current = [change for change in changes if change.undone_at is None]
    # Undoing a supersession hides the memory that the run added; a later step of the same undo purges it.
    added_ids = {change.memory_ids[-1] for change in changes if change.kind == "supersede" and change.undone_at}
    changes_by_deletion = {change.before["deletion_id"]: change for change in current if "deletion_id" in change.before}
    for memory in memories.values():
        change = changes_by_deletion.get(memory.deletion_id or "")
        if memory.is_deleted and memory.id not in added_ids and (change is None or memory.id not in change.memory_ids):
            yield f"memory {memory.id} is hidden by no change"
    for change in current:
        if change.kind == "merge":
            survivor, *merged = (memories[memory_id] for memory_id in change.memory_ids)
            merged_ids = {entry["id"] for entry in survivor.provenance.get("merged", ())}
            if not all(memory.is_deleted and memory.id in merged_ids for memory in merged):
                yield f"merge {change.id} is half-done"


def _continue(engine: Everhold) -> Iterator[str]:
    """Run maintenance to its end; yield the jobs that were not done, and users with too many memories."""
    records = engine._parts.records
    report = _finish(engine)
    yield from (f"{job.name} was {job.outcome}: {job.error}" for job in report.jobs if job.outcome != "done")
    undone_ids = {name for change in records.scan(Change, None) if change.undone_at for name in change.memory_ids}
    for user in USERS:
        live = records.scan(Memory, "default", [Where("user_id", Op.EQ, user)])
        excess = [memory for memory in live if memory.id not in undone_ids][BUDGET:]
        if len(live) > BUDGET and excess:
            yield f"{user} has {len(live)} memories and may have {BUDGET}"


def _finish(engine: Everhold) -> MaintenanceReport:
    """Run maintenance as another process would do after the leases of the killed process have expired."""
    records = engine._parts.records
    records.commit([Delete(Lease, (lease.name,)) for lease in records.scan(Lease, None)])
    return maintain(engine)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, help="kills per store; without it 200 on SQLite and 50 on PostgreSQL")
    parser.add_argument("--store", choices=(*KILLS, "all"), default="all")
    parser.add_argument("--plant", choices=(UNJOURNALLED,), help="put a bug in and see that it is caught")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = Report("maintenance_crash")
    total: dict[str, int] = {}
    for store in KILLS if options.store == "all" else (options.store,):
        kills = KILLS[store] if options.kills is None else options.kills
        outcome = run(store, kills, plant=options.plant, seed=options.seed)
        report.add(store, {**outcome.figures, "wrong": outcome.wrong})
        total = {name: total.get(name, 0) + count for name, count in outcome.figures.items()}
    for name, count in total.items():
        report.add(name, count, *BARS.get(name, ()))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
