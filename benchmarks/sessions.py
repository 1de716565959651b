"""How long do `say`, `window` and episodes take?

python -m benchmarks.sessions            # 300 pairs
python -m benchmarks.sessions --quick    # rough figures: 60 pairs

`say` makes a message searchable at once; it is compared with a floor. `window` in a long session is compared with a
short session, and building episodes late in a long session with building them early.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from benchmarks.engines import TextModel, build_settings, open_engine
from benchmarks.floors import MessageFloor
from benchmarks.report import PairedTimes, Report, run_interleaved
from benchmarks.session_episodes import add_episode_figures
from benchmarks.session_windows import add_window_figures
from benchmarks.texts import make_sentences
from benchmarks.vectors import PrecomputedVectors, make_vectors
from everhold import View
from everhold.adapters.cached_embedder import CachedEmbedder
from everhold.adapters.minilm import MiniLM
from everhold.settings import Settings
from everhold.settings_sections import Embedding

USER, SESSION = "alice", "s1"
WARM_UP = 20


def compare_say(folder: Path, model: TextModel, texts: list[str]) -> PairedTimes:
    """Compare `say` with the bare embedder and one transaction."""
    floor = MessageFloor(folder / "floor.db")
    cached = CachedEmbedder(model, Embedding().cache_texts)
    with open_engine(build_settings(folder / "ours.db"), cached, model) as engine:
        view = engine.scope(user=USER, session=SESSION)

        def run_bare(number: int) -> None:
            vector = model.embed([texts[number]])[0]
            assert vector is not None
            floor.say(USER, SESSION, texts[number], vector)

        times = run_interleaved(lambda number: view.say(texts[number]), run_bare, len(texts) - WARM_UP, WARM_UP)
        _check_searchable(view, texts)
    floor.close()
    return times


def compare_say_without_embedding(
    folder: Path, texts: list[str], synchronous: Literal["FULL", "NORMAL"]
) -> PairedTimes:
    """Compare `say` with one transaction; the vectors are precomputed."""
    embedder = PrecomputedVectors(dict(zip(texts, make_vectors(len(texts), seed=3), strict=True)))
    settings = build_settings(folder / f"ours-{synchronous}.db", sqlite={"synchronous": synchronous})
    floor = MessageFloor(folder / f"floor-{synchronous}.db", synchronous)
    with open_engine(settings, embedder, embedder) as engine:
        view = engine.scope(user=USER, session=SESSION)

        def run_bare(number: int) -> None:
            floor.say(USER, SESSION, texts[number], embedder.vectors[texts[number]])

        times = run_interleaved(lambda number: view.say(texts[number]), run_bare, len(texts) - WARM_UP, WARM_UP)
        _check_searchable(view, texts)
    floor.close()
    return times


def _check_searchable(view: View, texts: list[str]) -> None:
    """Fail unless the last message is the first hit, by its words and by its meaning."""
    for recipe in ("words", "meaning"):
        hits = view.recall(texts[-1], among="message", k=1, minimum=0, recipe=recipe)
        assert [hit.text for hit in hits] == [texts[-1]], f"the last message is not found by {recipe}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="60 pairs")
    parser.add_argument("--folder", type=Path, help="the disk to write to")
    options = parser.parse_args()
    texts = make_sentences((60 if options.quick else options.pairs) + WARM_UP)
    defaults = Settings()
    model = MiniLM(None, data=defaults.data, cache=defaults.cache)
    report = Report("sessions")
    with TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        compare_say(folder, model, texts).add_to(report, "say", 1.2)
        compare_say_without_embedding(folder, texts, "FULL").add_to(report, "say_without_embedding_full", 3.0)
        report.add("say_without_embedding_normal_ratio", compare_say_without_embedding(folder, texts, "NORMAL").ratio)
        add_window_figures(report, folder, model, quick=options.quick)
        add_episode_figures(report, folder, model, quick=options.quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
