"""When a build of episodes is killed, is a message summarised twice or missed, or are the final episodes different?

    python -m benchmarks.episodes_crash                           # 200 kills on SQLite, 50 on PostgreSQL
    python -m benchmarks.episodes_crash --kills 20 --store sqlite
    python -m benchmarks.episodes_crash --kills 20 --plant divided    # a bug that must be caught: exits with 1

Each kill uses a copy of a store with messages and without episodes. A process builds the episodes as sessions end, as
they are read and by maintenance; it is killed by SIGKILL at a random moment. In every third copy, another process
continues and is killed too. Then the store must be consistent: each rollup counts the messages of its episodes.
Finally, the build is completed. The episodes and their chunks must equal those of a build that was not interrupted.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.episodes_worker import MESSAGES, SESSIONS, USERS, build, name_session, open_store, work
from benchmarks.episodes_worker import fill as fill_sessions
from benchmarks.report import Report
from benchmarks.store_copies import Template, kill_worker, make_template
from everhold import Everhold
from everhold.model import Chunk, Episode, Lease, Message
from everhold.model.episode import EPISODE, SESSION, YEAR
from everhold.ports.records import Records
from everhold.schema.operations import Delete, Op, Where

KILLS: Final = {"sqlite": 200, "postgres": 50}
KILL_AGAIN_EVERY: Final = 3
DIVIDED: Final = "divided"
BARS: Final = dict.fromkeys(("half_done", "missed", "repeated", "different", "damage"), ("==", 0))
# Columns that say when an episode was built and how often it changed; they are not compared.
_NOT_COMPARED: Final = {"version", "created_at", "updated_at"}

Rows = Mapping[tuple[str, ...], Any]


@dataclass
class EpisodesCrashOutcome:
    """The number of kills on one kind of store, and descriptions of the problems that were found."""

    kills: int = 0
    unfinished: int = 0
    """The number of copies in which some but not all episodes were built after the kill."""
    half_done: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    @property
    def figures(self) -> dict[str, Any]:
        counts = {name: len(getattr(self, name)) for name in BARS}
        return {"kills": self.kills, "unfinished": self.unfinished, **counts}

    @property
    def wrong(self) -> list[str]:
        """The first ten problems."""
        return [problem for name in BARS for problem in getattr(self, name)][:10]


@dataclass(frozen=True)
class BuildResult:
    """The result of a build that was not interrupted."""

    rows: Rows
    seconds: float


def run(store: str, kills: int, *, plant: str | None = None, seed: int = 1) -> EpisodesCrashOutcome:
    """Kill workers in `kills` copies of a store and return the outcome."""
    outcome, rng = EpisodesCrashOutcome(), random.Random(seed)
    with make_template(store) as template:
        expected_build = _build_undisturbed(template)
        for number in range(1, kills + 1):
            storage = template.copy(number)
            for _ in range(1 + (number % KILL_AGAIN_EVERY == 0)):
                kill_worker(work, storage, rng.uniform(0, 1.1 * expected_build.seconds))
                outcome.kills += 1
            with open_store(storage) as engine:
                _check(engine, expected_build, outcome, f"kill {outcome.kills}", plant)
    return outcome


def _build_undisturbed(template: Template) -> BuildResult:
    with open_store(template.storage) as engine:
        fill_sessions(engine)
    with open_store(template.copy(0)) as engine:
        started = time.perf_counter()
        build(engine)
        return BuildResult(_read_rows(engine._parts.records), time.perf_counter() - started)


def _check(
    engine: Everhold, expected_build: BuildResult, outcome: EpisodesCrashOutcome, name: str, plant: str | None
) -> None:
    records = engine._parts.records
    count = len(_read_rows(records))
    outcome.unfinished += 0 < count < len(expected_build.rows)
    outcome.half_done += [f"{name}: {problem}" for problem in _find_half_done(records)]
    _finish(engine)
    if plant == DIVIDED:
        _plant_divided(engine)
    outcome.half_done += [f"{name}, finished: {problem}" for problem in _find_half_done(records)]
    for user in USERS:
        for session in SESSIONS:
            missed, repeated = _find_missed_and_repeated(engine, user, name_session(user, session))
            outcome.missed += [f"{name}: message {message_id}" for message_id in missed]
            outcome.repeated += [f"{name}: message {message_id}" for message_id in repeated]
    outcome.different += [f"{name}: {problem}" for problem in _compare(expected_build.rows, _read_rows(records))]
    outcome.damage += [f"{name}: {problem}" for problem in engine.doctor().problems]


def _read_rows(records: Records) -> Rows:
    """Return all episodes and their chunks, without the columns that are not compared."""
    rows: dict[tuple[str, ...], Any] = {
        ("episode", row.id): row.model_dump(exclude=_NOT_COMPARED) for row in records.scan(Episode, None)
    }
    names = ("owner_id", "namespace", "model", "chunk_index", "terms", "vector")
    where = [Where("owner_kind", Op.EQ, "episode")]
    for values in records.columns(Chunk, None, names, where):
        rows[("chunk", *map(str, values[:4]))] = values[4:]
    return rows


def _find_half_done(records: Records) -> Iterator[str]:
    """Yield the sessions and users whose rollups count more or fewer messages than their episodes have."""
    by_session: Counter[str] = Counter()
    by_user: Counter[str] = Counter()
    rollups: dict[int, Counter[str]] = {SESSION: Counter(), YEAR: Counter()}
    for row in records.scan(Episode, None):
        if row.level == EPISODE:
            by_session[row.session_id or ""] += row.message_count
            by_user[row.user_id or ""] += row.message_count
        elif row.level in rollups:
            rollups[row.level][row.session_id or row.user_id or ""] += row.message_count
    for rollup_counts, episode_counts in ((rollups[SESSION], by_session), (rollups[YEAR], by_user)):
        for name in sorted(rollup_counts.keys() | episode_counts.keys()):
            if rollup_counts[name] != episode_counts[name]:
                yield f"{name}: the rollup counts {rollup_counts[name]} messages, its episodes {episode_counts[name]}"


def _find_missed_and_repeated(engine: Everhold, user: str, session: str) -> tuple[list[str], list[str]]:
    """Return the ids of a session's messages that are in no episode, and of those that are in several."""
    view = engine.scope(user=user, session=session)
    stored = engine._parts.records.scan(Message, "default", [Where("session_id", Op.EQ, session)])
    assert len(stored) == MESSAGES, f"{session} has {len(stored)} messages"
    episode_counts: Counter[str] = Counter()
    for episode in view.episodes(limit=100):
        episode_counts.update(message.id for message in view.episode(episode.id).messages)
    missed = [message.id for message in stored if not episode_counts[message.id]]
    return missed, [message_id for message_id, count in episode_counts.items() if count > 1]


