"""How does Everhold compare with mem0, Chroma and LangGraph's store, on the same texts and vectors, in the same run?

    make peers                               # installs the peers into .venv-peers, then compares
    python -m benchmarks.peers               # compares again
    python -m benchmarks.peers --quick       # fewer questions: rough figures

Every store embeds with its own client, through one local endpoint that looks vectors up. The overhead of a store is the
median time of its calls minus the median time of a bare round trip of its client to the endpoint, measured in the same
turns.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.peers.endpoint import Endpoint, VectorTable
from benchmarks.peers.lines import FigureLine
from benchmarks.peers.measures import (
    Processes,
    Timing,
    Truth,
    load,
    make_filtered_queries,
    make_memories,
    measure_evidence,
    time_adds,
    time_searches,
)
from benchmarks.peers.protocol import Memory, Query
from benchmarks.peers.workers import OURS, PEERS, PEERS_PYTHON, start_processes
from benchmarks.report import Report, round_figure
from benchmarks.texts import make_questions, make_sentences
from everhold.adapters.minilm import MiniLM
from everhold.evaluation.locomo import read
from everhold.settings import Settings

LOCOMO = Path("../shared/data/locomo-dev.json")
USER = "alice"
# Each of the three filters gets a third of the calls, and the first ten of these warm up.
MIN_CALLS = 40
# With fewer memories, a filter would match none.
MIN_MEMORIES = 500
SCORES_ALL = (
    "it follows an approximate index of vectors, ours compares with every memory of the scope; where cores are busy"
    " most of that is numpy's threads waiting for each other (try OPENBLAS_NUM_THREADS=1)"
)
READS_FEW = (
    "it reads the few rows that pass with one statement; ours also asks what other processes changed, reads every hit"
    " again and writes a line to the access log"
)
# The known reason why a peer's search is faster than ours.
WHY_FASTER = {"chroma": SCORES_ALL, "langgraph": READS_FEW}
NO_MODEL = "it embeds nothing itself; ours brings what runs its own model (onnxruntime, onnx, tokenizers)"
SETUPS = {
    "mem0": "Memory with infer=False on its default store, Qdrant in a folder; without its extras (spaCy, fastembed),"
    " whose models are downloads, it searches by meaning only, and never below a similarity of 0",
    "chroma": "PersistentClient, a collection per user, cosine, otherwise default settings; it is passed vectors, which"
    " is faster than passing it an embedding function",
    "langgraph": "SqliteStore with its vector index (sqlite-vec), on the pysqlite3 driver; a user is a namespace",
    OURS: "SQLite, default settings; the cache of vectors off, so that it calls the endpoint as often as the others",
}


@dataclass(frozen=True)
class PeersRun:
    """The stores, the endpoint and the report of a run, and how many calls and memories are measured."""

    processes: Processes
    endpoint: Endpoint
    table: VectorTable
    report: Report
    calls: int
    memories: int


def split_ours(values: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """Return our value, and the values of the peers."""
    return values[OURS], {name: value for name, value in values.items() if name != OURS}


def add_overhead_line(run: PeersRun, name: str, timings: Mapping[str, Timing]) -> None:
    overheads = split_ours({store: timing.overhead_ms for store, timing in timings.items()})
    FigureLine(name, "ms", "lower", *overheads, WHY_FASTER if name.startswith("search") else {}).add_to(run.report)
    run.report.add(
        f"{name}_requests", {store: timing.requests / len(timing.calls) for store, timing in timings.items()}
    )
    run.report.add(f"{name}_round_trip_ms", {store: round_figure(timing.trip_ms) for store, timing in timings.items()})


def measure_overheads(run: PeersRun) -> None:
    """Search the memories of one user, then add more, one at a time."""
    texts = make_sentences(run.memories + run.calls + 10)
    question_texts = list(dict.fromkeys(make_questions(2 * run.calls + 100)))[: run.calls + 10]
    run.table.prepare([*texts, *question_texts])
    memories = [Memory(str(index), text, USER) for index, text in enumerate(texts)]
    load(run.processes, memories[: run.memories])
    add_overhead_line(
        run,
        "search_overhead",
        time_searches(run.processes, run.endpoint, [Query(text, USER) for text in question_texts])[0],
    )
    add_overhead_line(run, "add_overhead", time_adds(run.processes, run.endpoint, memories[run.memories :]))


def measure_filters(run: PeersRun) -> None:
    """Measure the overhead of filtered searches, and which share of the ten nearest memories each store finds."""
    memories = make_memories(make_sentences(run.memories, seed=5))
    truth = Truth(run.table, memories)
    load(run.processes, memories)
    queries_by_filter = make_filtered_queries(
        list(dict.fromkeys(make_questions(2 * run.calls + 100, seed=6)))[: run.calls]
    )
    shares: dict[str, list[float]] = {name: [] for name in run.processes}
    for filter_name, queries in queries_by_filter.items():
        run.table.prepare([query.text for query in queries])
        timings, refs_found = time_searches(run.processes, run.endpoint, queries)
        for name in run.processes:
            shares[name] += truth.measure_shares(queries, refs_found[name])
        overheads = split_ours({name: timing.overhead_ms for name, timing in timings.items()})
        FigureLine(f"search_overhead_{filter_name}", "ms", "lower", *overheads, WHY_FASTER, required=False).add_to(
            run.report
        )
    run.report.add("embedded_while_timed", run.table.unforeseen, "==", 0)
    means = split_ours({name: float(np.mean(values)) for name, values in shares.items()})
    FigureLine("filtered_recall_at_10", "share", "higher", *means).add_to(run.report)


def measure_conversations(run: PeersRun, path: Path) -> None:
    if not path.is_file():
        run.report.add("locomo_r10", f"not measured: there is no file {path}; name one with --locomo")
        return
    conversations = read(path)
    run.table.prepare([f"{turn.speaker}: {turn.text}" for conversation in conversations for turn in conversation.turns])
    run.table.prepare([question.text for conversation in conversations for question in conversation.questions])
    FigureLine(
        "locomo_r10", "share", "higher", *split_ours(measure_evidence(run.processes, path, conversations))
    ).add_to(run.report)
    run.report.add("locomo_file", path.name)


def measure_installed(run: PeersRun) -> None:
    start_seconds = {name: process.ready_seconds for name, process in run.processes.items()}
    FigureLine("start_seconds", "s", "lower", *split_ours(start_seconds), required=False).add_to(run.report)
    installed = {name: process.ask("installed") for name, process in run.processes.items()}
    sizes = {name: package["bytes"] / 1e6 for name, package in installed.items()}
    FigureLine(
        "installed_megabytes",
        "MB",
        "lower",
        *split_ours(sizes),
        {"langgraph": NO_MODEL, "mem0": NO_MODEL},
        required=False,
    ).add_to(run.report)
    run.report.add("versions", {name: package["versions"] for name, package in installed.items()})


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300, help="how often each store is asked each thing")
    parser.add_argument("--memories", type=int, default=5000, help="how many memories are searched")
    parser.add_argument("--quick", action="store_true", help="60 calls and 1,000 memories")
    parser.add_argument("--locomo", type=Path, default=LOCOMO, help="a file in the shape of LoCoMo")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args(arguments)
    if options.calls < MIN_CALLS or options.memories < MIN_MEMORIES:
        parser.error(f"give at least {MIN_CALLS} calls and {MIN_MEMORIES} memories; fewer leave nothing to measure")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    if not PEERS_PYTHON.is_file():
        print(f"the peers are not installed: there is no {PEERS_PYTHON}; run make peers", file=sys.stderr)
        return 2
    calls, memories = (60, 1000) if options.quick else (options.calls, options.memories)
    defaults = Settings()
    table = VectorTable(MiniLM(None, data=defaults.data, cache=defaults.cache))
    report = Report("peers")
    with (
        TemporaryDirectory(dir=options.folder) as name,
        Endpoint(table) as endpoint,
        start_processes([OURS, *PEERS], Path(name), endpoint) as processes,
    ):
        run = PeersRun(processes, endpoint, table, report, calls, memories)
        report.add("set_up", SETUPS)
        report.add("overheads_are", "the median of a call less the median bare round trip of its embedding client")
        measure_installed(run)
        measure_overheads(run)
        measure_filters(run)
        measure_conversations(run, options.locomo)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
