"""What does the same cost on each store, compared with SQLite?

    python -m benchmarks.stores

One memory remembered, 500 remembered together, and a recall among 1,000: each by turns on SQLite and on another store,
as a ratio of medians. PostgreSQL and DynamoDB are servers on this machine; the latter is moto's, which is not AWS: its
figures tell how much work we make, not how fast AWS does it. No bars: the stores differ for good reasons.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.engines import chosen, open_engine
from benchmarks.report import Report, interleaved
from benchmarks.texts import questions, sentences
from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views import View
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer

HELD = 1000
TOGETHER = 500
BASELINE = "sqlite"


def settings_of(folder: Path, held: ExitStack) -> dict[str, dict[str, Any]]:
    """How to open an empty store of each kind."""
    postgres = held.enter_context(PostgresServer(durable=True))
    dynamodb = held.enter_context(DynamoServer())
    return {
        BASELINE: {"storage": f"sqlite:///{folder / 'memories.db'}"},
        "duckdb": {"storage": f"duckdb:///{folder / 'memories.duckdb'}"},
        "postgres": {"storage": postgres.create_database()},
        "dynamodb": {
            "storage": "dynamodb://eu-north-1/memories",
            "dynamodb": {"endpoint": dynamodb.url, "seconds": 60},
            "blobs": str(folder / "blobs"),
        },
    }


def opened(given: dict[str, Any], held: ExitStack) -> View:
    model = FakeEmbedder()
    engine: Everhold = held.enter_context(open_engine(chosen(**given, log={"flush_seconds": 3600}), model, model))
    return engine.scope(user="alice")


def verbs(view: View, texts: Iterator[str], asked: list[str]) -> dict[str, tuple[Callable[[int], object], int]]:
    """What is timed on a store, and how often."""
    return {
        "remember_one": (lambda _: view.remember(next(texts)), 60),
        f"remember_{TOGETHER}": (lambda _: view.remember_many(itertools.islice(texts, TOGETHER)), 6),
        "recall": (lambda number: view.recall(asked[number % len(asked)]), 60),
    }


def numbered(pool: list[str]) -> Iterator[str]:
    return (f"{pool[number % len(pool)]} {number}" for number in itertools.count())


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    report = Report("stores")
    pool, asked = list(sentences(5000)), list(questions(50))
    with TemporaryDirectory() as folder, ExitStack() as held:
        os.environ.update((name.upper(), value) for name, value in CREDENTIALS.items())
        views = {name: opened(one, held) for name, one in settings_of(Path(folder), held).items()}
        timed = {}
        for name, view in views.items():
            texts = numbered(pool)
            view.remember_many(itertools.islice(texts, HELD))
            timed[name] = verbs(view, texts, asked)
        for name in views:
            if name != BASELINE:
                for verb, (ours, pairs) in timed[name].items():
                    taken = interleaved(ours, timed[BASELINE][verb][0], pairs, warm_up=2)
                    report.add(f"{name}_{verb}_ratio", taken.ratio)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
