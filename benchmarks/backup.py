"""How long does a backup take, compared with a compressed copy of the store? Are backups under load consistent?

`full` is a backup into an empty folder. It is compared with three files that Zstandard writes to the same disk at its
default level: `full` compresses the bytes that the backup holds; `file` compresses the database file, which no process
writes to at the same time; and `live` makes a copy of a live store with SQLite's own online backup and compresses that.
`incremental` is a backup after one memory in a hundred was changed or added; its floor
is a full backup of the same store. `…_cpu_ratio` compares processor time instead of time on the clock. `load` is
backups of a store that eight threads write to, on SQLite and on PostgreSQL.
"""

import argparse
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import zstandard

from benchmarks.backup_load import back_up_under_load, check_backups
from benchmarks.report import PairedTimes, Report
from benchmarks.texts import make_sentences
from everhold import Everhold, MemoryInput
from everhold.backups.comparing import INDEX
from everhold.backups.objects import Objects
from everhold.backups.sealing import EVERYONE, NoSealing
from everhold.files import create_binary
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.backup_deps import make_packing, open_history
from tests.servers.postgres import PostgresServer

_ZSTD_LEVEL = 3  # the default of Zstandard
_READ_BYTES = 1024 * 1024
_USERS = 50
_BATCH = 1000
_ENGINE: dict[str, Any] = {"sqlite": {"synchronous": "NORMAL"}, "log": {"flush_seconds": 3600}}


def fill(engine: Everhold, memories: int) -> list[tuple[str, str]]:
    """Store memories of several users; return the user and the id of each."""
    texts = make_sentences(memories)
    stored: list[tuple[str, str]] = []
    for start in range(0, memories, _BATCH):
        user = f"user-{start // _BATCH % _USERS}"
        items: list[MemoryInput] = [{"text": f"{text} ({start + number})", "tags": ["bench", f"tag{number % 20}"]}
                 for number, text in enumerate(texts[start : start + _BATCH])]  # fmt: skip
        stored += [(user, memory.id) for memory in engine.scope(user=user).remember_many(items)]
    engine.flush()
    return stored


def change(engine: Everhold, stored: list[tuple[str, str]], share: float, seed: int) -> None:
    """Add a memory, or change the text or the importance of one, for the given share of all memories."""
    rng = random.Random(seed)
    amount = max(3, int(len(stored) * share))
    for number, (user, memory_id) in enumerate(rng.sample(stored, amount)):
        view = engine.scope(user=user)
        if number % 3 == 0:
            view.remember(f"a new memory {seed}-{number}", tags=["bench"])
        elif number % 3 == 1:
            view.revise(memory_id, text=f"a changed memory {seed}-{number}")
        else:
            view.revise(memory_id, importance=rng.random())
    engine.flush()


def copy_through_zstd(source: Path, target: Path) -> None:
    """Compress a file into another one and make sure that it is on disk, as a backup does."""
    compressor = zstandard.ZstdCompressor(_ZSTD_LEVEL)
    with (
        source.open("rb") as source_file,
        create_binary(target, overwrite=True) as target_file,
        compressor.stream_writer(target_file, closefd=False) as compressed_stream,
    ):
        while data := source_file.read(_READ_BYTES):
            compressed_stream.write(data)


