"""Can a scope read or change records of another scope, or learn that they exist?

    python -m benchmarks.tenancy_fuzz --attempts 200000                # every store
    python -m benchmarks.tenancy_fuzz --attempts 20000 --store sqlite

Two organizations use the same ids for users, projects, agents, sessions and even memories. Every attempt is made
through a random scope, mostly with ids, cursors and filters of other scopes. Attempts are made on memories, on sessions
and their messages, with interrupted jobs that maintenance finishes, and with an import into another organization.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks import tenancy_attempts as on_memories
from benchmarks import tenancy_blocks as on_blocks
from benchmarks import tenancy_crossings as crossing
from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from benchmarks.tenancy_attempts import Attempt
from benchmarks.tenancy_world import ORGANIZATIONS, Leak, TenancyWorld, read_steady_rows
from everhold import Everhold
from everhold.errors import EverholdError
from everhold.testing.fake_embedder import FakeEmbedder
from tests.servers.postgres import PostgresServer

STORES: Final = ("sqlite", "postgres", "duckdb", "memory")
WEIGHTS: Final[dict[Attempt, float]] = {
    on_memories.get_by_id: 22, on_memories.get_own: 4, on_memories.get_by_key: 10, on_memories.read_around: 8,
    on_memories.walk: 4, on_memories.list_by_filter: 8, on_memories.list_from_cursor: 6, on_memories.recall: 8,
    on_memories.count_tags: 0.5, on_memories.read_log: 0.4, on_memories.change: 20, on_memories.take_name: 2,
    on_memories.build_context: 1, on_memories.ask_why_not: 2, on_memories.merge: 0.3,
    crossing.use_session: 5, crossing.take_message: 2, crossing.share_key: 0.6, crossing.resume_job: 0.1,
    crossing.forge_job: 0.1, crossing.use_run: 3, on_blocks.read_blocks: 2,
    on_blocks.recall_blocks: 2, on_blocks.change_block: 8,
}  # fmt: skip
# How many verbs an attempt calls, if it calls more than one.
CALLS: Final[dict[Attempt, int]] = {
    on_memories.read_around: 3, on_memories.take_name: 2, on_memories.walk: 2, on_memories.ask_why_not: 2,
    crossing.use_session: 5, crossing.take_message: 2, crossing.share_key: 2, crossing.resume_job: 3,
    crossing.forge_job: 3, crossing.use_run: 3,
}  # fmt: skip


@dataclass
class TenancyOutcome:
    """The attempts on one store, and the findings."""

    tried: Counter[str] = field(default_factory=Counter)
    own_rows_read: int = 0
    imported: int = 0
    findings: list[str] = field(default_factory=list)


def run(engine: Everhold, attempts: int, seed: int = 20_000) -> TenancyOutcome:
    """Make this many random attempts and return their outcome."""
    outcome = TenancyOutcome()
    world = TenancyWorld(engine, random.Random(seed))
    engine.maintain(["episodes"])  # attempts run maintenance too, which would build them
    before = read_steady_rows(engine)
    attempt_kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    while outcome.tried.total() < attempts and not outcome.findings:
        [attempt] = world.rng.choices(attempt_kinds, weights)
        view = world.rng.choice(world.views)
        try:
            outcome.own_rows_read += attempt(world, view)
        except (Leak, EverholdError) as error:
            outcome.findings.append(f"{attempt.__name__} through {view.scope}: {type(error).__name__}: {error}")
        outcome.tried[attempt.__name__] += CALLS.get(attempt, 1)
    outcome.findings += _find_damage(engine, before, outcome)
    return outcome


def _find_damage(engine: Everhold, before: dict[str, Any], outcome: TenancyOutcome) -> Iterator[str]:
    """Yield changed rows and a broken log after all attempts, and leaks of an import."""
    after = read_steady_rows(engine)
    for table, rows in before.items():
        if after[table] != rows:
            yield f"rows of {table} have changed"
    try:
        outcome.imported = crossing.import_elsewhere(engine)
    except Leak as leak:
        yield f"import: {leak}"
    for organization in ORGANIZATIONS:
        if not engine.verify_log(organization).intact:
            yield f"the log of {organization} does not verify"


@contextmanager
def open_store(name: str, folder: Path) -> Iterator[Everhold]:
    """Open an empty store of the kind `name`, on a new server if it needs one."""
    embedder = FakeEmbedder()
    values: dict[str, Any] = {"log": {"flush_seconds": 3600}, "sqlite": {"synchronous": "NORMAL"}}
    if name == "postgres":
        with (
            PostgresServer() as server,
            open_engine(build_settings(server.create_database(), **values), embedder, embedder) as engine,
        ):
            yield engine
        return
    storage = {"sqlite": f"sqlite:///{folder / 'fuzz.db'}", "duckdb": f"duckdb:///{folder / 'fuzz.duckdb'}"}
    with open_engine(build_settings(storage.get(name, "memory://"), **values), embedder, embedder) as engine:
        yield engine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=100_000, help="per store")
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = Report("tenancy_fuzz")
    all_findings: list[str] = []
    for name in STORES if options.store == "all" else (options.store,):
        with TemporaryDirectory(prefix="everhold-tenancy-") as folder, open_store(name, Path(folder)) as engine:
            outcome = run(engine, options.attempts, options.seed)
        report.add(f"{name}_attempts", outcome.tried.total(), ">=", options.attempts)
        report.add(f"{name}_by_attempt", dict(outcome.tried))
        report.add(f"{name}_own_rows_read", outcome.own_rows_read, ">=", options.attempts // 2)
        report.add(f"{name}_rows_imported", outcome.imported, ">=", 1)
        all_findings += [f"{name}: {finding}" for finding in outcome.findings]
    report.add("found", all_findings[:10])
    report.add("findings", len(all_findings), "==", 0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