def _compare(expected: Rows, actual: Rows) -> Iterator[str]:
    for key in sorted(expected.keys() | actual.keys()):
        if key not in actual:
            yield f"{' '.join(key)} is missing"
        elif key not in expected:
            yield f"{' '.join(key)} is not in an undisturbed build"
        elif expected[key] != actual[key]:
            yield f"{' '.join(key)} has other values"


def _finish(engine: Everhold) -> None:
    """Build the rest, as another process would do after the leases of the killed process have expired."""
    records = engine._parts.records
    records.commit([Delete(Lease, (lease.name,)) for lease in records.scan(Lease, None)])
    build(engine)


def _plant_divided(engine: Everhold) -> None:
    """Remove a session's rollup, as if episodes and rollups were committed separately."""
    records = engine._parts.records
    [rollup] = records.scan(Episode, "default", [Where("level", Op.EQ, SESSION)], limit=1)
    records.commit([Delete(Episode, ("default", rollup.id))])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, help="stores to kill on; without it 200 on SQLite and 50 on PostgreSQL")
    parser.add_argument("--store", choices=(*KILLS, "all"), default="all")
    parser.add_argument("--plant", choices=(DIVIDED,), help="put a bug in and see that it is caught")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = Report("episodes_crash")
    total: Counter[str] = Counter()
    for store in KILLS if options.store == "all" else (options.store,):
        kills = KILLS[store] if options.kills is None else options.kills
        outcome = run(store, kills, plant=options.plant, seed=options.seed)
        report.add(store, {**outcome.figures, "wrong": outcome.wrong})
        total.update(outcome.figures)
    for name, count in total.items():
        report.add(name, count, *BARS.get(name, ()))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
