"""Can Ctrl-C at any moment make the engine or the store unusable?

    python -m benchmarks.interrupts                                     # every store, 1,000 interrupts each
    python -m benchmarks.interrupts --interrupts 100 --store sqlite

A process works in a loop and gets SIGINT at random moments. It catches KeyboardInterrupt and continues with the same
engine. After each interrupt it must be able to write and recall, in its main thread and in another thread. If the store
allows several processes, a second process must be able to write at once. At the end, every acknowledged write must be
stored, and no write may be partial.

`ignored` counts signals that raised no KeyboardInterrupt. If a worker does not answer, the stacks of its threads are
reported.
"""

import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Final

from benchmarks.interrupts_worker import ANSWER_SECONDS, Ledger, find_problems, open_worker_engine
from benchmarks.report import Report
from everhold import Everhold
from everhold.errors import EverholdError
from tests.servers.dynamodb import CREDENTIALS, DynamoServer
from tests.servers.postgres import PostgresServer

STORES: Final = ("sqlite", "postgres", "duckdb", "dynamodb", "memory")
# The stores that several processes may write to at the same time.
SHARED: Final = ("sqlite", "postgres", "dynamodb")
# The stores that outlive the process that wrote to them.
LASTING: Final = (*SHARED, "duckdb")
# The next interrupt comes at most this many seconds after an answer: about the time of a few steps of the loop.
# Without an entry here it is 0.03.
LATEST_MOMENT: Final = {"dynamodb": 0.3, "duckdb": 0.1, "postgres": 0.06}
# The number of interrupts on one store. Then a new store is used, so that stores stay small.
PER_STORE: Final = 250
_DUMP_SECONDS: Final = 0.5
_MAX_CHARACTERS: Final = 4000  # of standard error, in a finding
_MAX_STDERR_BYTES: Final = 1_000_000
BARS: Final = dict.fromkeys(("dead", "ignored", "locked_out", "lost", "half", "problems", "errors"), ("==", 0))


@dataclass
class InterruptsOutcome:
    """The number of interrupts on one kind of store, and the problems that were found."""

    interrupts: int = 0
    acknowledged: int = 0
    steps: int = 0
    slowest_answer_seconds: float = 0.0
    dead: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    locked_out: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, Any]:
        counted = {name: len(getattr(self, name)) for name in BARS}
        counts = {"interrupts": self.interrupts, "acknowledged": self.acknowledged, "steps": self.steps}
        return {**counts, "slowest_answer_seconds": round(self.slowest_answer_seconds, 3), **counted}

    @property
    def wrong(self) -> list[str]:
        """Descriptions of the first ten problems."""
        return [f"{name}: {fault}" for name in BARS for fault in getattr(self, name)][:10]


class InterruptedWorker:
    """A worker process, and what it has reported."""

    def __init__(self, storage: str, run: int, outcome: InterruptsOutcome) -> None:
        self.ledger = Ledger()
        self.findings: dict[str, list[str]] | None = None
        self._outcome = outcome
        self._partial_line = b""
        self._stderr = TemporaryFile()  # noqa: SIM115 — `end` closes it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.interrupts_worker", storage, str(run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )

    def interrupt(self, *, is_last: bool = False) -> None:
        if is_last and self._process.stdin is not None:
            self._process.stdin.close()
        self._process.send_signal(signal.SIGINT)

    def wait_for(self, word: str, seconds: float) -> bool:
        """Read reports until one with this name comes. Return False if none comes in time or the process ends."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            while b"\n" in self._partial_line:
                line, self._partial_line = self._partial_line.split(b"\n", 1)
                if self._record(json.loads(line)) == word:
                    return True
            if select.select([self._process.stdout], [], [], remaining)[0]:
                output = os.read(self._process.stdout.fileno(), 65536)
                if not output:
                    return False
                self._partial_line += output
        return False

    def _record(self, line: list[Any]) -> str:
        word, *details = line
        match word:
            case "alive":
                self._outcome.steps = max(self._outcome.steps, details[0])
            case "dead":
                self._outcome.dead.append(str(details[1]))
            case "ignored":
                self._outcome.ignored.append(f"interrupt {details[0]}: {self._read_stderr()[-_MAX_CHARACTERS:]}")
            case "error":
                self._outcome.errors.append(str(details[0]))
            case "findings":
                self.findings = details[0]
            case _:
                self.ledger.note(word, *details)
        return str(word)

    def dump_stacks(self) -> str:
        """Return the stacks of the worker's threads, the main thread's last."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(_DUMP_SECONDS)
        return self._read_stderr()[-_MAX_CHARACTERS:]

    def _read_stderr(self) -> str:
        """Return what the worker has written to standard error."""
        return os.pread(self._stderr.fileno(), _MAX_STDERR_BYTES, 0).decode(errors="replace")

    def end(self) -> None:
        """Kill the process and print what it wrote to standard error. A second call does nothing."""
        if self._stderr.closed:
            return
        self._process.kill()
        self._process.wait()
        print(self._read_stderr(), end="", file=sys.stderr)
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            if file is not None:
                file.close()


