"""How do times and sizes grow with the store? 10,000 memories of one user, alone and among up to millions of others.

    python -m benchmarks.scale                      # SQLite: 10,000, then 100,000 and 1,000,000 memories
    python -m benchmarks.scale --store postgres     # the same on a server that it starts
    python -m benchmarks.scale --year               # 3,650,000 memories, of which half have vectors
    python -m benchmarks.scale --tenants 10000      # 10,000 organizations with ten memories each

Texts and vectors are synthetic: all users share 20,000 sentences and vectors; each user's sentences begin with the
number of the user. Every user has 10,000 memories. Questions are about the memories of the first user, and about those
of the whole organization. The memories are loaded with `remember_many`, without resolving the statements in them.
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

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report, run_interleaved
from benchmarks.texts import make_questions, make_sentences
from benchmarks.vectors import PrecomputedVectors, make_vectors
from everhold import Everhold
from everhold.adapters.usearch import UsearchVectors
from everhold.ports.embedder import Vector
from everhold.views.view import View
from tests.servers.postgres import PostgresServer

MEMORIES_PER_USER = 10_000
POOL_SIZE = 20_000
QUESTIONS = 100
WIDE_QUESTIONS = 30
K = 10
MAX_RATIO = 1.3
YEAR = 3_650_000
MEMORIES_PER_TENANT = 10
SETTINGS: dict[str, Any] = {"remember": {"resolve": False}, "log": {"flush_seconds": 3600}}
SERVER = {"shared_buffers": "2GB", "maintenance_work_mem": "4GB", "max_wal_size": "8GB"}
TEXTS_AND_VECTORS = "synthetic, through remember_many"


class PooledVectors(PrecomputedVectors):
    """Returns one of a fixed number of vectors for a text, always the same one. Only a share of texts has a vector."""

    def __init__(self, share: float) -> None:
        super().__init__({})
        self._pool = make_vectors(POOL_SIZE, seed=5)
        self._limit = share * 2**32

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        numbers = [zlib.crc32(text.encode()) for text in texts]
        return [self._pool[number % POOL_SIZE] if number < self._limit else None for number in numbers]


@dataclass(frozen=True)
class EmptyStores:
    """Creates empty stores of one kind and measures their size."""

    folder: Path
    server: PostgresServer | None

    def create(self, name: str) -> str:
        if self.server is not None:
            return self.server.create_database()
        return f"sqlite:///{self.folder / name}.db"

    def measure_bytes(self, address: str) -> int:
        """Return the bytes of a store, with the files next to it."""
        if self.server is None:
            path = Path(address.removeprefix("sqlite:///"))
            files = [path, *path.parent.glob(f"{path.name}-*"), *path.with_name(f"{path.name}.vectors").glob("*")]
            return sum(file.stat().st_size for file in files)
        with psycopg.connect(address) as connection:
            [(size,)] = connection.execute("SELECT pg_database_size(current_database())").fetchall()
            return int(size)


def name_user(number: int) -> str:
    return f"user{number}"


def make_user_texts(number: int, pool: Sequence[str]) -> Iterator[str]:
    return (f"{number}: {pool[(number + index) % POOL_SIZE]}" for index in range(MEMORIES_PER_USER))


def measure_resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_seconds(ask: Callable[[], object]) -> float:
    started = perf_counter()
    ask()
    return perf_counter() - started


@dataclass(frozen=True)
class ScaleRun:
    """The texts and questions of a run, and where its figures go."""

    report: Report
    stores: EmptyStores
    model: PooledVectors
    pool: Sequence[str]
    question_texts: Sequence[str]
    indexed: bool

    def open(self, address: str) -> Everhold:
        return open_engine(build_settings(address, **SETTINGS), self.model, self.model)

    def fill(self, engine: Everhold, size: int) -> None:
        started = perf_counter()
        for number in range(size // MEMORIES_PER_USER):
            engine.scope(user=name_user(number)).remember_many(make_user_texts(number, self.pool))
            if number % 10 == 9:
                print(f"scale: {(number + 1) * MEMORIES_PER_USER:,} of {size:,} memories", file=sys.stderr)
        self.report.add(f"{size}_loaded_per_second", size / (perf_counter() - started))

    def measure_growth(self, sizes: Sequence[int]) -> None:
        """Measure a store of each size by turns with a small store, which stays open."""
        with ExitStack() as stack:
            address = self.stores.create("alone")
            alone = stack.enter_context(self.open(address))
            self.fill(alone, MEMORIES_PER_USER)
            self.report.add(
                f"{MEMORIES_PER_USER}_first_recall_seconds",
                measure_seconds(lambda: self.ask(alone.scope(user=name_user(0)), 0)),
            )
            self.report.add(f"{MEMORIES_PER_USER}_maintenance_seconds", measure_seconds(alone.maintain))
            self.report.add(
                f"{MEMORIES_PER_USER}_disk_bytes_per_memory", self.stores.measure_bytes(address) / MEMORIES_PER_USER
            )
            for size in sizes:
                self.measure(size, alone.scope(user=name_user(0)))

    def measure(self, size: int, alone: View) -> None:
        address = self.stores.create(str(size))
        with self.open(address) as engine:
            self.fill(engine, size)
            self.measure_scope(engine, alone, size)
            self.measure_organization(engine, size)
        self.report.add(f"{size}_disk_bytes_per_memory", self.stores.measure_bytes(address) / size)

    def ask(self, view: View, number: int) -> object:
        return view.recall(self.question_texts[number % QUESTIONS], k=K, minimum=0)

    def measure_scope(self, engine: Everhold, alone: View, size: int) -> None:
        view, report = engine.scope(user=name_user(0)), self.report
        report.add(f"{size}_first_recall_seconds", measure_seconds(lambda: self.ask(view, 0)))
        pairs = run_interleaved(lambda number: self.ask(view, number), lambda number: self.ask(alone, number), 200)
        pairs.add_to(report, f"{size}_scope_of_{MEMORIES_PER_USER}", MAX_RATIO)
        report.add(f"{size}_scope_of_{MEMORIES_PER_USER}_p95_ms", 1000 * quantiles(pairs.ours, n=20)[-1])
        report.add(f"{size}_resident_megabytes", measure_resident_megabytes())

    def measure_organization(self, engine: Everhold, size: int) -> None:
        """Measure recall across the organization, without the vector index and with it."""
        organization_view, report = engine.scope(), self.report
        report.add(f"{size}_organization_first_recall_seconds", measure_seconds(lambda: self.ask(organization_view, 0)))
        self.measure_organization_recall(organization_view, f"{size}_organization")
        if self.indexed:
            report.add(f"{size}_maintenance_seconds", measure_seconds(engine.maintain))
            report.add(f"{size}_index_seconds_after_maintenance", measure_seconds(lambda: settle(engine)))
            self.measure_organization_recall(organization_view, f"{size}_organization_indexed")
            report.add(f"{size}_second_maintenance_seconds", measure_seconds(engine.maintain))
        report.add(f"{size}_organization_resident_megabytes", measure_resident_megabytes())

    def measure_organization_recall(self, view: View, name: str) -> None:
        times = [measure_seconds(partial(self.ask, view, index)) for index in range(WIDE_QUESTIONS)]
        self.report.add(f"{name}_p50_ms", 1000 * median(times))
        self.report.add(f"{name}_p95_ms", 1000 * quantiles(times, n=20)[-1])

    def measure_tenants(self, count: int) -> None:
        """Compare the last of many organizations with a store that has only one."""
        with self.open(self.stores.create("one")) as alone, self.open(self.stores.create("many")) as engine:
            self.fill_tenant(alone, 0)
            started = perf_counter()
            for number in range(count):
                self.fill_tenant(engine, number)
            self.report.add("tenants_per_second", count / (perf_counter() - started))
            last_view = engine.scope(organization=f"org{count - 1}", user="alice")
            only_view = alone.scope(organization="org0", user="alice")
            pairs = run_interleaved(
                lambda number: self.ask(last_view, number), lambda number: self.ask(only_view, number), 200
            )
            pairs.add_to(self.report, f"one_of_{count}_tenants", MAX_RATIO)
            self.report.add(f"{count}_tenants_maintenance_seconds", measure_seconds(engine.maintain))
            self.report.add(f"{count}_tenants_second_maintenance_seconds", measure_seconds(engine.maintain))
            self.report.add(f"{count}_tenants_resident_megabytes", measure_resident_megabytes())

    def fill_tenant(self, engine: Everhold, number: int) -> None:
        view = engine.scope(organization=f"org{number}", user="alice")
        view.remember_many(
            self.pool[(MEMORIES_PER_TENANT * number + index) % POOL_SIZE] for index in range(MEMORIES_PER_TENANT)
        )


def settle(engine: Everhold) -> None:
    """Wait until the vector index covers all memories."""
    vectors = engine._parts.recall_deps.candidates.vectors
    if isinstance(vectors, UsearchVectors):
        vectors.settle()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000, 1_000_000], help="of the larger stores")
    parser.add_argument("--year", action="store_true", help=f"{YEAR:,} memories, of which half have vectors")
    parser.add_argument("--without-index", action="store_true", help="no maintenance and no vector index")
    parser.add_argument("--tenants", type=int, help="measure this many organizations instead")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args()
    sizes, share = ([YEAR], 0.5) if options.year else (options.sizes, 1.0)
    report = Report("scale")
    report.add("store", options.store)
    report.add("texts_and_vectors", TEXTS_AND_VECTORS)
    report.add("share_with_vectors", share)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=options.folder)))
        server = None
        if options.store == "postgres":
            server = stack.enter_context(PostgresServer(durable=True, settings=SERVER))
        stores = EmptyStores(folder, server)
        run = ScaleRun(
            report,
            stores,
            PooledVectors(share),
            make_sentences(POOL_SIZE),
            make_questions(QUESTIONS),
            not options.without_index,
        )
        if options.tenants:
            run.measure_tenants(options.tenants)
        else:
            run.measure_growth(sizes)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
