"""Does a crash lose, halve or double a memory?

    python -m benchmarks.crash --kills 500                        # every store, 500 each
    python -m benchmarks.crash --kills 25 --store sqlite
    python -m benchmarks.crash --kills 20 --plant vector-first    # a bug that must be caught: exits with 1

A writer is killed by SIGKILL, by turns at a random instant and, where strace can attach, at one of its write calls.
Then the store is opened, examined, and what was in flight is written again. PostgreSQL's server is killed too, with a
writer that goes on. DynamoDB's is not: the one that tests can start forgets everything.
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

from benchmarks.crash_checks import Ledger, check
from benchmarks.crash_kills import Nursery, Writer, can_trace, strace_at
from benchmarks.crash_writer import VECTOR_FIRST, Job
from benchmarks.report import Report
from tests.servers.chroma import ChromaServer
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

KILLS_PER_STORE: Final = 25
SERVER_KILLS_PER_WRITER: Final = 5
SURE_EVERY, SURE_TO_KEEP = 4, 5
RECOVERY_SECONDS: Final = 60.0
STORES: Final = ("sqlite", "postgres", "duckdb", "dynamodb")
CALLS: Final[Mapping[str, Mapping[str, int]]] = {
    "sqlite": {"pwrite64": 4000, "fdatasync,fsync": 80, "write": 60, "ftruncate,unlink": 3},
    "postgres": {"sendto,sendmsg": 120, "write": 60},
    "duckdb": {"pwrite64": 60, "fdatasync,fsync": 20, "write": 60},
    "dynamodb": {"sendto,sendmsg": 60, "write": 20},
}
"""The calls that a writer's fate is decided by, and how often it makes them in about a quarter of a second."""

BARS: Final = dict.fromkeys(("lost", "orphans", "duplicates", "damage"), ("==", 0))


@dataclass
class Toll:
    """What was done to one kind of store, and what came of it."""

    kills: int = 0
    at_calls: int = 0
    server_kills: int = 0
    went_on: int = 0
    refused: int = 0
    ledgers: list[Ledger] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, int]:
        return {
            "kills": self.kills,
            "kills_at_write_calls": self.at_calls,
            "server_kills": self.server_kills,
            "went_on_after_server_kills": self.went_on,
            "refused_cleanly": self.refused,
            "acknowledged": sum(len(one.acknowledged) for one in self.ledgers),
            "in_flight": sum(one.in_flight for one in self.ledgers),
            "committed_in_flight": sum(one.committed_in_flight for one in self.ledgers),
            "lost": sum(len(one.lost) for one in self.ledgers),
            "orphans": sum(len(one.orphans) for one in self.ledgers),
            "duplicates": sum(len(one.duplicates) for one in self.ledgers),
            "damage": sum(len(one.damage) for one in self.ledgers),
        }

    @property
    def wrong(self) -> list[str]:
        """The first few things found wrong, in words."""
        every = (
            [*one.damage, *(f"lost {key}" for key in one.lost), *one.orphans, *one.duplicates] for one in self.ledgers
        )
        return [fault for faults in every for fault in faults][:10]


@dataclass(frozen=True)
class Place:
    """A store to be written to, and its file if it has one."""

    storage: str
    path: Path | None


