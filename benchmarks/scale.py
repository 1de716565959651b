"""How do costs grow with the store: 10,000 memories of one user, alone and among a hundred thousand or a million?

    python -m benchmarks.scale                        # 10,000, 100,000 and 1,000,000 memories
    python -m benchmarks.scale --most 100000
    python -m benchmarks.scale --store postgresql://… # the same on a database that is there and empty

Texts and vectors are synthetic: 20,000 sentences and vectors, which users share, each user's sentences beginning with a
number of their own. Every user has 10,000 memories; questions are about the first one's. The memories are loaded
through `remember_many`, without resolving what they state.
"""

import argparse
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.engines import chosen, open_engine
from benchmarks.report import Report, interleaved
from benchmarks.texts import questions, sentences
from benchmarks.vectors import Precomputed, synthetic
from recollect import Recollect
from recollect.ports.embedder import Vector
from recollect.view import View

EACH = 10_000
POOL = 20_000
ASKED = 100
K = 10
RATIO = 1.3
SETTINGS = {"remember": {"resolve": False}, "log": {"flush_seconds": 3600}}


class Pooled(Precomputed):
    """Gives a text one of a fixed number of vectors, always the same one."""

    def __init__(self) -> None:
        super().__init__({})
        self._pool = synthetic(POOL, seed=5)

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return [self._pool[zlib.crc32(text.encode()) % POOL] for text in texts]


def user(number: int) -> str:
    return f"user{number}"


def texts_of(number: int, pool: Sequence[str]) -> Iterator[str]:
    return (f"{number}: {pool[(number + at) % POOL]}" for at in range(EACH))


def fill(engine: Recollect, users: int, pool: Sequence[str], report: Report, name: str) -> None:
    begun = perf_counter()
    for number in range(users):
        engine.scope(user=user(number)).remember_many(texts_of(number, pool))
        if number % 10 == 0:
            print(f"scale: {name}: {(number + 1) * EACH:,} memories", file=sys.stderr)
    report.add(f"{name}_loaded_per_second", users * EACH / (perf_counter() - begun))


def asking(view: View, asked: Sequence[str]) -> Callable[[int], object]:
    return lambda number: view.recall(asked[number % ASKED], k=K, minimum=0)


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(most: int, place: Callable[[int], str], report: Report) -> None:
    """The store that holds nothing else stays open, so that every larger one is compared with it at the same time."""
    model, pool, asked = Pooled(), sentences(POOL), questions(ASKED)
    with ExitStack() as held:
        alone = held.enter_context(open_engine(chosen(place(EACH), **SETTINGS), model, model))
        fill(alone, 1, pool, report, f"{EACH}")
        first = alone.scope(user=user(0))
        first.recall(asked[0], k=K)
        size = EACH
        while (size := size * 10) <= most:
            with open_engine(chosen(place(size), **SETTINGS), model, model) as engine:
                fill(engine, size // EACH, pool, report, f"{size}")
                compare(engine, first, asked, report, size)
                begun = perf_counter()
                engine.upkeep()
                report.add(f"{size}_upkeep_seconds", perf_counter() - begun)
            path = Path(place(size).removeprefix("sqlite:///"))
            if path.exists():
                report.add(f"{size}_disk_bytes_per_memory", path.stat().st_size / size)


def compare(engine: Recollect, alone: View, asked: Sequence[str], report: Report, size: int) -> None:
    view = engine.scope(user=user(0))
    begun = perf_counter()
    view.recall(asked[0], k=K)
    report.add(f"{size}_first_recall_seconds", perf_counter() - begun)
    taken = interleaved(asking(view, asked), asking(alone, asked), 200)
    taken.add_to(report, f"{size}_scope_of_{EACH}", RATIO)
    report.add(f"{size}_scope_of_{EACH}_p95_ms", 1000 * quantiles(taken.ours, n=20)[-1])
    report.add(f"{size}_resident_megabytes", resident_megabytes())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000, help="the largest store")
    parser.add_argument("--store", help="an empty database for the largest store, instead of a file")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args()
    report = Report("scale")
    report.add("texts_and_vectors", "synthetic")
    with TemporaryDirectory(dir=options.folder) as folder:

        def place(size: int) -> str:
            return options.store if options.store and size == options.most else f"sqlite:///{folder}/{size}.db"

        measure(options.most, place, report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
