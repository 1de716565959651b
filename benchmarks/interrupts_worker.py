"""The worker process of `benchmarks.interrupts`: it reports every acknowledged write and continues after SIGINT.

It writes one JSON list per line to standard output. The benchmark sends the next signal only after it has read `alive`.
On SIGUSR1 it writes the stacks of all threads to standard error, where Python also reports exceptions that it ignores.
"""

import faulthandler
import json
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from types import FrameType
from typing import Any, Final

from benchmarks.engines import build_settings, open_engine
from everhold import Everhold
from everhold.errors import EverholdError
from everhold.model import AccessLog, Chunk, Memory, Message, Tag
from everhold.model.scope import DEFAULT_ORGANIZATION
from everhold.schema.operations import Op, Where
from everhold.settings import Settings
from everhold.testing.fake_embedder import FakeEmbedder

USER, SESSION, BESIDE = "worker", "talk", "beside"
MODEL: Final = FakeEmbedder(dimensions=32)
ANSWER_SECONDS: Final = 20.0
_TAG = "tagged"


def make_worker_settings(storage: str) -> Settings:
    return build_settings(
        storage,
        log={"flush_seconds": 0.05},
        sqlite={"busy_seconds": ANSWER_SECONDS / 2, "synchronous": "NORMAL"},
        postgres={"pool_size": 3},
    )


def open_worker_engine(storage: str) -> Everhold:
    return open_engine(make_worker_settings(storage), MODEL, MODEL)


@dataclass
class Ledger:
    """The acknowledged writes, and the forgets that were begun."""

    texts: dict[str, int] = field(default_factory=dict)
    """The last acknowledged revision of each memory; 0 is the first text."""
    forgetting: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    messages: set[str] = field(default_factory=set)

    def note(self, word: str, name: str, number: int = 0) -> None:
        match word:
            case "remembered" | "revised":
                self.texts[name] = number
            case "forgetting":
                self.forgetting.add(name)
            case "forgotten":
                self.forgotten.add(name)
            case "said":
                self.messages.add(name)

    @property
    def acknowledged(self) -> int:
        return len(self.texts) + len(self.forgotten) + len(self.messages)


def make_text(memory_id: str, revision: int) -> str:
    """Return the text of a memory: long enough for several chunks, and different for each revision."""
    lines = [f"Note {memory_id} revision {revision}."]
    return " ".join(
        [*lines, *(f"Point {index} of {memory_id} is about harbour {revision + index}." for index in range(12))]
    )


# checks


def find_lost(engine: Everhold, ledger: Ledger) -> Iterator[str]:
    """Yield acknowledged memories and messages that are missing, and forgotten memories that are still stored."""
    records = engine._parts.records
    texts = dict(records.columns(Memory, DEFAULT_ORGANIZATION, ("id", "text")))
    for memory_id, revision in ledger.texts.items():
        if memory_id in ledger.forgetting:
            continue
        text = texts.get(memory_id, "")
        # The next revision may have been in flight.
        possible_texts = [make_text(memory_id, number) for number in (revision, revision + 1)]
        if text not in possible_texts:
            yield f"memory {memory_id} at revision {revision}: {text[:60]!r}"
    yield from (f"forgotten memory {memory_id} is stored" for memory_id in ledger.forgotten if memory_id in texts)
    stored = {name for (name,) in records.columns(Message, DEFAULT_ORGANIZATION, ("id",))}
    yield from (f"message {message_id}" for message_id in ledger.messages - stored)


