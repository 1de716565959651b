"""Does an agent that is killed lose an action, or perform one twice?

    python -m benchmarks.agent_crash                           # 200 kills on SQLite, 200 on PostgreSQL
    python -m benchmarks.agent_crash --kills 20 --store sqlite
    python -m benchmarks.agent_crash --kills 2 --plant ignored-keys    # a bug that must be caught: exits with 1

Each agent (examples/autonomous_agent.py) works through its task in a separate store and folder. It is killed by SIGKILL
at a random moment, up to three times, and started again until the task is done. Then its files, mails, cycles and
memories must equal those of an agent that was never killed.
"""

import argparse
import json
import multiprocessing
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.agent_worker import AGENT, open_store, work
from benchmarks.report import Report
from benchmarks.store_copies import Template, make_template
from everhold import Everhold
from everhold.model import ActionProposal, ActionResult, Cycle, Memory

KILLS: Final = {"sqlite": 200, "postgres": 200}
MAX_KILLS_PER_TASK: Final = 3
OPEN_SECONDS: Final = 60.0
WORK_SECONDS: Final = 60.0
# This many agents run without being killed, to measure how long the task takes.
UNDISTURBED: Final = 3
IGNORED_KEYS: Final = "ignored-keys"
BARS: Final = dict.fromkeys(
    ("other_files", "other_mails", "other_cycles", "other_memories", "unfinished", "damage"), ("==", 0)
)


@dataclass(frozen=True)
class Traces:
    """What a finished agent leaves behind. A mail is its recipient, a cycle is its index, its tool and its status."""

    files: dict[str, bytes]
    mails: list[str]
    cycles: list[tuple[int, str | None, str]]
    memories: list[str]
    status: str


@dataclass
class AgentCrashOutcome:
    """The number of kills on one kind of store, and descriptions of the problems that were found."""

    kills: int = 0
    tasks: int = 0
    pending: int = 0
    """The number of times the agent was killed between a proposal and its result."""
    problems: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in BARS})

    @property
    def figures(self) -> dict[str, Any]:
        counts = {name: len(problems) for name, problems in self.problems.items()}
        return {"kills": self.kills, "tasks": self.tasks, "killed_with_a_pending_action": self.pending, **counts}

    @property
    def wrong(self) -> list[str]:
        """The first ten problems."""
        return [problem for problems in self.problems.values() for problem in problems][:10]


def run(store: str, kills: int, *, plant: str | None = None, seed: int = 1) -> AgentCrashOutcome:
    """Kill agents `kills` times in all and return the outcome."""
    outcome, rng = AgentCrashOutcome(), random.Random(seed)
    with _make_template(store) as (template, folder):
        expected, seconds = _work_undisturbed(template, folder / "expected")
        number = UNDISTURBED
        while outcome.kills < kills:
            number += 1
            storage, task_folder = template.copy(number), folder / str(number)
            task_folder.mkdir()
            kills_of_task = min(rng.randint(1, MAX_KILLS_PER_TASK), kills - outcome.kills)
            for kills_left in range(kills_of_task, 0, -1):
                # If more kills follow, this one comes sooner, so that part of the task is left for them.
                kill_after = rng.uniform(0, seconds / kills_left)
                if not _kill_worker(storage, task_folder, kill_after, ignores_keys=plant == IGNORED_KEYS):
                    break
                outcome.kills += 1
                outcome.pending += _has_pending_action(storage)
            work(storage, task_folder, ignores_keys=plant == IGNORED_KEYS)
            outcome.tasks += 1
            with open_store(storage) as engine:
                _check(outcome, f"task {number}", expected, _read_traces(engine, task_folder), engine)
    return outcome


@contextmanager
def _make_template(store: str) -> Iterator[tuple[Template, Path]]:
    """Yield an empty store to copy, and a folder."""
    with make_template(store) as template, TemporaryDirectory(prefix="everhold-agent-") as folder:
        open_store(template.storage).close()
        yield template, Path(folder)


