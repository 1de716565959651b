"""What does finding memories cost, over the least it could; is it exact; what do they take of disk and memory?

    python -m benchmarks.recall            # scopes of 1,000 to 120,000
    python -m benchmarks.recall --quick    # at most 31,000

The vectors are synthetic (no model embeds 100,000 texts in a minute) and the questions' vectors are looked up on both
sides. Memories are loaded through `remember_many`.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from benchmarks import fresh
from benchmarks.engines import chosen, open_engine
from benchmarks.floors import Floor, FloorScope
from benchmarks.report import Report, interleaved
from benchmarks.texts import questions, sentences
from benchmarks.vectors import Precomputed, synthetic
from everhold import Everhold
from everhold.adapters.usearch import UsearchVectors
from everhold.views import View

K = 10
AS_GIVEN = {"remember": {"resolve": False}}
"""The texts are random: what they happen to replace among themselves must not go, or there would be fewer to find."""
ASKED = 200
SAME = 1e-6
FRESH_RUNS = 3
Vectors = np.ndarray[tuple[int, int], np.dtype[np.float32]]


@dataclass(frozen=True)
class Material:
    """The texts and questions of a run, and the vector of each."""

    texts: list[str]
    vectors: Vectors
    questions: list[str]
    question_vectors: Vectors
    embedder: Precomputed


def make_material(size: int) -> Material:
    texts, asked = sentences(size), questions(ASKED)
    vectors, question_vectors = synthetic(size, seed=3), synthetic(ASKED, seed=4)
    embedder = Precomputed(
        {**dict(zip(texts, vectors, strict=True)), **dict(zip(asked, question_vectors, strict=True))}
    )
    return Material(texts, vectors, asked, question_vectors, embedder)


@dataclass(frozen=True)
class Case:
    """A store of `users` users with `each` memories each; the first user's are searched."""

    users: int
    each: int
    pairs: int

    @property
    def name(self) -> str:
        return f"{self.each}" if self.users == 1 else f"{self.each}_in_{self.users * self.each}"

    def paths(self, folder: Path) -> tuple[Path, Path]:
        return folder / f"{self.name}-ours.db", folder / f"{self.name}-floor.db"


def name_of(user: int) -> str:
    return f"user{user}"


def time_case(case: Case, material: Material, folder: Path, report: Report) -> None:
    """`recall` against the floor, embedding excluded."""
    ours_path, floor_path = case.paths(folder)
    floor = Floor(floor_path)
    with open_engine(chosen(ours_path, **AS_GIVEN), material.embedder, material.embedder) as engine:
        for user in range(case.users):
            part = slice(user * case.each, (user + 1) * case.each)
            engine.scope(user=name_of(user)).remember_many(material.texts[part])
            floor.remember_many(name_of(user), material.texts[part], material.vectors[part])
        view, least = engine.scope(user=name_of(0)), floor.scope(name_of(0))
        taken = interleaved(_asking(material, view), _asking_floor(material, least), case.pairs)
        taken.add_to(report, f"recall_{case.name}", 1.5)
    floor.close()


def _asking(material: Material, view: View) -> Callable[[int], object]:
    return lambda number: view.recall(material.questions[number % ASKED], k=K, minimum=0)


def _asking_floor(material: Material, least: FloorScope) -> Callable[[int], object]:
    def ask(number: int) -> object:
        return least.recall(material.questions[number % ASKED], material.question_vectors[number % ASKED])

    return ask


def exactness(engine: Everhold, material: Material, size: int) -> tuple[float, float]:
    """The share of the ten nearest that a search by meaning finds, over all questions, and the usual seconds of one.
    What lies as near as the tenth to six decimals, to which scores are given, is as good."""
    view = engine.scope(user=name_of(0))
    found, taken = 0, []
    for question, vector in zip(material.questions, material.question_vectors, strict=True):
        scores = material.vectors[:size] @ vector
        tenth = np.partition(scores, size - K)[size - K]
        nearest = {material.texts[at] for at in np.flatnonzero(scores >= tenth - SAME)}
        begun = perf_counter()
        hits = view.recall(question, k=K, recipe="meaning")
        taken.append(perf_counter() - begun)
        found += len(nearest & {hit.memory.text for hit in hits})
    return found / (K * ASKED), median(taken)


def measure_sizes(case: Case, folder: Path, report: Report) -> None:
    """Disk, memory and the first recall, each in a process of its own, on a store that is all in one scope."""
    path = case.paths(folder)[0]
    assert not path.with_name(f"{path.name}-wal").exists()  # the last connection to be closed has emptied the log
    report.add("disk_bytes_per_memory", path.stat().st_size / case.each, "<=", 2500)
    alone, with_caches = (fresh.run(fresh.grow, str(path), name_of(0), caches) for caches in ("small", "usual"))
    assert alone["rows"] == case.each, alone
    report.add("resident_bytes_per_memory", alone["bytes"] / case.each, "<=", 2048)
    report.add("resident_bytes_per_memory_with_store_caches", with_caches["bytes"] / case.each)
    loads, firsts = [], []
    for _ in range(FRESH_RUNS):
        loads.append(fresh.run(fresh.load_model)["seconds"])
        firsts.append(fresh.run(fresh.first_recall, str(path), name_of(0))["seconds"])
    report.add("first_recall_seconds_over_model", median(firsts) - median(loads), "<=", 2.0)
    report.add("first_recall_seconds", median(firsts))
    report.add("model_seconds", median(loads))


def measure_exactness(case: Case, material: Material, folder: Path, report: Report) -> None:
    """Exact where an image is held; then with all of the material and no image allowed to hold it."""
    path = case.paths(folder)[0]
    with open_engine(chosen(path, **AS_GIVEN), material.embedder, material.embedder) as engine:
        share, _ = exactness(engine, material, case.each)
        report.add(f"meaning_recall_at_10_of_{case.each}", share, "==", 1.0)
    settings = chosen(path, **AS_GIVEN, images={"most_memories": case.each})
    with open_engine(settings, material.embedder, material.embedder) as engine:
        engine.scope(user=name_of(0)).remember_many(material.texts[case.each :])
        begun = perf_counter()
        engine.scope(user=name_of(0)).recall(material.questions[0], k=K)
        vectors = engine._parts.recall_deps.candidates.vectors
        if isinstance(vectors, UsearchVectors):
            vectors.settle()
        report.add("index_seconds", perf_counter() - begun)
        share, seconds = exactness(engine, material, len(material.texts))
        report.add(f"meaning_recall_at_10_of_{len(material.texts)}_not_held", share, ">=", 0.98)
        report.add("not_held_ms", 1000 * seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="60 pairs, and 30,000 memories where there would be 100,000"
    )
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--most", type=int, default=120_000, help="the size of the scope that no image holds")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args()
    pairs, largest_size, most = options.pairs, 100_000, max(options.most, 101_000)
    if options.quick:
        pairs, largest_size, most = min(pairs, 60), 30_000, 31_000
    largest = Case(1, largest_size, pairs)
    cases = [Case(1, 1000, pairs), Case(1, 10_000, pairs), Case(largest_size // 10_000, 10_000, pairs), largest]
    material = make_material(most)
    report = Report("recall")
    report.add("vectors", "synthetic unit vectors about 2,000 topics, through remember_many")
    with TemporaryDirectory(dir=options.folder) as name:
        for case in cases:
            time_case(case, material, Path(name), report)
        measure_sizes(largest, Path(name), report)
        measure_exactness(largest, material, Path(name), report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
