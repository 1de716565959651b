"""If Redis is killed and restarted, is every acknowledged message in its session exactly once and in order?

    python -m benchmarks.session_faults                                   # 200 sessions of 200 messages, 16 threads
    python -m benchmarks.session_faults --sessions 20 --messages 50 --store postgres

Several threads write to each session and read messages at the same time. Meanwhile Redis is repeatedly killed by
SIGKILL and started again, sometimes with outdated data. Then every session is read from both ends and around a message,
first through Redis, then by an engine without a cache.
"""

import argparse
import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, Final

from benchmarks.engines import build_settings, open_engine
from benchmarks.report import Report
from everhold import Everhold, Message, StoreBusy, View
from everhold.testing.fake_embedder import FakeEmbedder
from tests.servers.postgres import PostgresServer
from tests.servers.valkey import ValkeyServer

STORES: Final = ("sqlite", "postgres", "duckdb")
THREADS: Final = 16
WRITERS_PER_SESSION: Final = 4
UP_SECONDS, DOWN_SECONDS = 0.5, 0.2
SAVE_SHARE: Final = 0.3  # the share of kills before which Redis saves its data, so that it restarts with older data
PAGE: Final = 37  # does not divide the 100 messages of the cache, so that a page crosses the end of the cache
BARS: Final = ("lost", "repeated", "disordered", "misread", "errors")


@dataclass
class FaultOutcome:
    """The acknowledged messages of each session by id, and the problems that were found."""

    acknowledged: dict[str, dict[str, Message]] = field(default_factory=dict)
    kills: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    misread: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    @property
    def wrong(self) -> list[str]:
        """The first few problems, in words."""
        return [f"{name}: {problem}" for name in BARS for problem in getattr(self, name)][:10]


def run(store: str, sessions: int, messages: int, threads: int = THREADS, seed: int = 7) -> FaultOutcome:
    """Write messages to sessions while Redis is killed, and check what can be read."""
    names = [f"s{number}" for number in range(sessions)]
    outcome = FaultOutcome({name: {} for name in names})
    with TemporaryDirectory() as folder, ValkeyServer() as server, _open_storage(store, Path(folder)) as storage:
        cache_settings: dict[str, Any] = {"sessions": server.url, "redis": {"socket_seconds": 0.3}}
        embedder = FakeEmbedder()
        with open_engine(build_settings(storage, **cache_settings), embedder, embedder) as engine:
            stop = threading.Event()
            killer = threading.Thread(target=_kill_repeatedly, args=(server, stop, outcome, random.Random(seed)))
            killer.start()
            try:
                _write_all(engine, names, messages, threads, outcome)
            finally:
                stop.set()
                killer.join()
            for name in names:
                _check_session(engine.scope(user="alice", session=name), name, messages, outcome)
        with open_engine(build_settings(storage), embedder, embedder) as engine:
            for name in names:
                _check_session(engine.scope(user="alice", session=name), name, messages, outcome)
    return outcome


@contextmanager
def _open_storage(store: str, folder: Path) -> Iterator[str]:
    if store == "postgres":
        with PostgresServer() as server:
            yield server.create_database()
    else:
        yield f"{store}:///{folder / 'records'}.{store}"


def _kill_repeatedly(server: ValkeyServer, stop: threading.Event, outcome: FaultOutcome, rng: random.Random) -> None:
    while not stop.is_set() or outcome.kills == 0:
        stop.wait(rng.uniform(0, UP_SECONDS))
        if rng.random() < SAVE_SHARE:
            server.save()
            stop.wait(rng.uniform(0, UP_SECONDS))
        server.kill()
        outcome.kills += 1
        stop.wait(rng.uniform(0, DOWN_SECONDS))
        if rng.random() < SAVE_SHARE:
            server.forget()
        server.start()


