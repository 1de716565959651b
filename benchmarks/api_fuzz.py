"""Do public verbs and commands answer hostile arguments only with a result or an EverholdError?

    python -m benchmarks.api_fuzz --calls 20000 --store sqlite --seed 1

Introspection finds every public method of the engine, of views and of their asynchronous versions, and every command of
the command line. They are called with ordinary and hostile values of right and wrong types, on a store with data in it.
Any other exception is a finding, and so is a call that takes more than 10 seconds of processor time or 1 GB of memory.
Each finding is printed with its call. The calls run in a child process, so that a crash is a finding too.
"""

import argparse
import os
import sys
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.fuzz_calls import Finding, FuzzOutcome, run_calls
from benchmarks.report import Report
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer

STORES = ("sqlite", "memory", "postgres", "duckdb", "dynamodb")
MIN_CALLS = 20_000
_WAIT_SECONDS = 3600  # the longest time that a whole run may take


def make_settings(store: str, folder: Path, stack: ExitStack) -> dict[str, Any]:
    """Return the settings of an empty store; its server runs until `stack` is closed."""
    if store == "postgres":
        return {"storage": stack.enter_context(PostgresServer()).create_database()}
    if store == "dynamodb":
        os.environ.update((name.upper(), value) for name, value in CREDENTIALS.items())
        endpoint = stack.enter_context(DynamoServer()).url
        return {
            "storage": "dynamodb://eu-north-1/memories",
            "dynamodb": {"endpoint": endpoint, "seconds": 60},
            "blobs": str(folder / "blobs"),
        }
    addresses = {
        "sqlite": f"sqlite:///{folder / 'memories.db'}",
        "duckdb": f"duckdb:///{folder / 'memories.duckdb'}",
        "memory": "memory://",
    }
    return {"storage": addresses[store]}


def fuzz(store: str, calls: int, seed: int, only: int | None = None) -> FuzzOutcome:
    """Run the calls in a child process and return their outcome; with `only`, run just the call of that number."""
    with TemporaryDirectory(prefix="everhold-fuzz-") as name, ExitStack() as stack:
        folder = Path(name)
        journal = folder / "journal.txt"
        settings = {**make_settings(store, folder, stack), "data": str(folder / "data")}
        context = get_context("spawn")  # a fork would inherit the threads and the memory of the caller
        parent_end, child_end = context.Pipe()
        child = context.Process(target=run_calls, args=(child_end, folder, settings, calls, seed, only))
        child.start()
        child_end.close()
        try:
            outcome: FuzzOutcome = (
                parent_end.recv() if parent_end.poll(_WAIT_SECONDS) else _blame_last_call(journal, "did not end")
            )
        except EOFError:
            child.join()
            outcome = _blame_last_call(journal, f"ended with exit code {child.exitcode}")
        finally:
            child.kill()
            child.join()
    return outcome


def _blame_last_call(journal: Path, problem: str) -> FuzzOutcome:
    """Return the outcome of a process that died or hung: its last call is the finding."""
    last_entry = journal.read_text("utf-8") if journal.exists() else "0\nbefore the first call"
    number, _, call = last_entry.partition("\n")
    return FuzzOutcome(int(number), 0, [Finding(int(number), call, f"the process {problem}")])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=MIN_CALLS)
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one call to repeat")
    options = parser.parse_args()
    report = Report("api_fuzz")
    outcome = fuzz(options.store, options.calls, options.seed, options.only)
    report.add("store", options.store)
    report.add("calls", outcome.calls, ">=", min(options.calls, MIN_CALLS) if options.only is None else 1)
    report.add("targets", outcome.targets)
    report.add("returned", outcome.returned)
    report.add("refused", outcome.refused)
    report.add("slowest_seconds", outcome.slowest)
    report.add("slowest_call", outcome.slowest_call)
    report.add("findings", len(outcome.findings), "==", 0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
