"""How long does each verb take on each store, compared with SQLite?

    python -m benchmarks.stores

Storing one memory, storing 500 memories together, and a recall among 1,000 memories run by turns on SQLite and on
another store; each figure is a ratio of medians. PostgreSQL and DynamoDB are servers on this machine. DynamoDB is
moto's server, not AWS: its figures show how many requests are made, not how fast AWS answers. There are no bars,
because stores differ for good reasons.
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

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report, run_interleaved
from benchmarks.texts import make_questions, make_sentences
from everhold import Everhold
from everhold.testing.fake_embedder import FakeEmbedder
from everhold.views.view import View
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer

MEMORIES = 1000
BATCH = 500
BASELINE = "sqlite"


def make_settings(folder: Path, stack: ExitStack) -> dict[str, dict[str, Any]]:
    """Return the settings of an empty store of each kind."""
    postgres = stack.enter_context(PostgresServer(durable=True))
    dynamodb = stack.enter_context(DynamoServer())
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


def open_view(values: dict[str, Any], stack: ExitStack) -> View:
    model = FakeEmbedder()
    engine: Everhold = stack.enter_context(
        open_engine(build_settings(**values, log={"flush_seconds": 3600}), model, model)
    )
    return engine.scope(user="alice")


def make_calls(
    view: View, texts: Iterator[str], question_texts: list[str]
) -> dict[str, tuple[Callable[[int], object], int]]:
    """Return the calls that are timed on a store, each with the number of pairs."""
    return {
        "remember_one": (lambda _: view.remember(next(texts)), 60),
        f"remember_{BATCH}": (lambda _: view.remember_many(itertools.islice(texts, BATCH)), 6),
        "recall": (lambda number: view.recall(question_texts[number % len(question_texts)]), 60),
    }


def number_texts(pool: list[str]) -> Iterator[str]:
    return (f"{pool[number % len(pool)]} {number}" for number in itertools.count())


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    report = Report("stores")
    pool, question_texts = list(make_sentences(5000)), list(make_questions(50))
    with TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ.update((name.upper(), value) for name, value in CREDENTIALS.items())
        views = {name: open_view(values, stack) for name, values in make_settings(Path(folder), stack).items()}
        calls = {}
        for name, view in views.items():
            texts = number_texts(pool)
            view.remember_many(itertools.islice(texts, MEMORIES))
            calls[name] = make_calls(view, texts, question_texts)
        for name in views:
            if name != BASELINE:
                for verb, (ours, pairs) in calls[name].items():
                    pairs_of_times = run_interleaved(ours, calls[BASELINE][verb][0], pairs, warm_up=2)
                    report.add(f"{name}_{verb}_ratio", pairs_of_times.ratio)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
