"""Does a crash lose, duplicate or half-write a memory?

    python -m benchmarks.crash --kills 500                        # every store, 500 each
    python -m benchmarks.crash --kills 25 --store sqlite
    python -m benchmarks.crash --kills 20 --plant vector-first    # a bug that must be caught: exits with 1

Writers are killed by SIGKILL: every other one at a random moment, and, where strace can attach, the others at one of
their write calls. Then the store is opened and checked, and the writes that were in flight are repeated. PostgreSQL's
server is killed too, while a writer continues. DynamoDB's server is not killed: the test server keeps its data in
memory only.
"""

import argparse
import os
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.crash_checks import CrashLedger, check
from benchmarks.crash_kills import WriterForkServer, WriterProcess, can_trace, choose_strace
from benchmarks.crash_writer import VECTOR_FIRST, WriterJob
from benchmarks.report import Report
from tests.servers.chroma import ChromaServer
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

KILLS_PER_STORE: Final = 25
SERVER_KILLS_PER_WRITER: Final = 5
# Every fourth writer is killed only after it has stored five memories, so that there is something to lose.
DELAY_EVERY, MEMORIES_BEFORE_KILL = 4, 5
RECOVERY_SECONDS: Final = 60.0
STORES: Final = ("sqlite", "postgres", "duckdb", "dynamodb")
# The system calls at which a writer is killed, and how often a writer makes each of them in about 0.25 seconds.
CALLS: Final[Mapping[str, Mapping[str, int]]] = {
    "sqlite": {"pwrite64": 4000, "fdatasync,fsync": 80, "write": 60, "ftruncate,unlink": 3},
    "postgres": {"sendto,sendmsg": 120, "write": 60},
    "duckdb": {"pwrite64": 60, "fdatasync,fsync": 20, "write": 60},
    "dynamodb": {"sendto,sendmsg": 60, "write": 20},
}

BARS: Final = dict.fromkeys(("lost", "orphans", "duplicates", "damage"), ("==", 0))


@dataclass
class CrashOutcome:
    """The numbers of kills on one kind of store, and the problems that were found."""

    kills: int = 0
    at_calls: int = 0
    """Kills by strace at a write call; the others came at a random moment."""
    server_kills: int = 0
    went_on: int = 0
    """Server kills after which the writer stored more memories."""
    refused: int = 0
    """Writes that failed with an EverholdError because the server was down."""
    ledgers: list[CrashLedger] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, int]:
        return {
            "kills": self.kills,
            "kills_at_write_calls": self.at_calls,
            "server_kills": self.server_kills,
            "went_on_after_server_kills": self.went_on,
            "refused_cleanly": self.refused,
            "acknowledged": sum(len(ledger.acknowledged) for ledger in self.ledgers),
            "in_flight": sum(ledger.in_flight for ledger in self.ledgers),
            "committed_in_flight": sum(ledger.committed_in_flight for ledger in self.ledgers),
            "lost": sum(len(ledger.lost) for ledger in self.ledgers),
            "orphans": sum(len(ledger.orphans) for ledger in self.ledgers),
            "duplicates": sum(len(ledger.duplicates) for ledger in self.ledgers),
            "damage": sum(len(ledger.damage) for ledger in self.ledgers),
        }

    @property
    def wrong(self) -> list[str]:
        """The first ten problems, in words."""
        problems: list[str] = []
        for ledger in self.ledgers:
            problems += [*ledger.damage, *(f"lost {key}" for key in ledger.lost), *ledger.orphans, *ledger.duplicates]
        return problems[:10]


@dataclass(frozen=True)
class CrashStore:
    """The address of a store, and its file if it has one."""

    storage: str
    path: Path | None