@dataclass
class Range:
    """Where the killing is done."""

    store: str
    folder: Path
    nursery: Nursery
    draw: random.Random
    tracing: bool
    server: PostgresServer | None = None
    dynamo: DynamoServer | None = None
    plant: str | None = None
    chroma: ChromaServer | None = None
    valkey: ValkeyServer | None = None
    _runs: int = 0

    def place(self) -> Place:
        """A new, empty store. Creating its tables is left to the writer that is to be killed."""
        if self.server is not None:
            return Place(self.server.create_database(), None)
        self._runs += 1
        if self.dynamo is not None:
            return Place(f"dynamodb://eu-north-1/store{self._runs}?endpoint={self.dynamo.url}", None)
        path = self.folder / f"store-{self._runs}.db"
        return Place(f"{self.store}:///{path}", path if self.store == "sqlite" else None)

    def job(self, place: Place, *, threads: int, patient: bool = False) -> Job:
        self._runs += 1
        fifo = str(self.folder / f"fifo-{self._runs}")
        return Job(place.storage, self._runs, threads, fifo, self.plant, patient, self.given)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that say what is beside the store. No image is held, so that it is asked."""
        vectors = {"vectors": self.chroma.url, "images": {"most_memories": 0}} if self.chroma else {}
        return {**vectors, **({"sessions": self.valkey.url} if self.valkey else {})}


def kill_writers(ground: Range, kills: int, toll: Toll) -> None:
    for place, count in _shares(ground, kills):
        ledger = Ledger()
        toll.ledgers.append(ledger)
        for number in range(count):
            job = ground.job(place, threads=ground.draw.choice((1, 1, 4)))
            kill_one(ground, job, toll, ledger, place, number)


def _shares(ground: Range, kills: int) -> Iterator[tuple[Place, int]]:
    """A new store for every 25 kills."""
    for done in range(0, kills, KILLS_PER_STORE):
        yield ground.place(), min(KILLS_PER_STORE, kills - done)


def kill_one(ground: Range, job: Job, toll: Toll, ledger: Ledger, place: Place, number: int) -> None:
    """One writer's life and death, and what it leaves. Every fourth has kept some, however slow the machine is; the
    others may die while they open."""
    traced = ground.tracing and number % 2 == 1
    strace = strace_at(ground.draw, CALLS[ground.store]) if traced else None
    writer = Writer(ground.nursery, job, strace)
    if number % SURE_EVERY == 0 or ground.chroma is not None or ground.plant is not None:
        enough = SURE_TO_KEEP if ground.plant is None else 1  # what is planted is slow
        writer.listen(RECOVERY_SECONDS, lambda heard: len(heard.kept) >= enough)
    writer.listen(1.0 if traced else ground.draw.uniform(0.0, 0.3))
    mine = writer.kill()
    toll.kills += 1
    toll.at_calls += traced and not mine
    ledger.damage += writer.heard.broke + writer.heard.failed
    check(job, place.path, ledger, writer.heard.kept, writer.heard.in_flight(job))


def kill_servers(ground: Range, kills: int, toll: Toll) -> None:
    """Kills the server under a writer that tries again what was refused."""
    if ground.server is None or not kills:
        return
    place, ledger = ground.place(), Ledger()
    toll.ledgers.append(ledger)
    for done in range(0, kills, SERVER_KILLS_PER_WRITER):
        job = ground.job(place, threads=2, patient=True)
        writer = Writer(ground.nursery, job)
        goes_on(writer)
        for _ in range(min(SERVER_KILLS_PER_WRITER, kills - done)):
            writer.listen(ground.draw.uniform(0.0, 0.4))
            ground.server.kill()
            ground.server.start()
            toll.server_kills += 1
            toll.went_on += goes_on(writer)
        writer.kill()
        toll.refused += len(writer.heard.failed)
        ledger.damage += writer.heard.broke
        check(job, place.path, ledger, writer.heard.kept, writer.heard.in_flight(job))


def goes_on(writer: Writer) -> bool:
    """Waits until the writer has kept some more."""
    enough = len(writer.heard.kept) + 3
    writer.listen(RECOVERY_SECONDS, lambda heard: len(heard.kept) >= enough)
    return len(writer.heard.kept) >= enough


def run(
    store: str, kills: int, *, server_kills: int = 0, plant: str | None = None, seed: int = 1, beside: bool = False
) -> Toll:
    """Kills writers, and the server if the store has one, and tells what came of it. With `beside`, vectors are in
    Chroma and sessions in Valkey, which both live on."""
    toll = Toll()
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(prefix="everhold-crash-")))
        server = held.enter_context(PostgresServer(durable=True)) if store == "postgres" else None
        dynamo = held.enter_context(DynamoServer()) if store == "dynamodb" else None
        os.environ.update({name.upper(): value for name, value in CREDENTIALS.items()} if dynamo else {})
        nursery = held.enter_context(Nursery())
        chroma = held.enter_context(ChromaServer()) if beside else None
        valkey = held.enter_context(ValkeyServer()) if beside else None
        chance = random.Random(seed)
        ground = Range(store, folder, nursery, chance, can_trace(), server, dynamo, plant, chroma, valkey)
        kill_writers(ground, kills, toll)
        kill_servers(ground, server_kills, toll)
    return toll


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="kills of the writer, per store")
    parser.add_argument("--server-kills", type=int, help="kills of PostgreSQL's server; a tenth of the others")
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--plant", choices=(VECTOR_FIRST,), help="put a bug in and see that it is caught")
    parser.add_argument("--beside", action="store_true", help="with vectors in Chroma and sessions in Valkey")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    server_kills = options.kills // 10 if options.server_kills is None else options.server_kills
    report = Report("crash")
    report.add("strace", can_trace())
    total: dict[str, int] = {}
    for store in STORES if options.store == "all" else (options.store,):
        given = {"plant": options.plant, "seed": options.seed, "beside": options.beside}
        toll = run(store, options.kills, server_kills=server_kills, **given)
        report.add(store, {**toll.figures, "wrong": toll.wrong})
        total = {name: total.get(name, 0) + count for name, count in toll.figures.items()}
    for name, count in total.items():
        report.add(name, count, *BARS.get(name, ()))
    report.add("acknowledged_per_kill", total["acknowledged"] / max(total["kills"], 1), ">=", 1.0)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