def find_partial_writes(engine: Everhold) -> Iterator[str]:
    """Yield memories without all of their chunks or their log line, and chunks and tags without their memory."""
    records = engine._parts.records
    spans: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    current = [Where("known_to", Op.EQ, None), Where("owner_kind", Op.EQ, "memory")]
    names = ("owner_id", "chunk_index", "span_start", "span_end")
    for owner, *span in records.columns(Chunk, DEFAULT_ORGANIZATION, names, current):
        spans[owner].append((span[0], span[1], span[2]))
    live_texts = dict(records.columns(Memory, DEFAULT_ORGANIZATION, ("id", "text")))
    memory_ids = {name for (name,) in records.columns(Memory, DEFAULT_ORGANIZATION, ("id",), deleted=True)}
    created_lines = [Where("operation", Op.EQ, "create")]
    logged = {name for (name,) in records.columns(AccessLog, DEFAULT_ORGANIZATION, ("memory_id",), created_lines)}
    for memory_id, text in live_texts.items():
        chunks = sorted(spans.get(memory_id, []))
        numbers = [number for number, _, _ in chunks]
        if not chunks or numbers != list(range(len(chunks))) or (chunks[0][1], chunks[-1][2]) != (0, len(text)):
            yield f"{memory_id} without all its chunks"
        if memory_id not in logged:
            yield f"{memory_id} without its line in the access log"
    owners = set(spans) | {owner for (owner,) in records.columns(Tag, DEFAULT_ORGANIZATION, ("memory_id",))}
    yield from (f"rows of {owner} without the memory" for owner in owners - memory_ids)


def find_problems(engine: Everhold, ledger: Ledger) -> dict[str, list[str]]:
    return {
        "lost": list(find_lost(engine, ledger)),
        "half": list(find_partial_writes(engine)),
        "problems": list(engine.doctor().problems),
    }


# the loop


class VerbWorker:
    """Calls verbs at random, one after the other."""

    def __init__(self, engine: Everhold, run: int) -> None:
        self._engine = engine
        self._run = run
        self._numbers = count()
        self._rng = random.Random(run)
        self._view = engine.scope(user=USER)
        self._talk = engine.scope(user=USER, session=SESSION)
        self.ledger = Ledger()
        self.steps = 0
        self.interrupts = 0

    def take_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Count a SIGINT and raise KeyboardInterrupt, as Python's own handler does."""
        self.interrupts += 1
        raise KeyboardInterrupt

    def send(self, *line: Any) -> None:
        """Write one report to standard output."""
        os.write(1, (json.dumps(line) + "\n").encode())

    def report(self, word: str, name: str, number: int = 0) -> None:
        """Report a write, and note it in this process's own ledger."""
        self.send(word, name, number)
        self.ledger.note(word, name, number)

    def work(self, number: int) -> None:
        """Call verbs until the `number`-th interrupt. Report the interrupt as ignored if it raised nothing."""
        verbs = [self._remember] * 4 + [self._remember_many] * 2 + [self._revise] * 3 + [self._recall] * 4
        verbs += [self._say] * 2 + [self._forget, self._list, self._build_context, self._tag]
        while True:
            self._rng.choice(verbs)()
            self.steps += 1
            if self.steps % 60 == 0:
                self._engine.maintain()
            if self.interrupts == number:
                self.send("ignored", number)
                return

    def _make_id(self) -> str:
        return f"r{self._run}n{next(self._numbers)}"

    def _choose_id(self) -> str | None:
        memory_ids = [
            memory_id for memory_id in list(self.ledger.texts)[-200:] if memory_id not in self.ledger.forgetting
        ]
        return self._rng.choice(memory_ids) if memory_ids else None

    def _remember(self) -> None:
        memory_id = self._make_id()
        self._view.remember(
            make_text(memory_id, 0), kind="conversation", id=memory_id, tags=[_TAG], idempotency_key=memory_id
        )
        self.report("remembered", memory_id)

    def _remember_many(self) -> None:
        memory_ids = [self._make_id() for _ in range(3)]
        self._view.remember_many(
            [{"text": make_text(memory_id, 0), "kind": "conversation", "id": memory_id} for memory_id in memory_ids]
        )
        for memory_id in memory_ids:
            self.report("remembered", memory_id)

    def _revise(self) -> None:
        memory_id = self._choose_id()
        if memory_id is not None:
            memory = self._view.get(memory_id)
            revision = int(memory.text.split("revision ")[1].split(".")[0])
            # An interrupted revision may have been written; continue from what is stored.
            self.report("revised", memory_id, revision)
            self._view.revise(memory_id, text=make_text(memory_id, revision + 1))
            self.report("revised", memory_id, revision + 1)

    def _recall(self) -> None:
        self._view.recall(f"harbour {self._rng.randrange(50)}", k=5)

    def _say(self) -> None:
        message_id = self._make_id()
        self._talk.say(f"message {message_id}", id=message_id)
        self.report("said", message_id)

    def _forget(self) -> None:
        memory_id = self._choose_id()
        if memory_id is not None:
            self.report("forgetting", memory_id)
            self._view.forget(memory_id)
            self.report("forgotten", memory_id)

    def _list(self) -> None:
        self._view.list(limit=20)

    def _build_context(self) -> None:
        self._talk.context("harbour", budget=200)

    def _tag(self) -> None:
        memory_id = self._choose_id()
        if memory_id is not None:
            self._view.tag(memory_id, f"extra-{self._rng.randrange(5)}")

    # after an interrupt

    def require_usable_engine(self, number: int) -> None:
        """Write and recall in another thread and in this one. A lock that this thread holds stops only the other."""
        failures: list[str] = []

        def try_write_and_recall() -> None:
            try:
                self._write_and_recall()
            except BaseException:  # noqa: BLE001 — every exception is reported
                failures.append(traceback.format_exc())

        thread = threading.Thread(target=try_write_and_recall, daemon=True)
        thread.start()
        thread.join(ANSWER_SECONDS)
        if thread.is_alive():
            failures.append("a write and a recall by another thread did not end")
        else:
            try_write_and_recall()
        if failures:
            self.send("dead", number, failures[0][-1500:])
            os._exit(1)

    def _write_and_recall(self) -> None:
        memory_id = self._make_id()
        self._view.remember(make_text(memory_id, 0), kind="conversation", id=memory_id)
        self.report("remembered", memory_id)
        self._view.recall(f"Note {memory_id}", k=3)