@dataclass
class CrashTest:
    """The servers, folder and random generator of a run."""

    store: str
    folder: Path
    fork_server: WriterForkServer
    rng: random.Random
    tracing: bool
    server: PostgresServer | None = None
    dynamo: DynamoServer | None = None
    plant: str | None = None
    chroma: ChromaServer | None = None
    valkey: ValkeyServer | None = None
    _runs: int = 0

    def make_store(self) -> CrashStore:
        """Create a new, empty store. The writer creates its tables, so that kills hit that too."""
        if self.server is not None:
            return CrashStore(self.server.create_database(), None)
        self._runs += 1
        if self.dynamo is not None:
            return CrashStore(f"dynamodb://eu-north-1/store{self._runs}?endpoint={self.dynamo.url}", None)
        path = self.folder / f"store-{self._runs}.db"
        return CrashStore(f"{self.store}:///{path}", path if self.store == "sqlite" else None)

    def make_job(self, crash_store: CrashStore, *, threads: int, patient: bool = False) -> WriterJob:
        self._runs += 1
        fifo = str(self.folder / f"fifo-{self._runs}")
        return WriterJob(crash_store.storage, self._runs, threads, fifo, self.plant, patient, self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings for Chroma and Valkey, if these run. Images are off, so that recall uses Chroma."""
        vectors = {"vectors": self.chroma.url, "images": {"max_memories": 0}} if self.chroma else {}
        return {**vectors, **({"sessions": self.valkey.url} if self.valkey else {})}


def kill_writers(test: CrashTest, kills: int, outcome: CrashOutcome) -> None:
    for crash_store, count in _split_kills(test, kills):
        ledger = CrashLedger()
        outcome.ledgers.append(ledger)
        for number in range(count):
            job = test.make_job(crash_store, threads=test.rng.choice((1, 1, 4)))
            kill_writer(test, job, outcome, ledger, crash_store, number)


def _split_kills(test: CrashTest, kills: int) -> Iterator[tuple[CrashStore, int]]:
    """Yield a new store for every 25 kills, and the number of kills on it."""
    for first in range(0, kills, KILLS_PER_STORE):
        yield test.make_store(), min(KILLS_PER_STORE, kills - first)


def kill_writer(
    test: CrashTest, job: WriterJob, outcome: CrashOutcome, ledger: CrashLedger, crash_store: CrashStore, number: int
) -> None:
    """Start a writer, kill it and check the store.

    Every fourth writer is killed only after it has stored something; the others may die while they open the store.
    """
    traced = test.tracing and number % 2 == 1
    strace = choose_strace(test.rng, CALLS[test.store]) if traced else None
    writer = WriterProcess(test.fork_server, job, strace)
    if number % DELAY_EVERY == 0 or test.chroma is not None or test.plant is not None:
        required = MEMORIES_BEFORE_KILL if test.plant is None else 1  # a writer with the planted bug is slow
        writer.listen(RECOVERY_SECONDS, lambda output: len(output.acknowledged) >= required)
    writer.listen(1.0 if traced else test.rng.uniform(0.0, 0.3))
    was_alive = writer.kill()
    outcome.kills += 1
    outcome.at_calls += traced and not was_alive
    ledger.damage += writer.output.fatal_errors + writer.output.failed_writes
    check(job, crash_store.path, ledger, writer.output.acknowledged, writer.output.find_keys_in_flight(job))


def kill_servers(test: CrashTest, kills: int, outcome: CrashOutcome) -> None:
    """Kill the server while a writer retries failed writes."""
    if test.server is None or not kills:
        return
    crash_store, ledger = test.make_store(), CrashLedger()
    outcome.ledgers.append(ledger)
    for first in range(0, kills, SERVER_KILLS_PER_WRITER):
        job = test.make_job(crash_store, threads=2, patient=True)
        writer = WriterProcess(test.fork_server, job)
        wait_for_progress(writer)
        for _ in range(min(SERVER_KILLS_PER_WRITER, kills - first)):
            writer.listen(test.rng.uniform(0.0, 0.4))
            test.server.kill()
            test.server.start()
            outcome.server_kills += 1
            outcome.went_on += wait_for_progress(writer)
        writer.kill()
        outcome.refused += len(writer.output.failed_writes)
        ledger.damage += writer.output.fatal_errors
        check(job, crash_store.path, ledger, writer.output.acknowledged, writer.output.find_keys_in_flight(job))


def wait_for_progress(writer: WriterProcess) -> bool:
    """Wait until the writer has stored three more memories; False if it does not in time."""
    required = len(writer.output.acknowledged) + 3
    writer.listen(RECOVERY_SECONDS, lambda output: len(output.acknowledged) >= required)
    return len(writer.output.acknowledged) >= required


def run(
    store: str,
    kills: int,
    *,
    server_kills: int = 0,
    plant: str | None = None,
    seed: int = 1,
    with_servers: bool = False,
) -> CrashOutcome:
    """Kill writers, and the server if the store has one, and return the outcome.

    With `with_servers`, vectors are in Chroma and sessions in Valkey, which are not killed.
    """
    outcome = CrashOutcome()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="everhold-crash-")))
        server = stack.enter_context(PostgresServer(durable=True)) if store == "postgres" else None
        dynamo = stack.enter_context(DynamoServer()) if store == "dynamodb" else None
        os.environ.update({name.upper(): value for name, value in CREDENTIALS.items()} if dynamo else {})
        fork_server = stack.enter_context(WriterForkServer())
        chroma = stack.enter_context(ChromaServer()) if with_servers else None
        valkey = stack.enter_context(ValkeyServer()) if with_servers else None
        rng = random.Random(seed)
        test = CrashTest(store, folder, fork_server, rng, can_trace(), server, dynamo, plant, chroma, valkey)
        kill_writers(test, kills, outcome)
        kill_servers(test, server_kills, outcome)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="kills of the writer, per store")
    parser.add_argument("--server-kills", type=int, help="kills of PostgreSQL's server; by default a tenth of --kills")
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--plant", choices=(VECTOR_FIRST,), help="put a bug in and see that it is caught")
    parser.add_argument("--with-servers", action="store_true", help="with vectors in Chroma and sessions in Valkey")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    server_kills = options.kills // 10 if options.server_kills is None else options.server_kills
    report = Report("crash")
    report.add("strace", can_trace())
    total: dict[str, int] = {}
    for store in STORES if options.store == "all" else (options.store,):
        settings = {"plant": options.plant, "seed": options.seed, "with_servers": options.with_servers}
        outcome = run(store, options.kills, server_kills=server_kills, **settings)
        report.add(store, {**outcome.figures, "wrong": outcome.wrong})
        total = {name: total.get(name, 0) + count for name, count in outcome.figures.items()}
    for name, count in total.items():
        report.add(name, count, *BARS.get(name, ()))
    report.add("acknowledged_per_kill", total["acknowledged"] / max(total["kills"], 1), ">=", 1.0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
