"""How do costs grow with the store: 10,000 memories of one user, alone and among a hundred thousand or millions?

    python -m benchmarks.scale                      # SQLite: 10,000, then 100,000 and 1,000,000 memories
    python -m benchmarks.scale --store postgres     # the same on a server that it starts
    python -m benchmarks.scale --year               # 3,650,000 memories, of which half have vectors
    python -m benchmarks.scale --tenants 10000      # so many organizations with ten memories each, instead

Texts and vectors are synthetic: 20,000 sentences and vectors, which users share, each user's sentences beginning with a
number of their own. Every user has 10,000 memories; questions are about the first one's, and about the whole
organization's. The memories are loaded through `remember_many`, without resolving what they state.
"""

import argparse
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psycopg

from benchmarks.engines import chosen, open_engine
from benchmarks.report import Report, interleaved
from benchmarks.texts import questions, sentences
from benchmarks.vectors import Precomputed, synthetic
from everhold import Everhold
from everhold.adapters.usearch import UsearchVectors
from everhold.ports.embedder import Vector
from everhold.views import View
from tests.servers.postgres import PostgresServer

EACH = 10_000
POOL = 20_000
ASKED = 100
ASKED_WIDELY = 30
K = 10
RATIO = 1.3
YEAR = 3_650_000
OF_A_TENANT = 10
SETTINGS: dict[str, Any] = {"remember": {"resolve": False}, "log": {"flush_seconds": 3600}}
SERVER = {"shared_buffers": "2GB", "maintenance_work_mem": "4GB", "max_wal_size": "8GB"}
TEXTS_AND_VECTORS = "synthetic, through remember_many"


class Pooled(Precomputed):
    """Gives a text one of a fixed number of vectors, always the same one, or to some share of them none."""

    def __init__(self, share: float) -> None:
        super().__init__({})
        self._pool = synthetic(POOL, seed=5)
        self._having = share * 2**32

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        numbers = [zlib.crc32(text.encode()) for text in texts]
        return [self._pool[number % POOL] if number < self._having else None for number in numbers]


@dataclass(frozen=True)
class Places:
    """Empty stores of one kind, and how much room each takes."""

    folder: Path
    server: PostgresServer | None

    def new(self, name: str) -> str:
        if self.server is not None:
            return self.server.create_database()
        return f"sqlite:///{self.folder / name}.db"

    def taken(self, place: str) -> int:
        """Bytes, what lies beside the store included."""
        if self.server is None:
            name = Path(place.removeprefix("sqlite:///"))
            beside = [name, *name.parent.glob(f"{name.name}-*"), *name.with_name(f"{name.name}.vectors").glob("*")]
            return sum(path.stat().st_size for path in beside)
        with psycopg.connect(place) as connection:
            [(size,)] = connection.execute("SELECT pg_database_size(current_database())").fetchall()
            return int(size)


def name_of(number: int) -> str:
    return f"user{number}"


def texts_of(number: int, pool: Sequence[str]) -> Iterator[str]:
    return (f"{number}: {pool[(number + at) % POOL]}" for at in range(EACH))


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(ask: Callable[[], object]) -> float:
    begun = perf_counter()
    ask()
    return perf_counter() - begun