def copy_live_store(database: Path, folder: Path) -> None:
    """Copy a database that may be written to meanwhile, then compress the copy."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(folder / "copy.db")) as target:
        source.backup(target)
    copy_through_zstd(folder / "copy.db", folder / "copy.zst")
    (folder / "copy.db").unlink()


def write_uncompressed(target: Path, path: Path) -> None:
    """Write the content of the only backup of a target into one file, uncompressed."""
    history = open_history(target)
    objects = Objects(history.place, make_packing(), NoSealing())
    [backup_id] = history.list_ids()
    with path.open("wb") as file:
        for name, table in history.require(backup_id).tables.items():
            for part in (part for layer in table.layers for part in layer.rows):
                for frame in objects.read_pack(part, name):
                    file.write(objects.packing.decompress(frame.content or b"", frame.size))
            if table.index is not None:
                file.write(objects.get_bytes(table.index, EVERYONE, INDEX) or b"")


class TimedResult(NamedTuple):
    """The result of a function, its elapsed seconds, and the processor seconds of all threads."""

    result: Any
    clock: float
    cpu: float


def measure(work: Callable[[], object]) -> TimedResult:
    started = perf_counter(), process_time()
    result = work()
    return TimedResult(result, perf_counter() - started[0], process_time() - started[1])


def measure_full(report: Report, folder: Path, engine: Everhold, pairs: int) -> None:
    targets = (folder / f"full-{number}" for number in count())
    database, contents = folder / "store.db", folder / "contents"
    copy_functions: dict[str, Callable[[], None]] = {
        "full": lambda: copy_through_zstd(contents, folder / "copy.zst"),
        "file": lambda: copy_through_zstd(database, folder / "copy.zst"),
        "live": lambda: copy_live_store(database, folder),
    }
    times = {name: PairedTimes([], []) for name in copy_functions}
    cpu_times = {name: PairedTimes([], []) for name in copy_functions}
    engine._parts.records.maintain()  # writes the log into the file, so that a copy of the file is complete
    for number in range(pairs + 1):
        target = next(targets)
        ours = measure(partial(engine.backup, target))
        if number == 0:
            write_uncompressed(target, contents)
        for name, copy in copy_functions.items():
            floor = measure(copy)
            if number:  # the first pair warms up
                times[name].ours.append(ours.clock)
                times[name].floor.append(floor.clock)
                cpu_times[name].ours.append(ours.cpu)
                cpu_times[name].floor.append(floor.cpu)
        shutil.rmtree(target)
    report.add("full_megabytes", contents.stat().st_size / 1e6)
    report.add("file_megabytes", database.stat().st_size / 1e6)
    for name, pairs_of_times in times.items():
        pairs_of_times.add_to(report, name, 2.0)
        report.add(f"{name}_cpu_ratio", round(cpu_times[name].ratio, 3))


def measure_incremental(
    report: Report, folder: Path, engine: Everhold, stored: list[tuple[str, str]], pairs: int
) -> None:
    target, times, cpu_times = folder / "chain", PairedTimes([], []), PairedTimes([], [])
    engine.backup(target)
    engine.backup(target)  # stores what the first backup itself changed: the sealed log, and the remembered target
    for number in range(pairs):
        change(engine, stored, 0.01, number)
        ours = measure(partial(engine.backup, target))
        fresh = folder / f"whole-{number}"
        floor = measure(partial(engine.backup, fresh))
        for pairs_of_times, spent, floor_spent in ((times, ours.clock, floor.clock), (cpu_times, ours.cpu, floor.cpu)):
            pairs_of_times.ours.append(spent)
            pairs_of_times.floor.append(floor_spent)
        report.figures["incremental_rows"] = ours.result.changed_rows
        report.figures["incremental_megabytes"] = round(ours.result.bytes / 1e6, 3)
        shutil.rmtree(fresh)
    times.add_to(report, "incremental", 0.1)
    report.add("incremental_cpu_ratio", round(cpu_times.ratio, 3))
    report.add("verified", Everhold.verify_backup(target).intact, "==", True)


@contextmanager
def open_store(kind: str, folder: Path) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Yield the address of an empty store, and a function that returns the addresses of further empty stores."""
    if kind == "sqlite":
        yield str(folder / "load.db"), lambda number: str(folder / f"restored-{number}.db")
        return
    with PostgresServer() as server:
        yield server.create_database(), lambda number: server.create_database()


def measure_load(report: Report, kind: str, folder: Path, seconds: float) -> None:
    with open_store(kind, folder) as (storage, make_scratch):
        with Everhold.open(storage, embedder=FakeEmbedder(), **_ENGINE) as engine:
            # About twelve backups: each is restored later, which takes longer than making it.
            seconds_between = max(0.2, seconds / 12)
            writers, backups = back_up_under_load(
                engine, folder / f"load-{kind}", seconds, seconds_between=seconds_between
            )
        differences = check_backups(writers, folder / f"load-{kind}", backups, make_scratch)
    report.add(f"{kind}_load_seconds", seconds)
    report.add(f"{kind}_load_writes", writers.writes)
    report.add(f"{kind}_load_backups", len(backups), ">=", 2)
    report.add(f"{kind}_load_differences", len(differences), "==", 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small store and a few seconds of load")
    parser.add_argument("--memories", type=int, default=40_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--load-seconds", type=float, default=300.0)
    parser.add_argument("--only", choices=("speed", "load"), help="measure a part")
    options = parser.parse_args()
    if options.quick:
        options.memories, options.pairs, options.load_seconds = 6_000, 3, 5.0
    report = Report("backup")
    with TemporaryDirectory(prefix="everhold-backup-") as name, ExitStack() as stack:
        folder = Path(name)
        if options.only != "load":
            engine = stack.enter_context(Everhold.open(folder / "store.db", embedder=FakeEmbedder(), **_ENGINE))
            stored = fill(engine, options.memories)
            report.add("memories", len(stored))
            measure_full(report, folder, engine, options.pairs)
            measure_incremental(report, folder, engine, stored, options.pairs)
        if options.only != "speed":
            for kind in ("sqlite", "postgres"):
                measure_load(report, kind, folder, options.load_seconds)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
