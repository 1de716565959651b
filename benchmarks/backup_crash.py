"""Do backups stay intact when the process that makes the next backup is killed?

    python -m benchmarks.backup_crash                # 30 kills on SQLite
    python -m benchmarks.backup_crash --kills 5

Each kill uses a copy of a store and of its first backup. A process repeatedly changes some memories and makes a backup
with a retention rule, and is killed by SIGKILL at a random moment. Then every listed backup must be intact, and the
next backup must equal the store.
"""

import argparse
import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from benchmarks.store_copies import kill_worker, make_template, time_worker
from everhold import Everhold, clock
from everhold.backups.objects import list_objects
from everhold.exchange import moving
from everhold.model import AccessLog, Lease, LogHead
from everhold.schema.operations import Patch
from everhold.settings import load as load_settings
from everhold.stores import open_store as open_records
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.backup_deps import open_history

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

KILLS: Final = 30
MODEL: Final = FakeEmbedder(dimensions=32)
# Few changes in each round, so that most of the time is spent in backups.
MEMORIES, CHANGED, ROUNDS = 1500, 2, 15


def open_store(storage: str) -> Everhold:
    return open_engine(build_settings(storage, sqlite={"synchronous": "NORMAL"}), MODEL, MODEL)


def find_target(storage: str) -> Path:
    """Return the folder with the backups of a store."""
    path = Path(storage.removeprefix("sqlite:///"))
    return path.with_name(f"{path.name}.backups")


def back_up_changes(engine: Everhold, target: Path, round_number: int) -> None:
    """Change some memories and back up the store."""
    view = engine.scope(user="alice")
    for memory in view.list(limit=CHANGED).memories:
        view.revise(memory.id, text=f"{memory.text} {round_number}")
    engine.backup(target, keep_last=2)


def work(storage: str, is_open: "Event") -> None:
    """Make backups, in the process that is killed."""
    with open_store(storage) as engine:
        is_open.set()
        for round_number in range(ROUNDS):
            back_up_changes(engine, find_target(storage), round_number)


def find_faults(storage: str) -> list[str]:
    """Return problems of the listed backups, and differences between the next backup and the store."""
    target, faults = find_target(storage), []
    for entry in Everhold.list_backups(target):
        result = Everhold.verify_backup(target, entry.id)
        faults += [f"{entry.id}: {problem}" for problem in result.problems]
    with open_store(storage) as engine:
        records = engine._parts.records
        if records.scan(Lease, None):  # the killed process held it; end it now instead of waiting until it expires
            records.commit([Patch(Lease, ("backup",), {"until": clock.now(), "holder": None})])
        engine.backup(target)
        restored_path = f"{target}.restored.db"
        Everhold.restore_backup(target, restored_path)
        restored, indexes = open_records(load_settings(restored_path))
        try:
            for entity, table in moving.list_moved_entities():
                if entity in (AccessLog, LogHead):
                    continue  # a thread seals the log, perhaps after the backup
                if moving.compute_table_hash(records, entity, table) != moving.compute_table_hash(
                    restored, entity, table
                ):
                    faults.append(f"{table.name} differs between the store and the next backup")
        finally:
            indexes.close()
            restored.close()
    return faults


def is_backup_incomplete(target: Path) -> bool:
    """Return whether a target has a part of a file, or objects that no backup needs yet or any more."""
    history = open_history(target)
    manifests = (history.require(backup_id) for backup_id in history.list_ids())
    needed = {name for manifest in manifests for name in manifest.list_objects(with_indexes=True)}
    is_file_incomplete = any(path.suffix == ".part" for path in target.rglob("*"))
    return is_file_incomplete or not needed.issuperset(list_objects(history.place))


def run(kills: int, seed: int = 1) -> dict[str, Any]:
    """Kill backups `kills` times, and return the faults that are found afterwards."""
    rng, faults = random.Random(seed), []
    killed_during_backup = 0
    with make_template("sqlite") as template:
        first_backups = find_target(template.storage)
        with open_store(template.storage) as engine:
            engine.scope(user="alice").remember_many([f"Parcel {number} is in a shed" for number in range(MEMORIES)])
            engine.backup(first_backups)
            engine._parts.records.maintain()
        measured_storage = template.copy(0)
        shutil.copytree(first_backups, find_target(measured_storage))
        # A new process needs much longer than this one, which has imported and used everything.
        seconds = time_worker(work, measured_storage)
        for number in range(1, kills + 1):
            storage = template.copy(number)
            shutil.copytree(first_backups, find_target(storage))
            kill_worker(work, storage, rng.uniform(0, seconds))
            killed_during_backup += is_backup_incomplete(find_target(storage))
            faults += [f"kill {number}: {fault}" for fault in find_faults(storage)]
            shutil.rmtree(find_target(storage))
    return {"kills": kills, "killed_during_a_backup": killed_during_backup, "faults": faults}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    outcome, report = run(options.kills, options.seed), Report("backup_crash")
    report.add("kills", outcome["kills"])
    report.add("killed_during_a_backup", outcome["killed_during_a_backup"], ">=", options.kills // 10)
    report.add("faults", len(outcome["faults"]), "==", 0)
    report.add("wrong", outcome["faults"][:10])
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