def _write_all(engine: Everhold, names: list[str], messages: int, threads: int, outcome: FaultOutcome) -> None:
    """Write each session with several threads at once; each thread writes a share of the messages."""
    writers = min(WRITERS_PER_SESSION, messages)
    with ThreadPoolExecutor(threads) as pool:
        tasks = [
            pool.submit(
                _write, engine.scope(user="alice", session=name), writer, range(writer, messages, writers), outcome
            )
            for name in names
            for writer in range(writers)
        ]
        for task in tasks:
            task.result()


def _write(view: View, writer: int, numbers: range, outcome: FaultOutcome) -> None:
    name = str(view.scope.session)
    for number in numbers:
        message = _say(view, f"{name}-{number}", f"writer {writer} says {number}", outcome)
        if message is None:
            return
        outcome.acknowledged[name][message.id] = message
        if number % 10 == 0 and message.id not in {stored.id for stored in view.messages(limit=100)}:
            outcome.misread.append(f"{message.id} was not read after it had been acknowledged")


def _say(view: View, message_id: str, text: str, outcome: FaultOutcome) -> Message | None:
    """Store a message; while the store is busy, try again with the same id."""
    deadline = monotonic() + 60
    while monotonic() < deadline:
        try:
            return view.say(text, id=message_id)
        except StoreBusy:
            continue
    outcome.errors.append(f"{message_id} was refused for a minute")
    return None


def _check_session(view: View, name: str, expected: int, outcome: FaultOutcome) -> None:
    history = _read_pages(view, oldest_first=True)
    ids = [message.id for message in history]
    acknowledged = outcome.acknowledged[name]
    outcome.lost += [f"{message_id} is not in its session" for message_id in acknowledged.keys() - set(ids)]
    if len(acknowledged) != expected:
        outcome.lost.append(f"{name} has {len(acknowledged)} acknowledged messages, not {expected}")
    outcome.repeated += [f"{name} holds a message twice"] if len(set(ids)) < len(ids) else []
    if [message.position for message in history] != list(range(len(history))):
        outcome.disordered.append(f"{name} has gaps or repetitions in its positions")
    if any(earlier.created_at >= later.created_at for earlier, later in pairwise(history)):
        outcome.disordered.append(f"{name} has times in another order than positions")
    latest_numbers: dict[str, int] = {}
    for message in history:
        writer, number = str(message.text).split(" says ")
        if latest_numbers.get(writer, -1) >= int(number):
            outcome.disordered.append(f"{message.id} comes after a later message of {writer}")
        latest_numbers[writer] = int(number)
        if acknowledged.get(message.id, message) != message:
            outcome.misread.append(f"{message.id} differs from what was acknowledged")
    # The history of a session is its last 100 messages, newest first.
    if _read_pages(view, oldest_first=False) != history[::-1] or list(view.session().history) != history[:-101:-1]:
        outcome.misread.append(f"{name} is not the same from its end and from its beginning")
    middle = history[len(history) // 2]
    around = view.messages(around=middle.id, limit=5, oldest_first=True)
    if list(around) != history[len(history) // 2 - 2 :][:5]:
        outcome.misread.append(f"{name} is not the same around {middle.id}")


def _read_pages(view: View, *, oldest_first: bool) -> list[Message]:
    messages: list[Message] = []
    cursor = None
    while True:
        page = view.messages(limit=PAGE, cursor=cursor, oldest_first=oldest_first)
        messages += page
        cursor = page.cursor
        if cursor is None:
            return messages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--messages", type=int, default=200, help="in each session")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--store", choices=(*STORES, "all"), default="sqlite")
    options = parser.parse_args()
    report = Report("session_faults")
    for store in STORES if options.store == "all" else (options.store,):
        outcome = run(store, options.sessions, options.messages, options.threads)
        report.add(f"{store}_acknowledged", outcome.count, "==", options.sessions * options.messages)
        report.add(f"{store}_kills_of_redis", outcome.kills)
        for name in BARS:
            report.add(f"{store}_{name}", len(getattr(outcome, name)), "==", 0)
        print("\n".join(outcome.wrong), file=sys.stderr)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
