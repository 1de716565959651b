"""How much longer do a write and a read take with encryption?

    python -m benchmarks.encryption            # 2,000 memories each
    python -m benchmarks.encryption --quick

Engines on SQLite write and read the same memories alternately. One has no encryption, one encrypts every text with a
key per user, and one encrypts only memories of kind `vault`, for which it stores neither words nor vectors. The texts
are made beforehand and a fake embedder is used, so that only storing is measured.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import PairedTimes, Report
from everhold import Everhold, View
from everhold.testing.fake_embedder import FakeEmbedder

WARM_UP_CALLS = 50  # calls before the measurement, which fill caches
MAX_RATIO = 1.3  # the bar of docs/encryption.md


def open_view(stack: ExitStack, path: Path, **values: Any) -> View:
    embedder = FakeEmbedder()
    engine = open_engine(build_settings(path, **values), embedder, embedder)
    stack.enter_context(engine)
    return engine.scope(user="alice")


def measure(ours: Callable[[int], object], floor: Callable[[int], object], count: int) -> PairedTimes:
    """Time both functions by turns, each first in every second pair. The calls of the warm-up are not measured."""
    pairs = PairedTimes([], [])
    for number in range(-WARM_UP_CALLS, count):
        turns = [(ours, pairs.ours), (floor, pairs.floor)]
        for call, seconds in turns if number % 2 else reversed(turns):
            began = perf_counter()
            call(number + WARM_UP_CALLS)
            if number >= 0:
                seconds.append(perf_counter() - began)
    return pairs


def run(count: int) -> Report:
    report = Report("encryption")
    with TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder)
        Everhold.create_master_key(home / "master.key")
        encryption = {"master_key": f"file:{home / 'master.key'}", "fields": ["memories.text"]}
        plain = open_view(stack, home / "plain.db")
        vault = open_view(stack, home / "vault.db", encryption={"master_key": f"file:{home / 'master.key'}"})
        encrypted = open_view(stack, home / "encrypted.db", encryption=encryption)
        texts = [
            f"Note {number}: the kettle in room {number * 7} whistles at {number % 24} o'clock"
            for number in range(count + WARM_UP_CALLS)
        ]

        def make_write(view: View, kind: str) -> Callable[[int], object]:
            return lambda number: view.remember(texts[number], kind=kind, id=f"m{kind}{number}")

        measure(make_write(encrypted, "note"), make_write(plain, "note"), count).add_to(report, "remember", MAX_RATIO)
        measure(make_write(vault, "vault"), make_write(plain, "vault"), count).add_to(
            report, "remember_vault", MAX_RATIO
        )
        pairs = measure(
            lambda number: encrypted.get(f"mnote{number}"), lambda number: plain.get(f"mnote{number}"), count
        )
        report.add("get_ratio", pairs.ratio)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    return run(300 if options.quick else options.count).finish()


if __name__ == "__main__":
    sys.exit(main())
