"""How long does recall take, compared with its floor? Is it exact? How much disk and memory does it need?

    python -m benchmarks.recall            # scopes of 1,000 to 120,000
    python -m benchmarks.recall --quick    # at most 31,000

The vectors are synthetic, because no model embeds 100,000 texts in a minute. Recall and the floor both look up the
vector of a question. Memories are loaded with `remember_many`.
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
from benchmarks.engines import build_settings, open_engine
from benchmarks.floors import Floor, FloorScope
from benchmarks.report import Report, run_interleaved
from benchmarks.texts import make_questions, make_sentences
from benchmarks.vectors import PrecomputedVectors, make_vectors
from everhold import Everhold
from everhold.adapters.usearch import UsearchVectors
from everhold.views.view import View

K = 10
# The texts are random. With resolving on, some would supersede others, and fewer memories would be left to find.
UNRESOLVED = {"remember": {"resolve": False}}
QUESTIONS = 200
SCORE_TOLERANCE = 1e-6  # scores are rounded to six decimals
FRESH_RUNS = 3
Vectors = np.ndarray[tuple[int, int], np.dtype[np.float32]]


@dataclass(frozen=True)
class RecallData:
    """The texts and questions of a run, with their vectors."""

    texts: list[str]
    vectors: Vectors
    questions: list[str]
    question_vectors: Vectors
    embedder: PrecomputedVectors


def make_recall_data(size: int) -> RecallData:
    texts, question_texts = make_sentences(size), make_questions(QUESTIONS)
    vectors, question_vectors = make_vectors(size, seed=3), make_vectors(QUESTIONS, seed=4)
    embedder = PrecomputedVectors(
        {**dict(zip(texts, vectors, strict=True)), **dict(zip(question_texts, question_vectors, strict=True))}
    )
    return RecallData(texts, vectors, question_texts, question_vectors, embedder)


@dataclass(frozen=True)
class RecallCase:
    """A store of some users, in which the first user's memories are searched.

    `pairs` is the number of calls that are timed, each of `recall` and of the floor.
    """

    users: int
    memories_per_user: int
    pairs: int

    @property
    def name(self) -> str:
        if self.users == 1:
            return f"{self.memories_per_user}"
        return f"{self.memories_per_user}_in_{self.users * self.memories_per_user}"

    def make_paths(self, folder: Path) -> tuple[Path, Path]:
        return folder / f"{self.name}-ours.db", folder / f"{self.name}-floor.db"


def name_user(user: int) -> str:
    return f"user{user}"


def time_case(case: RecallCase, recall_data: RecallData, folder: Path, report: Report) -> None:
    """Compare `recall` with the floor, without embedding."""
    ours_path, floor_path = case.make_paths(folder)
    floor = Floor(floor_path)
    with open_engine(build_settings(ours_path, **UNRESOLVED), recall_data.embedder, recall_data.embedder) as engine:
        for user in range(case.users):
            memories_of_user = slice(user * case.memories_per_user, (user + 1) * case.memories_per_user)
            engine.scope(user=name_user(user)).remember_many(recall_data.texts[memories_of_user])
            floor.remember_many(
                name_user(user), recall_data.texts[memories_of_user], recall_data.vectors[memories_of_user]
            )
        view, floor_scope = engine.scope(user=name_user(0)), floor.scope(name_user(0))
        times = run_interleaved(_make_ask(recall_data, view), _make_ask_floor(recall_data, floor_scope), case.pairs)
        times.add_to(report, f"recall_{case.name}", 1.5)
    floor.close()


def _make_ask(recall_data: RecallData, view: View) -> Callable[[int], object]:
    return lambda number: view.recall(recall_data.questions[number % QUESTIONS], k=K, minimum=0)


def _make_ask_floor(recall_data: RecallData, floor_scope: FloorScope) -> Callable[[int], object]:
    def ask(number: int) -> object:
        return floor_scope.recall(
            recall_data.questions[number % QUESTIONS], recall_data.question_vectors[number % QUESTIONS]
        )

    return ask


def measure_share_found(engine: Everhold, recall_data: RecallData, size: int) -> tuple[float, float]:
    """Return which share of the ten nearest memories a search by meaning finds, and the median seconds of a search.

    Scores are rounded to six decimals, so a memory whose rounded score equals that of the tenth counts as found.
    """
    view = engine.scope(user=name_user(0))
    found_count, times = 0, []
    for question, vector in zip(recall_data.questions, recall_data.question_vectors, strict=True):
        scores = recall_data.vectors[:size] @ vector
        tenth_score = np.partition(scores, size - K)[size - K]
        nearest = {recall_data.texts[index] for index in np.flatnonzero(scores >= tenth_score - SCORE_TOLERANCE)}
        started = perf_counter()
        hits = view.recall(question, k=K, recipe="meaning")
        times.append(perf_counter() - started)
        found_count += len(nearest & {hit.memory.text for hit in hits})
    return found_count / (K * QUESTIONS), median(times)


def measure_sizes(case: RecallCase, folder: Path, report: Report) -> None:
    """Measure disk, memory and the first recall, each in a new process, on a store with one scope."""
    path = case.make_paths(folder)[0]
    assert not path.with_name(f"{path.name}-wal").exists()  # closing the last connection empties the log
    report.add("disk_bytes_per_memory", path.stat().st_size / case.memories_per_user, "<=", 2500)
    without_caches, with_caches = (
        fresh.run(fresh.measure_image, str(path), name_user(0), caches) for caches in ("small", "usual")
    )
    assert without_caches["rows"] == case.memories_per_user, without_caches
    report.add("resident_bytes_per_memory", without_caches["bytes"] / case.memories_per_user, "<=", 2048)
    report.add("resident_bytes_per_memory_with_store_caches", with_caches["bytes"] / case.memories_per_user)
    model_seconds, first_recall_seconds = [], []
    for _ in range(FRESH_RUNS):
        model_seconds.append(fresh.run(fresh.load_model)["seconds"])
        first_recall_seconds.append(fresh.run(fresh.recall_first, str(path), name_user(0))["seconds"])
    report.add("first_recall_seconds_over_model", median(first_recall_seconds) - median(model_seconds), "<=", 2.0)
    report.add("first_recall_seconds", median(first_recall_seconds))
    report.add("model_seconds", median(model_seconds))


def measure_exactness(case: RecallCase, recall_data: RecallData, folder: Path, report: Report) -> None:
    """Measure whether search by meaning is exact: with an image, and in a scope that is too large for an image."""
    path = case.make_paths(folder)[0]
    with open_engine(build_settings(path, **UNRESOLVED), recall_data.embedder, recall_data.embedder) as engine:
        share, _ = measure_share_found(engine, recall_data, case.memories_per_user)
        report.add(f"meaning_recall_at_10_of_{case.memories_per_user}", share, "==", 1.0)
    settings = build_settings(path, **UNRESOLVED, images={"max_memories": case.memories_per_user})
    with open_engine(settings, recall_data.embedder, recall_data.embedder) as engine:
        engine.scope(user=name_user(0)).remember_many(recall_data.texts[case.memories_per_user :])
        started = perf_counter()
        engine.scope(user=name_user(0)).recall(recall_data.questions[0], k=K)
        vectors = engine._parts.recall_deps.candidates.vectors
        if isinstance(vectors, UsearchVectors):
            vectors.settle()
        report.add("index_seconds", perf_counter() - started)
        share, seconds = measure_share_found(engine, recall_data, len(recall_data.texts))
        report.add(f"meaning_recall_at_10_of_{len(recall_data.texts)}_not_held", share, ">=", 0.98)
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
    pairs, largest_size, not_held_size = options.pairs, 100_000, max(options.most, 101_000)
    if options.quick:
        pairs, largest_size, not_held_size = min(pairs, 60), 30_000, 31_000
    largest = RecallCase(1, largest_size, pairs)
    cases = [
        RecallCase(1, 1000, pairs),
        RecallCase(1, 10_000, pairs),
        RecallCase(largest_size // 10_000, 10_000, pairs),
        largest,
    ]
    recall_data = make_recall_data(not_held_size)
    report = Report("recall")
    report.add("vectors", "synthetic unit vectors about 2,000 topics, through remember_many")
    with TemporaryDirectory(dir=options.folder) as name:
        for case in cases:
            time_case(case, recall_data, Path(name), report)
        measure_sizes(largest, Path(name), report)
        measure_exactness(largest, recall_data, Path(name), report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
