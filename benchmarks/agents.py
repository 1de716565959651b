"""What does a cycle of an agent cost, compared with the least it could cost, and with LangGraph's checkpoints?

    python -m benchmarks.agents            # 200 pairs
    python -m benchmarks.agents --quick    # 60 pairs: rough figures

A cycle is a proposal, its result and two memories, in two commits. The floor embeds the two texts with the bare
embedder and stores the same rows with two hand-written transactions. For comparison, LangGraph's SqliteSaver makes
checkpoints of the same loop, by turns with ours and both without embedding; `make peers` installs it. The figures of
`benchmarks.workspace_snapshots` are added at the end.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cycle_floor import CycleFloor
from benchmarks.engines import TextModel, build_settings, open_engine
from benchmarks.peers.workers import PEERS_PYTHON, REPOSITORY, SILENT
from benchmarks.report import PairedTimes, Report, run_interleaved
from benchmarks.texts import make_sentences
from benchmarks.vectors import PrecomputedVectors, make_vectors
from benchmarks.workspace_snapshots import measure_snapshots
from everhold import Everhold
from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.minilm import MiniLM
from everhold.schema.codec import encode_json
from everhold.settings import Settings
from everhold.settings_sections import Embedding

AGENT = "coder"
WARM_UP = 20
THOUGHTS = "The tests of the parser fail, so I read them first"
PLAN = ["read the tests", "change the parser", "run the tests"]
OUTPUT = {"lines": 240, "matches": ["parser.py:17", "parser.py:94"]}
SUMMARY = "240 lines read"


def make_arguments(number: int) -> dict[str, Any]:
    return {"path": f"tests/test_parser_{number}.py", "limit": 500}


def make_our_cycle(engine: Everhold, texts: list[str]) -> Callable[[int], None]:
    """Return a function that adds one cycle with two new memories to a run."""
    run = engine.scope(agent=AGENT).run("Repair the parser")

    def make_cycle(number: int) -> None:
        run.propose("read_file", make_arguments(number), thoughts=THOUGHTS, plan=PLAN)
        run.complete(OUTPUT, summary=SUMMARY, memories=texts[2 * number : 2 * number + 2])

    return make_cycle


def compare_cycle(folder: Path, model: TextModel, texts: list[str]) -> PairedTimes:
    """Compare a cycle with the bare embedder and two transactions."""
    floor = CycleFloor(folder / "floor.db", AGENT)
    cached = CachedEmbedder(model, Embedding().cache_texts)
    with open_engine(build_settings(folder / "ours.db"), cached, model) as engine:

        def run_bare(number: int) -> None:
            cycle_texts = texts[2 * number : 2 * number + 2]
            cycle = floor.propose("read_file", make_arguments(number), THOUGHTS, PLAN)
            vectors = [vector for vector in model.embed(cycle_texts) if vector is not None]
            floor.complete(cycle, OUTPUT, SUMMARY, cycle_texts, vectors)

        times = run_interleaved(make_our_cycle(engine, texts), run_bare, len(texts) // 2 - WARM_UP, WARM_UP)
        _check_cycles(engine, len(texts) // 2)
    floor.close()
    return times


def compare_cycle_without_embedding(folder: Path, texts: list[str]) -> PairedTimes:
    """Compare a cycle with two transactions; the vectors are precomputed."""
    embedder = PrecomputedVectors(dict(zip(texts, make_vectors(len(texts), seed=3), strict=True)))
    floor = CycleFloor(folder / "bare.db", AGENT)
    with open_engine(build_settings(folder / "without.db"), embedder, embedder) as engine:

        def run_bare(number: int) -> None:
            cycle_texts = texts[2 * number : 2 * number + 2]
            cycle = floor.propose("read_file", make_arguments(number), THOUGHTS, PLAN)
            floor.complete(cycle, OUTPUT, SUMMARY, cycle_texts, [embedder.vectors[text] for text in cycle_texts])

        times = run_interleaved(make_our_cycle(engine, texts), run_bare, len(texts) // 2 - WARM_UP, WARM_UP)
    floor.close()
    return times


def _check_cycles(engine: Everhold, count: int) -> None:
    """Make sure that every timed cycle was stored once, with its memories."""
    [row] = engine.scope(agent=AGENT).runs()
    steps = engine.scope(agent=AGENT).get_run(row.id).steps()
    assert [step.cycle_index for step in steps] == list(range(count))
    assert all(step.status == "succeeded" for step in steps)
    assert sum(len(step.memories) for step in steps) > 1.9 * count  # a text may occur twice


def compare_checkpoints(folder: Path, texts: list[str]) -> PairedTimes:
    """Compare a cycle with LangGraph's checkpoints of the same loop; neither embeds."""
    embedder = PrecomputedVectors(dict(zip(texts, make_vectors(len(texts), seed=3), strict=True)))
    peer_seconds: list[float] = []
    with (
        start_checkpoints(folder / "checkpoints.db") as run_cycle,
        open_engine(build_settings(folder / "beside.db"), embedder, embedder) as engine,
    ):

        def run_peer(number: int) -> None:
            proposal = {"tool": "read_file", "arguments": make_arguments(number), "thoughts": THOUGHTS, "plan": PLAN}
            result = {"output": OUTPUT, "summary": SUMMARY, "memories": texts[2 * number : 2 * number + 2]}
            peer_seconds.append(run_cycle({"proposal": proposal, "result": result}))

        times = run_interleaved(make_our_cycle(engine, texts), run_peer, len(texts) // 2 - WARM_UP, WARM_UP)
    # LangGraph's process measures its own seconds, so that communication between the processes does not count.
    return PairedTimes(times.ours, peer_seconds[WARM_UP:])


@contextmanager
def start_checkpoints(path: Path) -> Iterator[Callable[[dict[str, Any]], float]]:
    """Start LangGraph in its own environment; yield a function that runs a cycle and returns its seconds."""
    process = subprocess.Popen(
        [str(PEERS_PYTHON), "-m", "benchmarks.peers.checkpoints", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**SILENT, "PATH": ""},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def run_cycle(cycle: dict[str, Any]) -> float:
        print(encode_json(cycle), file=stdin, flush=True)
        answer = stdout.readline()
        if not answer:
            raise RuntimeError("LangGraph's process ended; its error output is above")
        return float(answer)

    try:
        yield run_cycle
    finally:
        process.communicate(timeout=30)  # the process ends when its input ends


def add_cycle_figures(report: Report, folder: Path, model: TextModel, texts: list[str]) -> None:
    compare_cycle(folder, model, texts).add_to(report, "cycle", 1.5)
    times = compare_cycle_without_embedding(folder, texts)
    report.add("cycle_without_embedding_ratio", times.ratio)
    report.add("cycle_without_embedding_ms", 1000 * median(times.ours))
    report.add("cycle_without_embedding_floor_ms", 1000 * median(times.floor))


def add_checkpoint_figures(report: Report, folder: Path, texts: list[str]) -> None:
    """Add LangGraph's figures, or say why they are left out."""
    if not PEERS_PYTHON.exists():
        report.add("langgraph_checkpoints_ms", f"left out: {PEERS_PYTHON} is not there; `make peers` installs it")
        return
    times = compare_checkpoints(folder, texts)
    report.add("langgraph_checkpoints_ms", 1000 * median(times.floor))
    report.add("beside_langgraph_ms", 1000 * median(times.ours))
    report.add("beside_langgraph_ratio", times.ratio)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="60 pairs")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args()
    pairs = 60 if options.quick else options.pairs
    defaults = Settings()
    model = MiniLM(None, data=defaults.data, cache=defaults.cache)
    texts = make_sentences(2 * (pairs + WARM_UP))
    report = Report("agents")
    with TemporaryDirectory(dir=options.folder) as name:
        add_cycle_figures(report, Path(name), model, texts)
        add_checkpoint_figures(report, Path(name), texts)
    measure_snapshots(report, quick=options.quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