def interrupt_one_store(name: str, storage: str, run: int, interrupts: int, outcome: InterruptsOutcome) -> None:
    """Interrupt a worker `interrupts` times and check the store. Stop early if the worker does not answer."""
    rng = random.Random(run)
    with ExitStack() as stack:
        worker = InterruptedWorker(storage, run, outcome)
        stack.callback(worker.end)
        if not worker.wait_for("alive", 3 * ANSWER_SECONDS):
            outcome.dead.append("it did not begin")
            return
        second_engine = stack.enter_context(open_worker_engine(storage)) if name in SHARED else None
        for number in range(interrupts):
            time.sleep(rng.uniform(0.0, LATEST_MOMENT.get(name, 0.03)))
            worker.interrupt()
            outcome.interrupts += 1
            started = time.monotonic()
            if not worker.wait_for("alive", 2 * ANSWER_SECONDS):
                outcome.dead.append(f"no answer after interrupt {number}: {worker.dump_stacks()}")
                break
            outcome.slowest_answer_seconds = max(outcome.slowest_answer_seconds, time.monotonic() - started)
            if second_engine is not None:
                write_from_this_process(second_engine, f"{run}-{number}", outcome)
        finish(name, storage, worker, outcome)


def write_from_this_process(second_engine: Everhold, name: str, outcome: InterruptsOutcome) -> None:
    """Write from this process. This fails if the interrupted process still holds a lock or a transaction."""
    try:
        second_engine.scope(user="second").remember(f"Written beside after interrupt {name}.", kind="conversation")
    except EverholdError as error:
        outcome.locked_out.append(f"after interrupt {name}: {type(error).__name__}: {error}")


def finish(name: str, storage: str, worker: InterruptedWorker, outcome: InterruptsOutcome) -> None:
    worker.interrupt(is_last=True)
    worker.wait_for("findings", 6 * ANSWER_SECONDS)
    outcome.acknowledged += worker.ledger.acknowledged
    findings = [worker.findings] if worker.findings is not None else []
    if not findings:
        outcome.dead.append("it did not finish")
    worker.end()
    if name in LASTING:
        with open_worker_engine(storage) as engine:
            findings.append(find_problems(engine, worker.ledger))
    for finding in findings:
        outcome.lost += finding["lost"]
        outcome.half += finding["half"]
        outcome.problems += finding["problems"]


@contextmanager
def make_stores(name: str) -> Iterator[Iterator[str]]:
    """Yield an iterator over the addresses of new, empty stores of one kind."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="everhold-interrupts-")))
        postgres = stack.enter_context(PostgresServer()) if name == "postgres" else None
        dynamo = stack.enter_context(DynamoServer()) if name == "dynamodb" else None
        os.environ.update({key.upper(): value for key, value in CREDENTIALS.items()} if dynamo else {})

        def make_addresses() -> Iterator[str]:
            number = 0
            while True:
                number += 1
                if postgres is not None:
                    yield postgres.create_database()
                elif dynamo is not None:
                    yield f"dynamodb://eu-north-1/store{number}?endpoint={dynamo.url}"
                else:
                    yield "memory://" if name == "memory" else f"{name}:///{folder / f'store-{number}.db'}"

        yield make_addresses()


def run(name: str, interrupts: int, seed: int = 0) -> InterruptsOutcome:
    """Interrupt workers on stores of one kind and return the outcome."""
    outcome = InterruptsOutcome()
    with make_stores(name) as stores:
        for number in range(interrupts):  # if a worker dies, another one takes the remaining interrupts
            remaining = min(PER_STORE, interrupts - outcome.interrupts)
            if remaining <= 0:
                break
            interrupt_one_store(name, next(stores), seed + number, remaining, outcome)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interrupts", type=int, default=1000, help="per store")
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seed", type=int, default=0, help="for other moments and other work")
    options = parser.parse_args()
    report = Report("interrupts")
    total: dict[str, int] = {}
    for name in STORES if options.store == "all" else (options.store,):
        outcome = run(name, options.interrupts, options.seed)
        report.add(name, {**outcome.figures, "wrong": outcome.wrong})
        for figure in ("interrupts", "acknowledged", *BARS):
            total[figure] = total.get(figure, 0) + outcome.figures[figure]
    for figure, value in total.items():
        report.add(figure, value, *BARS.get(figure, ()))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