def call_verbs_in_thread(engine: Everhold, run: int, send: Any, stop: threading.Event) -> None:
    """Write and recall as another user, in a thread that is never interrupted."""
    view = engine.scope(user=BESIDE)
    for number in count():
        if stop.wait(0.02):
            return
        try:
            view.remember(f"Beside {run} number {number}.", kind="conversation")
            view.recall(f"number {number}", k=3)
        except EverholdError as error:
            send("error", f"beside: {type(error).__name__}: {error}")


def main() -> None:
    storage, run = sys.argv[1], int(sys.argv[2])
    faulthandler.register(signal.SIGUSR1)
    engine = open_worker_engine(storage)
    worker = VerbWorker(engine, run)
    signal.signal(signal.SIGINT, worker.take_interrupt)
    stop = threading.Event()
    beside = threading.Thread(target=call_verbs_in_thread, args=(engine, run, worker.send, stop), daemon=True)
    beside.start()
    worker.require_usable_engine(0)
    for number in count(1):
        try:
            worker.send("alive", worker.steps)  # from here on a signal may come
            worker.work(number)
        except KeyboardInterrupt:
            pass
        except Exception as error:  # noqa: BLE001 — every exception is reported
            with suppress(KeyboardInterrupt):
                worker.send("error", f"{type(error).__name__}: {error}"[:400])
                while worker.interrupts < number:  # wait for the signal, unless it caused this error
                    time.sleep(0.01)
        if select.select([sys.stdin], [], [], 0)[0]:
            break  # the benchmark has closed its end: this was the last interrupt
        worker.require_usable_engine(number)
    stop.set()
    beside.join()
    worker.send("findings", find_problems(engine, worker.ledger))
    engine.close()


if __name__ == "__main__":
    main()