@dataclass(frozen=True)
class Run:
    """What every store of a run is filled with and asked."""

    report: Report
    places: Places
    model: Pooled
    pool: Sequence[str]
    asked: Sequence[str]
    indexed: bool

    def open(self, place: str) -> Everhold:
        return open_engine(chosen(place, **SETTINGS), self.model, self.model)

    def fill(self, engine: Everhold, size: int) -> None:
        begun = perf_counter()
        for number in range(size // EACH):
            engine.scope(user=name_of(number)).remember_many(texts_of(number, self.pool))
            if number % 10 == 9:
                print(f"scale: {(number + 1) * EACH:,} of {size:,} memories", file=sys.stderr)
        self.report.add(f"{size}_loaded_per_second", size / (perf_counter() - begun))

    def grow(self, sizes: Sequence[int]) -> None:
        """The store that holds nothing else stays open, so that every larger one is compared with it at one time."""
        with ExitStack() as held:
            place = self.places.new("alone")
            alone = held.enter_context(self.open(place))
            self.fill(alone, EACH)
            self.report.add(f"{EACH}_first_recall_seconds", timed(lambda: self.ask(alone.scope(user=name_of(0)), 0)))
            self.report.add(f"{EACH}_maintenance_seconds", timed(alone.maintain))
            self.report.add(f"{EACH}_disk_bytes_per_memory", self.places.taken(place) / EACH)
            for size in sizes:
                self.measure(size, alone.scope(user=name_of(0)))

    def measure(self, size: int, alone: View) -> None:
        place = self.places.new(str(size))
        with self.open(place) as engine:
            self.fill(engine, size)
            self.in_one_scope(engine, alone, size)
            self.widely(engine, size)
        self.report.add(f"{size}_disk_bytes_per_memory", self.places.taken(place) / size)

    def ask(self, view: View, number: int) -> object:
        return view.recall(self.asked[number % ASKED], k=K, minimum=0)

    def in_one_scope(self, engine: Everhold, alone: View, size: int) -> None:
        view, report = engine.scope(user=name_of(0)), self.report
        report.add(f"{size}_first_recall_seconds", timed(lambda: self.ask(view, 0)))
        taken = interleaved(lambda number: self.ask(view, number), lambda number: self.ask(alone, number), 200)
        taken.add_to(report, f"{size}_scope_of_{EACH}", RATIO)
        report.add(f"{size}_scope_of_{EACH}_p95_ms", 1000 * quantiles(taken.ours, n=20)[-1])
        report.add(f"{size}_resident_megabytes", resident_megabytes())

    def widely(self, engine: Everhold, size: int) -> None:
        """Across the organization: before there is an index of near vectors, and with it."""
        whole, report = engine.scope(), self.report
        report.add(f"{size}_organization_first_recall_seconds", timed(lambda: self.ask(whole, 0)))
        self.ask_widely(whole, f"{size}_organization")
        if self.indexed:
            report.add(f"{size}_maintenance_seconds", timed(engine.maintain))
            report.add(f"{size}_index_seconds_after_maintenance", timed(lambda: settle(engine)))
            self.ask_widely(whole, f"{size}_organization_indexed")
            report.add(f"{size}_second_maintenance_seconds", timed(engine.maintain))
        report.add(f"{size}_organization_resident_megabytes", resident_megabytes())

    def ask_widely(self, whole: View, name: str) -> None:
        taken = [timed(partial(self.ask, whole, at)) for at in range(ASKED_WIDELY)]
        self.report.add(f"{name}_p50_ms", 1000 * median(taken))
        self.report.add(f"{name}_p95_ms", 1000 * quantiles(taken, n=20)[-1])

    def many_tenants(self, count: int) -> None:
        """The last of many organizations, compared with the only one of a store."""
        with self.open(self.places.new("one")) as alone, self.open(self.places.new("many")) as engine:
            self.tenant(alone, 0)
            begun = perf_counter()
            for number in range(count):
                self.tenant(engine, number)
            self.report.add("tenants_per_second", count / (perf_counter() - begun))
            last, only = (
                one.scope(organization=f"org{number}", user="alice")
                for one, number in ((engine, count - 1), (alone, 0))
            )
            taken = interleaved(lambda number: self.ask(last, number), lambda number: self.ask(only, number), 200)
            taken.add_to(self.report, f"one_of_{count}_tenants", RATIO)
            self.report.add(f"{count}_tenants_maintenance_seconds", timed(engine.maintain))
            self.report.add(f"{count}_tenants_second_maintenance_seconds", timed(engine.maintain))
            self.report.add(f"{count}_tenants_resident_megabytes", resident_megabytes())

    def tenant(self, engine: Everhold, number: int) -> None:
        view = engine.scope(organization=f"org{number}", user="alice")
        view.remember_many(self.pool[(OF_A_TENANT * number + at) % POOL] for at in range(OF_A_TENANT))


def settle(engine: Everhold) -> None:
    vectors = engine._parts.recall_deps.candidates.vectors
    if isinstance(vectors, UsearchVectors):
        vectors.settle()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000, 1_000_000], help="of the larger stores")
    parser.add_argument("--year", action="store_true", help=f"{YEAR:,} memories, of which half have vectors")
    parser.add_argument("--without-index", action="store_true", help="no maintenance and no vector index")
    parser.add_argument("--tenants", type=int, help="so many organizations instead")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args()
    sizes, share = ([YEAR], 0.5) if options.year else (options.sizes, 1.0)
    report = Report("scale")
    report.add("store", options.store)
    report.add("texts_and_vectors", TEXTS_AND_VECTORS)
    report.add("share_with_vectors", share)
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(dir=options.folder)))
        server = None
        if options.store == "postgres":
            server = held.enter_context(PostgresServer(durable=True, settings=SERVER))
        places = Places(folder, server)
        run = Run(report, places, Pooled(share), sentences(POOL), questions(ASKED), not options.without_index)
        if options.tenants:
            run.many_tenants(options.tenants)
        else:
            run.grow(sizes)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
