"""Make backups while threads write, and compare each backup with what was stored when it was made.

The threads record the state of each memory after each write. Every write adds a line to the change feed. So the number
of a memory's lines in a backup says which of the recorded states the memory must have.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from everhold import BackupResult, Everhold
from everhold.errors import EverholdError
from everhold.model import Memory, Outbox
from everhold.settings import load as load_settings
from everhold.stores import open_store

THREADS = 8
_MAX_REMEMBERED_IDS = 400  # a thread changes only this many of its latest memories


class MemoryState(NamedTuple):
    text: str
    is_deleted: bool


@dataclass
class Writers:
    """Threads that write to one engine, and the states of their memories in the order of the writes."""

    engine: Everhold
    states: dict[str, list[MemoryState]] = field(default_factory=dict)
    failures: list[EverholdError] = field(default_factory=list)
    pause: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        try:
            self._write(number)
        except EverholdError as error:
            self.failures.append(error)

    def _write(self, number: int) -> None:
        view, rng = self.engine.scope(user=f"writer-{number}"), random.Random(number)
        memory_ids: list[str] = []
        count = 0
        while not self._stop.is_set():
            count += 1
            draw, text = rng.random(), f"entry {number}-{count} {rng.random()}"
            if not memory_ids or draw < 0.6:
                memory = view.remember(text, tags=[f"tag{count % 5}"])
                self.states[memory.id] = [MemoryState(text, False)]
                memory_ids.append(memory.id)
            elif draw < 0.9:
                memory_id = rng.choice(memory_ids)
                view.revise(memory_id, text=text)
                self.states[memory_id].append(MemoryState(text, False))
            else:
                memory_id = memory_ids.pop(rng.randrange(len(memory_ids)))
                view.forget(memory_id)
                self.states[memory_id].append(self.states[memory_id][-1]._replace(is_deleted=True))
            del memory_ids[: max(0, len(memory_ids) - _MAX_REMEMBERED_IDS)]
            time.sleep(self.pause)

    @property
    def writes(self) -> int:
        return sum(map(len, list(self.states.values())))


def back_up_under_load(
    engine: Everhold, target: Path, seconds: float, *, pause: float = 0.0, seconds_between: float = 0.5
) -> tuple[Writers, list[BackupResult]]:
    """Make backups one after the other while threads write. Return the writers and the backups."""
    writers = Writers(engine, pause=pause)
    writers.start()
    backups: list[BackupResult] = []
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or len(backups) < 2:
            backups.append(engine.backup(target))
            time.sleep(seconds_between)
    finally:
        writers.stop()
    if writers.failures:
        raise writers.failures[0]
    return writers, backups


def find_differences(writers: Writers, target: Path, backup: BackupResult, scratch: str) -> list[str]:
    """Restore a backup into an empty store, and return the differences from what was stored when it was made."""
    restored = Everhold.restore_backup(target, scratch, backup=backup.id)
    records, indexes = open_store(load_settings(scratch))
    try:
        lines = records.scan(Outbox, None)
        memories = {memory.id: memory for memory in records.scan(Memory, None, deleted=True)}
    finally:
        indexes.close()
        records.close()
    writes = Counter(line.entity_id for line in lines if line.entity == "memories")
    differences = [f"{memory_id} has no line in the feed" for memory_id in memories.keys() - writes.keys()]
    if restored.sequence != backup.sequence:
        differences.append(f"restored sequence {restored.sequence}, backed up {backup.sequence}")
    for memory_id, count in writes.items():
        memory, states = memories.get(memory_id), writers.states[memory_id]
        state = None if memory is None else MemoryState(memory.text, memory.is_deleted)
        if count > len(states) or state != states[count - 1]:
            differences.append(f"{memory_id} after {count} writes is {state}")
    return differences


def check_backups(
    writers: Writers, target: Path, backups: list[BackupResult], make_scratch: Callable[[int], str]
) -> list[str]:
    """Return all differences of all backups."""
    return [
        difference
        for number, backup in enumerate(backups)
        for difference in find_differences(writers, target, backup, make_scratch(number))
    ]
