"""How long does storing memories take, compared with its floor?

python -m benchmarks.remember            # 200 pairs, 10,000 texts
python -m benchmarks.remember --quick    # rough figures: 60 pairs, 1,000 texts
"""

import argparse
import math
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal

from benchmarks.engines import TextModel, build_settings, open_engine
from benchmarks.floors import Floor
from benchmarks.report import PairedTimes, Report, run_interleaved
from benchmarks.texts import make_sentences
from benchmarks.vectors import PrecomputedVectors, make_vectors
from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.minilm import MiniLM
from everhold.settings import Settings
from everhold.settings_sections import Embedding

USER = "alice"
WARM_UP = 20
BLOCKS = 5


def compare_single(folder: Path, model: TextModel, texts: list[str]) -> PairedTimes:
    """Compare `remember` with the bare embedder and one transaction."""
    settings = build_settings(folder / "ours.db")
    floor = Floor(folder / "floor.db")
    cached = CachedEmbedder(model, Embedding().cache_texts)
    with open_engine(settings, cached, model) as engine:
        view = engine.scope(user=USER)

        def run_bare(number: int) -> None:
            vector = model.embed([texts[number]])[0]
            assert vector is not None
            floor.remember(USER, texts[number], vector)

        times = run_interleaved(lambda number: view.remember(texts[number]), run_bare, len(texts) - WARM_UP, WARM_UP)
    floor.close()
    return times


def compare_without_embedding(folder: Path, texts: list[str], synchronous: Literal["FULL", "NORMAL"]) -> PairedTimes:
    """Compare `remember` with one transaction; the vectors are precomputed."""
    embedder = PrecomputedVectors(dict(zip(texts, make_vectors(len(texts), seed=3), strict=True)))
    settings = build_settings(folder / f"ours-{synchronous}.db", sqlite={"synchronous": synchronous})
    floor = Floor(folder / f"floor-{synchronous}.db", synchronous)
    with open_engine(settings, embedder, embedder) as engine:
        view = engine.scope(user=USER)

        def run_bare(number: int) -> None:
            floor.remember(USER, texts[number], embedder.vectors[texts[number]])

        times = run_interleaved(lambda number: view.remember(texts[number]), run_bare, len(texts) - WARM_UP, WARM_UP)
    floor.close()
    return times


def compare_many(folder: Path, model: TextModel, texts: list[str]) -> PairedTimes:
    """Compare `remember_many` with the bare embedder by turns, on a fifth of the texts at a time."""
    size = math.ceil(len(texts) / BLOCKS)
    blocks = [texts[start : start + size] for start in range(0, len(texts), size)]
    with open_engine(
        build_settings(folder / "many.db"), CachedEmbedder(model, Embedding().cache_texts), model
    ) as engine:
        view = engine.scope(user=USER)
        return run_interleaved(
            lambda number: view.remember_many(blocks[number]), lambda number: model.embed(blocks[number]), BLOCKS, 0
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--size", type=int, default=10_000, help="how many texts remember_many is given")
    parser.add_argument("--quick", action="store_true", help="60 pairs and 1,000 texts")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args()
    pairs, size = (60, 1000) if options.quick else (options.pairs, options.size)
    defaults = Settings()
    model = MiniLM(None, data=defaults.data, cache=defaults.cache)
    texts = make_sentences(pairs + WARM_UP)
    report = Report("remember")
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        compare_single(folder, model, texts).add_to(report, "remember", 1.2)
        compare_without_embedding(folder, texts, "FULL").add_to(report, "without_embedding_full", 3.0)
        compare_without_embedding(folder, texts, "NORMAL").add_to(report, "without_embedding_normal", 3.0)
        blocks = compare_many(folder, model, make_sentences(size, seed=4))
        report.add("many_share_of_bare_throughput", median(blocks.floor) / median(blocks.ours), ">=", 0.9)
        report.add("many_per_second", size / sum(blocks.ours))
        report.add("many_bare_per_second", size / sum(blocks.floor))
        report.add("many_texts", size)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