def _work_undisturbed(template: Template, folder: Path) -> tuple[Traces, float]:
    """Return the traces of an agent that is not killed, and the seconds that it works after it has opened the store."""
    seconds = []
    for number in range(UNDISTURBED):  # the first agent is slow, so the minimum is taken
        task_folder, storage = folder / str(number), template.copy(number)
        task_folder.mkdir(parents=True)
        started = time.perf_counter()
        assert not _kill_worker(storage, task_folder, WORK_SECONDS, ignores_keys=False)
        seconds.append(time.perf_counter() - started)
    storage = template.copy(UNDISTURBED)
    work(storage, folder)
    with open_store(storage) as engine:
        return _read_traces(engine, folder), min(seconds)


def _kill_worker(storage: str, folder: Path, seconds: float, *, ignores_keys: bool) -> bool:
    """Start an agent and kill it some seconds after it has opened the store. Return whether it was still working."""
    context = multiprocessing.get_context("forkserver")
    # The fork server imports what agents need, so that they are killed while they work and not while they start.
    context.set_forkserver_preload(
        ["benchmarks.agent_worker", "benchmarks.store_copies", "everhold.views.view", "everhold.views.run"]
    )
    is_open = context.Event()
    process = context.Process(target=work, args=(storage, folder, is_open), kwargs={"ignores_keys": ignores_keys})
    process.start()
    if not is_open.wait(OPEN_SECONDS):
        process.kill()
        raise TimeoutError(f"the agent did not open {storage} within {OPEN_SECONDS} seconds")
    process.join(WORK_SECONDS if ignores_keys else seconds)  # with the planted bug, the process kills itself
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _has_pending_action(storage: str) -> bool:
    with open_store(storage) as engine:
        unfinished = engine.scope(agent=AGENT).runs(status="running")
        return any(engine.scope(agent=AGENT).get_run(row.id).pending is not None for row in unfinished)


def _read_traces(engine: Everhold, folder: Path) -> Traces:
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    mails = sorted(json.loads(path.read_bytes())["to"] for path in (folder / "mailbox").iterdir())
    records = engine._parts.records
    proposals = {row.cycle_id: row for row in records.scan(ActionProposal, "default")}
    results = {row.cycle_id: row for row in records.scan(ActionResult, "default")}
    cycles = [
        (cycle.cycle_index, proposals[cycle.id].tool, results[cycle.id].status if cycle.id in results else "none")
        for cycle in records.scan(Cycle, "default", order="cycle_index")
    ]
    memories = sorted(memory.text for memory in records.scan(Memory, "default"))
    [run] = engine.scope(agent=AGENT).runs()
    return Traces(files, mails, cycles, memories, run.status)


def _check(outcome: AgentCrashOutcome, name: str, expected: Traces, actual: Traces, engine: Everhold) -> None:
    comparisons = {
        "other_files": (expected.files, actual.files),
        "other_mails": (expected.mails, actual.mails),
        "other_cycles": (expected.cycles, actual.cycles),
        "other_memories": (expected.memories, actual.memories),
        "unfinished": (expected.status, actual.status),
    }
    for kind, (expected_value, actual_value) in comparisons.items():
        if expected_value != actual_value:
            outcome.problems[kind].append(f"{name}: {kind}: {actual_value!r:.300}")
    outcome.problems["damage"] += [f"{name}: {problem}" for problem in engine.doctor().problems]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, help="kills per store; without it 200")
    parser.add_argument("--store", choices=(*KILLS, "all"), default="all")
    parser.add_argument("--plant", choices=(IGNORED_KEYS,), help="put a bug in and see that it is caught")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = Report("agent_crash")
    total: dict[str, int] = {}
    for store in KILLS if options.store == "all" else (options.store,):
        kills = KILLS[store] if options.kills is None else options.kills
        outcome = run(store, kills, plant=options.plant, seed=options.seed)
        report.add(store, {**outcome.figures, "wrong": outcome.wrong})
        total = {name: total.get(name, 0) + count for name, count in outcome.figures.items()}
    for name, count in total.items():
        report.add(name, count, *BARS.get(name, ()))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
